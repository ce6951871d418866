//! Finds options that run programs, write files or change settings.

use super::analysis::{Reason, SimpleCommand};
use super::context::Context;
use super::programs::{ONE_DASH, PROGRAMS, Program, WORDS};
use super::word::{Part, Word};

/// Whether `name` is among `names`, which are separated by blanks.
pub(super) fn is_one_of(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Whether the options of `name` are worth a look, so that an unknown word may be one of them.
fn matters(name: &str) -> bool {
    name == "git"
        || PROGRAMS.iter().any(|known| {
            is_one_of(known.names, name) && !(known.options.is_empty() && known.abbreviates)
        })
        || matches!(name, "fd" | "fdfind" | "sed" | "awk" | "gawk" | "mawk")
}

/// Looks for options of `command` that do more than its name says.
pub(super) fn options(cx: &mut Context, name: &str, command: &SimpleCommand) {
    for (names, start) in WORDS {
        let holds = |word: &Word| {
            let prefix = word.literal_prefix();
            match *start {
                "" => false,
                "=in" => prefix.contains('=') && !prefix.starts_with('-'),
                "\\" => prefix.contains('\\') || prefix.starts_with("system"),
                start => prefix.starts_with(start),
            }
        };

        if is_one_of(names, name)
            && let Some(word) = command.argv[1..].iter().find(|word| holds(word))
        {
            cx.note(Reason::Option(name.to_owned(), word.to_string()));
        }
    }

    if matches!(
        name,
        "ed" | "red" | "dc" | "m4" | "ftp" | "lftp" | "mail" | "mailx" | "telnet"
    ) {
        super::shells::input(cx, name, command, false);
    }

    if matches!(name, "tar" | "gtar") {
        bundled(cx, name, command);
    }

    if let Some(program) = PROGRAMS.iter().find(|known| is_one_of(known.names, name)) {
        scan(cx, name, program, command, 1);
    }

    if matters(name) {
        unknown_options(cx, name, command);
    }
}

/// `tar cIf program archive`: letters without a dash, their values in the words that follow.
fn bundled(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let letters = command.argv.get(1).map(Word::literal_prefix);
    if letters.is_some_and(|letters| !letters.starts_with('-') && letters.contains(['I', 'F'])) {
        super::peel::every_tail(cx, name, command);
    }
}

/// The words that are neither options nor their values. `values` are the short options that take
/// one.
pub(crate) fn operands<'a>(argv: &'a [Word], values: &str) -> impl Iterator<Item = &'a Word> {
    let mut only_operands = false;
    let mut is_value = false;
    argv.iter().skip(1).filter(move |word| {
        let prefix = word.literal_prefix();
        if std::mem::take(&mut is_value) {
            return false;
        }

        if only_operands || !prefix.starts_with('-') || prefix.len() < 2 {
            return true;
        }

        if prefix == "--" && word.literal().is_some() {
            only_operands = true;
        } else if !prefix.starts_with("--") {
            is_value = prefix
                .char_indices()
                .skip(1)
                .find(|(_, letter)| values.contains(*letter))
                .is_some_and(|(at, letter)| at + letter.len_utf8() == prefix.len());
        }

        false
    })
}

/// A word that is only known when the command runs may be an option.
fn unknown_options(cx: &mut Context, name: &str, command: &SimpleCommand) {
    for (at, word) in command.argv.iter().enumerate().skip(1) {
        if word.literal().is_some() || !word.is_dynamic() {
            continue;
        }

        if word.literal_prefix() == "--" {
            return;
        }

        if !word.may_split() && is_message(name, &command.argv[..at]) {
            continue;
        }

        let safe_start =
            !word.literal_prefix().is_empty() && !word.literal_prefix().starts_with('-');
        if safe_start && !word.may_split() {
            continue;
        }

        if let [
            Part::Value {
                name: Some(variable),
                ..
            },
            ..,
        ] = word.parts.as_slice()
            && matches!(
                variable.as_str(),
                "HOME" | "PWD" | "OLDPWD" | "TMPDIR" | "USER" | "#" | "?" | "$" | "!" | "{}"
            )
            && !cx.constants.contains_key(variable)
            && !cx.unknown.contains(variable)
        {
            continue;
        }

        let guesses = cx.guesses(word, false);
        let is_value = |text: &String| !text.starts_with('-') && !text.contains([' ', '\t', '\n']);
        if !guesses.is_empty() && guesses.iter().all(is_value) {
            continue;
        }

        for guess in guesses {
            super::shells::run_text(cx, command, name, &guess);
        }

        cx.note(Reason::Option(name.to_owned(), word.to_string()));
    }
}

