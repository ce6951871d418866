//! The meaning of each command: wrappers are removed, dangerous ones noted.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;
use std::{fs, iter};

use crate::permission::programs::{
    Dash, first_operand, is_launcher, model, runs_any, runs_elsewhere, runs_here, subcommand_words,
    wraps,
};

use super::analysis::{Files, Reason, SimpleCommand, Use};
use super::context::{Context, MAX_WORK};
use super::found::forget_found;
use super::listing::{branch, texts};
use super::replaced::{forget, forget_replaced};
use super::word::{Part, Word};
use super::{builtins, files, inputs, operands, peel, redirected, shells};

/// Directories that hold the system's own programs.
const SYSTEM: &str = "\
    /bin/ /sbin/ /usr/bin/ /usr/sbin/ /usr/local/bin/ /usr/local/sbin/ /opt/homebrew/bin/ \
    /run/current-system/sw/bin/";

/// The maximum number of names in the text of a command that are compared.
const MAX_NAMES: usize = 512;

/// The maximum nesting depth of texts that the shell may evaluate.
const MAX_ROUNDS: usize = 40;

/// Examines every command of a text, including the commands that it finds on the way.
pub(super) fn inspect(cx: &mut Context, text: &str) {
    let mut at = 0;
    examine(cx, &mut at);
    let first_path = cx.analysis.paths.len();
    let mut rounds = 0;
    while cx.evaluates_texts() && !cx.is_full && cx.examine_kept_texts() {
        examine(cx, &mut at);
        rounds += 1;
        if rounds == MAX_ROUNDS {
            cx.analysis.unread.get_or_insert(Reason::Limit("nesting"));
            break;
        }
    }
    if cx.hides_script || has_other_names(cx) {
        let files = names_in_script(cx, text);
        cx.possible_files.extend(files);
    }
    for file in std::mem::take(&mut cx.possible_files) {
        cx.add_path(Use::Target, file);
    }
    redirected::guess_files(cx);
    cx.analysis.possible_paths = first_path..cx.analysis.paths.len();
    if !cx.spend_text_work(0) || cx.work > MAX_WORK {
        cx.leave_out(Reason::Limit("length"));
    }

    project_builders(cx);
    forget_found(cx);
    cx.check_values();
    forget_programs(cx);
    forget_replaced(cx);
}

/// Returns the names that a script may use which the text of a command makes: those in the text
/// without its quotes. A backslash or a `$` may separate two names, or be in one.
fn names_in_script(cx: &mut Context, text: &str) -> Vec<Word> {
    let text = text.replace(['"', '\''], "");
    let joined_text = text.replace('\\', "");
    let names = inputs::names_in(&text).chain(inputs::names_in(&joined_text));
    let pieces = names.flat_map(|name| name.split(['$', '`']).chain([name]));
    // Words at the end of a sentence are no names of files.
    let names = pieces.map(|name| name.trim_end_matches('.'));
    let names: BTreeSet<&str> = names.filter(|name| name.contains(['.', '~'])).collect();
    if names.len() > MAX_NAMES {
        cx.leave_out(Reason::Limit("number of paths"));
    }
    let words = names.into_iter().take(MAX_NAMES).map(Word::from_text);
    words.map(Word::with_home).collect()
}

/// Returns `true` if the name of a program may start another one.
fn has_other_names(cx: &Context) -> bool {
    cx.renames || cx.has_alias && cx.expands_aliases
}

/// Notes that nothing is known of the programs if a name may start another one.
fn forget_programs(cx: &mut Context) {
    const OWN: [&str; 5] = ["alias", "enable", "hash", "shopt", "unalias"];
    if !has_other_names(cx) {
        return;
    }
    for command in &mut cx.analysis.commands {
        if command.argv.is_empty() || OWN.iter().any(|name| command.is(name)) {
            continue;
        }
        forget(command);
    }
}

/// Examines the commands from an index on, to which those are added that it finds.
fn examine(cx: &mut Context, at: &mut usize) {
    loop {
        while let Some(script) = cx.later.pop() {
            let command = SimpleCommand::default();
            cx.is_guessing = script.is_guess;
            cx.examine_text(|cx| shells::run_text(cx, &command, &script.source, &script.text));
            cx.is_guessing = false;
        }

        let Some(command) = cx.analysis.commands.get(*at).cloned() else {
            break;
        };

        cx.is_guessing = command.guessed;
        let first_path = cx.analysis.paths.len();
        examine_one(cx, *at, &command);
        files::follow_lists(cx, *at, first_path);
        cx.is_guessing = false;
        *at += 1;
        if cx.is_full {
            // It is recorded: no rule allows the command then.
            break;
        }
    }
}

