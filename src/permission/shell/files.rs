//! The words of a command that are files, and its use of them.

use crate::permission::programs::{Arguments, Dash, Program};

use super::analysis::{Files, SimpleCommand, Use};
use super::context::Context;
use super::inputs::is_pipe;
use super::word::{Part, Word};

/// The maximum number of marks in a word behind each of which a file may begin. The file of a word
/// with more may be any file.
const MAX_MARKS: usize = 128;

/// Notes what the program does with the files that its operands name.
pub(super) fn describe(command: &mut SimpleCommand, program: &Program) {
    let is_text = program.takes("text") && !program.takes("read");
    command.files = if !program.reads {
        Files::Changed
    } else if is_text {
        Files::Unopened
    } else {
        Files::Read
    };
    command.has_parts = program.takes("parts");
    command.shows = program.takes("show");
    command.changes = program.takes_any(&["into", "write", "move", "dd"]);
}

/// Returns the operands that are names, of those at these indices.
fn names<'a>(
    program: &Program,
    argv: &'a [Word],
    indices: &'a [usize],
) -> impl Iterator<Item = &'a usize> {
    let is_name = |index: &&usize| {
        let text = argv[**index].literal();
        text.is_some_and(|text| !text.contains(['/', ':', '@', '.']) && !text.starts_with('-'))
    };
    // What a builder runs reads the words behind the first one.
    let is_end = |word: &Word| word.is("--");
    let end = argv.iter().position(is_end).unwrap_or(argv.len());
    let (end, count) = if program.takes_any(&["tail", "tasks"]) {
        (end, 1)
    } else {
        (argv.len(), indices.len())
    };
    let names = indices.iter().take_while(move |index| **index < end);
    names.take(count).filter(is_name)
}

/// Notes which words are files, and which of them the program may change.
pub(super) fn describe_words(
    own: &mut SimpleCommand,
    program: &Program,
    argv: &[Word],
    arguments: &Arguments<'_>,
) {
    let indices = arguments.operand_indices.clone();
    own.values.clone_from(&arguments.attached);
    own.is_code = program.runs_code() && !arguments.unknown.is_empty();
    let is_edit = arguments.has_mark("edit");
    if own.is_code || is_edit {
        own.files = Files::Changed;
    }
    own.changes |= is_edit;

    own.shows |= prints_files(program, arguments);
    own.reads_operand = reads_operand(program, argv, arguments);
    let is_creation = arguments.has_mark("create") && !arguments.has_mark("extract");
    let mut archives = arguments.values_of("archive");
    let is_file = |word: &Word| !word.is("-") && !word.is("/dev/null");
    own.makes_archive = is_creation && archives.any(is_file);
    own.texts.extend(&arguments.patterns);
    let has_text =
        program.takes("pattern") || program.reads && program.operands.starts_with("text ");
    if has_text && !arguments.has_mark("first") {
        own.texts.extend(indices.first());
    }
    if program.takes("name") {
        own.texts.extend(names(program, argv, &indices));
    }
    // What it only shows or compares comes from other commands. A list of checksums names files.
    let is_list = own.program().is_some_and(|name| name.contains("sum"));
    if program.reads && program.takes_any(&["show", "shown"]) && !is_list {
        let pipes = indices.iter().filter(|at| is_pipe(&argv[**at]));
        own.texts.extend(pipes);
    }

    let is_clear = arguments.unknown.is_empty()
        && (arguments.uncertain.is_empty() || program.dash == Dash::Harmless)
        && !arguments.has_mark("effect")
        && !arguments.has_mark("written")
        && !argv.iter().any(Word::is_dynamic);
    if !is_clear || is_edit || arguments.has_mark("cut") {
        return;
    }

    let values = read_values(program, argv, arguments);
    if program.keeps_operands() || is_creation {
        own.kept = indices;
    } else if program.takes("dd") {
        let is_input = |index: &usize| argv[*index].literal_prefix().starts_with("if=");
        own.kept = indices.into_iter().filter(is_input).collect();
    } else if program.takes("code") || program.takes("script") {
        own.kept = indices.into_iter().take(1).collect();
    }
    own.kept.extend(values);
    own.kept.sort_unstable();
}

/// Returns `true` if files follow a program text, which stands in the first word or in an option.
fn prints_files(program: &Program, arguments: &Arguments<'_>) -> bool {
    let is_given = arguments.has_mark("first") || arguments.values_of("sed").next().is_some();
    program.takes_any(&["sed", "awk", "filter"])
        && arguments.operands.len() > usize::from(!is_given)
}

