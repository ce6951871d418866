//! Options that run programs, write files or change settings.

use crate::permission::programs::{Arguments, Dash, Program, is_uncertain};

use super::analysis::{Reason, SimpleCommand, Tree};
use super::context::Context;
use super::word::{Part, Word};
use super::{git, shells};

/// Notes what the options of `command` do beyond what its operands do.
pub(super) fn options(
    cx: &mut Context,
    name: &str,
    command: &SimpleCommand,
    program: &Program,
    arguments: &Arguments<'_>,
) {
    for option in &arguments.unknown {
        match program.dash {
            Dash::Harmless => {}
            Dash::Writes => cx.note(Reason::Effect(name.to_owned(), option.name.clone())),
            Dash::Runs if program.takes("code") || program.takes("script") => {
                cx.note(Reason::InlineCode(name.to_owned()));
            }
            Dash::Runs => {
                cx.note(Reason::Option(name.to_owned(), option.name.clone()));
                if let Some(value) = &option.value {
                    runs(cx, name, &option.name, command, value);
                }
            }
        }
    }

    for at in &arguments.uncertain {
        let word = &command.argv[*at];
        if program.dash != Dash::Harmless && may_be_option(cx, name, command, word) {
            cx.note(match program.dash {
                Dash::Runs => Reason::Option(name.to_owned(), word.to_string()),
                _ => Reason::Effect(name.to_owned(), word.to_string()),
            });
        }
    }

    for (mark, option) in &arguments.marks {
        match *mark {
            "edit" => cx.note(Reason::Edit(name.to_owned(), option.clone())),
            "effect" => cx.note(Reason::Effect(name.to_owned(), option.clone())),
            "hidden" => cx.note(Reason::Option(name.to_owned(), option.clone())),
            _ => {}
        }
    }

    for (kind, value) in &arguments.values {
        option_value(cx, name, command, program, kind, value);
    }
}

/// Notes what the value of an option is used for.
fn option_value(
    cx: &mut Context,
    name: &str,
    command: &SimpleCommand,
    program: &Program,
    kind: &str,
    value: &Word,
) {
    match kind {
        "write" => cx.found.writes.push(value.clone()),
        "into" => cx.found.targets.push(value.clone()),
        "cd" => {
            cx.found.directories.push(value.clone());
            cx.found.folders.push(value.clone());
            if program.takes("tar") || program.takes("cut") {
                cx.found.targets.push(value.clone());
            }
        }
        "unpack" => {
            cx.found.targets.push(value.clone());
            cx.found.folders.push(value.clone());
            cx.found.trees.push(Tree::new(value.clone(), true));
        }
        "names" => cx.found.reads.push(Word::unknown()),
        "file" => cx.found.folders.push(value.clone()),
        "git" => {
            cx.found.directories.push(value.clone());
            cx.found.repositories.push(value.clone());
        }
        "setting" => git::setting(cx, command, value),
        "run" => runs(cx, name, kind, command, value),
        "sql" if value.literal().is_none_or(|text| is_escape(&text)) => {
            cx.note(Reason::Option(name.to_owned(), value.to_string()));
        }
        "flag" if value.literal_prefix().contains("plugin") => {
            cx.note(Reason::Option(name.to_owned(), value.to_string()));
        }
        "name" if value.literal().is_none_or(|name| name.contains('/')) => {
            cx.note(Reason::Option(name.to_owned(), value.to_string()));
        }
        _ => {}
    }
}

/// Whether a statement for a database may be a command of its client.
fn is_escape(text: &str) -> bool {
    text.contains('\\') || text.contains("system") || text.starts_with('.')
}

/// Notes words of a program that only the running shell knows, and that may be options.
pub(super) fn uncertain_words(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let words = command.argv[1..].iter();
    let is_end = |word: &&Word| word.literal().is_some_and(|word| word == "--");
    for word in words.take_while(|word| !is_end(word)) {
        if is_uncertain(word) && may_be_option(cx, name, command, word) {
            cx.note(Reason::Option(name.to_owned(), word.to_string()));
        }
    }
}

/// Notes that the value of an option may be run.
fn runs(cx: &mut Context, name: &str, option: &str, command: &SimpleCommand, value: &Word) {
    // `exec=program`, `ProxyCommand=program`.
    let prefix = value.literal_prefix();
    let setting = prefix.split(' ').next().unwrap_or_default();
    let value = match setting.split_once('=') {
        Some((key, _)) => value.without_prefix(&format!("{key}=")),
        None => None,
    }
    .unwrap_or_else(|| value.clone());
    let outer = std::mem::replace(&mut cx.guessing, true);
    shells::run_word(cx, command, &format!("{name} {option}"), &value);
    cx.guessing = outer;
}

/// Whether a word that is only known when the command runs may be an option.
fn may_be_option(cx: &mut Context, name: &str, command: &SimpleCommand, word: &Word) -> bool {
    // These hold a folder, or nothing but digits.
    const PLAIN: [&str; 9] = [
        "HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "#", "?", "$", "!",
    ];
    if let Some(Part::Value {
        name: Some(variable),
        ..
    }) = word.parts.first()
        && PLAIN.contains(&variable.as_str())
        && !cx.constants.contains_key(variable)
        && !cx.unknown.contains(variable)
    {
        return false;
    }

    let guesses = cx.guesses(word, false);
    let is_value = |text: &String| {
        !text.starts_with(['-', '*', '?', '[']) && !text.contains([' ', '\t', '\n'])
    };
    if !guesses.is_empty() && guesses.iter().all(is_value) {
        return false;
    }

    for guess in guesses {
        shells::run_text(cx, command, name, &guess);
    }

    true
}