/// Returns `true` for a script of the project that only starts the builder which the project names.
fn is_project_builder(path: &str) -> bool {
    matches!(path, "./mvnw" | "./gradlew")
}

/// Notes that a builder of the project is a script like others if the line may make or replace it,
/// or changes the folder.
fn project_builders(cx: &mut Context) {
    let path_of = |command: &SimpleCommand| command.argv.first().and_then(Word::literal);
    let is_builder = |command: &SimpleCommand| {
        let path = path_of(command);
        path.filter(|path| is_project_builder(path) && !command.guessed)
    };
    let commands = &cx.analysis.commands;
    let Some(path) = commands.iter().find_map(is_builder) else {
        return;
    };
    let may_write = |command: &SimpleCommand| {
        let is_own = command.guessed || is_builder(command).is_some();
        let is_wrapper = command.program().is_some_and(|name| wraps(&name));
        !is_own && !is_wrapper && command.is_writer()
    };
    let is_change = |(path_use, word): &(Use, Word)| {
        let is_kept = word.literal().is_none_or(|text| text != "/dev/null");
        is_kept && matches!(path_use, Use::Write | Use::Linked | Use::Directory)
    };
    if commands.iter().any(may_write) || cx.analysis.paths.iter().any(is_change) {
        cx.analysis.has_project = true;
        cx.note(Reason::Script(path));
    }
}

/// Examines the command at `index`, also with the values of its variables.
fn examine_one(cx: &mut Context, index: usize, command: &SimpleCommand) {
    let Some(first) = command.argv.first() else {
        return;
    };

    branch(cx, command);
    if !command.guessed {
        guess(cx, command);
    }

    if first.literal().is_none() {
        unknown_program(cx, command, first);
    }

    let Some(name) = first.basename() else {
        return inputs::examine(cx, index, "", command);
    };

    if let Some(path) = first.literal()
        && path.contains('/')
        && !is_system_program(&path)
        && !is_project_builder(&path)
    {
        cx.analysis.has_project |= !path.starts_with('/');
        cx.note(Reason::Script(path));
    }

    let words = subcommand_words(&name.to_lowercase(), &command.argv);
    cx.analysis.commands[index].subcommand_words = words;
    dispatch(cx, index, &name, command);
}

/// Returns the characters at which the shell also splits values, if the script sets them; `None` if
/// they are too many.
fn separators(cx: &Context) -> Option<HashSet<char>> {
    let values = cx.constants.get("IFS").into_iter().flatten();
    let texts: String = values.filter_map(Word::literal).collect();
    cx.spend_text_work(texts.len())
        .then(|| texts.chars().collect())
}

/// Adds the command with the values that the script assigns to its variables, for deny and ask
/// rules. Nothing is known of the order of the assignments, so it only may run.
fn guess(cx: &mut Context, command: &SimpleCommand) {
    let words = command.argv.iter();
    let guesses: Vec<Vec<Word>> = words.map(|word| cx.guesses(word)).collect();
    let count = guesses.iter().map(Vec::len).max().unwrap_or(0);
    let is_unknown = |word: &Word| {
        let is_guessed = guesses.last().is_some_and(|words| !words.is_empty());
        word.is_dynamic() && (!is_guessed || cx.analysis.makes(word))
    };
    if command.argv.last().is_some_and(is_unknown) {
        cx.analysis.unknown.insert("_".to_owned());
    }
    if count == 0 {
        return;
    }
    let Some(marks) = separators(cx) else {
        return;
    };
    let readings = 1 + usize::from(marks.iter().any(|c| !c.is_whitespace()));
    for reading in 0..count * readings {
        let (at, splits) = (reading / readings, reading % readings > 0);
        let is_end = |c: char| c.is_whitespace() || splits && marks.contains(&c);
        let mut argv = Vec::new();
        // The shell expands the wildcards of values that are not quoted, too.
        let (mut patterns, mut is_expanded) = (Vec::new(), false);
        for (word, guesses) in command.argv.iter().zip(&guesses) {
            let guess = guesses.get(at).or(guesses.last()).unwrap_or(word);
            let may_split = word.may_split();
            let words = match guess.literal().filter(|_| may_split) {
                Some(text) => {
                    let work = inputs::STEP_WORK * text.matches(is_end).count();
                    if splits && !cx.spend_text_work(work) {
                        return;
                    }
                    let texts = text.split(is_end).filter(|text| !text.is_empty());
                    texts.map(Word::from_text).collect()
                }
                None => vec![guess.clone()],
            };
            for word in words {
                let pattern = may_split.then(|| word.as_pattern()).flatten();
                is_expanded |= pattern.is_some();
                patterns.push(pattern.unwrap_or_else(|| word.clone()));
                argv.push(word);
            }
        }

        let patterns = is_expanded.then_some(patterns);
        for argv in iter::once(argv).chain(patterns) {
            let guessed_command = SimpleCommand {
                argv,
                guessed: true,
                // Its words are no longer the files that `find` finds.
                texts: Vec::new(),
                ..command.clone()
            };
            // Too many commands is noted where they are counted.
            let _counted = cx.add(guessed_command);
        }
    }
}

