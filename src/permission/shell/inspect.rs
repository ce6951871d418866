//! The meaning of each command: wrappers are removed, dangerous ones noted.

use crate::permission::programs::{first_operand, is_launcher, runs_any, runs_elsewhere};

use super::analysis::{Reason, SimpleCommand, Use};
use super::context::Context;
use super::word::{Part, Word};
use super::{builtins, operands, peel, shells};

/// Directories that hold the system's own programs.
const SYSTEM: [&str; 8] = [
    "/bin/",
    "/sbin/",
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/local/bin/",
    "/usr/local/sbin/",
    "/opt/homebrew/bin/",
    "/run/current-system/sw/bin/",
];

/// Looks at every command, those it finds on the way included.
pub(super) fn inspect(cx: &mut Context) {
    let mut at = 0;
    loop {
        while let Some((from, text)) = cx.later.pop() {
            let command = SimpleCommand::default();
            shells::run_text(cx, &command, &from, &text);
        }

        let Some(command) = cx.found.commands.get(at).cloned() else {
            break;
        };

        cx.guessing = command.guessed;
        one(cx, at, &command);
        cx.guessing = false;
        at += 1;
        if cx.full {
            // It is noted: no rule allows the command any more.
            break;
        }
    }

    cx.check_numbers();
}

fn one(cx: &mut Context, index: usize, command: &SimpleCommand) {
    let Some(first) = command.argv.first() else {
        return;
    };

    if first.literal().is_none() {
        unknown_program(cx, command, first);
    }

    let Some(name) = first.basename() else {
        return;
    };

    if let Some(path) = first.literal()
        && path.contains('/')
        && !is_system_program(&path)
    {
        cx.note(Reason::Script(path));
    }

    dispatch(cx, index, &name, command);
}

fn dispatch(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) {
    if builtins::builtin(cx, name, command) {
        return;
    }

    if peel::peel(cx, index, name, command) {
        return;
    }

    if shells::SHELLS.contains(&name) {
        return shells::shell(cx, name, index, command);
    }

    let start = first_operand(name, &command.argv);
    let words = command.argv[start..]
        .iter()
        .filter(|word| !word.starts_with_dash());
    let words: Vec<String> = words.take(2).map(ToString::to_string).collect();
    if is_launcher(name, &words) {
        return loose(cx, name, command);
    }

    if name == "uv" && words.first().is_some_and(|word| word == "pip") {
        peel::guess(cx, name, command, command.argv[start..].to_vec());
    }

    if runs_any(name, &words) {
        cx.found.commands[index].script = Some(start);
    }

    if runs_elsewhere(name, &words) {
        mounts(cx, name, command);
        cx.note(Reason::Script(name.to_owned()));
        peel::guess_tails(cx, name, command);
        if runs_shell(command) {
            cx.note(Reason::InlineCode(name.to_owned()));
        }
    }

    match name {
        "fd" | "fdfind" if command.argv.iter().any(may_start) => {
            peel::guess_tails(cx, name, command)
        }
        "cp" | "mv" | "ln" | "install" | "link" => renamed(cx, name, command),
        _ => {}
    }

    operands::modelled(cx, index, name, command);
}

/// Returns `true` if an option of `fd` may start a program.
fn may_start(word: &Word) -> bool {
    let prefix = word.literal_prefix();
    prefix.starts_with("--ex") || prefix.starts_with('-') && prefix.contains(['x', 'X'])
}

/// Folders that a container is given may hold any file.
fn mounts(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let is_container = matches!(name, "docker" | "podman" | "nerdctl");
    let is_mount = |word: &Word| {
        let prefix = word.literal_prefix();
        prefix.starts_with("-v") || prefix.starts_with("--vol") || prefix.starts_with("--mount")
    };
    if is_container && command.argv.iter().any(is_mount) {
        cx.add_path(Use::Read, Word::unknown());
        cx.add_path(Use::Target, Word::unknown());
    }
}

/// Returns `true` if a shell is given a script somewhere in the words.
fn runs_shell(command: &SimpleCommand) -> bool {
    let mut words = command.argv.iter();
    words.any(|word| {
        word.basename()
            .is_some_and(|name| shells::SHELLS.contains(&&*name))
    }) && words.any(|word| word.literal_prefix().starts_with("-c"))
}

/// A program that runs what stands somewhere in its arguments.
fn loose(cx: &mut Context, name: &str, command: &SimpleCommand) {
    peel::every_tail(cx, name, command);
    if matches!(name, "watch" | "parallel" | "script" | "su" | "runuser") {
        let words = command.argv.iter().skip(1);
        let words: Vec<Word> = words
            .filter(|word| !word.starts_with_dash())
            .cloned()
            .collect();
        shells::run_words(cx, command, name, &words);
    }
}

/// The program's name is only known when the shell runs; what it probably is, is looked at too.
fn unknown_program(cx: &mut Context, command: &SimpleCommand, first: &Word) {
    let only_home = first
        .parts
        .iter()
        .all(|part| matches!(part, Part::Text { .. } | Part::Home(_)));
    if only_home {
        cx.note(Reason::Script(first.to_string()));
        return;
    }

    cx.note(Reason::DynamicCommand(first.to_string()));
    for guess in cx.guesses(first, true) {
        let mut argv = guess
            .split([' ', '\t', '\n', '_', ',', ':'])
            .filter(|word| !word.is_empty())
            .map(Word::from_text)
            .collect::<Vec<_>>();
        if guess.contains(['_', ',', ':']) {
            peel::inner(cx, "$", command, vec![Word::from_text(guess.clone())]);
        }

        argv.extend_from_slice(&command.argv[1..]);
        if !argv.is_empty() {
            peel::inner(cx, "$", command, argv);
        }
    }

    if first.may_split() && command.argv.len() > 1 {
        // It may expand to nothing.
        peel::inner(cx, "$", command, command.argv[1..].to_vec());
    }
}

/// A system's program under another name: a rule that denies the one denies the other.
fn renamed(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let outer = std::mem::replace(&mut cx.guessing, true);
    for word in &command.argv[1..] {
        let is_program = word.literal().is_some_and(|path| is_system_program(&path));
        if is_program {
            peel::inner(cx, name, command, vec![word.clone()]);
        }
    }
    cx.guessing = outer;
}

fn is_system_program(path: &str) -> bool {
    let name = path.rsplit('/').next();
    SYSTEM
        .iter()
        .any(|directory| path.strip_prefix(directory) == name)
}
