//! Builtins that run text, or change what later commands mean.

use super::analysis::{Reason, SimpleCommand, Use};
use super::compound::is_name;
use super::context::Context;
use super::options::runs;
use super::shells::{is_special, run_word, run_words, script_file};
use super::simple::exports;
use super::targets::{chained, joined};
use super::word::{OUTER, Part, Word};
use crate::backend::Shell;

/// Examines a builtin. Returns `false` if `name` is no builtin that matters.
pub(super) fn builtin(cx: &mut Context, name: &str, command: &SimpleCommand) -> bool {
    let args = &command.argv[1..];
    if matches!(
        name,
        "declare" | "typeset" | "local" | "mapfile" | "readarray" | "pushd" | "popd"
    ) {
        cx.bash_only("a builtin of bash");
    }

    renames(cx, name, command);
    callbacks(cx, name, command);
    match name {
        // The folders that `popd` returns to are those that were left.
        ":" | "popd" => {}
        "eval" => eval(cx, command, args),
        "trap" => trap(cx, command, args),
        "alias" => {
            cx.note(Reason::Builtin(name.to_owned()));
            cx.has_alias |= !args.is_empty();
            args.iter()
                .for_each(|word| runs(cx, name, "=", command, word));
        }
        "hash" | "enable" | "bind" | "complete" | "compgen" | "compopt" | "fc" | "history"
        | "let" | "unalias" | "caller" | "disown" | "suspend" | "logout" => {
            cx.note(Reason::Builtin(name.to_owned()));
        }
        "getopts" => {
            cx.note(Reason::Builtin(name.to_owned()));
            names(cx, name, args.get(1..2).unwrap_or_default());
        }
        "jobs" => {
            let is_plain = |word: &Word| word.literal().is_some_and(|text| !text.contains('x'));
            if !args.iter().all(is_plain) {
                super::peel::every_tail(cx, name, command);
            }
        }
        "set" | "shopt" => settings(cx, name, args),
        "declare" | "typeset" | "local" | "export" | "readonly" => {
            declares(cx, name, args, exports(&command.argv));
        }
        "read" | "mapfile" | "readarray" | "unset" | "wait" => names(cx, name, args),
        "printf" => printf(cx, args),
        "test" | "[" => tests(cx, name, args),
        "cd" | "pushd" => {
            for folder in directories(cx, args) {
                // Each time, it is another folder.
                let is_moving = command.repeats && !folder.is_anchored();
                cx.add_path(Use::Directory, folder);
                if is_moving {
                    cx.add_path(Use::Directory, Word::unknown());
                }
            }
        }
        "source" | "." => {
            source(cx, name, command);
            return false;
        }
        _ => return false,
    }

    // These have rows as well.
    !matches!(name, "printf" | "test" | "[")
}

fn printf(cx: &mut Context, args: &[Word]) {
    let is_end = |word: &&Word| word.is("--");
    let args = &args[usize::from(args.first().is_some_and(|word| is_end(&word)))..];
    let Some(format) = args.first() else {
        return;
    };

    // `%n` sets the variable that the next word names.
    let is_modifier = |c: char| "-+ #'.*hlLjzt".contains(c) || c.is_ascii_digit();
    let sets = |conversion: &str| conversion.trim_start_matches(is_modifier).starts_with('n');
    let prefix = format.literal_prefix();
    let is_plain = match format.literal() {
        Some(text) => !text.replace("%%", "").split('%').skip(1).any(sets),
        None => args.len() == 1 && !prefix.is_empty(),
    };
    if let [_, name, ..] = args
        && prefix == "-v"
        && let Some(name) = name.literal().filter(|name| is_name(name))
    {
        cx.assign(&name, None, false);
    } else if !is_plain || prefix.starts_with("-v") {
        cx.analysis.sets_any = true;
        cx.analysis.sets_names = true;
        cx.note(Reason::Builtin("printf -v".to_owned()));
    }
}

