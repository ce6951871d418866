//! Programs that run code: interpreters, `make`, clients of databases, programs of packages.

use crate::permission::programs::{Arguments, Model, Program, model};

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::operands::trees;
use super::options::{is_plain_sql, options, runs};
use super::shells::is_special;
use super::word::Word;
use super::{peel, shells};

/// A program of a package: its options are those of a program of its name.
pub(super) fn packaged(cx: &mut Context, name: &str, command: &SimpleCommand, words: &[&Word]) {
    let Some(first) = words
        .first()
        .filter(|_| !matches!(name, "ssh" | "mosh" | "autossh"))
    else {
        return;
    };

    let at = command.argv.iter().position(|word| word == *first);
    let argv = at.map(|at| &command.argv[at..]).unwrap_or_default();
    if let Some(program) = first.literal() {
        tail_options(cx, &program, command, argv);
    }
}

/// Notes what the options of the program behind `command` do.
fn tail_options(cx: &mut Context, name: &str, command: &SimpleCommand, argv: &[Word]) {
    let Model {
        program: Some(program),
        start,
        ..
    } = model(name, argv)
    else {
        return;
    };

    let arguments = Arguments::read(program, argv, start);
    let tail = SimpleCommand {
        argv: argv.to_vec(),
        ..command.clone()
    };
    options(cx, name, &tail, program, &arguments);
    trees(cx, &tail, program, &arguments);
}

/// The program of an interpreter: a file, its input, or a module.
pub(super) fn interpreted(
    cx: &mut Context,
    index: usize,
    name: &str,
    command: &SimpleCommand,
    program: &Program,
    arguments: &Arguments<'_>,
) {
    if let Some(module) = arguments.values_of("module").next() {
        let module_name = module.literal().unwrap_or_default();
        let mut words = command.argv.iter();
        let at = words.position(|word| word == module || has_module(word, module));
        let argv = match at {
            Some(at) => [std::slice::from_ref(module), &command.argv[at + 1..]].concat(),
            None => Vec::new(),
        };
        let names = [module_name.clone(), format!("module.{module_name}")];
        let known_name = names
            .iter()
            .find(|name| model(name, &argv).program.is_some());
        match known_name {
            Some(known_name) => {
                tail_options(cx, known_name, command, &argv);
                peel::guess(cx, name, command, argv);
            }
            None => {
                cx.note(Reason::Script(module.to_string()));
                cx.found.commands[index].unlisted = at.map(|at| at + 1);
            }
        }

        return;
    }

    let Some(file) = arguments.operands.first() else {
        if arguments.unknown.is_empty() {
            shells::input(cx, name, command, false);
        }

        return;
    };

    match file.literal() {
        None => cx.note(Reason::InlineCode(name.to_owned())),
        Some(file) if file == "-" || is_special(&file) => {
            shells::input(cx, name, command, false);
        }
        Some(file) if program.takes("script") => cx.note(Reason::Script(file)),
        Some(_) => {}
    }
}

/// Returns `true` if the word is a short option with the module in it, such as `-mpip`.
fn has_module(word: &Word, module: &Word) -> bool {
    let prefix = word.literal_prefix();
    let end = prefix.find('m').filter(|_| prefix.starts_with('-'));
    let value = end.and_then(|end| word.without_prefix(&prefix[..=end]));
    value.is_some_and(|value| value == *module)
}

/// Notes what `make` may run because of the variables that are set for it.
pub(super) fn settings(cx: &mut Context, name: &str, command: &SimpleCommand, words: &[&Word]) {
    for word in words.iter().filter(|word| !is_target(word)) {
        if is_plain_setting(word) {
            runs(cx, name, "=", command, word);
        } else {
            cx.note(Reason::Option(name.to_owned(), word.to_string()));
        }
    }
}

fn is_target(word: &Word) -> bool {
    word.literal().is_some_and(|text| !text.contains('='))
}

/// Returns `true` if a word of `make` is a target, or sets a variable to something harmless.
fn is_plain_setting(word: &Word) -> bool {
    let prefix = word.literal_prefix();
    let Some((variable, value)) = prefix.split_once('=') else {
        return true;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,+-".contains(c);
    word.literal().is_some()
        && variable.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        && !variable.contains("SHELL")
        && !matches!(
            variable,
            "CC" | "CXX" | "LD" | "AR" | "AS" | "CPP" | "RM" | "MAKE" | "MAKEFLAGS" | "MAKEFILES"
        )
        && value.chars().all(is_plain)
}

/// Clients of databases: their own commands in the input may run programs.
pub(super) fn statements(
    cx: &mut Context,
    index: usize,
    name: &str,
    command: &SimpleCommand,
    words: &[&Word],
) {
    // The first word names the database.
    let is_plain = |word: &&Word| word.literal().is_some_and(|text| is_plain_sql(&text));
    if !words.iter().skip(1).all(is_plain) {
        cx.inline_code(index, name);
    }

    let escapes = |text: &str| match name {
        "sqlite3" => text.lines().any(|line| line.trim_start().starts_with('.')),
        "psql" => text.contains('\\'),
        _ => text.contains('\\') || text.contains("system"),
    };

    match &command.input {
        Some(input) => match input.literal() {
            Some(text) if !escapes(&text) => {}
            Some(_) => cx.note(Reason::InlineCode(name.to_owned())),
            None => cx.note(Reason::Script(format!("the input of {name}"))),
        },
        None if command.piped.is_some() => {
            cx.note(Reason::Script(format!("the input of {name}")));
        }
        None => {}
    }
}
