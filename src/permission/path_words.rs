//! The words of a command that may name files, and whether its program reads or writes them.

use super::shell::{Analysis, Part, SimpleCommand, Word};

/// Programs that only read the files their words name.
const READERS: [&str; 58] = [
    "cat",
    "head",
    "tail",
    "less",
    "more",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ls",
    "stat",
    "file",
    "wc",
    "diff",
    "cmp",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "cksum",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "echo",
    "printf",
    "test",
    "[",
    "sort",
    "uniq",
    "nl",
    "tac",
    "rev",
    "tr",
    "column",
    "fold",
    "jq",
    "tree",
    "du",
    "df",
    "find",
    "gfind",
    "fd",
    "fdfind",
    "readlink",
    "realpath",
    "basename",
    "dirname",
    "cd",
    "pushd",
    "pwd",
    "sed",
    "awk",
    "cut",
    "comm",
    "true",
    "zcat",
    "ag",
];

/// A word, or a part of one, that may name a file.
pub(super) struct CandidateWord {
    pub(super) word: Word,
    /// True if the program only reads the files that its words name.
    pub(super) only_reads: bool,
    /// True if the program may change the file that the word names.
    pub(super) is_changed: bool,
    /// True if the program does not open files at all.
    pub(super) ignores_files: bool,
}

/// The words of a command that may name files.
pub(super) fn path_words(analysis: &Analysis) -> impl Iterator<Item = CandidateWord> {
    analysis.commands.iter().flat_map(|command| {
        let program = command.program().unwrap_or_default();
        let only_reads =
            READERS.contains(&program.as_str()) && !has_changing_option(&program, command);
        let keeps_operands = only_reads || keeps_operands(&program, command);
        let ignores_files = matches!(
            program.as_str(),
            "echo" | "printf" | "true" | ":" | "test" | "["
        );
        command
            .argv
            .iter()
            .flat_map(|word| {
                let is_option = word.starts_with_dash();
                let candidates = candidates(word).into_iter();
                candidates.map(move |candidate| (candidate, is_option))
            })
            .map(move |(word, is_option)| CandidateWord {
                word,
                only_reads,
                is_changed: !only_reads && (is_option || !keeps_operands),
                ignores_files,
            })
    })
}

/// The parts of a word that may be a path: all of it, or the part after an option's name.
fn candidates(word: &Word) -> Vec<Word> {
    let prefix = word.literal_prefix();
    let mut words = vec![word.clone()];
    for mark in ['=', '@', ':', '<'] {
        if let Some((key, _)) = prefix.split_once(mark)
            && let Some(suffix) = word.without_prefix(&format!("{key}{mark}"))
        {
            words.push(with_home(suffix));
        }
    }

    if let Some(suffix) = word.without_prefix("file://") {
        words.push(suffix);
    }

    let mut letters = prefix.chars();
    if letters.next() == Some('-')
        && let Some(letter) = letters.next().filter(|c| c.is_ascii_alphabetic())
        && let Some(suffix) = word.without_prefix(&format!("-{letter}"))
    {
        words.push(with_home(suffix));
    }

    words
}

/// The word with `~` expanded, which some programs do where the shell does not.
fn with_home(word: Word) -> Word {
    match word.without_prefix("~/") {
        Some(rest) => {
            let mut home = Word::default();
            home.parts.push(Part::Home(String::new()));
            home.push_text("/", true);
            home.parts.extend(rest.parts);
            home
        }
        None => word,
    }
}

/// Returns `true` if the options of a program that otherwise only reads make it change the files it
/// names.
fn has_changing_option(program: &str, command: &SimpleCommand) -> bool {
    let argv = &command.argv;
    let mut words = argv.iter().map(Word::literal_prefix).skip(1);
    match program {
        "sed" => words.any(|word| {
            let mut letters = word.chars().skip(1).take_while(|c| !"efl".contains(*c));
            word.starts_with("--i")
                || word.starts_with('-') && !word.starts_with("--") && letters.any(|c| c == 'i')
        }),
        "awk" => words.any(|word| word.starts_with("-i") || word.starts_with("--inc")),
        "xxd" => words.any(|word| word.starts_with("-r")),
        "find" | "gfind" | "fd" | "fdfind" => argv.windows(2).any(|pair| {
            let runs = matches!(
                pair[0].literal_prefix().as_str(),
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
            );
            let is_reader = |name: String| READERS.contains(&name.as_str());
            pair[1].literal_prefix() == "-delete"
                || (runs && !pair[1].basename().is_some_and(is_reader))
        }),
        _ => false,
    }
}

