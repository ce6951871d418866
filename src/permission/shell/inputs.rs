//! Texts that a command line gives to a program in addition to its words: here-documents,
//! here-strings, and what `echo` and `printf` print before a pipe or in a substitution.
//!
//! A program that is not known to only print, send or store its input may read commands or names of
//! files from it. So the names in such a text count like words of the program: no list of the
//! programs that read commands is needed.

use std::collections::HashSet;
use std::ops::Range;
use std::slice;

use crate::permission::programs::{Dash, first_operand, is_interpreter, model, wraps};

use super::analysis::SimpleCommand;
use super::context::{Context, MAX_GUESSES};
use super::evaluated::unescaped;
use super::shells::{run_text, script_of};
use super::word::{Part, Word};
use crate::util::text::floor_char_boundary;

/// The maximum number of pipes that a text is followed through.
const MAX_PIPES: usize = 8;
/// The work of a look at a command, in characters.
pub(super) const STEP_WORK: usize = 16;
/// The maximum nesting depth of substitutions in a text.
const MAX_DEPTH: usize = 4;
/// The maximum number of names in the texts of one command.
const MAX_NAMES: usize = 1024;

/// The beginning of the name of a value that is the number of a pipe.
const PIPE: &str = "/fd/";

/// Returns the name of a variable that represents the output of the commands from the index `first`
/// on: `/` and the index of the last one, which is the name of no variable in a script. `None` if
/// there are no such commands.
pub(super) fn output_name(cx: &mut Context, first: usize) -> Option<String> {
    let last = cx.analysis.commands.len().checked_sub(1)?;
    let name = (last >= first).then(|| format!("/{last}"))?;
    cx.analysis.unknown.insert(name.clone());
    Some(name)
}

/// Returns the name of a variable that represents the number of a pipe from, or to, the commands
/// from the index `first` on.
pub(super) fn pipe_name(cx: &mut Context, first: usize) -> Option<String> {
    let name = output_name(cx, first)?.replacen('/', PIPE, 1);
    cx.analysis.unknown.insert(name.clone());
    Some(name)
}

/// Returns `true` if the word is a pipe from, or to, other commands of the line.
pub(super) fn is_pipe(word: &Word) -> bool {
    match &word.parts[..] {
        [Part::Text { text, .. }, number] => {
            let name = number.variable().unwrap_or_default();
            text == "/dev/fd/" && name.starts_with(PIPE)
        }
        _ => false,
    }
}

impl Context {
    /// Notes that other commands may read what those from an index on print.
    pub(super) fn feed_from(&mut self, first: usize) {
        let start = self.printers_of_text.partition_point(|at| *at < first);
        self.feeding_printers
            .extend(&self.printers_of_text[start..]);
    }

    /// Notes that the variable may hold a line that a substitution prints, which is not certain.
    pub(super) fn record_output(&mut self, name: &str, value: Option<&Word>) {
        let Some(value) = value.filter(|value| has_output(value)) else {
            return;
        };
        let text = text_of(self, value, 0);
        self.add_possible_value(name, text);
    }

    /// Notes that the variable may hold a text, if that is one line without variables.
    pub(super) fn add_possible_value(&mut self, name: &str, text: String) {
        let values = self.constants.entry(name.to_owned()).or_default();
        if values.len() < MAX_GUESSES && !text.contains(['\n', '$']) {
            values.push(Word::from_text(text));
        }
    }
}

/// Returns the index of the command of which the part is the output.
fn source_of(part: &Part) -> Option<usize> {
    let name = part.variable()?;
    let index = name.strip_prefix(PIPE).or(name.strip_prefix('/'));
    index?.parse().ok()
}

/// Returns the index of the first command of which a part of the word is the output.
pub(super) fn output_in(word: &Word) -> Option<usize> {
    word.parts.iter().find_map(source_of)
}

/// Returns `true` if a part of the word is the output of a command.
pub(super) fn has_output(word: &Word) -> bool {
    output_in(word).is_some()
}

