//! What each command found means: wrappers are peeled, dangerous ones noted.

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::word::{Part, Word};
use super::{awk, builtins, code, git, options, peel, sed, shells, wrappers};

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
    if builtins::builtin(cx, name, command) || peel::peel(cx, name, command) {
        return;
    }

    if shells::SHELLS.contains(&name) {
        return shells::shell(cx, name, index, command);
    }

    if code::interpreter(cx, name, command) {
        return;
    }

    let words = || command.argv.iter().skip(1).filter_map(Word::literal);
    if wrappers::is_loose(name, words()) {
        return loose(cx, name, command);
    }

    if wrappers::runs_elsewhere(name, words()) {
        cx.note(Reason::Script(name.to_owned()));
        peel::guess_tails(cx, name, command);
    }

    match name {
        "xargs" | "gxargs" => peel::xargs(cx, command),
        "find" | "fd" | "fdfind" | "gfind" => peel::exec_actions(cx, name, command),
        "awk" | "gawk" | "mawk" | "nawk" => awk::awk(cx, name, command),
        "sed" | "gsed" => sed::sed(cx, command),
        "git" => git::git(cx, command),
        "cp" | "mv" | "ln" | "install" | "link" => renamed(cx, name, command),
        "uniq" => second_is_written(cx, command, "fsw"),
        "xxd" => second_is_written(cx, command, "clsgoR"),
        "psql" | "sqlite3" | "mysql" | "mariadb" => code::statements(cx, name, command),
        "npm" | "pnpm" | "yarn" if changes_packages(command) => {
            cx.note(Reason::Option(name.to_owned(), "config set".to_owned()));
        }
        "go" if words().take(2).eq(["env".to_owned(), "-w".to_owned()]) => {
            cx.note(Reason::Effect("go".to_owned(), "env -w".to_owned()));
        }
        _ => {}
    }

    options::options(cx, name, command);
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

/// Whether a package manager is told to change its configuration or a package's scripts.
fn changes_packages(command: &SimpleCommand) -> bool {
    let is_one_of = |word: &Word, names: &[&str]| {
        let text = word.literal();
        text.is_some_and(|text| names.contains(&text.as_str()))
    };
    let sets = |word: &&Word| is_one_of(word, &["config", "set", "set-script", "pkg"]);
    command.argv.iter().skip(1).filter(sets).count() > 1
        || command
            .argv
            .get(1)
            .is_some_and(|word| is_one_of(word, &["set-script"]))
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

/// A system's program under another name: whoever is denied the one is denied the other.
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

/// For programs whose second operand is the file they write.
fn second_is_written(cx: &mut Context, command: &SimpleCommand, values: &str) {
    cx.found
        .writes
        .extend(options::operands(&command.argv, values).nth(1).cloned());
}

fn is_system_program(path: &str) -> bool {
    let name = path.rsplit('/').next();
    SYSTEM
        .iter()
        .any(|directory| path.strip_prefix(directory) == name)
}
