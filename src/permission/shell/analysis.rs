//! The result of an analysis.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::permission::programs::{
    KnownFiles, is_uncertain, known_files, unversioned_name, without_version,
};

use super::environment::{is_outer, is_set_to_text, is_special};
use super::word::{Part, Word, printable};

/// The maximum number of parts, and of bytes, of a folder that a command changes to.
const MAX_FOLDER_PARTS: usize = 32;
const MAX_FOLDER_BYTES: usize = 4096;

/// A shell command, taken apart.
///
/// `commands` holds every simple command that may run, wherever it stands: in lists, pipes,
/// groups, functions, substitutions, here-documents given to a shell, and behind wrappers such
/// as `env` or `find -exec`. What is not understood is in `opaque`; commands that only may run are
/// marked as `guessed`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Analysis {
    /// Every simple command that may run.
    pub(crate) commands: Vec<SimpleCommand>,
    /// The reasons why the list of commands, or their effects, may be incomplete.
    pub(crate) opaque: Vec<Reason>,
    /// The reason why a part of it that is sure to run was not examined.
    pub(crate) unread: Option<Reason>,
    /// The reason why a text of it is not in the strict grammar.
    pub(crate) unusual: Option<Reason>,
    /// The paths of redirections, options and operands with a known use.
    pub(crate) paths: Vec<(Use, Word)>,
    /// The indices of those of them that are in texts which the shell may evaluate.
    pub(crate) possible_paths: Range<usize>,
    /// The targets of redirections, each with the index of the command, if it has one.
    pub(crate) redirections: Vec<(Option<usize>, Word)>,
    /// The places where its commands put what may be a link.
    pub(crate) arrivals: Vec<Arrival>,
    /// The folders that its commands copy with all that is in them.
    pub(crate) tree_copies: Vec<TreeCopy>,
    /// True if all of it runs in the folders that it changes to one by one, but for `mkdir` before
    /// the first.
    pub(crate) begins_with_cd: bool,
    /// The folders that it changes to in which a program that writes may run.
    pub(crate) work_folders: Vec<Word>,
    /// True if a program works on the project in the folder where it is started.
    pub(crate) has_project: bool,
    /// Variables that it sets to values that are not known.
    pub(crate) unknown: BTreeSet<String>,
    /// True if it may set parameters, and any variable but for `HOME` and others of `is_outer`.
    pub(crate) sets_any: bool,
    /// True if it may set any variable, also one of these.
    pub(crate) sets_names: bool,
    /// Names of functions it defines.
    pub(crate) functions: Vec<String>,
    /// The number of characters examined, where characters of nested scripts count once for each
    /// level. It measures the work, which is limited for any command.
    pub(crate) steps: usize,
}

impl Analysis {
    /// Returns the heaviest reason, if anything was not understood.
    pub(crate) fn weight(&self) -> Option<Weight> {
        self.opaque.iter().map(Reason::weight).max()
    }

    /// Returns the commands that rules to allow have to cover.
    pub(crate) fn covered(&self) -> impl Iterator<Item = &SimpleCommand> {
        self.commands
            .iter()
            .filter(|command| !command.guessed && !command.transparent)
    }

    /// Resolves each folder that the command changes to against the folder before it. A folder over
    /// a limit counts as any folder: otherwise each change copies the parts of all before it.
    pub(super) fn follow_changes(&mut self) {
        let mut folder = Word::default();
        let paths = self.paths.iter_mut();
        for (_, word) in paths.filter(|(path_use, _)| *path_use == Use::Directory) {
            let prefix = word.literal_prefix();
            if folder.len() > 0 && !prefix.is_empty() && !prefix.starts_with('/') {
                folder.push_text("/", true);
                folder.parts.append(&mut word.parts);
                word.parts.clone_from(&folder.parts);
            }
            if word.parts.len() > MAX_FOLDER_PARTS || word.len() > MAX_FOLDER_BYTES {
                *word = Word::unknown();
            }
            folder = word.clone();
        }
    }

    /// Returns the paths with this use.
    pub(crate) fn used(&self, wanted_use: Use) -> impl Iterator<Item = &Word> {
        self.paths
            .iter()
            .filter(move |(path_use, _)| *path_use == wanted_use)
            .map(|(_, word)| word)
    }

    /// Returns `true` if the command itself makes a part of the word that is not known.
    pub(crate) fn makes(&self, word: &Word) -> bool {
        word.parts.iter().any(|part| match part.variable() {
            Some(name) => {
                self.unknown.contains(name)
                    || is_set_to_text(name)
                    || self.sets_any && !is_outer(name)
                    || self.sets_names && !is_special(name)
            }
            None => matches!(part, Part::Value { .. }),
        })
    }
}