/// Notes that a name may start another program: by a remembered path, a builtin of a file, or an
/// alias where the shell replaces them.
fn renames(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let args = &command.argv[1..];
    let has_letter = |letter: char| {
        let has = |word: &Word| {
            word.is_dynamic() || word.starts_with_dash() && word.to_string().contains(letter)
        };
        args.iter().any(has)
    };
    let names = |text: &str| args.iter().any(|word| word.is_dynamic() || word.is(text));
    let is_table = |word: &Word| {
        let text = word.to_string();
        text.contains("BASH_CMDS") || text.contains("BASH_ALIASES")
    };
    match name {
        "hash" => cx.renames |= has_letter('p'),
        "enable" => cx.renames |= has_letter('f'),
        "shopt" => cx.expands_aliases |= names("expand_aliases"),
        "set" => cx.expands_aliases |= names("posix"),
        // Other shells replace aliases in any case; one that a command starts may be another.
        "alias" => cx.expands_aliases |= cx.shell != Shell::Bash || !command.via.is_empty(),
        "declare" | "typeset" | "local" | "read" | "mapfile" | "readarray" | "printf" => {
            cx.renames |= args.iter().any(is_table);
        }
        _ => {}
    }
}

/// Examines the commands that a builtin is given to run later.
fn callbacks(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let is_callback = |word: &Word| word.starts_with_dash() && word.to_string().contains('C');
    let runs_words = match name {
        "bind" | "complete" | "compgen" => true,
        "mapfile" | "readarray" => command.argv[1..].iter().any(is_callback),
        _ => false,
    };
    if runs_words {
        run_texts(cx, name, command);
    }
}

/// Examines the words of a builtin as commands that it may run: an option of it has such a value.
fn run_texts(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let wrapper = command.evaluating();
    for word in &command.argv[1..] {
        let option = word.literal().filter(|text| text.starts_with('-'));
        let value = match &option {
            // The value may stand behind the letter.
            Some(option) => Word::from_text(option.get(2..).unwrap_or_default()),
            None => word.clone(),
        };
        if value.len() > 0 {
            runs(cx, name, "-C", &wrapper, &value);
        }
    }
}

/// Examines the script of `source`, if it is not in a file.
fn source(cx: &mut Context, name: &str, command: &SimpleCommand) {
    cx.note(Reason::Builtin(name.to_owned()));
    let is_file = |word: &Word| word.literal().is_some_and(|file| !is_special(&file));
    if let Some(file) = command.argv.get(1).filter(|word| !is_file(word)) {
        // Other words are positional parameters of the script.
        cx.analysis.sets_any |= command.argv.len() > 2 && file.literal().is_some();
        script_file(cx, name, command, file);
    }
}

fn eval(cx: &mut Context, command: &SimpleCommand, args: &[Word]) {
    cx.note(Reason::Builtin("eval".to_owned()));
    let args = match args.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        _ => args,
    };
    run_words(cx, command, "eval", args);
}

fn trap(cx: &mut Context, command: &SimpleCommand, args: &[Word]) {
    let only_lists = |word: &Word| word.is("-p") || word.is("-l");
    if args.iter().all(only_lists) {
        return;
    }
    cx.note(Reason::Builtin("trap".to_owned()));
    if let Some(text) = args.iter().find(|word| !word.starts_with_dash()) {
        run_word(cx, command, "trap", text);
    }
}

/// Notes what `set` or `shopt` changes.
fn settings(cx: &mut Context, name: &str, args: &[Word]) {
    changes_reading(cx, name, args);
    let sets = name == "set";
    if !sets || !args.iter().all(is_harmless_setting) {
        cx.analysis.sets_any |= sets;
        cx.note(Reason::Builtin(name.to_owned()));
    }
}

/// Notes a setting with which the shell reads scripts, or compares names of files, in another way.
pub(super) fn changes_reading(cx: &mut Context, name: &str, words: &[Word]) {
    const SETTINGS: &str = "histexpand history interactive_comments nocaseglob";
    let is_setting = |word: &Word| {
        let text = word.literal().unwrap_or_default();
        SETTINGS.split(' ').any(|setting| setting == text)
            || name == "set" && text.starts_with('-') && text.contains('H')
    };
    if words.iter().any(is_setting) {
        cx.leave_out(Reason::Builtin(name.to_owned()));
    }
}

