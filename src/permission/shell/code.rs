//! Program text in other languages: never understood, only told apart from harmless text.

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::options::is_one_of;
use super::word::Word;

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
    let Some((_, letters, long)) = INTERPRETERS.iter().find(|(known, ..)| *known == plain) else {
        return false;
    };
    match Source::of(plain, letters, long, &command.argv) {
        Source::Words => cx.note(Reason::InlineCode(name.to_owned())),
        Source::File(file) => cx.note(Reason::Script(file)),
        Source::Input => super::shells::input(cx, name, command, false),
        Source::None => {}
    }
    true
}

/// Where an interpreter gets its program.
enum Source {
    /// From its words, or nobody knows.
    Words,
    File(String),
    Input,
    /// It only says something about itself.
    None,
}

impl Source {
    /// `letters` and `long` are the options that take program text.
    fn of(plain: &str, letters: &str, long: &str, argv: &[Word]) -> Self {
        let mut is_value = false;
        for (at, word) in argv.iter().enumerate().skip(1) {
            if std::mem::take(&mut is_value) {
                continue;
            }

            let Some(text) = word.literal() else {
                return Self::Words;
            };

            if let Some(option) = text.strip_prefix("--") {
                let option = option.split('=').next().unwrap_or_default();
                if is_one_of(long, option) {
                    return Self::Words;
                }

                if matches!(option, "version" | "help" | "test") {
                    return Self::None;
                }
            } else if text.len() > 1 && text.starts_with('-') {
                if text[1..].contains(|c| letters.contains(c)) {
                    return Self::Words;
                }

                match text.as_str() {
                    "-V" | "-v" | "-h" => return Self::None,
                    "-m" => {
                        let module = argv.get(at + 1).map(ToString::to_string);
                        return Self::File(module.unwrap_or_default());
                    }
                    _ => {}
                }
            } else if text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/") {
                return Self::Input;
            } else if plain == "deno" && text == "eval" {
                return Self::Words;
            } else {
                return Self::File(text);
            }

            is_value = takes_value(plain, &text);
        }

        Self::Input
    }
}

/// Whether the next word is the value of this option.
fn takes_value(plain: &str, text: &str) -> bool {
    let values = VALUES.iter().find(|(known, _)| *known == plain);
    let mut options = values.map_or("", |(_, options)| *options).split(' ');
    options.any(|option| {
        let is_last = option.len() == 2 && text.ends_with(&option[1..]);
        text == option || (is_last && !text.starts_with("--"))
    })
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
