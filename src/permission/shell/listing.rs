//! Commands whose output names existing files, or is a number.

use super::analysis::SimpleCommand;
use super::context::Context;
use super::word::{LISTED, Part, Word};

/// The value of a substitution, of which the commands have the indices from `first` on.
pub(super) fn output(cx: &mut Context, first: usize, quoted: bool) -> Part {
    let is_one = cx.found.commands.len() == first + 1;
    let words = cx.found.commands.get(first).filter(|_| is_one);
    let name = match &words.map(texts).unwrap_or_default()[..] {
        words if prints_number(words) => Some("#"),
        // A new folder, or a new file there.
        ["mktemp"] | ["mktemp", "-d"] => Some("TMPDIR"),
        [] => None,
        _ => lists_files(cx, first).then_some(LISTED),
    };
    Part::Value {
        quoted: quoted || name == Some("#"),
        name: name.map(str::to_owned),
    }
}

/// The words of the command; none if one of them is not a single text.
pub(super) fn texts(command: &SimpleCommand) -> Vec<&str> {
    let words = command.argv.iter().map(|word| match &word.parts[..] {
        [Part::Text { text, .. }] => Some(text.as_str()),
        _ => None,
    });
    let texts: Option<Vec<&str>> = words.collect();
    texts.unwrap_or_default()
}

/// Returns `true` if all that the command prints is a number, a date or the hash of a commit.
fn prints_number(words: &[&str]) -> bool {
    let is_mark = |c: char| c.is_ascii_digit() || "%FYmdHMSsj+-_:".contains(c);
    match words {
        ["git", "merge-base", names @ ..] => names.iter().all(|name| !name.starts_with('-')),
        ["git", "rev-parse", "HEAD"] | ["git", "rev-parse", "--short", "HEAD"] | ["nproc"] => true,
        ["date", format] => format.starts_with("+%") && format.chars().all(is_mark),
        _ => false,
    }
}

/// Returns `true` if the command at an index prints names of existing files. Its words without a
/// dash, which select them, are noted as values of `LISTED`.
pub(super) fn lists_files(cx: &mut Context, index: usize) -> bool {
    const OPTIONS: &str = "--name-only --cached --staged --others --modified --exclude-standard --files \
         --files-with-matches --hidden --type --extension --recursive --include --exclude";
    const ACTIONS: [&str; 6] = ["-printf", "-exec", "-ok", "-f", "-x", "-X"];
    let words = texts(&cx.found.commands[index]);
    let is_plain = |word: &&str| match word.split('=').next().unwrap_or_default() {
        name if name.starts_with("--") => OPTIONS.split(' ').any(|known| known == name),
        name => !ACTIONS.iter().any(|action| name.starts_with(action)),
    };
    let has = |options: &str| {
        words
            .iter()
            .any(|word| options.split(' ').any(|o| o == *word))
    };
    let is_list = match words[..] {
        ["find" | "fd" | "ls", ..] | ["git", "ls-files", ..] => true,
        ["git", "diff", ..] => has("--name-only"),
        ["grep" | "rg", ..] => has("-l -rl -lr -ril --files --files-with-matches"),
        _ => false,
    };
    if !is_list || !words.iter().all(is_plain) {
        return false;
    }

    let names = words[1..].iter().filter(|word| !word.starts_with('-'));
    let names: Vec<Word> = names
        .map(|name| Word::default().followed_by(name))
        .collect();
    for name in &names {
        cx.assign(LISTED, Some(name), false);
    }
    true
}
