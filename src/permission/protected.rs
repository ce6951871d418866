//! Paths that decide what runs later: writing them always needs an answer.

use super::glob::Match;
use super::paths::{PathOf, PathPattern, Places};
use super::shell::{Analysis, SimpleCommand, Word};

/// Protected whether they exist or not, in any case of letters.
const PROTECTED: [&str; 6] = [
    "/**/.git/hooks/**",
    "/**/.git/config",
    "/**/.git/modules/**/{hooks,config}",
    "/**/.agentcore/**",
    "/**/.mcp.json",
    "/**/.git/info/attributes",
];

/// Programs that only read the files their words name.
const READERS: [&str; 56] = [
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
    "fd",
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

/// Programs that go down into directories by themselves, with the options that make them.
const DEEP: [(&str, &str); 16] = [
    ("grep", "-r -R --recursive"),
    ("egrep", "-r -R --recursive"),
    ("fgrep", "-r -R --recursive"),
    ("rg", ""),
    ("ag", ""),
    ("ack", ""),
    ("find", ""),
    ("fd", ""),
    ("tar", ""),
    ("zip", ""),
    ("rsync", ""),
    ("tree", ""),
    ("cp", "-r -R -a --recursive --archive"),
    ("scp", "-r"),
    ("mv", ""),
    ("ls", "-R --recursive"),
];

/// The words of a command that may name files: each with whether the program only reads.
pub(super) fn path_words(analysis: &Analysis) -> impl Iterator<Item = (Word, bool, bool)> {
    analysis.commands.iter().flat_map(|command| {
        let program = command.program().unwrap_or_default();
        let reads = READERS.contains(&program.as_str());
        let speaks = matches!(
            program.as_str(),
            "echo" | "printf" | "true" | ":" | "test" | "["
        );
        command
            .argv
            .iter()
            .flat_map(candidates)
            .map(move |word| (word, reads, speaks))
    })
}

/// What of a word may be a path: all of it, or what follows an option's name.
fn candidates(word: &Word) -> Vec<Word> {
    let prefix = word.literal_prefix();
    let mut all = vec![word.clone()];
    for mark in ['=', '@', ':'] {
        if let Some((before, _)) = prefix.split_once(mark)
            && let Some(rest) = word.without_prefix(&format!("{before}{mark}"))
        {
            all.push(retilded(rest));
        }
    }
    if let Some(rest) = word.without_prefix("file://") {
        all.push(rest);
    }
    let mut letters = prefix.chars();
    if letters.next() == Some('-')
        && let Some(letter) = letters.next().filter(|c| c.is_ascii_alphabetic())
        && let Some(rest) = word.without_prefix(&format!("-{letter}"))
    {
        all.push(retilded(rest));
    }
    all
}

/// Programs expand `~` themselves where the shell does not.
fn retilded(word: Word) -> Word {
    match word.without_prefix("~/") {
        Some(rest) => {
            let mut home = Word::default();
            home.parts.push(super::shell::Part::Home(String::new()));
            home.push_text("/", true);
            home.parts.extend(rest.parts);
            home
        }
        None => word,
    }
}

/// The programs of a command that go down into directories, with their words.
pub(super) fn deep_words(analysis: &Analysis) -> impl Iterator<Item = &Word> {
    analysis.commands.iter().flat_map(|command| {
        let program = command.program().unwrap_or_default();
        let deep = DEEP.iter().any(|(name, options)| {
            *name == program
                && (options.is_empty()
                    || command.argv.iter().any(|word| {
                        let text = word.literal_prefix();
                        options.split(' ').any(|option| {
                            text == option
                                || (option.len() == 2
                                    && text.starts_with('-')
                                    && !text.starts_with("--")
                                    && text.contains(&option[1..]))
                        })
                    }))
        });
        let words = if deep { command.argv.get(1..) } else { None };
        words.unwrap_or_default().iter()
    })
}

/// The protected path that writing `path` may touch.
pub(super) fn is_protected(path: &PathOf, places: &Places, own: &[String]) -> bool {
    let places = in_any_case(places);
    let listed = PROTECTED
        .iter()
        .flat_map(|text| match text.split_once('{') {
            None => vec![(*text).to_owned()],
            Some((head, tail)) => tail
                .trim_end_matches('}')
                .split(',')
                .map(|name| format!("{head}{name}/**"))
                .collect(),
        });
    listed
        .chain(own.iter().cloned())
        .filter_map(|text| PathPattern::new(&text).ok())
        .any(|pattern| pattern.catches(path, &places) >= Match::Maybe)
}

/// Whether writing `path` puts another repository in place, hooks and all.
pub(super) fn is_repository(path: &PathOf, places: &Places) -> bool {
    PathPattern::new("/**/.git")
        .is_ok_and(|pattern| pattern.is(path, &in_any_case(places)) >= Match::Maybe)
}

fn in_any_case(places: &Places) -> Places {
    Places {
        folds_case: true,
        ..places.clone()
    }
}

/// What a command that copies, moves or links writes to: its last word.
pub(super) fn target(command: &SimpleCommand) -> Option<&Word> {
    let program = command.program()?;
    match program.as_str() {
        "mv" | "cp" | "ln" | "rsync" | "install" => command.argv.get(1..)?.last(),
        _ => None,
    }
}