/// Returns `true` if an operand is a file whose content the program reads.
fn reads_operand(program: &Program, argv: &[Word], arguments: &Arguments<'_>) -> bool {
    let operands = &arguments.operands;
    let is_input = |word: &Word| {
        let text = word.literal_prefix();
        let name = text.strip_prefix("if=");
        name.is_some_and(|name| !matches!(name, "/dev/zero" | "/dev/urandom" | "/dev/random"))
    };
    if program.takes("dd") {
        return operands.iter().any(|word| is_input(word));
    }
    // `tar xO`, `unzip -p`
    let has_letter = |letter: char| {
        let mut names = arguments.names.iter();
        names.any(|name| !name.starts_with("--") && name.contains(letter))
    };
    let has_file = operands.iter().any(|word| word.may_be_file());
    if program.takes("tar") {
        let is_long = arguments.names.iter().any(|name| name == "--to-stdout");
        let is_printed = arguments.has_mark("extract") && (is_long || has_letter('O'));
        return is_printed || arguments.has_mark("create") && has_file;
    }
    if program.takes("unpack") {
        return has_file && has_letter('p');
    }

    // `rg --files` lists names.
    let lists_names =
        program.takes("visible") && argv.get(1).is_some_and(|word| word.is("--files"));
    let is_given = arguments.has_mark("first") || arguments.values_of("sed").next().is_some();
    let has_text = program.takes_any(&["pattern", "sed", "awk", "filter"]);
    let mut files = operands.iter().skip(usize::from(has_text && !is_given));
    program.takes_any(&["show", "shown", "sed", "awk", "filter"])
        && !lists_names
        && files.any(|word| word.may_be_file())
}

/// Returns the indices of values that are files which are only read.
fn read_values(program: &Program, argv: &[Word], arguments: &Arguments<'_>) -> Vec<usize> {
    let is_creation = arguments.has_mark("create") && !arguments.has_mark("extract");
    let is_listing = arguments.has_mark("list") && !arguments.has_mark("create");
    let is_value = |index: &&usize| {
        // An archive is written where it is made, a folder where it is unpacked.
        let is_folder = index
            .checked_sub(1)
            .is_some_and(|at| argv[at].literal_prefix().ends_with('C'));
        !program.takes("tar") || is_listing || is_creation && is_folder
    };
    arguments.read.iter().filter(is_value).copied().collect()
}

/// Returns `true` for a list of files that searches omit. It may also have names of hidden files
/// behind a `!`, which searches then read.
pub(super) fn is_ignore_list(word: &Word) -> bool {
    let name = word.basename();
    let names = [".ignore", ".rgignore", ".fdignore", ".gitignore"];
    name.is_some_and(|name| names.contains(&name.as_str()))
}

/// Notes whether the command at `index` may write such a list with the names of hidden files. Its
/// own paths are those from `first_path` on.
pub(super) fn follow_lists(cx: &mut Context, index: usize, first_path: usize) {
    let Some(command) = cx.analysis.commands.get(index) else {
        return;
    };
    let mut redirections = command.redirections.iter();
    let mut paths = cx.analysis.paths[first_path..].iter();
    let writes = redirections.any(|at| is_ignore_list(&cx.analysis.redirections[*at].1))
        || paths.any(|(path_use, path)| *path_use == Use::Write && is_ignore_list(path))
        || command.is_writer() && command.argv.iter().any(is_ignore_list);
    cx.shows_hidden |= writes && !shows_plain_names(command);
}

/// Returns `true` if no search shows hidden files because of what the command prints or writes: it
/// prints nothing, or text of the command line with neither a `!` nor an escape for one.
pub(super) fn shows_plain_names(command: &SimpleCommand) -> bool {
    let is_plain_text = |word: &Word| {
        let text = word.literal();
        let marks = ["!", "\\0", "\\4", "\\x", "\\u", "\\U"];
        text.is_some_and(|text| !marks.iter().any(|mark| text.contains(mark)))
    };
    let is = |names: &[&str]| names.iter().any(|name| command.is(name));
    let is_subcommand = |word: &Word| {
        let verbs = ["add", "commit", "diff", "log", "rm", "status"];
        verbs.iter().any(|verb| word.is(verb))
    };
    let is_copied = is(&["cat"]) && command.argv.len() == 1 && command.input_file.is_none();
    let prints_nothing = is(&["cd", "mkdir", "rm", "true", ":"])
        || is(&["git"]) && command.argv.get(1).is_some_and(is_subcommand);
    prints_nothing && command.redirections.is_empty()
        || is(&["echo", "printf"]) && command.argv.iter().all(is_plain_text)
        || is_copied && command.input.as_ref().is_some_and(is_plain_text)
}

