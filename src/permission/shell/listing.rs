//! Commands whose output names existing files, or is a number.

use super::analysis::SimpleCommand;
use super::context::Context;
use super::word::{LISTED, Part, Word};

/// The value of a substitution of the commands from index `first` on.
pub(super) fn output(cx: &mut Context, first: usize, quoted: bool) -> Part {
    let value = |name: &str| Part::Value {
        name: Some(name.to_owned()),
        quoted: quoted || name == "#",
    };
    let commands = &cx.found.commands[first..];
    if let [command] = commands {
        if prints_number(command) {
            return value("#");
        }
        if command.is("mktemp") && command.argv[1..].iter().all(is_folder_option) {
            // A new folder, or a new file there.
            return value("TMPDIR");
        }
    }

    let has_commands = !commands.is_empty();
    let last = cx.found.commands.len().saturating_sub(1);
    let is_listed = has_commands && lists_files(cx, last) == Some(first);
    if is_listed {
        value(LISTED)
    } else {
        Part::Value { name: None, quoted }
    }
}

fn is_folder_option(word: &Word) -> bool {
    word.literal().is_some_and(|text| text == "-d")
}

/// Returns `true` if all that the command prints is a number, a date or the hash of a commit.
fn prints_number(command: &SimpleCommand) -> bool {
    let words: Option<Vec<String>> = command.argv.iter().map(Word::literal).collect();
    let words = words.unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_mark = |c: char| c.is_ascii_digit() || "%FYmdHMSsj+-_:".contains(c);
    match words[..] {
        ["git", "merge-base", ref names @ ..] => names.iter().all(|name| !name.starts_with('-')),
        ["git", "rev-parse", "HEAD"] | ["git", "rev-parse", "--short", "HEAD"] | ["nproc"] => true,
        ["date", format] => format.starts_with("+%") && format.chars().all(is_mark),
        _ => false,
    }
}

/// Returns the index of the first command of a pipe, up to the one at `index`, if the last one
/// prints names of existing files. The words that select them are noted as values.
pub(super) fn lists_files(cx: &mut Context, mut index: usize) -> Option<usize> {
    while let Some(Some(before)) = cx.found.commands[index].piped
        && is_filter(&cx.found.commands[index])
    {
        index = before;
    }

    let command = &cx.found.commands[index];
    let texts: Option<Vec<String>> = command.argv.iter().map(Word::literal).collect();
    let texts = texts.filter(|texts| lists(texts))?;
    for text in texts[1..].iter().filter(|text| !text.starts_with('-')) {
        cx.assign(LISTED, Some(&Word::default().followed_by(text)), false);
    }
    Some(index)
}

/// Returns `true` if the command prints some lines of its input, and nothing else.
fn is_filter(command: &SimpleCommand) -> bool {
    let texts = command.argv[1..].iter().map(Word::literal_prefix);
    let (options, operands): (Vec<_>, Vec<_>) = texts.partition(|text| text.starts_with('-'));
    let is_number = |text: &String| text.bytes().all(|b| b.is_ascii_digit());
    match command.program().unwrap_or_default().as_str() {
        "grep" | "egrep" => {
            let is_plain = |text: &String| text[1..].chars().all(|c| "viEFwx".contains(c));
            operands.len() == 1 && options.iter().all(is_plain)
        }
        "sort" | "uniq" | "head" | "tail" => {
            operands.iter().all(is_number) && !options.iter().any(|text| text.contains(['o', 'c']))
        }
        _ => false,
    }
}

/// Returns `true` if the command of these words prints names of existing files.
fn lists(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let begins = |starts: &[&str]| {
        let mut pairs = words
            .iter()
            .flat_map(|word| starts.iter().map(move |s| (word, s)));
        pairs.any(|(word, start)| word.starts_with(start))
    };
    match words[..] {
        ["find" | "fd" | "ls", ..] => !begins(&[
            "-printf", "-exec", "-ok", "-fprint", "-x", "-X", "--exec", "--format",
        ]),
        ["git", "ls-files", ..] => !begins(&["--format", "-s", "--stage"]),
        ["git", "diff", ..] => has(&["--name-only"]) && !begins(&["--format"]),
        ["grep" | "rg", ..] => has(&[
            "-l",
            "-rl",
            "-lr",
            "-ril",
            "--files",
            "--files-with-matches",
        ]),
        _ => false,
    }
}