/// Returns `true` if the program gives files names that it makes by a pattern, or runs a word as
/// code to make them.
fn makes_names(name: &str, command: &SimpleCommand) -> bool {
    if !name.contains("rename") && name != "mmv" {
        return false;
    }
    let words = &command.argv[1..];
    let mut options = words.iter().take_while(|word| !word.is("--"));
    let is_trial = options.any(|word| {
        let option = word.literal().unwrap_or_default();
        matches!(&*option, "-n" | "-nv" | "-vn" | "--no-act" | "--nono")
    });
    // Code runs in a trial as well.
    let has_code = words.iter().any(|word| {
        let option = word.literal_prefix();
        ["-e", "-E", "--e"]
            .iter()
            .any(|start| option.starts_with(start))
    });
    let mut operands = words.iter().filter(|word| !word.starts_with_dash());
    !is_trial || has_code || !operands.next().is_none_or(is_substitution)
}

/// Returns `true` if a word is plain text, or substitutions without code, as in `s/a/b/g`.
fn is_substitution(word: &Word) -> bool {
    let Some(text) = word.literal() else {
        return false;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.* +?^,:#=()|".contains(c);
    text.split(';').map(str::trim).all(|text| {
        let mark = text.find(|c: char| !c.is_ascii_lowercase());
        let mark = mark.and_then(|at| text[at..].chars().next());
        let parts: Vec<&str> = mark.map_or_else(Vec::new, |mark| text.split(mark).collect());
        match parts[..] {
            ["s" | "y" | "tr", from, to, flags] => {
                from.chars().chain(to.chars()).all(is_plain)
                    && flags.chars().all(|c| "gi".contains(c))
            }
            _ => text != "unlink" && text.chars().all(|c| is_plain(c) && !"()".contains(c)),
        }
    })
}

fn dispatch(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) {
    if builtins::builtin(cx, name, command) {
        if matches!(name, "cd" | "pushd" | "popd") {
            cx.analysis.commands[index].files = Files::Unopened;
        }
        return;
    }

    if peel::peel(cx, index, name, command) {
        return;
    }

    if shells::SHELLS.contains(&name) {
        return shells::shell(cx, name, index, command);
    }

    let start = first_operand(name, &command.argv);
    let words = operands::first_words(&command.argv[start..]);
    if is_launcher(name, &words) {
        if makes_names(name, command) {
            cx.add_path(Use::Target, Word::made());
        }
        peel::every_tail(cx, name, command);
        return inputs::examine(cx, index, name, command);
    }

    if runs_any(name, &words) {
        cx.analysis.commands[index].script = Some(start);
    }

    if runs_elsewhere(name, &words) {
        mounts(cx, name, command);
        if !runs_known(name, command) {
            let is_remote = matches!(name, "ssh" | "mosh") && !is_here(command, start);
            let is_remote = is_remote || is_about_container(&words);
            let reason = if is_remote && !runs_here(name) {
                Reason::Exec
            } else {
                Reason::Script
            };
            cx.note(reason(name.to_owned()));
        }
        peel::guess_tails(cx, name, command, 1);
        // A shell is given a script somewhere in the words.
        let mut words = command.argv.iter();
        let is_shell = |name: String| shells::SHELLS.contains(&&*name);
        if words.any(|word| word.basename().is_some_and(is_shell))
            && words.any(|word| word.literal_prefix().starts_with("-c"))
        {
            cx.note(Reason::InlineCode(name.to_owned()));
        }
    }

    if may_start(name, &command.argv[1..]) {
        peel::guess_tails(cx, name, command, 1);
    }

    operands::modeled(cx, index, name, command);
    inputs::examine(cx, index, name, command);
}

/// Returns `true` if the host that is the word at this index may be this machine. A name that does
/// not begin with a letter may be a number, which is not looked up.
fn is_here(command: &SimpleCommand, at: usize) -> bool {
    static OWN_NAME: LazyLock<String> = LazyLock::new(|| {
        let name = fs::read_to_string("/etc/hostname").unwrap_or_default();
        name.trim().to_lowercase()
    });
    let Some(host) = command.argv.get(at) else {
        return false;
    };
    let Some(host) = host.literal() else {
        return true;
    };
    let host = host.to_lowercase();
    let host = host.trim_start_matches("ssh://");
    let host = host.rsplit('@').next().unwrap_or_default();
    let first_name = |host: &str| host.split('.').next().map(str::to_owned);
    !host.starts_with(|c: char| c.is_ascii_alphabetic())
        || [":", "local", "loopback"]
            .iter()
            .any(|part| host.contains(part))
        || !OWN_NAME.is_empty() && first_name(host) == first_name(&OWN_NAME)
}

/// Returns `true` if the words of a program of containers start a program in one that runs, or what
/// an image runs by default.
fn is_about_container(words: &[String]) -> bool {
    let is_port = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let names = words.iter().map(String::as_str);
    match names.filter(|word| !is_port(word)).collect::<Vec<_>>()[..] {
        ["exec", ..] | ["compose", "exec", ..] => true,
        ["run", _] => words.len() < 8,
        _ => false,
    }
}

/// Returns `true` if one of the words may be a program that is started, or that gets another name.
fn may_start(name: &str, words: &[Word]) -> bool {
    let mut prefixes = words.iter().map(Word::literal_prefix);
    match name {
        "fd" | "fdfind" => prefixes.any(|word| {
            let is_short = word.starts_with('-') && !word.starts_with("--");
            word.starts_with("--exec") || is_short && word.contains(['x', 'X'])
        }),
        "cp" | "mv" | "ln" | "install" | "link" => prefixes.any(|word| is_system_program(&word)),
        "uv" => prefixes.next().is_some_and(|word| word == "pip"),
        _ => false,
    }
}

/// Returns `true` if all words are known, no option stands before the program that another one
/// starts, and that program only reads in a container that runs, or is a tool of the project.
fn runs_known(name: &str, command: &SimpleCommand) -> bool {
    let texts = texts(command);
    let words: Vec<&str> = texts.iter().map(String::as_str).collect();
    // A shell reads the words again.
    let is_plain = |word: &str| {
        let mut chars = word.chars();
        chars.all(|c| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c))
    };
    let start = match words[..] {
        ["npx" | "bunx" | "uvx", ..] => 1,
        ["uv" | "poetry" | "pipenv" | "pdm", "run", ..]
        | ["bundle" | "npm" | "pnpm" | "yarn", "exec", ..]
        | ["npm" | "bun", "x", ..]
        | ["pnpm" | "yarn", "dlx", ..] => 2,
        ["ssh", ..] if words.iter().all(|word| is_plain(word)) && !is_here(command, 1) => 2,
        ["docker" | "podman", "exec", ..] | ["docker-compose", "exec", ..] => 3,
        ["docker" | "podman", "compose", "exec", ..] => 4,
        _ => return false,
    };
    let tool = words.get(start).copied().unwrap_or_default();
    let argv = command.argv.get(start..);
    let program = argv.and_then(|argv| model(tool, argv).program);
    let has_options = words.iter().take(start).any(|word| word.starts_with('-'));
    !has_options
        && program.is_some_and(|row| match name {
            "docker" | "docker-compose" | "podman" | "ssh" => {
                row.reads && row.dash == Dash::Harmless
            }
            _ => row.builds,
        })
}