/// The use that a command makes of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// A redirection or an option reads it.
    Read,
    /// A redirection or an option writes it.
    Write,
    /// A program copies, moves, links or unpacks to it.
    Target,
    /// A program copies, moves or links to it if the path above it is a folder.
    TargetInFolder,
    /// A program reads or changes it with all that is in it.
    Tree(Tree),
    /// A program makes a link to it: other words may lead to it, and to all that is in it.
    Linked,
    /// A program works on it as on its project.
    Project,
    /// A builder reads it, with all that is in it, as a part of its project.
    Source,
    /// A builder loads what is at this address.
    Address,
    /// Git works on it as on its repository.
    Repository,
    /// The command changes to it.
    Directory,
}

/// A place where the command at an index puts what may be a link, or may hold links.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) command: usize,
    pub(crate) payload: Payload,
    pub(crate) target: Word,
}

/// The files that a command puts at a place.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// The file or folder that the word names, with its links.
    Source(Word),
    /// A new link, whose text is a path of the command.
    Link,
    /// Anything, below the place.
    Contents,
}

/// A folder that the command at an index copies, file by file, to where another may lie.
#[derive(Clone, Debug)]
pub(crate) struct TreeCopy {
    pub(crate) command: usize,
    pub(crate) source: Word,
    pub(crate) target: Word,
    /// True if links in the source are followed, and not copied.
    pub(crate) follows_links: bool,
}

/// The part of a folder that a program reads or changes with all that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    /// True if what is in it is changed.
    pub(crate) changes: bool,
    /// True if names that begin with a dot are omitted.
    pub(crate) skips_hidden: bool,
    /// True if the program follows links.
    pub(crate) follows_links: bool,
}

impl Tree {
    /// All of a folder, read without following links.
    pub(crate) const READ: Self = Self {
        changes: false,
        skips_hidden: false,
        follows_links: false,
    };

    /// All of a folder, changed without following links.
    pub(crate) const CHANGE: Self = Self {
        changes: true,
        ..Self::READ
    };
}

/// The use that a program makes of the files that its words name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Files {
    /// It may do anything.
    #[default]
    Changed,
    Read,
    /// It does not open them.
    Unopened,
}

/// The subcommand of a program that builds or deploys, or that has many subcommands.
#[derive(Clone, Debug)]
pub(crate) struct Subcommand {
    /// Its words without options.
    pub(crate) words: Vec<String>,
    pub(crate) options: Vec<String>,
    /// True if one of its other words may be an option.
    pub(crate) is_open: bool,
}

impl Subcommand {
    /// Returns `true` if the program only prints its help or version.
    fn is_about_program(&self) -> bool {
        const OPTIONS: [&str; 5] = ["-V", "--version", "-version", "--help", "-help"];
        let is_about = |option: &String| OPTIONS.contains(&&**option);
        self.words.is_empty()
            && !self.is_open
            && !self.options.is_empty()
            && self.options.iter().all(is_about)
    }
}

