//! Programs as rows of text.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::super::shell::Word;
use super::arguments::Arguments;
use super::{builders, git, readers, wrappers, writers};

/// A program, or subcommands of a program, and the meaning of its words.
///
/// A row is `names | dash | operands | options`. Names are names of programs or, after a colon, of
/// subcommands; `name:` alone has the options before a subcommand, `name.subcommand` is a form.
/// Dash is `H`, `W` or `X` for [`Dash`]. Operands are kinds in their order, the last one for all
/// that follow. A kind behind `/` adds to the one before it:
///
/// | operand | |
/// |---|---|
/// | `text`, `paths` | no file; a path that is named, not opened |
/// | `read`, `show`, `write` | a file that is read, read and shown, changed |
/// | `/shown` | the files among the operands are read for their content |
/// | `into`, `move`, `link` | the last word is copied to, moved to, made a link |
/// | `command`, `host` | the rest is a command, here or elsewhere |
/// | `code`, `script`, `input` | a file that is run, by purpose or not; commands in the input |
/// | `pattern` | the first word is searched for, unless an option has the mark `first` |
/// | `inside` | files or folders of the workspace |
/// | `/named` | addresses; what they are of is made here under its name |
/// | `name`, `plain`, `none` | a name, perhaps a path; names alone; nothing |
/// | `tasks` | names of tasks; a task may start what the words behind the first one are |
/// | `no:a,b` | a word that begins with one of these is not known, nor one with `:` or `/` in it |
/// | `/tree`, `/visible` | folders with all that is in them, without hidden names |
/// | `/cut` | folders that are changed with all that is in them |
/// | `/unpack` | an archive that is unpacked to this folder, unless an option names another |
/// | `parts` | the words contain files among other texts |
/// | `danger` | any word may run something |
/// | `stem`, `prefix` | the name without its ending or with another, what begins with it, is written |
/// | `ended`, `temporary` | the name with an added ending, any name in `/tmp`, is written |
/// | `ending` | the name with another ending is read |
/// | `run` | a script of the project, or a program of a package |
/// | `/workspace` | `workspace` and a name may stand before the command |
/// | `single` | letters of options are not joined |
/// | `stdin`, `filter` | commands in the input, if there is one; a filter of `jq` |
/// | `login`, `anywhere` | options may stand behind the host; behind the script |
/// | `globs`, `goals` | lists and ranges in addresses are expanded; tasks, no coordinates of one |
/// | `remote`, `tail` | names and paths elsewhere; words after `--` are for the project's own |
/// | `/links` | folders with all that is in them, and with what links in them lead to |
/// | `/sh`, `/clear` | a shell, if there is no command; allowed by a rule about the command alone |
/// | `=.` | this folder, if none is given |
///
/// The others are languages with code of their own, such as `sed`. Options are `-abc` and `--long`,
/// with the kind of a value behind `:`, or behind `?` if it stands in the same word, and with a
/// mark after `!`: `effect` (it changes something), `edit` (it changes the operands), `hidden` (it
/// is not known), `second` (it has two values), `tree`, `cut`, `all` (both), `links`, `follow`
/// (links are followed), `dot` (hidden names too), `about` (nothing else is done), `first` (it is
/// in the place of the first operand), `link` (links are made), `here`, `whole` (this folder is
/// changed, read), `create`, `extract`, `list` (the action on an archive), `shell` (a shell is
/// started), `written` (so are all operands), `braces` (`{}` is replaced), `change` (a setting is
/// changed), `diff` (contents are printed instead), `console` (commands in the input are run),
/// `again` (the input is appended), `parents` (the folders of what is copied are made), `unpacked`
/// (what is elsewhere is unpacked under its name), `backup` (what is replaced is kept under another
/// name), `word` (the letters are one option).
///
/// Kinds of values are `text`, which is not examined, `sent` (data that is sent: it may be `@` and
/// the name of a file), and the kinds that `shell/options.rs` and the code of the languages
/// examine.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) dash: Dash,
    pub(crate) operands: &'static str,
    /// The kinds of its operands.
    kinds: Arc<[&'static str]>,
    options: Options,
    /// True if long options begin with one dash.
    pub(crate) has_one_dash: bool,
    /// True if the program changes no file that its operands name.
    pub(crate) reads: bool,
    /// True if the program runs code of the workspace by purpose.
    pub(crate) builds: bool,
}

