//! Builtins that run text, or change what later commands mean.

use super::analysis::{Reason, SimpleCommand};
use super::compound::is_name;
use super::context::Context;
use super::shells::{run_word, run_words};
use super::word::Word;

/// Looks at a builtin; `false` if `name` is none of those that matter.
pub(super) fn builtin(cx: &mut Context, name: &str, command: &SimpleCommand) -> bool {
    let args = &command.argv[1..];
    match name {
        "eval" => {
            cx.note(Reason::Builtin(name.to_owned()));
            run_words(cx, command, name, args);
        }
        "trap" => {
            if args
                .iter()
                .all(|word| word.literal().is_some_and(|w| w == "-p" || w == "-l"))
            {
                return true;
            }
            cx.note(Reason::Builtin(name.to_owned()));
            if let Some(text) = args.iter().find(|word| !word.starts_with_dash()) {
                run_word(cx, command, name, text);
            }
        }
        "alias" => {
            cx.note(Reason::Builtin(name.to_owned()));
            for word in args {
                if let Some((_, value)) = word.literal().as_deref().and_then(|w| w.split_once('='))
                {
                    run_word(cx, command, name, &Word::from_text(value));
                }
            }
        }
        "source" | "." | "hash" | "enable" | "shopt" | "bind" | "complete" | "compgen"
        | "compopt" | "fc" | "history" | "let" | "unalias" | "getopts" | "caller" | "disown"
        | "suspend" | "logout" => {
            cx.note(Reason::Builtin(name.to_owned()));
        }
        "jobs" => {
            if args
                .first()
                .is_some_and(|w| w.literal_prefix().starts_with("-x"))
            {
                super::peel::inner(cx, "jobs -x", command, args[1..].to_vec());
            }
        }
        "set" => {
            let harmless = args.iter().all(|word| {
                word.literal().is_some_and(|w| {
                    matches!(
                        w.as_str(),
                        "pipefail" | "errexit" | "nounset" | "xtrace" | "noglob"
                    ) || (w.starts_with(['-', '+'])
                        && w[1..].bytes().all(|b| b"euxofC".contains(&b)))
                })
            });
            if !harmless {
                cx.any_text = true;
                cx.note(Reason::Builtin(name.to_owned()));
            }
        }
        "declare" | "typeset" | "local" | "export" | "readonly" => declares(cx, name, args),
        "read" | "mapfile" | "readarray" | "unset" | "wait" => names(cx, name, args),
        "printf" => {
            let first = args.first().map(Word::literal_prefix).unwrap_or_default();
            let split = args.first().is_some_and(Word::may_split);
            if first.starts_with("-v") || (split && first.is_empty()) {
                cx.any_text = true;
                cx.note(Reason::Builtin("printf -v".to_owned()));
            }
        }
        "test" | "[" => tests(cx, name, args),
        "cd" | "pushd" => {
            let target = args.iter().find(|word| !word.starts_with_dash());
            let home = || {
                let mut word = Word::default();
                word.parts.push(super::word::Part::Home(String::new()));
                word
            };
            let target = target.cloned().unwrap_or_else(|| match args.first() {
                None => home(),
                Some(_) => Word::unknown(),
            });
            cx.found.directories.push(target);
        }
        "popd" => cx.found.directories.push(Word::unknown()),
        _ => return false,
    }
    true
}

fn declares(cx: &mut Context, name: &str, args: &[Word]) {
    for word in args {
        let Some(text) = word.literal() else {
            let prefix = word.literal_prefix();
            match prefix.split_once('=') {
                Some((variable, _)) if is_name(variable) => cx.assign(variable, None, true),
                _ => cx.note(Reason::Builtin(name.to_owned())),
            }
            continue;
        };
        if text.starts_with(['-', '+']) {
            if text[1..].contains(['n', 'i', 'f', 'u', 'l', 'c']) {
                cx.note(Reason::Builtin(format!("{name} {text}")));
            }
            continue;
        }
        let variable = text.split(['=', '+']).next().unwrap_or_default();
        if !is_name(variable) {
            cx.note(Reason::Builtin(name.to_owned()));
        } else if text.contains('=') {
            let value = text
                .split_once('=')
                .map(|(_, value)| Word::from_text(value));
            cx.assign(variable, value.as_ref(), true);
        } else if name == "export" {
            // What was set before is exported now.
            cx.assign(variable, None, true);
        }
    }
}

fn names(cx: &mut Context, name: &str, args: &[Word]) {
    let mut skips_value = false;
    for word in args {
        let Some(text) = word.literal() else {
            cx.note(Reason::Builtin(name.to_owned()));
            cx.any_text = true;
            continue;
        };
        if std::mem::take(&mut skips_value) {
            continue;
        }
        if let Some(options) = text.strip_prefix('-') {
            match name {
                "read" if !options.contains('a') => {
                    skips_value = options.ends_with(['d', 'n', 'N', 'p', 't', 'u', 'i']);
                }
                "mapfile" | "readarray" if options.contains(['C', 'c']) => {
                    cx.note(Reason::Builtin(format!("{name} -C")));
                }
                "mapfile" | "readarray" => {
                    skips_value = options.ends_with(['d', 'n', 'O', 's', 'u']);
                }
                "wait" if options.contains('p') => {
                    cx.note(Reason::Builtin(format!("{name} -p")));
                }
                _ => {}
            }
        } else if is_name(&text) {
            if !matches!(name, "unset" | "wait") {
                cx.assign(&text, None, false);
            } else if name == "unset" && !text.contains(|c: char| c.is_ascii_lowercase()) {
                cx.note(Reason::Variable(text));
            }
        } else if name != "wait" {
            cx.note(Reason::Builtin(name.to_owned()));
        }
    }
    if name == "read" {
        cx.texts.insert("REPLY".to_owned());
    }
}

/// `test -v 'a[$(..)]'` runs what stands in the subscript, even in quotes.
fn tests(cx: &mut Context, name: &str, args: &[Word]) {
    for (at, word) in args.iter().enumerate() {
        let looks_up = word.literal().is_some_and(|w| w == "-v" || w == "-R");
        let plain = args
            .get(at + 1)
            .and_then(Word::literal)
            .is_none_or(|operand| is_name(&operand) || operand == "]");
        let hides = looks_up && (!plain || args.get(at + 1).is_some_and(|w| w.literal().is_none()));
        if hides || word.may_split() {
            cx.note(Reason::Builtin(format!("{name} -v")));
        }
    }
    let unknown_operator = args.windows(2).any(|pair| {
        pair.iter()
            .all(|w| w.is_dynamic() && w.literal_prefix().is_empty())
    });
    if unknown_operator {
        cx.note(Reason::Builtin(format!("{name} -v")));
    }
}
