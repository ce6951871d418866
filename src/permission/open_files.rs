//! Files and folders that processes have open, which have paths of their own.
//!
//! A *door* is a path in `/proc` where a process shows its memory, its environment or another
//! folder, such as `/proc/self/cwd`.

use super::folders::Folders;
use super::glob::{GlobToken, intersect, tokens};
use super::path_words::{WordUse, path_words};
use super::paths::{PathContext, PathOf, Segment, start, text_of};
use super::shell::{Analysis, Files, Use, Word};

/// Returns the files that the command opens to read and may also change, and those that it opens to
/// write and may also read, because it uses the name of an open file, such as `/dev/fd/3`. Each has
/// the second use.
pub(super) fn reopened(
    analysis: &Analysis,
    context: &PathContext,
    folders: &Folders,
) -> Vec<(Use, Word)> {
    let may_reopen = |changes: bool| {
        let is_used = |word_use: &WordUse| {
            word_use.is_changed || !changes && word_use.files != Files::Unopened
        };
        let is_path = |path_use: &Use| match path_use {
            Use::Write | Use::Target | Use::TargetInFolder => changes,
            path_use => *path_use == Use::Read && !changes,
        };
        let words = path_words(analysis).map(|(_, word)| word);
        let words = words.filter(|(_, word_use)| is_used(word_use));
        let paths = analysis.paths.iter();
        let paths = paths.filter(|(path_use, _)| is_path(path_use));
        let paths = paths.map(|(_, word)| word.clone());
        let mut words = paths.chain(words.map(|(word, _)| word));
        words.any(|word| is_open_file(&PathOf::of_word(&word, context, folders), changes))
    };

    let mut reopened = Vec::new();
    for (opened_use, other_use) in [(Use::Read, Use::Target), (Use::Write, Use::Read)] {
        let mut files = analysis.used(opened_use).peekable();
        if files.peek().is_some() && may_reopen(opened_use == Use::Read) {
            reopened.extend(files.map(|file| (other_use, file.clone())));
        }
    }
    reopened
}

/// Returns `true` if the path may be an open file. With `changes`, the output and the errors of a
/// program do not count, which it writes in any case; without, its input does not.
fn is_open_file(path: &PathOf, changes: bool) -> bool {
    let (names, usual_numbers): (&[&str], &[&str]) = if changes {
        (&["stdin"], &["1", "2"])
    } else {
        (&["stdout", "stderr"], &["0"])
    };
    let is_unusual = |number: &Segment| match text_of(number) {
        Some(number) => !usual_numbers.contains(&number.as_str()),
        None => true,
    };
    path.0.iter().any(|path| match &path[..] {
        [] | [Segment::Unknown, ..] => false,
        [dev, name] => may_be(dev, "dev") && names.iter().any(|known| may_be(name, known)),
        [dev, fd, number] => may_be(dev, "dev") && may_be(fd, "fd") && is_unusual(number),
        [proc, _, .., fd, number] => may_be(proc, "proc") && may_be(fd, "fd") && is_unusual(number),
        _ => false,
    })
}

/// Returns `true` if an absolute path is a door or leads through one.
pub(super) fn is_door(path: &str) -> bool {
    leads_elsewhere(&start(Some(path), ""))
}

/// Returns `true` if the path is a door, leads through one, or lies in a folder that is open.
pub(super) fn leads_elsewhere(path: &[Segment]) -> bool {
    const DOORS: [&str; 8] = ["root", "cwd", "fd", "task", "environ", "mem", "maps", "exe"];
    const OPEN: [&str; 4] = ["fd", "stdin", "stdout", "stderr"];
    let is_any = |segment: &Segment, names: &[&str]| names.iter().any(|name| may_be(segment, name));
    match path {
        [proc, _, door, ..] if may_be(proc, "proc") && is_any(door, &DOORS) => true,
        [dev, door, _] => may_be(dev, "dev") && is_any(door, &OPEN[1..]),
        [dev, door, _, _, ..] => may_be(dev, "dev") && is_any(door, &OPEN),
        _ => false,
    }
}

/// Returns `true` if the path lies in a folder that a process has open, or works in.
pub(super) fn lies_in_open_folder(path: &[Segment]) -> bool {
    match path {
        [] | [Segment::Unknown, ..] => false,
        [proc, _, door, names @ ..] if may_be(proc, "proc") => {
            let is_folder = ["root", "cwd", "task"]
                .iter()
                .any(|name| may_be(door, name));
            is_folder && !names.is_empty() || may_be(door, "fd") && names.len() > 1
        }
        path => leads_elsewhere(path),
    }
}

/// Returns `true` if the segment may be the name.
fn may_be(segment: &Segment, name: &str) -> bool {
    match segment {
        Segment::Name(given) => match given.first() {
            Some(GlobToken::Char(first)) if !name.starts_with(*first) => false,
            _ => intersect(given, &tokens(name)),
        },
        _ => true,
    }
}