/// Folders that a container is given may hold any file.
fn mounts(cx: &mut Context, name: &str, command: &SimpleCommand) {
    const OPTIONS: [&str; 4] = ["--vol", "--mount", "--device", "--rootfs"];
    let is_container = matches!(name, "docker" | "docker-compose" | "podman" | "nerdctl");
    let is_mount = |word: &Word| {
        let prefix = word.literal_prefix();
        let letters = prefix.strip_prefix('-').unwrap_or_default();
        !letters.starts_with('-') && letters.contains('v')
            || OPTIONS.iter().any(|option| prefix.starts_with(option))
    };
    if is_container && command.argv.iter().any(is_mount) {
        cx.add_path(Use::Read, Word::unknown());
        cx.add_path(Use::Target, Word::unknown());
    }
}

/// The program's name is only known when the shell runs.
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
    cx.hide_own_script(first);
    if inputs::has_composed_part(cx, first) {
        cx.leave_out(Reason::DynamicCommand(first.to_string()));
    }
    if first.may_split() && inputs::has_output(first) {
        inputs::run_outputs(cx, command, "$", &command.argv);
    }
    if first.may_split() && command.argv.len() > 1 {
        // It may expand to nothing.
        peel::started(cx, "$", command, command.argv[1..].to_vec(), None);
    }
}

pub(super) fn is_system_program(path: &str) -> bool {
    let name = path.rsplit('/').next();
    let mut directories = SYSTEM.split_whitespace();
    directories.any(|directory| path.strip_prefix(directory) == name)
}