/// Returns `true` if a program that may write files leaves those that its operands name as they are,
/// except for its [`targets`].
fn keeps_operands(program: &str, command: &SimpleCommand) -> bool {
    let argv = &command.argv;
    if argv.iter().any(Word::is_dynamic) {
        return false;
    }
    let has_glob = argv.iter().any(Word::is_glob);
    match program {
        "source" | "." => true,
        "cp" => !has_glob && !argv.last().is_some_and(Word::starts_with_dash),
        "git" => match argv.get(1).and_then(Word::literal).as_deref() {
            Some("add" | "blame" | "commit" | "status") => true,
            Some("diff" | "log" | "show") => {
                let is_output = |word: &Word| word.literal_prefix().starts_with("--o");
                !has_glob && !argv.iter().any(is_output)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns `true` if a program shows the content of a file that it is given.
pub(super) fn shows_files(analysis: &Analysis) -> bool {
    analysis.commands.iter().any(|command| {
        let program = command.program().unwrap_or_default();
        let shows = matches!(
            program.as_str(),
            "cat"
                | "tac"
                | "head"
                | "tail"
                | "less"
                | "more"
                | "nl"
                | "od"
                | "xxd"
                | "hexdump"
                | "strings"
                | "base64"
                | "zcat"
        );
        let is_file = |word: &Word| {
            let text = word.literal_prefix();
            let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            !text.starts_with('-') && !is_number
        };

        shows && command.argv.len() > 1 && command.argv.last().is_some_and(is_file)
    })
}

/// Returns `true` if a program changes any files.
pub(super) fn changes_files(analysis: &Analysis) -> bool {
    analysis.commands.iter().any(|command| {
        let program = command.program().unwrap_or_default();
        let changes = matches!(
            program.as_str(),
            "tee"
                | "cp"
                | "mv"
                | "ln"
                | "install"
                | "touch"
                | "truncate"
                | "dd"
                | "patch"
                | "rm"
                | "rmdir"
                | "mkdir"
                | "shred"
                | "unlink"
        );
        command.argv.len() > 1 && (changes || has_changing_option(&program, command))
    })
}

/// The files that commands write to by copying, moving, linking or unpacking: their last words, and
/// folders that options name.
pub(super) fn targets(analysis: &Analysis) -> Vec<Word> {
    analysis.commands.iter().flat_map(targets_of).collect()
}

fn targets_of(command: &SimpleCommand) -> Vec<Word> {
    let program = command.program().unwrap_or_default();
    let (letter, option) = match program.as_str() {
        "mv" | "cp" | "ln" | "install" => ('t', "--target-directory"),
        "rsync" => (' ', ""),
        "tar" | "gtar" | "bsdtar" => ('C', "--directory"),
        "unzip" | "patch" => ('d', "--directory"),
        _ => return Vec::new(),
    };

    let words = &command.argv[1..];
    let mut targets = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let prefix = word.literal_prefix();
        let is_long = prefix.starts_with("--");
        if is_long && prefix.len() > 3 && option.starts_with(&*prefix)
            || !is_long && prefix.starts_with('-') && prefix.ends_with(letter)
        {
            targets.extend(words.get(at + 1).cloned());
        } else if is_long {
            targets.extend(word.without_prefix(&format!("{option}=")));
        } else {
            targets.extend(word.without_prefix(&format!("-{letter}")));
        }
    }

    if matches!(letter, 't' | ' ') {
        targets.extend(words.last().cloned());
    }

    targets
}
