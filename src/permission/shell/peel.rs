//! Finds the commands behind wrappers.

use std::cell::LazyCell;

use crate::permission::programs::{Arguments, Model, model};
use crate::permission::protected::{files_of_git, in_protected_folders};

use super::analysis::{Files, Reason, SimpleCommand, Tree, Use};
use super::compound::is_name;
use super::context::Context;
use super::find_words::{
    changes_by_name, executed, executes_editors, executes_readers, git_files, is_exec, starts,
    words_of_exec,
};
use super::found::Found;
use super::listing::lists_files;
use super::options::options;
use super::row::Row;
use super::word::{LISTED, Part, Word};

/// The maximum number of words of a command of which each may be a program.
const MAX_TAILS: usize = 40;
/// The maximum number of markers that `xargs` replaces by its input.
const MAX_MARKERS: usize = 16;

/// Adds the commands behind the wrapper `command`, if it is one.
pub(super) fn peel(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) -> bool {
    let argv = &command.argv;
    let Model {
        globals: None,
        program: Some(program),
        ..
    } = model(name, argv)
    else {
        return false;
    };

    if !program.takes("command") {
        return false;
    }

    let arguments = Arguments::read(program, argv, 1);
    if arguments.has_mark("about") {
        return true;
    }

    let row = Row::new(index, name, command, program, arguments);
    options(cx, &row);
    let arguments = row.arguments;
    let is_unclear = |word: &&Word| word.may_split();
    if !arguments.unknown.is_empty()
        || !arguments.uncertain.is_empty()
        || arguments.operands.iter().any(is_unclear)
        || arguments.values_of("marker").nth(MAX_MARKERS).is_some()
    {
        every_tail(cx, name, command);
        return true;
    }

    let own = &mut cx.analysis.commands[index];
    own.transparent = program.takes("clear") || name == "nohup" && command.background;
    own.values = arguments.attached.clone();
    let mut at = arguments.command.unwrap_or(argv.len());
    if matches!(name, "env" | "sudo") {
        let is_dash = |word: &Word| word.is("-");
        at += usize::from(argv.get(at).is_some_and(is_dash));
        at += assigned(cx, &argv[at..]);
    }

    if matches!(name, "chroot" | "nsenter") {
        // Another file has this name there.
        cx.note(Reason::Option(name.to_owned(), String::new()));
    }

    if at < argv.len() {
        let words = match name {
            "xargs" | "gxargs" => {
                let source = command.piped.flatten();
                let is_listed = source.is_some_and(|at| lists_files(cx, at));
                with_input(&argv[at..], &arguments, is_listed.then_some(LISTED))
            }
            _ => argv[at..].to_vec(),
        };
        started(cx, name, command, words, None);
    } else if program.takes("sh") || arguments.has_mark("shell") {
        super::shells::input(cx, name, command, true);
    }

    true
}

/// Notes the variables that these words set for the program after them; how many words do.
fn assigned(cx: &mut Context, words: &[Word]) -> usize {
    for (count, word) in words.iter().enumerate() {
        let prefix = word.literal_prefix();
        let Some((variable, _)) = prefix.split_once('=') else {
            return count;
        };

        if !is_name(variable) {
            cx.note(Reason::Variable(variable.to_owned()));
        }

        let value = word.without_prefix(&format!("{variable}="));
        cx.assign(variable, value.as_ref(), true);
    }

    words.len()
}

/// Adds `argv` as a command that `command` starts, for a package if there is a `runner`.
pub(super) fn started(
    cx: &mut Context,
    name: &str,
    command: &SimpleCommand,
    argv: Vec<Word>,
    runner: Option<(usize, usize)>,
) {
    if command.via.len() >= 32 {
        cx.leave_out(Reason::Limit("nesting"));
        return;
    }

    let mut via = command.via.clone();
    via.push(name.to_owned());
    let inner_command = SimpleCommand {
        argv,
        via,
        piped: command.piped,
        sources: command.sources.clone(),
        input: command.input.clone(),
        is_other_input: command.is_other_input,
        shared_input: command.shared_input.clone(),
        input_file: command.input_file.clone(),
        redirections: command.redirections.clone(),
        guessed: command.guessed,
        repeats: command.repeats,
        transparent: runner.is_some(),
        runner,
        ..SimpleCommand::default()
    };

    // Too many commands is noted where they are counted.
    let _counted = cx.add(inner_command);
}