/// Returns `true` if a word of `set` changes nothing but how the shell reports and when it stops.
pub(super) fn is_harmless_setting(word: &Word) -> bool {
    let Some(text) = word.literal() else {
        return false;
    };
    let is_name = matches!(
        text.as_str(),
        "pipefail" | "errexit" | "nounset" | "xtrace" | "noglob" | "errtrace"
    );
    let is_known = |letter: u8| b"eEuxofCvbmT".contains(&letter);
    is_name || (text.starts_with(['-', '+']) && text[1..].bytes().all(is_known))
}

/// Returns the directories that `cd` may change to with these words: home, or what the script sets
/// it to, without any; the folder before with `-`; with `CDPATH`, also one in another folder.
fn directories(cx: &mut Context, args: &[Word]) -> Vec<Word> {
    if let Some(target) = args.iter().find(|word| !word.starts_with_dash()) {
        let mut values = cx.constants.get("CDPATH").into_iter().flatten();
        let is_set = cx.analysis.unknown.contains("CDPATH") || values.any(|value| !value.is(""));
        let searched_folder = chained(joined(&Word::made(), "/"), target);
        let searched_folder = is_set.then_some(searched_folder);
        let folders = [target.clone()].into_iter();
        return folders.chain(searched_folder).collect();
    }
    let name = if args.is_empty() { "HOME" } else { "OLDPWD" };
    let mut value = Word::default();
    value.push_value(Some(name.to_owned()), true);
    let mut directories = cx.guesses(&value);
    directories.push(match name {
        _ if cx.analysis.unknown.contains(name) => value,
        "HOME" => Word {
            parts: vec![Part::Home(String::new())],
        },
        _ => Word::unknown(),
    });
    directories
}

fn declares(cx: &mut Context, name: &str, args: &[Word], exported: bool) {
    for word in args {
        let Some(text) = word.literal() else {
            let prefix = word.literal_prefix();
            let variable = prefix.split_once('=').map(|(variable, _)| variable);
            let variable = variable.filter(|variable| is_name(variable));
            if let Some(variable) = variable {
                cx.assign(variable, None, exported);
            }
            // What is split off is a declaration, too.
            if variable.is_none() || word.may_split() {
                cx.note(Reason::Builtin(name.to_owned()));
            }

            continue;
        };

        if text.starts_with(['-', '+']) {
            if text[1..].contains(['n', 'i', 'f', 'u', 'l', 'c']) {
                cx.note(Reason::Builtin(format!("{name} {text}")));
            }
            // Another name of a variable: what sets or reads one sets or reads the other.
            let makes_name = text.starts_with('-') && text.contains('n');
            if makes_name && matches!(name, "declare" | "typeset" | "local") {
                cx.analysis.sets_any = true;
                cx.analysis.sets_names = true;
                cx.hide_script();
            }

            continue;
        }

        let variable = text.split(['=', '+']).next().unwrap_or_default();
        if !is_name(variable) {
            cx.note(Reason::Builtin(name.to_owned()));
        } else if text.contains('=') {
            let value = text.split_once('=').map(|(_, value)| value);
            if value.is_some_and(|value| value.starts_with('(')) {
                // The text of an array is expanded again.
                cx.note(Reason::Builtin(name.to_owned()));
            }

            let value = value.map(Word::from_text);
            cx.assign(variable, value.as_ref(), exported);
        } else if exported {
            // What was set before is exported now.
            cx.assign(variable, None, true);
        } else {
            // It may be empty now, and its later values may be refused, or changed.
            cx.assign(variable, Some(&Word::default()), false);
        }
    }
}

