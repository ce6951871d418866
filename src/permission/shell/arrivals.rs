//! The places where programs put what may be a link.

use super::analysis::{Arrival, Payload};
use super::context::Context;
use super::row::Row;
use super::targets::local_name;
use super::word::Word;

/// The maximum number of places that are distinguished; with more, a link may lie anywhere.
const MAX_ARRIVALS: usize = 256;

/// Notes the places at which a program may put a link, because it copies links as links, moves,
/// links, unpacks or patches.
pub(super) fn arrivals(cx: &mut Context, row: &Row<'_>) {
    let (program, arguments) = (row.program, &row.arguments);
    let operands = &arguments.operands;
    let has = |letters: &[char]| {
        let mut names = arguments.names.iter();
        names.any(|name| !name.starts_with("--") && name.contains(letters))
    };
    let has_long = |start: &str| arguments.names.iter().any(|name| name.starts_with(start));
    let is_symbolic = has(&['s']) || has_long("--sy");
    let has_link = program.takes("link") || arguments.has_mark("link") || row.name == "link";
    let keeps_links = match row.name {
        "cp" | "gcp" => {
            // What is no letter may be the beginning of `--no-dereference`.
            let keeps = has(&['d', 'P']) || has_long("--no-d");
            arguments.has_mark("tree") || keeps || !arguments.unknown.is_empty()
        }
        _ => program.takes("move") || program.takes("into") && program.takes("tree"),
    };
    let here = Word::from_text(".");
    let has_contents = program.takes("tar") && arguments.has_mark("extract")
        || program.takes("unpack") && !arguments.has_mark("list")
        || row.name == "patch";
    if has_contents {
        let (first, others) = (arguments.values_of("cd"), arguments.values_of("unpack"));
        let mut folders: Vec<&Word> = first.chain(others).collect();
        if folders.is_empty() {
            folders.push(&here);
        }
        for folder in folders {
            add(cx, row, Payload::Contents, folder);
        }
    } else if has_link || keeps_links {
        let folder = arguments.values_of("into").next();
        let folder = folder.or((operands.len() == 1).then_some(&here));
        let target = folder.or(operands.last().copied()).unwrap_or(&here);
        let sources = operands.iter().copied();
        for source in sources.filter(|source| !std::ptr::eq(*source, target)) {
            // One that is elsewhere is missing here.
            let is_remote = program.takes("tree") && source.to_string().contains(':');
            let payload = if has_link && is_symbolic {
                Payload::Link
            } else if is_remote {
                Payload::Source(Word::unknown())
            } else {
                Payload::Source(source.clone())
            };
            add(cx, row, payload, target);
        }
    }
}

/// Notes the folder that a subcommand of git checks files out to.
pub(super) fn checked_out(cx: &mut Context, row: &Row<'_>, subcommand: &str, first: &str) {
    let (arguments, operands) = (&row.arguments, &row.arguments.operands);
    let folder = match subcommand {
        // Without an operand, they change the branch alone.
        "checkout" | "switch" if operands.is_empty() && !arguments.has_mark("here") => return,
        "reset" if !arguments.has_mark("here") => return,
        "stash" if !matches!(first, "pop" | "apply" | "branch") => return,
        "worktree" if first != "add" => return,
        "clone" | "worktree" => operands.get(1).map_or_else(
            || Word::from_text(format!("./{}", local_name(first).trim_end_matches(".git"))),
            |folder| (*folder).clone(),
        ),
        "checkout" | "switch" | "restore" | "reset" | "stash" | "merge" | "pull" | "rebase"
        | "am" | "apply" | "cherry-pick" | "revert" | "bisect" | "read-tree"
        | "sparse-checkout" => Word::from_text(".."),
        _ => return,
    };
    add(cx, row, Payload::Contents, &folder);
}

fn add(cx: &mut Context, row: &Row<'_>, payload: Payload, target: &Word) {
    let target = Some(target).filter(|_| cx.analysis.arrivals.len() < MAX_ARRIVALS);
    // What only may run has words that are not known, which may be any path.
    if !row.command.guessed {
        cx.analysis.arrivals.push(Arrival {
            command: row.index,
            payload,
            target: target.cloned().unwrap_or_else(Word::unknown),
        });
    }
}
