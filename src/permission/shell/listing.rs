//! Commands whose output names existing files, or is a number.

use super::analysis::SimpleCommand;
use super::context::Context;
use super::find_words::git_files;
use super::inputs::output_name;
use super::word::{LISTED, Part, Word};

/// The name of a value that is the name of the current branch.
const BRANCH: &str = "/branch";

/// Returns the value of a substitution, of which the commands have the indices from `first` on.
pub(super) fn output(cx: &mut Context, first: usize, quoted: bool) -> Part {
    let is_one = cx.analysis.commands.len() == first + 1 && !cx.loops.is_off;
    let command = cx.analysis.commands.get(first).filter(|_| is_one);
    let texts = command.map(patterns).unwrap_or_default();
    let words: Vec<&str> = texts.iter().map(String::as_str).collect();
    let name = match words[..] {
        _ if prints_number(&words) => Some("#"),
        ["git", "branch", "--show-current"] => Some(BRANCH),
        ["basename", path] if !path.starts_with('-') => list(cx, last_name(path)),
        ["basename", path, ending] if !path.starts_with('-') => {
            let name = last_name(path);
            // A name that is nothing but the ending stays.
            let stem = name.strip_suffix(ending).filter(|stem| !stem.is_empty());
            let is_plain = !ending.contains(['*', '?', '[', '{']);
            list(cx, stem.filter(|_| is_plain).unwrap_or(name))
        }
        // A new folder, or a new file there.
        ["mktemp"] | ["mktemp", "-d"] => Some("TMPDIR"),
        ["mktemp", template] | ["mktemp", "-d", template] if !template.starts_with('-') => {
            let mut pieces = template.split('X').collect::<Vec<_>>();
            pieces.dedup_by(|piece, before| piece.is_empty() && before.is_empty());
            list(cx, &pieces.join("*"))
        }
        [] => None,
        _ if is_one => lists_files(cx, first).then_some(LISTED),
        _ => None,
    };
    if let Some(program) = words.first().filter(|_| name.is_some()) {
        cx.printers.insert((*program).to_owned());
    }
    Part::Value {
        quoted: quoted || name == Some("#"),
        name: name.map(str::to_owned).or_else(|| output_name(cx, first)),
    }
}

/// Notes a name, or a pattern of names, that a program prints.
fn list(cx: &mut Context, name: &str) -> Option<&'static str> {
    let name = Word::default().followed_by(name);
    cx.assign(LISTED, Some(&name), false);
    Some(LISTED)
}

fn last_name(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or_default()
}

/// Notes that the name of the branch is one that a command makes up, unless git changes to it.
pub(super) fn branch(cx: &mut Context, command: &SimpleCommand) {
    let is_branch = |part: &Part| part.variable() == Some(BRANCH);
    let text = |at: usize| command.argv.get(at).and_then(Word::literal);
    let changes = matches!(text(1).as_deref(), Some("checkout" | "switch"));
    let is_change = changes && command.is("git") && command.argv.len() == 3;
    let mut parts = command.argv.iter().flat_map(|word| &word.parts);
    if !is_change && parts.any(is_branch) {
        cx.analysis.unknown.insert(BRANCH.to_owned());
    }
}

/// Returns the words of the command; none if one of them is not a single text.
pub(super) fn texts(command: &SimpleCommand) -> Vec<String> {
    let texts: Option<Vec<String>> = command.argv.iter().map(Word::literal).collect();
    texts.unwrap_or_default()
}

/// Returns the words of the command, of which some may be patterns of names; none if one of them
/// may be any text.
fn patterns(command: &SimpleCommand) -> Vec<String> {
    let text = |part: &Part| match part {
        Part::Text { text, .. } => Some(text.clone()),
        Part::Glob(c) | Part::Brace(c) => Some(c.to_string()),
        Part::Home(_) | Part::Value { .. } => None,
    };
    let words = command.argv.iter();
    let texts: Option<Vec<String>> = words
        .map(|word| word.parts.iter().map(text).collect())
        .collect();
    texts.unwrap_or_default()
}

/// Returns `true` if all that the command prints is a number, a date or the hash of a commit.
fn prints_number(words: &[&str]) -> bool {
    let is_mark = |c: char| c.is_ascii_digit() || "%FYmdHMSsj+-_:".contains(c);
    match words {
        ["git", "merge-base", names @ ..] => names.iter().all(|name| !name.starts_with('-')),
        ["git", "rev-parse", "HEAD"] | ["git", "rev-parse", "--short", "HEAD"] | ["nproc"] => true,
        ["date", format] | ["date", "-u", format] => {
            format.starts_with("+%") && format.chars().all(is_mark)
        }
        _ => false,
    }
}

/// Returns `true` if the command at an index prints names of existing files. Its words without a
/// dash, which select them, are noted as values of `LISTED`.
pub(super) fn lists_files(cx: &mut Context, index: usize) -> bool {
    const OPTIONS: &str = "\
        -- --name-only --cached --staged --others --modified --exclude-standard --diff-filter \
        --files --files-with-matches --hidden --type --extension --recursive --include --exclude";
    const ACTIONS: [&str; 6] = ["-printf", "-exec", "-ok", "-f", "-x", "-X"];
    let texts = patterns(&cx.analysis.commands[index]);
    let words: Vec<&str> = texts.iter().map(String::as_str).collect();
    let is_plain = |word: &&str| match word.split('=').next().unwrap_or_default() {
        name if name.starts_with("--") => OPTIONS.split(' ').any(|known| known == name),
        name => !ACTIONS.iter().any(|action| name.starts_with(action)),
    };
    // `-rl`, where no other letter has a value or prints lines.
    let other_letters = match words.first() {
        Some(&"rg") => "iwsFPn",
        _ => "rRiIwsEFGPn",
    };
    let is_cluster = |word: &&str| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        let is_other = |c| c == 'l' || other_letters.contains(c);
        letters.contains('l') && letters.chars().all(is_other)
    };
    let names_matches =
        |word: &&str| is_cluster(word) || matches!(*word, "--files" | "--files-with-matches");
    let is_list = match words[..] {
        ["find" | "fd" | "ls", ..] | ["git", "ls-files", ..] => true,
        ["git", "diff", ..] => words.contains(&"--name-only"),
        ["grep" | "rg", ..] | ["git", "grep", ..] => words.iter().any(names_matches),
        _ => false,
    };
    if !is_list || cx.loops.is_off || !words.iter().all(is_plain) {
        return false;
    }

    let names = words[1..].iter().filter(|word| !word.starts_with('-'));
    let mut names: Vec<Word> = names
        .map(|name| Word::default().followed_by(name))
        .collect();
    if words[0] == "find" {
        names.extend(git_files(&cx.analysis.commands[index].argv));
    }
    for name in &names {
        cx.assign(LISTED, Some(name), false);
    }
    cx.printers.insert(words[0].to_owned());
    true
}
