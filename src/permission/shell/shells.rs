//! Shells that are given a script: as a word, as input, as a file.

use std::slice;

use super::analysis::{Reason, SimpleCommand, Use};
use super::builtins::{changes_reading, is_harmless_setting};
use super::context::Context;
use super::inputs;
use super::parser::Parser;
use super::word::{OUTER, Part, Word};
use crate::backend::Shell;
use crate::util::path::lexical;

/// Shells whose language is near enough to read.
pub(crate) const SHELLS: [&str; 9] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "ksh93",
];

/// Returns the script that a word becomes, with [`OUTER`] in the place of unknown values, and
/// `true` if no part of the word is a value, a wildcard or a brace.
pub(super) fn script_of(word: &Word) -> (String, bool) {
    let mut text = String::new();
    let mut complete = true;
    for part in &word.parts {
        match part {
            Part::Text { text: piece, .. } => text.push_str(piece),
            Part::Glob(c) | Part::Brace(c) => {
                complete = false;
                text.push(*c);
            }
            Part::Home(user) => {
                text.push('~');
                text.push_str(user);
            }
            Part::Value { .. } => {
                complete = false;
                text.push_str("${");
                text.push_str(OUTER);
                text.push('}');
            }
        }
    }

    (text, complete)
}

/// Parses the text of `word` as a script that `command` runs.
pub(super) fn run_word(cx: &mut Context, command: &SimpleCommand, via: &str, word: &Word) {
    let (text, complete) = script_of(word);
    if !complete {
        cx.note(Reason::InlineCode(via.to_owned()));
        if command.input_file.is_none() {
            cx.hide_own_script(word);
        }
    }
    if inputs::has_composed_part(cx, word) {
        cx.leave_out(Reason::InlineCode(via.to_owned()));
    }
    run_text(cx, command, via, &text);
    inputs::run_outputs(cx, command, via, slice::from_ref(word));
}

/// Parses `text` as a script that `command` runs.
pub(super) fn run_text(cx: &mut Context, command: &SimpleCommand, via: &str, text: &str) {
    let mut chain = command.via.clone();
    if chain.len() >= 32 {
        cx.leave_out(Reason::Limit("nesting"));
        return;
    }
    chain.push(via.to_owned());
    Parser::nested(cx, text, chain, command.piped.is_some());
}

/// Parses `words`, joined by blanks, as a script: `eval`, `trap`, `watch`.
pub(super) fn run_words(cx: &mut Context, command: &SimpleCommand, via: &str, words: &[Word]) {
    let mut joined = Word::default();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            joined.push_text(" ", true);
        }
        joined.parts.extend(word.parts.iter().cloned());
    }
    run_word(cx, command, via, &joined);
}

/// A call of a shell, which reads its script in its own way.
pub(super) fn shell(cx: &mut Context, name: &str, index: usize, command: &SimpleCommand) {
    let inner = match name {
        "bash" | "rbash" => Shell::Bash,
        _ => Shell::Posix,
    };
    let outer = std::mem::replace(&mut cx.shell, inner);
    let is_outer_zsh = std::mem::replace(&mut cx.is_zsh, name == "zsh");
    call(cx, name, index, command);
    if command.shared_input.is_some() {
        inputs::examine(cx, index, name, command);
    }
    cx.shell = outer;
    cx.is_zsh = is_outer_zsh;
}

fn call(cx: &mut Context, name: &str, index: usize, command: &SimpleCommand) {
    let Some(options) = Options::read(cx, name, &command.argv) else {
        return;
    };

    if !is_read(name) {
        // Near, but not the same language.
        cx.note(Reason::InlineCode(name.to_owned()));
    }

    let Some(word) = command.argv.get(options.end) else {
        return input(cx, name, command, true);
    };

    if options.takes_script {
        if command.argv.len() > options.end + 1 {
            // Positional parameters of the script.
            cx.analysis.sets_any = true;
        }

        run_word(cx, command, &format!("{name} -c"), word);
        return inputs::examine(cx, index, name, command);
    }

    if options.reads_input {
        // Positional parameters of the script.
        cx.analysis.sets_any = true;
        return input(cx, name, command, true);
    }

    let is_check = options.end == 2 && command.argv[1].is("-n");
    match word.literal() {
        // It reads the script without running it.
        Some(file) if !is_special(&file) && is_check && is_read(name) => {
            cx.add_path(Use::Read, word.clone());
        }
        Some(file) if !is_special(&file) => {
            cx.note(Reason::Script(file));
            cx.analysis.has_project = true;
            let (named, start) = command.named_by(index);
            cx.analysis.commands[named].script = Some(start + options.end);
        }
        _ => script_file(cx, name, command, word),
    }
}