/// Whether what follows these words is the text of a commit, a tag and the like.
fn is_message(name: &str, before: &[Word]) -> bool {
    let is = |word: Option<&Word>, names: &[&str]| {
        let text = word.and_then(Word::literal).unwrap_or_default();
        names.contains(&text.as_str())
    };
    name == "git"
        && is(before.get(1), &["commit", "tag", "merge", "notes", "stash"])
        && is(before.last(), &["-m", "-am", "--message"])
}

/// Looks for the options of `program` among the words from number `from` on.
pub(super) fn scan(
    cx: &mut Context,
    name: &str,
    program: &Program,
    command: &SimpleCommand,
    from: usize,
) {
    for (at, word) in command.argv.iter().enumerate().skip(from) {
        let prefix = word.literal_prefix();
        if prefix == "--" && word.literal().is_some() {
            return;
        }

        if !prefix.starts_with('-') || prefix.len() < 2 {
            continue;
        }

        let entries = program.options.split(' ');
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let (kind, option) = entry.split_at(1);
            let next = || command.argv.get(at + 1).cloned();
            let value = if option.len() > 2 {
                if !is_long(&prefix, option, program.abbreviates) {
                    continue;
                }

                match prefix.split_once('=') {
                    Some((before, _)) => word.without_prefix(&format!("{before}=")),
                    None => next(),
                }
            } else {
                let Some(place) = short_place(name, &prefix, option, program.values) else {
                    continue;
                };

                match word.without_prefix(&prefix[..=place]) {
                    Some(rest) if rest.literal().is_none_or(|r| !r.is_empty()) => Some(rest),
                    _ => next(),
                }
            };

            found(cx, name, kind, option, value, command);
        }
    }
}

/// Whether a word that begins with `prefix` is the long option, perhaps abbreviated.
fn is_long(prefix: &str, option: &str, abbreviates: bool) -> bool {
    let given = prefix.split('=').next().unwrap_or_default();
    let is_part = given.len() > 2 && given.starts_with("--") && option.starts_with(given);
    given == option || (abbreviates && is_part)
}

/// Where the short option stands among those of a word, before one that takes a value.
fn short_place(name: &str, prefix: &str, option: &str, values: &str) -> Option<usize> {
    let given = prefix.split('=').next().unwrap_or_default();
    // `-count` is one option of these programs, not five.
    let is_another = ONE_DASH.contains(&name) && given != option;
    if prefix.starts_with("--") || is_another {
        return None;
    }
    let letter = char::from(option.as_bytes()[1]);
    let mut letters = prefix.char_indices().skip(1);
    let (place, found) = letters.find(|(_, c)| *c == letter || values.contains(*c))?;
    (found == letter).then_some(place)
}

fn found(
    cx: &mut Context,
    name: &str,
    kind: &str,
    option: &str,
    value: Option<Word>,
    command: &SimpleCommand,
) {
    match kind {
        "w" => cx.found.writes.extend(value),
        "e" => cx.note(Reason::Effect(name.to_owned(), option.to_owned())),
        _ => {
            cx.note(Reason::Option(name.to_owned(), option.to_owned()));
            if let (Some(value), "x") = (value, kind) {
                // `exec=program`, `ProxyCommand=program`.
                let prefix = value.literal_prefix();
                let setting = prefix.split(' ').next().unwrap_or_default();
                let value = match setting.split_once('=') {
                    Some((key, _)) => value.without_prefix(&format!("{key}=")).unwrap_or(value),
                    None => value,
                };

                super::shells::run_word(cx, command, &format!("{name} {option}"), &value);
            }
        }
    }
}