/// The most that an option which the row does not list can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dash {
    /// Nothing that the operands do not do.
    Harmless,
    /// Writes a file.
    Writes,
    /// Runs a program, or loads code or settings.
    Runs,
}

/// An option of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The kind of its value.
    pub(crate) value: Option<&'static str>,
    /// True if the value stands in the same word or is missing.
    pub(crate) is_attached: bool,
    pub(crate) mark: &'static str,
}

/// The options of a row, with their names.
type Options = Arc<[(&'static str, Entry)]>;

/// A command's place in the table.
pub(crate) struct Model<'a> {
    /// The options before the subcommand.
    pub(crate) globals: Option<(&'static Program, Arguments<'a>)>,
    /// The row; `None` if the program or the subcommand has none.
    pub(crate) program: Option<&'static Program>,
    /// The number of words before the options of the row, or of words that are known.
    pub(crate) start: usize,
}

/// Programs whose long options begin with one dash.
const ONE_DASH: &str = "go terraform tofu openssl sqlite3 java javac find. gfind.";

/// Programs whose names may end in a version.
const VERSIONED: &str = "python pypy perl ruby php lua node pip gcc g++ clang clang++";

/// The rows of each name, each with its subcommand.
type Rows = HashMap<&'static str, Vec<(&'static str, Program)>>;

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let mut rows = Rows::new();
    for (table, reads, builds) in [
        (readers::ROWS, true, false),
        (writers::ROWS, false, false),
        (builders::ROWS, false, true),
        (git::ROWS, false, false),
        (wrappers::ROWS, false, false),
    ] {
        for row in table.lines().filter(|row| !row.is_empty()) {
            add(&mut rows, row, reads, builds);
        }
    }
    rows
});

fn add(rows: &mut Rows, row: &'static str, reads: bool, builds: bool) {
    let cells = row.split('|').map(str::trim).collect::<Vec<_>>();
    let [names, dash, operands, options] = cells[..] else {
        unreachable!("a row has four cells: {row}");
    };

    let (names, subcommands) = names.split_once(':').unwrap_or((names, ""));
    let options: Options = options.split_ascii_whitespace().map(read_entry).collect();
    let kinds: Arc<[&str]> = operands.split(['/', '=', ' ']).collect();
    let dash = match dash {
        "H" => Dash::Harmless,
        "W" => Dash::Writes,
        _ => Dash::Runs,
    };
    for name in names.split(' ') {
        for subcommand in subcommands.trim().split(' ') {
            let program = Program {
                dash,
                operands,
                kinds: kinds.clone(),
                options: options.clone(),
                has_one_dash: ONE_DASH.split(' ').any(|known| known == name),
                reads,
                builds,
            };
            rows.entry(name).or_default().push((subcommand, program));
        }
    }
}

/// Returns the place in the table of the command `argv` of the program `name`.
pub(crate) fn model<'a>(name: &str, argv: &'a [Word]) -> Model<'a> {
    let known_rows = ROWS.get(name).or_else(|| ROWS.get(unversioned_name(name)));
    let known_rows = known_rows.map(Vec::as_slice).unwrap_or_default();
    let row_of = |name: &str| {
        let mut rows = known_rows.iter();
        rows.find(|(subcommand, _)| *subcommand == name)
            .map(|(_, program)| program)
    };
    let general = row_of("");
    // A program without subcommands, or without a row.
    if known_rows.len() == usize::from(general.is_some()) {
        return Model {
            globals: None,
            program: general,
            start: 1,
        };
    }

    let globals = general.map(|program| (program, Arguments::read(program, argv, 1)));
    let index = match &globals {
        Some((_, globals)) => globals.command.unwrap_or(argv.len()),
        None => 1,
    };
    // `docker container exec` is `docker exec`.
    let is_group = argv
        .get(index)
        .and_then(Word::literal)
        .is_some_and(|word| row_of("compose").is_some() && matches!(&*word, "container" | "image"));
    let index = index + usize::from(is_group);
    let program = match argv.get(index).map(Word::literal) {
        Some(Some(subcommand)) => row_of(&subcommand),
        Some(None) => None,
        None => general,
    };
    Model {
        globals,
        program,
        start: argv.len().min(index + 1),
    }
}