/// The place of what the words of a program name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Files here.
    Local,
    /// Files here, or what it names elsewhere with a colon.
    Copied,
    /// Names elsewhere, but for files behind `@`.
    Remote,
}

/// Notes the paths in the words of a program that works on a project: it runs, loads or sends what
/// it finds there.
pub(super) fn places(cx: &mut Context, argv: &[Word], place: Place, arguments: &Arguments<'_>) {
    if place != Place::Remote {
        cx.analysis.has_project = true;
    }

    for (index, word) in argv.iter().enumerate().skip(1) {
        // They are in ascending order.
        if arguments.patterns.binary_search(&index).is_ok() {
            continue;
        }

        let is_text = arguments.texts.binary_search(&index).is_ok();
        if leads_out(word) || !is_text && is_open(word, place) {
            cx.add_path(Use::Project, Word::unknown());
        }

        let prefix = word.literal_prefix();
        let is_url = prefix.contains("file:") || prefix.contains("fileb:");
        if prefix.contains("://") && !is_url {
            continue;
        }

        // `-x/y`, `x=/y`, `x,/y`, `x@/y`, `type:/y`.
        let is_option = prefix.starts_with('-');
        let has_letter = is_option && prefix[1..].starts_with(|c: char| c.is_ascii_alphabetic());
        let has_file = prefix.contains("=@") || prefix.contains("=<");
        let is_mark = |c: char| match c {
            '@' | '<' => true,
            ',' if has_file => true,
            '=' | ',' => place != Place::Remote,
            ':' => is_url || place == Place::Local || is_option && place == Place::Copied,
            _ => false,
        };
        let marks = prefix.char_indices().filter(|(_, c)| is_mark(*c));
        if marks.clone().nth(MAX_MARKS).is_some() {
            cx.add_path(Use::Project, Word::unknown());
            continue;
        }

        let ends = [(true, 0), (has_letter, 2)]
            .into_iter()
            .filter(|(applies, _)| *applies && place != Place::Remote);
        let starts = marks.map(|(at, _)| at + 1).chain(ends.map(|(_, at)| at));
        for start in starts {
            let Some(part) = word.without_prefix(&prefix[..start]) else {
                continue;
            };

            let part = part.without_prefix("\"").unwrap_or(part);
            let blanks = part.literal_prefix();
            let blanks = &blanks[..blanks.len() - blanks.trim_start().len()];
            let part = part.without_prefix(blanks).unwrap_or(part);
            let text = part.literal_prefix();
            let is_home = |part: &Part| matches!(part, Part::Home(_)) || part.is_folder();
            let is_home = part.parts.first().is_some_and(is_home);
            let is_above = start != 2 && text.split('/').any(|name| name == "..");
            if is_home || is_above || text.starts_with(['/', '~']) {
                let is_read = arguments.read.binary_search(&index).is_ok();
                let path_use = if is_read { Use::Source } else { Use::Project };
                cx.add_path(path_use, part);
            }
        }
    }
}

/// Returns `true` if a part of the word that is not known may be a path, or the mark of a file.
fn is_open(word: &Word, place: Place) -> bool {
    let mut before = String::new();
    word.parts.iter().any(|part| {
        let is_end = |c: char| "=@<,".contains(c) || place != Place::Remote && "/:".contains(c);
        match part {
            Part::Text { text, .. } => before.push_str(text),
            part if part.is_number() => before.push('0'),
            Part::Value { .. } if !before.contains("://") => {
                let is_letter = before.len() == 2 && before.starts_with('-');
                return before.is_empty() || is_letter || before.ends_with(is_end);
            }
            _ => {}
        }
        false
    })
}

/// Returns `true` if a part of the word that is not known comes before a mark of a file, or before
/// the folder above.
fn leads_out(word: &Word) -> bool {
    let is_text = |part: &&Part| matches!(part, Part::Text { .. });
    let mut parts = word.parts.iter().skip_while(is_text);
    parts.any(|part| match part {
        Part::Text { text, .. } => {
            text.contains(['@', '<']) || text.split('/').any(|name| name == "..")
        }
        _ => false,
    })
}