/// Returns the text of a word, with what its substitutions print and its variables hold, as far as
/// the command line has it. It ends where there is no room for more.
pub(super) fn text_of(cx: &Context, word: &Word, depth: usize) -> String {
    let mut known_word = Word::default();
    for part in &word.parts {
        if !cx.spend_text_work(1) {
            break;
        }
        let text = match source_of(part) {
            Some(index) if depth < MAX_DEPTH => printed(cx, index, depth + 1),
            _ => part.variable().and_then(|name| {
                let values = cx.constants.get(name)?.iter().filter_map(Word::literal);
                Some(values.collect::<Vec<_>>().join("\n"))
            }),
        };
        let len = text.as_deref().or(part.text()).map_or(0, str::len);
        if !cx.spend_text_work(len) {
            break;
        }
        match text {
            Some(text) => known_word.push_text(&text, true),
            None => known_word.parts.push(part.clone()),
        }
    }
    script_of(&known_word).0
}

/// Returns `true` if the output of the command at an index is a text of the command line that
/// another program has changed, as `base64 -d` does: as a script, it has commands that are written
/// nowhere.
pub(super) fn is_composed(cx: &Context, mut index: usize) -> bool {
    let mut is_changed = false;
    for _ in 0..MAX_PIPES {
        let Some(source) = cx.analysis.commands.get(index) else {
            return false;
        };
        if !cx.spend_text_work(STEP_WORK) {
            return false;
        }
        if let Some(at) = printer_in(source) {
            let mut words = source.argv[at + 1..].iter();
            return is_changed && words.any(|word| has_own_text(cx, word));
        }
        let name = source.program().unwrap_or_default();
        is_changed |= !matches!(&*name, "cat" | "tee");
        match (source.standard_input(), source.piped) {
            (Some(input), _) => {
                return is_changed && source.input_file.is_none() && has_own_text(cx, input);
            }
            (None, Some(Some(before))) => index = before,
            (None, _) => return false,
        }
    }
    is_changed
}

/// Returns `true` if a word has a letter or a digit that the command line writes or makes. In a
/// format of `printf`, that is one which is neither a conversion nor an escape.
fn has_own_text(cx: &Context, word: &Word) -> bool {
    word.parts.iter().any(|part| match part {
        Part::Value { .. } => !cx.is_foreign(&Word {
            parts: vec![part.clone()],
        }),
        part => part.text().is_none_or(|text| {
            let mut pieces = text.split(['%', '\\']);
            let first = pieces.next().unwrap_or_default();
            let is_mark = |c: char| c.is_ascii_alphabetic();
            let mut pieces = pieces.map(|piece| piece.strip_prefix(is_mark).unwrap_or(piece));
            let is_own = |piece: &str| piece.contains(char::is_alphanumeric);
            is_own(first) && !first.starts_with('-') || pieces.any(is_own)
        }),
    })
}

/// Returns the index of the word of a command that is `echo` or `printf`, also behind a wrapper.
fn printer_in(command: &SimpleCommand) -> Option<usize> {
    let name = command.program()?;
    let count = if wraps(&name) { command.argv.len() } else { 1 };
    command.argv.iter().take(count).position(is_printer)
}

fn is_printer(word: &Word) -> bool {
    let name = word.basename().unwrap_or_default();
    matches!(&*name, "echo" | "printf")
}

/// Returns the text that the command at an index prints: `echo` and `printf` their words, others
/// what is their input.
fn printed(cx: &Context, mut index: usize, depth: usize) -> Option<String> {
    for _ in 0..MAX_PIPES {
        if !cx.spend_text_work(STEP_WORK) {
            return None;
        }
        let source = cx.analysis.commands.get(index)?;
        let name = source.program()?;
        if let Some(at) = printer_in(source) {
            return Some(echoed(cx, &source.argv[at..], depth));
        }
        if let Some(input) = source.standard_input() {
            return Some(text_of(cx, input, depth));
        }
        let program = model(&name, &source.argv).program;
        let passes_on = name == "tee" || program.is_some_and(|row| row.reads);
        index = source.piped.filter(|_| passes_on).flatten()?;
    }
    None
}