/// Notes that any word may be the program.
pub(super) fn every_tail(cx: &mut Context, name: &str, command: &SimpleCommand) {
    let option = command.argv.get(1).map(ToString::to_string);
    cx.note(Reason::Option(name.to_owned(), option.unwrap_or_default()));
    guess_tails(cx, name, command, 1);
}

/// Adds what begins at any word from this index on, for deny and ask rules.
pub(super) fn guess_tails(cx: &mut Context, name: &str, command: &SimpleCommand, from: usize) {
    cx.guessing(|cx| {
        if command.argv.len() > MAX_TAILS {
            cx.note(Reason::Limit("number of words"));
        }

        for at in from..command.argv.len().min(MAX_TAILS) {
            let word = &command.argv[at];
            if cx.is_full || word.starts_with_dash() {
                continue;
            }

            if word
                .literal()
                .is_some_and(|text| text.contains(char::is_whitespace))
            {
                super::shells::run_word(cx, command, name, word);
            }

            started(cx, name, command, command.argv[at..].to_vec(), None);
        }
    });
}

/// Notes what `find` reads, removes and lists, and the programs that it runs.
pub(super) fn find(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) {
    let argv = &command.argv;
    let starts = starts(argv);
    let is_test = |names: &[&str]| {
        let mut words = argv.iter().filter_map(Word::literal);
        words.any(|word| names.contains(&word.as_str()))
    };
    let selects = is_test(&[
        "-name", "-iname", "-path", "-ipath", "-newer", "-regex", "-iregex",
    ]);
    let runs = is_test(&[
        "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fls", "-fprintf",
    ]);
    let follows_links = is_test(&["-L", "-follow"]);
    let changes = is_test(&["-delete"]) || runs && !executes_readers(argv);
    // Protected files are among those that no name selects.
    let is_here = |word: &Word| word.is(".");
    if changes && !changes_by_name(argv) && starts.iter().any(is_here) {
        cx.add_path(Use::Target, Word::made());
    }

    if changes || runs || !selects {
        let tree = Tree {
            changes,
            // What it runs follows the links that it finds.
            follows_links: follows_links || runs && !changes,
            ..Tree::READ
        };
        for word in starts {
            cx.add_path(Use::Tree(tree), word);
        }
    }
    let files = Found::new(argv);
    files.add_names(cx, argv);

    if changes {
        let own = &mut cx.analysis.commands[index];
        own.files = Files::Changed;
        own.changes = true;
    }

    patterns(cx, argv, changes);
    actions(cx, name, command, &files);
}

/// Notes the names and paths by which `find` selects files; they are written if it `changes`.
fn patterns(cx: &mut Context, argv: &[Word], changes: bool) {
    let is_test = |word: &Word| {
        let test = word.literal_prefix();
        test.starts_with('-') && (test.ends_with("name") || test.ends_with("path"))
    };
    let is_dot = |text: String| text.split('/').all(|name| matches!(name, "" | "."));
    let is_here = starts(argv)
        .iter()
        .any(|start| start.literal().is_none_or(is_dot));
    for pair in argv.windows(2).filter(|pair| is_test(&pair[0])) {
        let pattern = pair[1].literal();
        let pattern = pattern.map(|text| Word::default().followed_by(&text));
        cx.assign("{}", pattern.as_ref(), false);
        let Some(mut file) = pattern.filter(|_| changes) else {
            continue;
        };
        if is_here && matches!(file.parts.first(), Some(Part::Glob(_))) {
            // It also matches a dot at the beginning of a name, as a doubled one does.
            file.parts.insert(0, Part::Glob('*'));
            file.parts.insert(0, Part::Glob('*'));
        }
        cx.analysis.paths.push((Use::Target, file));
    }
    let is_changing = changes || executes_editors(argv);
    let pairs = argv.windows(2).filter(|pair| is_test(&pair[0]));
    for pair in pairs.filter(|_| is_changing) {
        for file in in_protected_folders(&pair[1].to_string()) {
            cx.add_path(Use::TargetInFolder, Word::from_text(file));
        }
    }
    let runs_none = executed(argv).next().is_none();
    for file in git_files(argv).into_iter().filter(|_| is_changing) {
        // Of the files of git, this name is only that of `config.worktree`, without which git runs
        // nothing more.
        if !runs_none || file.to_string() != ".git/config.*" {
            cx.add_path(Use::Target, file);
        }
    }
}

