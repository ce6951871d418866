//! Shells that are given a script: as a word, as input, as a file.

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::parser::Parser;
use super::word::{Part, Word};

/// Shells whose language is near enough to read.
pub(super) const SHELLS: [&str; 9] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "ksh93",
];

/// The script a word becomes: what is not known stands as a variable nobody sets.
fn script_of(word: &Word) -> (String, bool) {
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
                text.push_str("${_}");
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
        for guess in cx.guesses(word, true) {
            run_text(cx, command, via, &guess);
        }
    }
    run_text(cx, command, via, &text);
}

/// Parses `text` as a script that `command` runs.
pub(super) fn run_text(cx: &mut Context, command: &SimpleCommand, via: &str, text: &str) {
    let mut chain = command.via.clone();
    if chain.len() >= 32 {
        cx.note(Reason::Limit("nesting"));
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

/// A call of a shell.
pub(super) fn shell(cx: &mut Context, name: &str, index: usize, command: &SimpleCommand) {
    let argv = &command.argv;
    let mut at = 1;
    let mut takes_script = false;
    let mut reads_input = false;
    while let Some(word) = argv.get(at) {
        let Some(text) = word.literal() else { break };
        if text == "--" || text == "-" {
            at += 1;
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            if matches!(long, "version" | "help") {
                return;
            }
            let takes_file = matches!(long, "rcfile" | "init-file");
            if takes_file
                || !matches!(
                    long,
                    "norc"
                        | "noprofile"
                        | "posix"
                        | "login"
                        | "verbose"
                        | "restricted"
                        | "noediting"
                )
            {
                cx.note(Reason::Option(name.to_owned(), text.clone()));
            }
            at += 1 + usize::from(takes_file);
            continue;
        }
        let is_option = text.len() > 1 && text.starts_with(['-', '+']);
        if !is_option {
            break;
        }
        takes_script |= text.starts_with('-') && text.contains('c');
        reads_input |= text.contains('s');
        if text.contains('i') {
            cx.note(Reason::Option(name.to_owned(), text.clone()));
        }
        at += 1 + usize::from(text.ends_with(['o', 'O']));
    }
    if !matches!(name, "bash" | "rbash" | "sh" | "dash" | "ash") {
        // Near, but not the same language.
        cx.note(Reason::InlineCode(name.to_owned()));
    }
    let Some(word) = argv.get(at) else {
        return input(cx, name, command, true);
    };
    if takes_script {
        let via = format!("{name} -c");
        if argv.len() > at + 1 {
            // Positional parameters of the script.
            cx.any_text = true;
        }
        if matches!(name, "sh" | "dash" | "ash")
            && word.literal().is_none_or(|t| {
                t.contains("[[") || t.contains("((") || t.contains("$'") || t.contains("$\"")
            })
        {
            // A shell without these words reads them as commands.
            cx.note(Reason::InlineCode(via.clone()));
        }
        return run_word(cx, command, &via, word);
    }
    if reads_input {
        return input(cx, name, command, true);
    }
    match word.literal() {
        Some(file) if !file.starts_with("/dev/") && !file.starts_with("/proc/") => {
            cx.note(Reason::Script(file));
            cx.found.commands[index].script = Some(at);
        }
        _ => input(cx, name, command, false),
    }
}

/// A shell, or another interpreter, that reads program text from its input.
pub(super) fn input(cx: &mut Context, name: &str, command: &SimpleCommand, is_shell: bool) {
    if let (Some(word), true) = (&command.input, is_shell) {
        return run_word(cx, command, &format!("{name} <<"), word);
    }
    cx.note(Reason::ShellInput(name.to_owned()));
    if let Some(Some(before)) = command.piped {
        let source = cx.found.commands[before].clone();
        match source.program().as_deref() {
            Some("echo" | "printf") => {
                let words = source.argv[1..]
                    .iter()
                    .filter(|word| !word.starts_with_dash())
                    .cloned()
                    .collect::<Vec<_>>();
                run_words(cx, command, name, &words);
                for word in &words {
                    run_word(cx, command, name, word);
                }
            }
            _ => {
                if let Some(word) = &source.input {
                    run_word(cx, command, name, word);
                }
            }
        }
    }
}
