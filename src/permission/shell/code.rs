//! Program text in other languages: never understood, only told apart from harmless text.

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;

/// Interpreters: name, short options that take or load program text, long ones.
const INTERPRETERS: &[(&str, &str, &str)] = &[
    ("python", "c", ""),
    ("pypy", "c", ""),
    ("perl", "eEMmI", ""),
    ("ruby", "erI", ""),
    (
        "node",
        "epr",
        "eval print require import loader experimental-loader",
    ),
    ("nodejs", "epr", "eval print require import loader"),
    ("bun", "e", "eval preload"),
    ("deno", "", "eval"),
    ("php", "rBREd", "run"),
    ("lua", "el", ""),
    ("luajit", "el", ""),
    ("tclsh", "", ""),
    ("wish", "", ""),
    ("Rscript", "e", ""),
    ("osascript", "el", ""),
    ("guile", "cel", ""),
    ("ghci", "e", ""),
    ("runghc", "e", ""),
    ("julia", "eEL", "eval print load"),
    ("elixir", "er", "eval"),
    ("groovy", "e", ""),
    ("scala", "e", ""),
    ("swift", "e", ""),
    ("pwsh", "cCeE", "command"),
    ("fish", "cC", "command init-command"),
    ("csh", "c", ""),
    ("tcsh", "c", ""),
    ("elvish", "c", ""),
    ("nu", "c", "commands"),
    ("xonsh", "c", ""),
    ("irb", "erI", ""),
    ("ipython", "c", ""),
    ("expect", "c", ""),
    ("R", "e", ""),
    ("octave", "", "eval"),
    ("gnuplot", "ec", ""),
    ("erl", "", ""),
    ("ocaml", "", ""),
    ("racket", "", "eval load"),
    ("sbcl", "", "eval load script"),
    ("clojure", "", "eval"),
    ("clj", "", "eval"),
    ("tsx", "e", "eval"),
    ("ts-node", "epr", "eval print require"),
];

/// Options of interpreters whose value is the next word.
const VALUES: &[(&str, &str)] = &[
    ("python", "-W -X -Q --check-hash-based-pycs"),
    ("pypy", "-W -X"),
    (
        "ruby",
        "-C -E -K -T -W --encoding --external-encoding --internal-encoding",
    ),
    (
        "node",
        "-C --conditions --input-type --title --env-file --redirect-warnings --icu-data-dir \
         --diagnostic-dir --disable-warning --test-name-pattern --test-reporter --watch-path",
    ),
    ("php", "-c -z -t -S"),
    (
        "julia",
        "-p -t -J -H --project --threads --procs --sysimage",
    ),
    ("pwsh", "-w -v"),
    ("R", "-g -d"),
];

/// Looks at a call of an interpreter; `false` if `name` is none.
pub(super) fn interpreter(cx: &mut Context, name: &str, command: &SimpleCommand) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let Some((_, letters, words)) = INTERPRETERS.iter().find(|(known, ..)| *known == plain) else {
        return false;
    };
    let values = VALUES
        .iter()
        .find(|(known, _)| *known == plain)
        .map_or("", |(_, values)| *values);
    let takes_next = |text: &str| {
        let long = text.starts_with("--");
        values.split_ascii_whitespace().any(|option| {
            text == option || (!long && option.len() == 2 && text.ends_with(&option[1..]))
        })
    };
    let mut is_value = false;
    for (at, word) in command.argv.iter().enumerate().skip(1) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let Some(text) = word.literal() else {
            cx.note(Reason::InlineCode(name.to_owned()));
            return true;
        };
        if let Some(long) = text.strip_prefix("--") {
            let long = long.split('=').next().unwrap_or_default();
            if words.split(' ').any(|w| w == long) {
                cx.note(Reason::InlineCode(name.to_owned()));
                return true;
            }
            if matches!(long, "version" | "help" | "test") {
                return true;
            }
            is_value = takes_next(&text);
        } else if text.len() > 1 && text.starts_with('-') {
            if text[1..].contains(|c| letters.contains(c)) {
                cx.note(Reason::InlineCode(name.to_owned()));
                return true;
            }
            if matches!(text.as_str(), "-V" | "-v" | "-h") {
                return true;
            }
            if text == "-m" {
                let module = command.argv.get(at + 1).map(ToString::to_string);
                cx.note(Reason::Script(module.unwrap_or_default()));
                return true;
            }
            is_value = takes_next(&text);
        } else if text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/") {
            break;
        } else {
            if plain == "deno" && text == "eval" {
                cx.note(Reason::InlineCode(name.to_owned()));
            } else {
                cx.note(Reason::Script(text));
            }
            return true;
        }
    }
    super::shells::input(cx, name, command, false);
    true
}

/// Clients of databases: their own commands in the input may run programs.
pub(super) fn statements(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let escapes = |text: String| match name {
        "sqlite3" => text.lines().any(|line| line.trim_start().starts_with('.')),
        "psql" => text.contains('\\'),
        _ => text.contains('\\') || text.contains("system"),
    };
    match &command.input {
        Some(input) => match input.literal() {
            Some(text) if !escapes(text.clone()) => {}
            Some(_) => cx.note(Reason::InlineCode(name.to_owned())),
            None => cx.note(Reason::Script(format!("the input of {name}"))),
        },
        None if command.piped.is_some() => {
            cx.note(Reason::Script(format!("the input of {name}")));
        }
        None => {}
    }
}