/// Returns `true` for a shell whose own language is parsed. The other [`SHELLS`] are only near it.
fn is_read(name: &str) -> bool {
    matches!(name, "bash" | "rbash" | "sh" | "dash" | "ash")
}

/// Examines the script of a file that may be the input, or what a substitution prints.
pub(super) fn script_file(cx: &mut Context, name: &str, command: &SimpleCommand, file: &Word) {
    input(cx, name, command, false);
    if let Some(output) = file.without_prefix("/dev/fd/") {
        if inputs::has_composed_part(cx, &output) {
            cx.leave_out(Reason::ShellInput(name.to_owned()));
        }
        inputs::run_outputs(cx, command, name, &[output]);
    }
}

/// Returns `true` if the file may be the input of the program that reads it.
pub(super) fn is_special(file: &str) -> bool {
    let file = lexical(file);
    file.starts_with("/dev/") || file.starts_with("/proc/")
}

/// The options of a shell.
#[derive(Default)]
struct Options {
    /// The index of the first word that is no option.
    end: usize,
    /// `-c`: the next word is the script.
    takes_script: bool,
    /// `-s`: the script comes from the input.
    reads_input: bool,
}

impl Options {
    /// `None` when the shell only prints its help or version.
    fn read(cx: &mut Context, name: &str, argv: &[Word]) -> Option<Self> {
        let mut options = Self {
            end: 1,
            ..Self::default()
        };

        while let Some(text) = argv.get(options.end).and_then(Word::literal) {
            if text == "--" || text == "-" {
                options.end += 1;
                break;
            }

            if let Some(long) = text.strip_prefix("--") {
                match long {
                    "version" | "help" => return None,
                    "norc" | "noprofile" | "posix" | "login" | "verbose" | "restricted"
                    | "noediting" => {}
                    _ => cx.note(Reason::Option(name.to_owned(), text.clone())),
                }

                let takes_file = matches!(long, "rcfile" | "init-file");
                options.end += 1 + usize::from(takes_file);
                continue;
            }

            if text.len() < 2 || !text.starts_with(['-', '+']) {
                break;
            }

            options.takes_script |= text.starts_with('-') && text.contains('c');
            options.reads_input |= text.contains('s');
            // Each `o` has a name among the next words.
            let names = options.end + 1..;
            options.end += 1 + text.matches(['o', 'O']).count();
            let names = argv.get(names.start..options.end).unwrap_or_default();
            changes_reading(cx, name, names);
            let is_letter = |c: char| "-+ceuxvfsnobmhCETP".contains(c);
            if !text.chars().all(is_letter) || !names.iter().all(is_harmless_setting) {
                cx.note(Reason::Option(name.to_owned(), text));
            }
        }

        Some(options)
    }
}

/// A shell, or another interpreter, that reads program text from its input. What others than shells
/// read is not parsed.
pub(super) fn input(cx: &mut Context, name: &str, command: &SimpleCommand, is_shell: bool) {
    let is_script = is_shell && !command.is_other_input;
    if let (Some(word), None, true) = (&command.input, &command.shared_input, is_script) {
        return run_word(cx, command, &format!("{name} <<"), word);
    }

    cx.note(Reason::ShellInput(name.to_owned()));
    if is_shell || SHELLS.contains(&name) || matches!(name, "source" | ".") {
        if command.is_fed() && command.input_file.is_none() {
            cx.hide_script();
        }
        if inputs::has_composed_input(cx, command) {
            cx.leave_out(Reason::ShellInput(name.to_owned()));
        }
        for text in inputs::texts_of_input(cx, command) {
            run_text(cx, command, name, &text);
        }
    }
}