/// `find .. -exec program .. ;`, and what else `find` does with files.
fn actions(cx: &mut Context, name: &str, command: &SimpleCommand, files: &Found) {
    let argv = &command.argv;
    let is = |at: usize, text: &str| argv.get(at).is_some_and(|word| word.is(text));
    let runs_readers = LazyCell::new(|| executes_readers(argv));
    let mut has_tails = false;
    let mut at = 1;
    while at < argv.len() {
        let text = argv[at].literal().unwrap_or_default();
        if !is_exec(&text) {
            let index = cx.analysis.commands.len();
            let deletes = text == "-delete";
            find_action(cx, command, at, text);
            if deletes {
                files.take(cx, index, &[Word::from_text("rm"), Word::from_text("{}")]);
            }
            at += 1;
            continue;
        }

        let start = at + 1;
        let end = start + words_of_exec(&argv[start..]);
        let is_any =
            text.ends_with("dir") || is(end, "+") && (text != "-exec" || !is(end - 1, "{}"));
        if is_any && !has_tails {
            // It runs in the folder of the file, or words behind the `+` belong to it.
            every_tail(cx, name, command);
            has_tails = true;
        }
        let is_long = end - start > MAX_TAILS;
        let may_name_git = || is_long || argv[start..end].iter().any(may_be_of_git);
        if text.ends_with("dir") && may_name_git() && !*runs_readers {
            cx.add_path(Use::Directory, Word::made());
        }

        let words = argv[start..end]
            .iter()
            .map(|word| with_unknown(word, "{}", Some("{}")))
            .collect::<Vec<_>>();
        if !words.is_empty() {
            let index = cx.analysis.commands.len();
            started(cx, &format!("{name} {text}"), command, words, None);
            if text == "-exec" {
                files.take(cx, index, &argv[start..end]);
            }
        }

        at = end + 1;
    }
}

/// Returns `true` if the word, or a part of it, is the name of a file of git in its folder.
fn may_be_of_git(word: &Word) -> bool {
    let text = word.to_string();
    let mut names = text.split(['/', '=']).chain([&*text]);
    names.any(|name| !name.is_empty() && !files_of_git(name).is_empty())
}

/// An action of `find` that deletes or writes.
fn find_action(cx: &mut Context, command: &SimpleCommand, at: usize, text: String) {
    match text.as_str() {
        "-delete" => {
            cx.note(Reason::Edit("find".to_owned(), text));
            let file = with_unknown(&Word::from_text("./{}"), "{}", Some("{}"));
            let argv = vec![Word::from_text("rm"), file];
            started(cx, "find -delete", command, argv, None);
        }
        "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
            if let Some(file) = command.argv.get(at + 1) {
                cx.add_path(Use::Write, file.clone());
            }
        }
        _ => {}
    }
}

/// Returns the words of a command that `xargs` runs, with its input as further words. The last of
/// several options decides whether the input replaces a marker.
fn with_input(words: &[Word], arguments: &Arguments<'_>, input: Option<&str>) -> Vec<Word> {
    let values = arguments.values_of("marker").map(Word::literal);
    let braces = arguments.has_mark("braces").then(|| Some("{}".to_owned()));
    let markers: Vec<_> = values.chain(braces).collect();
    let mut words = words.to_vec();
    for marker in markers.iter().flatten().filter(|marker| !marker.is_empty()) {
        words = words
            .iter()
            .map(|word| with_unknown(word, marker, input))
            .collect();
    }

    let is_known = |marker: &Option<String>| marker.as_ref().is_some_and(|text| !text.is_empty());
    let is_replaced = !markers.is_empty() && markers.iter().all(is_known);
    if !is_replaced || arguments.has_mark("again") {
        let mut word = Word::default();
        word.push_value(input.map(str::to_owned), false);
        words.push(word);
    }
    words
}

/// Returns the word with something unknown in the places of `marker`.
fn with_unknown(word: &Word, marker: &str, name: Option<&str>) -> Word {
    let Some(text) = word.literal().filter(|text| text.contains(marker)) else {
        return word.clone();
    };

    let mut word = Word::default();
    for (index, piece) in text.split(marker).enumerate() {
        if index > 0 {
            word.push_value(name.map(str::to_owned), true);
        }
        if !piece.is_empty() {
            word.push_text(piece, true);
        }
    }
    word
}