/// One program or builtin with its arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimpleCommand {
    /// The program and its arguments, quotes removed. Empty for assignments alone.
    pub(crate) argv: Vec<Word>,
    /// Names assigned before the program.
    pub(crate) assignments: Vec<String>,
    /// The wrappers it was found behind, outermost first: `env`, `xargs`, `sh -c`.
    pub(crate) via: Vec<String>,
    /// The index in `argv` of a script file for a shell, which an allow rule has to name.
    pub(crate) script: Option<usize>,
    /// The pipe that its input comes from, with the command before it, if that is a simple one.
    pub(crate) piped: Option<Option<usize>>,
    /// The indices of the commands before that pipe, if a group stands before or behind it.
    pub(crate) sources: Range<usize>,
    /// It only may run: deny and ask rules look at it, allow rules need not cover it.
    pub(crate) guessed: bool,
    /// Text of here-documents and here-strings.
    pub(crate) input: Option<Word>,
    /// True if `input` is on another descriptor than the standard input.
    pub(crate) is_other_input: bool,
    /// The text that a group of commands around it is given, of which it may read a part.
    pub(crate) shared_input: Option<Arc<Word>>,
    /// The file that its input is redirected from.
    pub(crate) input_file: Option<Word>,
    /// The indices of its redirections.
    pub(crate) redirections: Vec<usize>,
    /// True if the shell does not wait for it.
    pub(crate) background: bool,
    /// True if the shell itself may run it several times.
    pub(crate) repeats: bool,
    /// It only runs the command behind it, or is run by one before it, which allow rules have to
    /// cover.
    pub(crate) transparent: bool,
    /// For a program of a package, the command that starts it, and the number of words before.
    pub(crate) runner: Option<(usize, usize)>,
    /// The number of its first words that are known, if nothing is known of the others.
    pub(crate) unlisted: Option<usize>,
    /// For the command that starts a program of which nothing is known, the number of words before
    /// those of that program.
    pub(crate) package: Option<usize>,
    pub(crate) files: Files,
    pub(crate) subcommand: Option<Subcommand>,
    /// The indices of the words that distinguish it from other commands of its program.
    pub(crate) subcommand_words: Vec<usize>,
    /// Values of options that stand in a word with others.
    pub(crate) values: Vec<Word>,
    /// The names of files in the texts that are its input.
    pub(crate) input_names: Vec<Word>,
    /// The indices of words that name no files.
    pub(crate) texts: Vec<usize>,
    /// The indices of words whose files the program leaves as they are, in ascending order.
    pub(crate) kept: Vec<usize>,
    /// True if its words contain files among other texts.
    pub(crate) has_parts: bool,
    /// True if one of its words is program text.
    pub(crate) is_code: bool,
    /// True if it shows the content of files.
    pub(crate) shows: bool,
    /// True if it reads the content of a file that an operand names.
    pub(crate) reads_operand: bool,
    /// True if it makes an archive in a file, or adds to one.
    pub(crate) makes_archive: bool,
    /// True if it makes, changes or removes files.
    pub(crate) changes: bool,
}

impl SimpleCommand {
    /// Returns the program's name without its directory, if it is known.
    pub(crate) fn program(&self) -> Option<String> {
        self.argv.first().and_then(Word::basename)
    }

    /// Returns `true` if the command line gives it an input.
    pub(crate) fn is_fed(&self) -> bool {
        self.input.is_some() || self.piped.is_some()
    }

    /// Returns the text that is certainly its standard input, if the command line has one.
    pub(crate) fn standard_input(&self) -> Option<&Word> {
        let input = self.shared_input.as_deref().or(self.input.as_ref());
        input.filter(|_| !self.is_other_input)
    }

    /// Returns `true` if nothing is known of what the command does with its words.
    pub(crate) fn is_unmodeled(&self) -> bool {
        self.unlisted.is_some() && !self.guessed
    }

    /// Returns `true` if the command changes files, and this word of it is its last one: a copy
    /// changes no other.
    pub(crate) fn changes_last(&self, word: &Word) -> bool {
        let last = self.argv.last();
        self.changes && last.is_some_and(|last| std::ptr::eq(last, word))
    }

    /// Returns `true` if the program only prints its help or version.
    pub(crate) fn is_about_itself(&self) -> bool {
        let option = self.argv.get(1).and_then(Word::literal);
        let is_long = option.is_some_and(|o| matches!(&*o, "--version" | "--help"));
        self.argv.len() == 2 && is_long || self.has_short_help()
    }

    /// Returns `true` if the program only prints its help or version because of an option of one
    /// letter, as in `git -v`. The same letters mean other things to most programs.
    pub(crate) fn has_short_help(&self) -> bool {
        const PROGRAMS: &str = "\
            docker docker-compose podman npm pnpm yarn bun cargo rustup go git gh kubectl helm \
            terraform tofu node deno ruby perl pip python sudo";
        let [_, option] = &self.argv[..] else {
            return false;
        };
        let name = self.program().unwrap_or_default();
        let name = without_version(&name);
        match option.literal().as_deref() {
            // `python -v` is interactive.
            Some("-v") if name == "python" => false,
            Some("-V" | "-h" | "-v") => PROGRAMS.split_whitespace().any(|known| known == name),
            _ => false,
        }
    }

    /// Returns what is known of the files of the command; `None` if it may work with any.
    pub(crate) fn known_files(&self) -> Option<KnownFiles> {
        let name = self.program()?.to_lowercase();
        let name = unversioned_name(&name);
        let has_dash = |word: &&Word| word.starts_with_dash();
        match &self.subcommand {
            _ if self.is_unmodeled() => None,
            Some(own) if own.is_about_program() => Some(KnownFiles::ALL_NAMED),
            Some(own) => known_files(name, &own.words, &own.options, own.is_open),
            None => {
                let options = self.argv[1..].iter().filter(has_dash);
                let options: Vec<String> = options.map(Word::literal_prefix).collect();
                known_files(name, &[], &options, self.argv[1..].iter().any(is_uncertain))
            }
        }
    }