/// Returns what `echo` or `printf` prints. If it has escapes, the text with these decoded follows,
/// because the program may decode them.
fn echoed(cx: &Context, argv: &[Word], depth: usize) -> String {
    let words = argv[1..].iter().skip_while(|word| word.starts_with_dash());
    let mut texts = words.map(|word| text_of(cx, word, depth));
    let text = if argv[0].basename().is_some_and(|name| name == "echo") {
        texts.collect::<Vec<_>>().join(" ")
    } else {
        let format = texts.next().unwrap_or_default();
        let values: Vec<String> = texts.collect();
        formatted(cx, &format, &values)
    };

    let decoded_text = unescaped(&text);
    let text = text.trim_end();
    match decoded_text.trim_end() {
        same if same == text => text.to_owned(),
        decoded_text => format!("{text}\n{decoded_text}"),
    }
}

/// Returns the format of `printf` with values in the place of its conversions, as often as there
/// are values.
fn formatted(cx: &Context, format: &str, values: &[String]) -> String {
    let mut values = values.iter();
    let mut text = String::new();
    while cx.spend_text_work(format.len() + 1) {
        let value_count = values.len();
        let mut pieces = format.split('%');
        text.push_str(pieces.next().unwrap_or_default());
        while let Some(piece) = pieces.next() {
            if piece.is_empty() {
                // `%%`
                text.push('%');
                text.push_str(pieces.next().unwrap_or_default());
            } else {
                convert(piece, &mut values, &mut text);
            }
        }
        if values.len() == 0 || values.len() == value_count {
            break;
        }
    }
    text
}

/// Adds what `printf` prints for a piece of its format, which begins behind a `%`.
fn convert(piece: &str, values: &mut slice::Iter<'_, String>, text: &mut String) {
    let is_flag = |c: char| c.is_ascii_digit() || "-+ #.*'".contains(c);
    let conversion = piece.trim_start_matches(is_flag);
    let flags = &piece[..piece.len() - conversion.len()];
    // Each `*` takes a value; the last one may be the precision.
    let numbers: Vec<&String> = flags.matches('*').filter_map(|_| values.next()).collect();
    let own_value = values.next().map_or("", String::as_str);

    // `%(..)T` prints its own text, a date only where that has a `%`. The sizes of numbers are
    // ignored.
    let date = conversion.strip_prefix('(');
    let date = date.and_then(|date| date.split_once(")T"));
    let mut chars = conversion
        .trim_start_matches(['h', 'j', 'l', 'L', 't', 'z'])
        .chars();
    let kind = chars.next().filter(|_| date.is_none());
    let (value, after) = date.unwrap_or((own_value, chars.as_str()));

    // A number of bytes.
    let precision = match (kind, flags.split_once('.')) {
        (Some('c'), _) => Some(1),
        (_, Some((_, "*"))) => numbers.last().and_then(|number| number.parse().ok()),
        (_, Some((_, digits))) => Some(digits.parse().unwrap_or(0)),
        (_, None) => None,
    };
    let len = precision.unwrap_or(value.len()).min(value.len());
    text.push_str(&value[..floor_char_boundary(value, len)]);
    text.push_str(after);
}

/// Returns the texts that are the input of a command. The input of a command in a group is a part
/// of the text of the group.
pub(super) fn texts_of_input(cx: &Context, command: &SimpleCommand) -> Vec<String> {
    let shared_input = command.shared_input.as_deref();
    let input = command.input.as_ref();
    let own_input = input.filter(|_| shared_input.is_none() || command.is_other_input);
    let words = shared_input.into_iter().chain(own_input);
    let mut texts: Vec<String> = words.map(|word| text_of(cx, word, 0)).collect();
    let Range { start, end } = command.sources.clone();
    // Any command before a pipe may be before a function.
    let is_any = start == end && command.piped == Some(None);
    // They are in ascending order.
    let first = cx
        .printers_of_text
        .partition_point(|source| *source < start);
    let own = cx.printers_of_text[first..].iter();
    let own = own.take_while(|source| **source < end);
    let feeding = cx.feeding_printers.iter().filter(|_| is_any);
    let sources = own.chain(feeding).copied();
    let sources = sources.take_while(|_| cx.spend_text_work(STEP_WORK));
    let sources = sources.chain(command.piped.flatten());
    texts.extend(sources.filter_map(|source| printed(cx, source, 0)));
    texts
}

