//! The entry point of the analysis.

use super::analysis::{Analysis, Reason, SimpleCommand, Use};
use super::context::{Context, MAX_LENGTH};
use super::inspect::inspect;
use super::parser::Parser;
use super::word::Word;
use crate::backend::Shell;
use crate::util::text::is_hidden;

/// Takes a command apart as `shell` reads it.
pub(crate) fn analyse(command: &str, shell: Shell) -> Analysis {
    let (mut is_off, mut has_own_home) = (false, false);
    // It is read again with what the reading before found: at most three readings, since flags are
    // only set.
    loop {
        let mut cx = Context {
            shell,
            is_chain: true,
            has_own_home,
            ..Context::default()
        };
        cx.loops.is_off = is_off;
        read(&mut cx, command);
        let flags = (is_off, has_own_home);
        is_off |= cx.loops.are_wrong() || cx.is_deceived();
        has_own_home |= cx.sets_folders || cx.analysis.sets_names;
        if flags == (is_off, has_own_home) {
            return finish(cx);
        }
    }
}

fn read(cx: &mut Context, command: &str) {
    if command.len() > MAX_LENGTH {
        return cx.leave_out(Reason::Limit("length"));
    }

    for c in command.chars() {
        if (c.is_control() && !matches!(c, '\t' | '\n')) || is_hidden(c) {
            cx.note(Reason::Character(c));
        }
    }

    // Some shells drop these: what is denied without them stays denied.
    let text = command.replace(|c: char| c == '\0' || is_hidden(c), "");
    cx.has_extglob = text.contains("extglob");
    Parser::read(cx, &text);
    inspect(cx, &text);
}

fn finish(mut cx: Context) -> Analysis {
    let commands = &cx.analysis.commands;
    let first = commands.iter().find(|command| !command.is("mkdir"));
    let begins_with_cd = first.is_some_and(|command| command.is("cd"));
    let is_change = |command: &&SimpleCommand| {
        let is_own = command.via.is_empty() && command.piped.is_none() && !command.guessed;
        command.is("cd") && is_own
    };
    let change_count = commands.iter().filter(is_change).count();
    let is_certain = cx.analysis.used(Use::Directory).count() == change_count;

    // A program that writes may run in the folder before it, and in those before that one unless
    // `..` has left them; in any folder if it is not certain when it runs.
    let is_sure = is_certain && !cx.has_other_changes;
    let is_listed = |c: &SimpleCommand| c.via.is_empty() && !c.guessed && c.runner.is_none();
    let mut writers = commands.iter().filter(|command| command.is_writer());
    let runs_anywhere = writers.any(|command| !is_sure || !is_listed(command));
    let is_parent = |word: &Word| word.is("..");
    let (mut has_writers, mut current) = (Vec::new(), 0);
    for command in commands {
        if is_change(&command) {
            let leaves = command.argv.get(1).is_some_and(is_parent);
            current = if leaves { has_writers.len() } else { current };
            has_writers.push(runs_anywhere);
        } else if command.is_writer() {
            has_writers[current..].fill(true);
        }
    }

    cx.analysis.begins_with_cd = cx.is_chain && begins_with_cd && is_certain;
    if cx.analysis.begins_with_cd {
        cx.analysis.follow_changes();
    }

    let folders = cx.analysis.used(Use::Directory).enumerate();
    let folders = folders.filter(|(at, _)| has_writers.get(*at).copied().unwrap_or(runs_anywhere));
    cx.analysis.work_folders = folders.map(|(_, word)| word.clone()).collect();
    cx.analysis.steps = cx.work;
    cx.analysis
}