/// Returns the name without the digits and dots at its end.
pub(crate) fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// Returns `true` if the name of the program may end in a version.
pub(crate) fn is_versioned(name: &str) -> bool {
    VERSIONED.split(' ').any(|known| known == name)
}

/// Returns the name of a program without a version, if such names of it are known.
pub(crate) fn unversioned_name(name: &str) -> &str {
    let plain = without_version(name);
    if is_versioned(plain) { plain } else { name }
}

/// Returns `true` if the table has the program.
pub(super) fn has_row(name: &str) -> bool {
    ROWS.contains_key(name)
}

/// Returns `true` if the program has subcommands.
pub(super) fn has_subcommands(name: &str) -> bool {
    let rows = ROWS.get(name);
    rows.is_some_and(|rows| rows.iter().any(|(subcommand, _)| !subcommand.is_empty()))
}

/// Returns `true` if the program runs the command in its words.
pub(crate) fn wraps(name: &str) -> bool {
    !has_subcommands(name) && takes_any(name, &["command"])
}

/// Returns `true` if the program checks, tests or runs files of the project.
pub(crate) fn works_inside(name: &str) -> bool {
    takes_any(name, &["inside", "code", "make"])
}

/// Returns `true` if the program runs a file, in a language where names of files stand in quotes.
pub(crate) fn is_interpreter(name: &str) -> bool {
    takes_any(name, &["code"])
}

/// Returns `true` if the program runs a file that its words name.
pub(crate) fn runs_files(name: &str) -> bool {
    takes_any(name, &["code", "script"])
}

fn takes_any(name: &str, kinds: &[&str]) -> bool {
    let rows = ROWS.get(name).or_else(|| ROWS.get(without_version(name)));
    rows.is_some_and(|rows| rows.iter().any(|(_, program)| program.takes_any(kinds)))
}

/// Returns the index of the first word that is no option of the program `name`, nor the value of
/// one.
pub(crate) fn first_operand(name: &str, argv: &[Word]) -> usize {
    let Model {
        globals, program, ..
    } = model(name, argv);
    let index = match (globals, program) {
        (Some((_, globals)), _) => globals.command,
        (None, Some(program)) => Arguments::read(program, argv, 1).first_operand(),
        (None, None) => (1..argv.len()).find(|at| !argv[*at].starts_with_dash()),
    };
    index.unwrap_or(argv.len())
}

impl Program {
    /// Returns the option with this name: a letter, or `--long`.
    pub(crate) fn option(&self, name: &str) -> Option<Entry> {
        let is_named = |option: &str| match option.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None if option.starts_with("--") => option == name,
            None => option[1..].contains(name),
        };
        let mut options = self.options.iter();
        options
            .find(|(option, _)| is_named(option))
            .map(|(_, entry)| *entry)
    }

    /// Returns the marks of its options that add to what it does.
    pub(super) fn added_marks(&self) -> impl Iterator<Item = &'static str> {
        const ADDED: [&str; 12] = [
            "all", "any", "cut", "dot", "edit", "effect", "follow", "hidden", "link", "links",
            "tree", "written",
        ];
        let marks = self.options.iter().map(|(_, entry)| entry.mark);
        marks.filter(|mark| ADDED.contains(mark))
    }

    /// Returns `true` if a rule about the program does not allow the option.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.option(name)
            .is_some_and(|entry| entry.mark == "hidden")
    }

    /// Returns the first option that begins with `name`, which is at least one letter of a long
    /// option.
    pub(super) fn abbreviated(&self, name: &str) -> Option<Entry> {
        let is_part = name.len() > 2 && name.starts_with("--");
        let mut options = self.options.iter().filter(|_| is_part);
        options
            .find(|(option, _)| option.starts_with(name))
            .map(|(_, entry)| *entry)
    }

    /// Returns the beginnings of operands that run something, separated by commas.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        let mut kinds = self.operands.split(' ');
        kinds.find_map(|kind| kind.strip_prefix("no:"))
    }

    /// Returns `true` if an option or a mark before an operand names a file that it reads.
    pub(crate) fn names_files(&self) -> bool {
        let is_file = |entry: &Entry| matches!(entry.value, Some("read" | "names" | "file"));
        self.options.iter().any(|(_, entry)| is_file(entry))
            || self.refused().is_some_and(|marks| marks.contains('@'))
    }

    /// Returns `true` if it runs code in a language of its own.
    pub(crate) fn runs_code(&self) -> bool {
        self.takes_any(&["code", "script", "sed", "awk"])
    }

    /// Returns `true` if it leaves the files that its operands name as they are, except for its
    /// target.
    pub(crate) fn keeps_operands(&self) -> bool {
        const KEPT: &str = "read show shown paths tree into plain stdin stem ending";
        let is_kept = |kind: &&str| KEPT.split(' ').any(|kept| kept == *kind);
        self.kinds.iter().all(is_kept)
    }

    /// Returns `true` if its operands are of one of these kinds, or the last ones are.
    pub(crate) fn takes_any(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.takes(kind))
    }

    /// Returns `true` if its operands are of this kind, or the last ones are.
    pub(crate) fn takes(&self, kind: &str) -> bool {
        self.kinds.contains(&kind)
    }
}