/// Returns `true` if the input of a command is a [composed](is_composed) text.
pub(super) fn has_composed_input(cx: &Context, command: &SimpleCommand) -> bool {
    let mut sources = command.sources.clone().chain(command.piped.flatten());
    sources.any(|source| is_composed(cx, source))
}

/// Returns `true` if a part of the word is a [composed](is_composed) text.
pub(super) fn has_composed_part(cx: &Context, word: &Word) -> bool {
    let mut sources = word.parts.iter().filter_map(source_of);
    sources.any(|source| is_composed(cx, source))
}

/// Examines the words of a command, of which some are what a substitution prints, as a command. The
/// program that prints it may be another one, so a rule to deny cannot be certain of it.
pub(super) fn run_outputs(cx: &mut Context, command: &SimpleCommand, via: &str, words: &[Word]) {
    if !words.iter().any(has_output) {
        return;
    }
    let texts: Vec<String> = words.iter().map(|word| text_of(cx, word, 0)).collect();
    cx.guessing(|cx| {
        cx.examine_text(|cx| run_text(cx, &command.evaluating(), via, &texts.join(" ")));
    });
}

/// Adds the names in the texts that a command is given, as input or by substitutions, to its
/// `input_names`, unless its program only prints, sends or stores the texts.
pub(super) fn examine(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) {
    if !cx.spend_text_work(0) {
        return;
    }
    let parts = command.argv.iter().flat_map(|word| &word.parts);
    let sources: Vec<usize> = parts.filter_map(source_of).collect();
    if !command.is_fed() && sources.is_empty() || ignores_names(name, command) {
        return;
    }

    let mut texts = texts_of_input(cx, command);
    let outputs = sources.into_iter();
    texts.extend(outputs.filter_map(|source| printed(cx, source, 0)));

    let is_checksum = checks_sums(name, command);
    let is_patch = match name {
        "git" => matches!(&*git_subcommand(command), "apply" | "am"),
        _ => name == "patch",
    };
    let mut known_names = HashSet::new();
    for text in &texts {
        let text = if is_patch {
            names_of_patch(text)
        } else if is_checksum {
            // A star in front of a name is for binary data.
            text.replace('*', " ")
        } else if command.shared_input.is_some() {
            // What stands in a comment may be a command without the mark, which another one reads.
            text.clone()
        } else {
            without_remarks(text, name)
        };
        let names = names_in(&text).filter(|name| name.contains(['.', '/']));
        for name in names {
            if known_names.len() < MAX_NAMES && known_names.insert(name.to_owned()) {
                let input_names = &mut cx.analysis.commands[index].input_names;
                input_names.push(Word::from_text(name).with_home());
            }
        }
    }
}

/// Returns the subcommand of a command of git.
fn git_subcommand(command: &SimpleCommand) -> String {
    let start = model("git", &command.argv).start;
    let subcommand = command.argv.get(start - 1).and_then(Word::literal);
    subcommand.unwrap_or_default()
}

/// Returns `true` if a word is an option of this letter, or a long one that begins with `long`.
fn has_option(command: &SimpleCommand, letter: Option<char>, long: &str) -> bool {
    let mut prefixes = command.argv.iter().map(Word::literal_prefix);
    prefixes.any(|word| match word.strip_prefix("--") {
        Some(name) => !name.is_empty() && name.starts_with(long),
        None => word.starts_with('-') && letter.is_some_and(|letter| word.contains(letter)),
    })
}

/// Returns `true` if the program compares the files that its input names with their checksums.
fn checks_sums(name: &str, command: &SimpleCommand) -> bool {
    let has_sums = name.ends_with("sum") || name.starts_with("md5");
    has_sums && has_option(command, Some('c'), "c")
}