    /// Returns `true` if the program may change what its words name.
    pub(crate) fn is_writer(&self) -> bool {
        self.files == Files::Changed && !self.argv.is_empty()
    }

    /// Returns `true` if the first word is `name`, without a folder.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.argv.first().is_some_and(|first| first.is(name))
    }

    /// Returns the index of the command that rules to allow must name for the command at `index`,
    /// and the number of its words before the words of the command at `index`.
    pub(super) fn named_by(&self, index: usize) -> (usize, usize) {
        self.runner.unwrap_or((index, 0))
    }
}

impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.argv.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{word}")?;
        }
        if self.argv.is_empty() {
            write!(f, "{}=..", self.assignments.join("=.. "))?;
        }
        Ok(())
    }
}

/// The weight of a [`Reason`], the lightest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Weight {
    /// Every command is known, and one of them changes files that its words name.
    Edit,
    /// Every command is known, but one of them does more than its name suggests.
    Effect,
    /// A file is run whose content is not known.
    Script,
    /// Commands may run that are not listed.
    Hidden,
    /// No rule can allow it: a reader would not see what runs.
    Refused,
}

/// A reason why a command is not fully understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It is not a shell command, or uses syntax the analyzer does not know.
    Syntax(&'static str),
    /// It has a construct that everyday commands do not have, and that may be misread.
    Unusual(&'static str),
    /// It uses what only bash understands, and another shell may run it.
    BashOnly(&'static str),
    /// It is longer, deeper or larger than what the analyzer reads.
    Limit(&'static str),
    /// It contains a control character, an invisible character, or a character that changes the
    /// direction of the text.
    Character(char),
    /// The program's name is only known when the shell runs.
    DynamicCommand(String),
    /// A builtin that changes what later commands mean, or runs text.
    Builtin(String),
    /// A variable that changes what programs do.
    Variable(String),
    /// An expansion that runs text held in variables.
    Expansion(&'static str),
    /// A shell reads its commands from a pipe or a file.
    ShellInput(String),
    /// Program text in another language.
    InlineCode(String),
    /// An option that runs another program.
    Option(String, String),
    /// An option that makes a program change the files that its words name.
    Edit(String, String),
    /// An option or subcommand that does more than the program's name suggests.
    Effect(String, String),
    /// A script or program outside the system's directories.
    Script(String),
    /// A program in a container, or what its image runs.
    Exec(String),
    /// Network access by redirection.
    Network(String),
}

impl Reason {
    /// Returns the weight of the reason.
    pub(crate) fn weight(&self) -> Weight {
        match self {
            Self::Edit(..) => Weight::Edit,
            Self::Effect(..) => Weight::Effect,
            Self::Script(_) | Self::Exec(_) => Weight::Script,
            Self::Character(_) | Self::Network(_) => Weight::Refused,
            _ => Weight::Hidden,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => write!(f, "it cannot be parsed: {what}"),
            Self::Unusual(what) => write!(f, "it is unusual: it has {what}"),
            Self::BashOnly(what) => {
                write!(f, "{what} means something else to a shell other than bash")
            }
            Self::Limit(what) => write!(f, "it is too large to check: {what}"),
            Self::Character(c) => {
                write!(f, "it holds the character {}", c.escape_unicode())
            }
            Self::DynamicCommand(word) => {
                let word = printable(word);
                write!(f, "the program {word} is only known when it runs")
            }
            Self::Builtin(name) => write!(f, "`{name}` changes what commands mean or runs text"),
            Self::Variable(name) => {
                let name = printable(name);
                write!(f, "the variable {name} may change what programs do")
            }
            Self::Expansion(what) => write!(f, "{what} may run text held in variables"),
            Self::ShellInput(name) => write!(f, "{name} reads its commands from its input"),
            Self::InlineCode(name) => write!(f, "{name} is given program text"),
            Self::Option(name, option) => {
                write!(f, "{name} {} runs another program", printable(option))
            }
            Self::Edit(name, option) | Self::Effect(name, option) => {
                write!(f, "{name} {} changes files or settings", printable(option))
            }
            Self::Script(name) | Self::Exec(name) => {
                write!(f, "the content of {} is not known", printable(name))
            }
            Self::Network(target) => write!(f, "{} opens a connection", printable(target)),
        }
    }
}