fn names(cx: &mut Context, name: &str, args: &[Word]) {
    let mut skips_value = false;
    for word in args {
        let Some(text) = word.literal() else {
            if name == "wait" && word.is_number() {
                continue;
            }

            cx.note(Reason::Builtin(name.to_owned()));
            cx.analysis.sets_any = true;
            cx.analysis.sets_names = true;
            continue;
        };

        if std::mem::take(&mut skips_value) {
            continue;
        }

        if let Some(options) = text.strip_prefix('-') {
            match name {
                "read" => match valued(options, "adinNptu") {
                    Some(("a", array)) => {
                        cx.bash_only("`read -a`");
                        if !array.is_empty() {
                            cx.assign(array, None, false);
                        }
                    }
                    option => skips_value = option.is_some_and(|(_, value)| value.is_empty()),
                },
                "mapfile" | "readarray" if options.contains(['C', 'c']) => {
                    cx.note(Reason::Builtin(format!("{name} -C")));
                }
                "mapfile" | "readarray" => {
                    let option = valued(options, "dnOsu");
                    skips_value = option.is_some_and(|(_, value)| value.is_empty());
                }
                "wait" if options.contains('p') => {
                    cx.note(Reason::Builtin(format!("{name} -p")));
                }
                _ => {}
            }
        } else if is_name(&text) {
            if !matches!(name, "unset" | "wait") {
                cx.assign(&text, None, false);
            }
            if name == "unset" {
                cx.loops.change(&text);
            }
            if name == "unset" && !text.contains(|c: char| c.is_ascii_lowercase()) {
                cx.note(Reason::Variable(text));
            }
        } else if name != "wait" {
            cx.note(Reason::Builtin(name.to_owned()));
        }
    }

    let default_name = match name {
        "read" => "REPLY",
        "mapfile" | "readarray" => "MAPFILE",
        _ => return,
    };
    cx.texts.insert(default_name.to_owned());
    cx.analysis.unknown.insert(default_name.to_owned());
}

/// Returns the first letter of joined options that takes a value, and the text that follows it in
/// the word.
fn valued<'a>(options: &'a str, letters: &str) -> Option<(&'a str, &'a str)> {
    let at = options.find(|c| letters.contains(c))?;
    Some(options[at..].split_at(1))
}

/// Notes a test that may look up a variable, as `test -v 'a[$(..)]'`: it runs what stands in the
/// subscript, even in quotes.
fn tests(cx: &mut Context, name: &str, args: &[Word]) {
    for (at, word) in args.iter().enumerate() {
        let looks_up = word.is("-v") || word.is("-R");
        let plain = args
            .get(at + 1)
            .and_then(Word::literal)
            .is_none_or(|operand| is_name(&operand) || operand == "]");
        let hides = looks_up && (!plain || args.get(at + 1).is_some_and(|w| w.literal().is_none()));
        if hides || is_any_name(word) || word.parts.iter().any(|part| may_be_operator(cx, part)) {
            cx.note(Reason::Builtin(format!("{name} -v")));
        }
    }

    let unknown_operator = args.windows(2).any(|pair| {
        pair.iter()
            .all(|w| w.is_dynamic() && w.literal_prefix().is_empty())
    });

    let runs = |text: String| text.contains('[') && text.contains(['$', '`']);
    let has_subscript = args.iter().filter_map(Word::literal).any(runs);
    let is_unknown = |word: &Word| word.is_dynamic() && "-".starts_with(&word.literal_prefix());
    if unknown_operator || has_subscript && args.iter().any(is_unknown) {
        cx.note(Reason::Builtin(format!("{name} -v")));
    }
}

/// Returns `true` if the names of any files may take the place of the word.
fn is_any_name(word: &Word) -> bool {
    let is_glob = |part: Option<&Part>| matches!(part, Some(Part::Glob(_)));
    is_glob(word.parts.first()) && is_glob(word.parts.last())
}

/// Returns `true` if an unquoted value may become an operator of `test` and its operand. A variable
/// that is not set here has its value from the start of the shell.
fn may_be_operator(cx: &Context, part: &Part) -> bool {
    let Part::Value {
        name,
        quoted: false,
    } = part
    else {
        return false;
    };

    let is_plain = |name: &&str| is_name(name) && !matches!(*name, "_" | OUTER);
    let Some(name) = name.as_deref().filter(is_plain) else {
        return true;
    };

    let plain = |value: &Word| {
        let text = value.literal().unwrap_or_else(|| "-".to_owned());
        let mut bytes = text.bytes();
        value.is_number()
            || !text.starts_with('-')
                && bytes.all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b))
    };

    let values = cx.constants.get(name).into_iter().flatten();
    cx.analysis.sets_any
        || cx.texts.contains(name) && cx.analysis.unknown.contains(name)
        || !values.clone().all(plain)
}