/// Returns the name of an option, and its entry.
fn read_entry(text: &'static str) -> (&'static str, Entry) {
    let (option, mark) = text.split_once('!').unwrap_or((text, ""));
    let (option, value) = match option.split_once([':', '?']) {
        Some((option, value)) => (option, Some(value)),
        None => (option, None),
    };
    let entry = Entry {
        value,
        is_attached: text.contains('?'),
        mark,
    };
    (option, entry)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The kinds of operands that the documentation of [`Program`] and the languages have.
    const KINDS: &str = "\
        . anywhere awk clear code command config cut danger dd ended ending filter find globs \
        goals host input inside into link links login make move name named none parts paths \
        pattern plain prefix ps read remote run script sed sh show shown single sql stdin stem tail \
        tar tasks temporary text tree unpack visible workspace write";

    /// The marks of options.
    const MARKS: &str = "\
        about again all any backup braces change console create cut diff dot edit effect extract \
        first follow here hidden link links list parents second shell tree unpacked whole word \
        written";

    /// The kinds of values of options.
    const VALUES: &str = "\
        archive cd file flag format git glob into jar kind linker marker mode module name names \
        number outdir pattern pipe plugin prefix property read rename rev sed sent setting sql \
        strategy suffix text tree unpack unset url write write-out";

    #[test]
    fn rows_have_known_kinds_and_marks_only() {
        let programs = || ROWS.values().flatten().map(|(_, program)| program);
        let entries = || programs().flat_map(|program| program.options.iter());
        let kinds = programs().flat_map(|program| program.operands.split(' '));
        let kinds = kinds.filter(|word| !word.starts_with("no:"));
        let kinds = kinds.flat_map(|word| word.split(['/', '=']));
        let marks = entries().map(|(_, entry)| entry.mark);
        let values = entries().filter_map(|(_, entry)| entry.value);
        let used_words: [(_, BTreeSet<&str>); 3] = [
            (KINDS, kinds.collect()),
            (MARKS, marks.collect()),
            (VALUES, values.collect()),
        ];
        for (known_words, mut used_words) in used_words {
            used_words.remove("");
            let known_words = known_words.split_ascii_whitespace().collect();
            assert_eq!(used_words, known_words);
        }
    }

    #[test]
    fn rows_name_each_program_and_each_option_once() {
        for (name, rows) in ROWS.iter() {
            let mut subcommands = BTreeSet::new();
            for (subcommand, program) in rows {
                assert!(subcommands.insert(subcommand), "{name} {subcommand}");
                let mut options = BTreeSet::new();
                for (option, _) in program.options.iter() {
                    let letters = if option.starts_with("--") {
                        vec![(*option).to_owned()]
                    } else {
                        option[1..].chars().map(|c| format!("-{c}")).collect()
                    };
                    assert!(
                        option.starts_with('-') && !letters.is_empty(),
                        "{name}: {option}"
                    );
                    for letter in letters {
                        assert!(options.insert(letter), "{name} {subcommand}: {option}");
                    }
                }
            }
        }
    }
}
