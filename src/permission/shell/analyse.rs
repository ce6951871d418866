//! The entry point of the analysis.

use super::analysis::{Analysis, Reason, SimpleCommand, Use};
use super::context::{Context, MAX_LENGTH};
use super::inspect::inspect;
use super::loops::Loops;
use super::parser::Parser;
use crate::backend::Shell;
use crate::util::text::is_hidden;

/// Takes a command apart as `shell` reads it.
pub(crate) fn analyse(command: &str, shell: Shell) -> Analysis {
    let new_context = |distrusts| Context {
        shell,
        is_chain: true,
        loops: Loops::new(distrusts),
        distrusts,
        ..Context::default()
    };
    let mut cx = new_context(false);
    read(&mut cx, command);
    if cx.loops.are_wrong() || cx.is_deceived() {
        cx = new_context(true);
        read(&mut cx, command);
    }
    finish(cx)
}

fn read(cx: &mut Context, command: &str) {
    if command.len() > MAX_LENGTH {
        return cx.note(Reason::Limit("length"));
    }

    let mut dropped = String::new();
    let mut text = command;
    for c in command.chars() {
        if (c.is_control() && !matches!(c, '\t' | '\n')) || is_hidden(c) {
            cx.note(Reason::Character(c));
        }
    }

    if command.contains(|c: char| c == '\0' || is_hidden(c)) {
        // Some shells drop them: what is denied without them stays denied.
        dropped.extend(command.chars().filter(|&c| c != '\0' && !is_hidden(c)));
        text = &dropped;
    }

    // A parser that stops has noted why.
    let _noted = Parser::new(text, cx).script();
    inspect(cx);
}

fn finish(mut cx: Context) -> Analysis {
    let mut commands = cx.found.commands.iter();
    let first = commands.find(|command| !command.is("mkdir"));
    let begins_with_cd = first.is_some_and(|command| command.is("cd"));
    let is_change = |command: &&SimpleCommand| {
        let is_own = command.via.is_empty() && command.piped.is_none() && !command.guessed;
        command.is("cd") && is_own
    };
    let change_count = cx.found.commands.iter().filter(is_change).count();
    let is_certain = cx.found.used(Use::Directory).count() == change_count;
    cx.found.begins_with_cd = cx.is_chain && begins_with_cd && is_certain;
    if cx.found.begins_with_cd {
        cx.found.follow_changes();
    }

    cx.found.steps = cx.work;
    cx.found
}
