//! The folders that programs copy with all that is in them.

use super::analysis::TreeCopy;
use super::context::Context;
use super::row::Row;
use super::targets::{chained, joined};
use super::word::Word;

/// The maximum number of copies that are distinguished; with more, a copy may write anywhere.
const MAX_COPIES: usize = 256;

/// Notes the folders that a program copies, file by file, onto a folder that may exist already, so
/// that a link in it may be followed. Programs that replace such a link with a file, and programs
/// that move, are not noted.
pub(super) fn tree_copies(cx: &mut Context, row: &Row<'_>) {
    let (arguments, operands) = (&row.arguments, &row.arguments.operands);
    let mut names = arguments.names.iter();
    let (is_tree, is_remote) = match row.name {
        "cp" | "gcp" => (arguments.has_mark("tree"), false),
        "scp" | "sftp" => (arguments.has_mark("links"), true),
        // It replaces links unless an option keeps those to folders.
        "rsync" => {
            let keeps = |name: &String| !name.starts_with("--") && name.contains('K');
            (names.any(keeps), true)
        }
        _ => return,
    };
    let has_unknown = !arguments.unknown.is_empty();
    if !is_tree && !has_unknown {
        return;
    }

    let folder = arguments.values_of("into").next();
    let Some(target) = folder.or(operands.last().copied()) else {
        return;
    };
    let is_elsewhere = |word: &Word| is_remote && word.to_string().contains(':');
    // The words of what only may run may be any path.
    if is_elsewhere(target) || row.command.guessed && target.is_dynamic() {
        return;
    }

    let has_parents = has_unknown || arguments.has_mark("parents");
    let follows_links = has_unknown || is_remote || arguments.has_mark("follow");
    // Wildcards may match several folders, of which the last is the target.
    let is_source = |word: &&Word| !std::ptr::eq(*word, target) || word.is_glob();
    for source in operands.iter().copied().filter(is_source) {
        let source = Some(source).filter(|source| !is_elsewhere(source));
        let source = source.cloned().unwrap_or_else(Word::unknown);
        let place = has_parents.then(|| chained(joined(target, "/"), &source));
        for target in [Some(target.clone()), place].into_iter().flatten() {
            let count = cx.analysis.tree_copies.len();
            if count >= MAX_COPIES {
                return;
            }
            let target = Some(target).filter(|_| count + 1 < MAX_COPIES);
            cx.analysis.tree_copies.push(TreeCopy {
                command: row.index,
                source: source.clone(),
                target: target.unwrap_or_else(Word::unknown),
                follows_links,
            });
        }
    }
}