/// Returns `true` if the program uses no names in the texts that it is given: it only prints,
/// formats, sends or stores them, or gives them to a script.
fn ignores_names(name: &str, command: &SimpleCommand) -> bool {
    const STORES: &str = "\
        black clang-format fmt gofmt logger pbcopy prettier rustfmt shfmt split sponge wl-copy xclip \
        xsel yamllint";
    const STORES_OF_GIT: &str = "\
        check-attr check-ignore commit commit-tree diff hash-object interpret-trailers log merge \
        mktree notes show stripspace tag";
    let has = |names: &str, name: &str| names.split_ascii_whitespace().any(|one| one == name);
    let reads_names = name == "patch"
        || name == "curl" && has_option(command, Some('K'), "conf")
        || name == "git" && has_option(command, None, "pathspec-")
        || checks_sums(name, command);
    if reads_names {
        return false;
    }
    if has(STORES, name) || name == "git" && has(STORES_OF_GIT, &git_subcommand(command)) {
        return true;
    }

    let Some(row) = model(name, &command.argv).program else {
        return false;
    };
    if is_interpreter(name) {
        // The script may do anything with the text, as with each file.
        let script = command.argv.get(first_operand(name, &command.argv));
        let is_file = script.is_some_and(|script| !script.is("-"));
        return is_file && !command.argv.iter().any(has_output);
    }
    // A program that runs and loads nothing because of an option reads no commands.
    let only_keeps = row.reads || row.dash != Dash::Runs || row.takes("remote");
    let has_script = row.takes_any(&["sed", "awk"]) && has_option(command, Some('f'), "file");
    only_keeps && !has_script
}

/// Returns the parts of a text between marks that stand in no path.
pub(crate) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_mark = |c: char| "=@:,<>;!&+\"'{}()|\\".contains(c) || c.is_whitespace();
    text.split(is_mark).filter(|name| !name.is_empty())
}

/// Returns a text with empty lines in the place of its comments and, if the program is an
/// interpreter, of its sentences. A line with marks of code stays.
pub(crate) fn without_remarks(text: &str, program: &str) -> String {
    let has_sentences = is_interpreter(program);
    let is_sentence = |line: &str| {
        let starts = ["//", "- ", "* "];
        let begins = line.starts_with(char::is_uppercase);
        let begins = begins || starts.iter().any(|start| line.starts_with(start));
        has_sentences && begins && line.split_whitespace().count() > 2
    };
    let lines = text.split('\n').map(|line| {
        let start = line.trim_start();
        let is_remark = start.starts_with('#') || is_sentence(start);
        if is_remark && is_prose(line) {
            ""
        } else {
            line
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns `true` if a line has no marks that end a comment or a text in quotes. An apostrophe
/// stands between letters.
fn is_prose(line: &str) -> bool {
    let is_plain =
        |c: char| c.is_alphanumeric() || c.is_whitespace() || ".,:-_/'?!()#*".contains(c);
    let pieces: Vec<&str> = line.split('\'').collect();
    let is_apostrophe = |pair: &[&str]| {
        pair[0].ends_with(char::is_alphabetic) && pair[1].starts_with(char::is_alphabetic)
    };
    line.chars().all(is_plain) && pieces.windows(2).all(is_apostrophe)
}

/// Returns the names of files in the headers of a patch, each also without its first folder.
fn names_of_patch(text: &str) -> String {
    const HEADERS: [&str; 7] = [
        "+++ ", "--- ", "*** ", "Index: ", "diff ", "rename ", "copy ",
    ];
    let lines = text.lines().map(str::trim_start);
    let headers = lines.filter(|line| HEADERS.iter().any(|start| line.starts_with(start)));
    let mut names = String::new();
    for word in headers.flat_map(str::split_whitespace) {
        let word = unescaped(word);
        let inner = word.split_once('/').map_or("", |(_, inner)| inner);
        names.extend([&*word, "\n", inner, "\n"]);
    }
    names
}
