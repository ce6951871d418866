//! The use that programs make of their operands, by their rows.

use crate::permission::programs::{
    Arguments, Dash, Model, Program, model, runs_elsewhere, runs_here, works_inside,
};

use super::analysis::{Files, Reason, SimpleCommand, Tree, Use};
use super::code::{filter, inputs, interpreted, packaged, settings, statements, tail};
use super::context::Context;
use super::files::{Place, describe, describe_words, places};
use super::options::{options, uncertain_words};
use super::row::Row;
use super::targets::{chained, derived, named, setting_files, subcommand, targets};
use super::word::Word;
use super::{arrivals, awk, git, peel, sed, shells, tree_copies, trees};

/// Looks at a command by the row of its program.
pub(super) fn modeled(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) {
    let argv = &command.argv;
    if command.has_short_help() {
        cx.analysis.commands[index].files = Files::Unopened;
        return;
    }
    let Model {
        globals,
        program,
        start,
    } = model(name, argv);
    let globals = globals.map(|(program, arguments)| {
        options(cx, &Row::new(index, name, command, program, arguments));
        program
    });

    // From the subcommand on.
    let is_elsewhere = runs_elsewhere(name, &first_words(&argv[start - 1..]));
    let runs_there = is_elsewhere && !argv.get(start).is_some_and(Word::starts_with_dash);
    let Some(program) = program.filter(|row| !row.takes("name") || !runs_there) else {
        if name == "git" {
            let subcommand = argv[start - 1].to_string();
            cx.note(Reason::Option("git".to_owned(), subcommand));
            return;
        }

        if !is_elsewhere {
            cx.analysis.commands[index].unlisted = Some(start);
            if !command.guessed {
                places(cx, argv, Place::Local, &Arguments::default());
                unknown(cx, name, command);
                let words = argv[start - 1..].iter();
                let words = words.filter(|word| !word.starts_with_dash());
                let words: Vec<String> = words.map(ToString::to_string).collect();
                setting_files(cx, name, &words, &[]);
            }
        } else {
            launched(cx, name, argv, globals);
            let operands = argv[start..].iter();
            let operands: Vec<&Word> = operands.filter(|word| !word.starts_with_dash()).collect();
            if !command.guessed {
                let options = argv.iter().filter(|word| word.starts_with_dash());
                let arguments = Arguments {
                    operands,
                    names: options.map(Word::literal_prefix).collect(),
                    ..Arguments::default()
                };
                subcommand(cx, index, name, argv, start, &arguments);
            }
        }

        return;
    };

    describe(&mut cx.analysis.commands[index], program);
    // The program, or the subcommand before the operands, is no file.
    cx.analysis.commands[index].texts.push(start - 1);
    by_row(cx, index, name, command, program, start);
}

/// Notes what feeds a program that is not known, and the words of one that another starts.
fn unknown(cx: &mut Context, name: &str, command: &SimpleCommand) {
    if command.is_fed() {
        shells::input(cx, name, command, false);
    }

    if let Some((runner, start)) = command.runner {
        cx.analysis.commands[runner].package = Some(start + 1);
    }

    // One of its words is the beginning of the names that it writes, another one their end.
    if name != "csplit" {
        return;
    }
    for word in &command.argv[1..] {
        let starts = ["", "-f", "--prefix="].map(|option| word.without_prefix(option));
        for start in starts.into_iter().flatten().filter(|start| start.len() > 0) {
            cx.add_path(Use::Target, start.followed_by("*"));
        }
    }
}

/// Notes the options of a program that starts another one: those of the program itself, wherever
/// they stand, and the folders and files that it works with here.
fn launched(cx: &mut Context, name: &str, argv: &[Word], globals: Option<&Program>) {
    let is_end = |word: &&Word| word.is("--");
    for option in argv.iter().take_while(|word| !is_end(word)) {
        let option = option.literal_prefix();
        let option = option.split('=').next().unwrap_or_default();
        if option.starts_with("--") && globals.is_some_and(|row| row.hides(option)) {
            cx.note(Reason::Option(name.to_owned(), option.to_owned()));
        }
    }

    for pair in argv.windows(2) {
        // Files here that the launcher itself reads or writes.
        let prefix = pair[0].literal_prefix();
        let option = prefix.split('=').next().unwrap_or_default();
        if matches!(option, "--env-file" | "--cidfile") {
            let value = pair[0].without_prefix(&format!("{option}="));
            cx.add_path(Use::Project, value.unwrap_or_else(|| pair[1].clone()));
        }
    }

    if runs_here(name) {
        // The program is the first word behind the subcommand that is no value of an option.
        let has_option = |pair: &&[Word]| pair.iter().any(Word::starts_with_dash);
        let count = argv[1..].windows(2).take_while(has_option).count();
        let words = &argv[..argv.len().min(count + 3)];
        places(cx, words, Place::Local, &Arguments::default());
    }
}

/// Returns the texts of the first words that are no options.
pub(super) fn first_words(words: &[Word]) -> Vec<String> {
    let words = words.iter().filter(|word| !word.starts_with_dash());
    words.take(8).map(ToString::to_string).collect()
}

/// Returns the index of the script or task. It may start what the words behind it are.
fn script_index(program: &Program, argv: &[Word], arguments: &Arguments<'_>) -> usize {
    let mut words = argv.iter().take_while(|_| program.takes("tasks"));
    let end = words.position(|word| word.is("--"));
    let indices = arguments.first_operand().into_iter().chain(end);
    indices.min().unwrap_or(argv.len())
}

/// Looks at the options and operands of a command, `start` words after its beginning.
fn by_row(
    cx: &mut Context,
    index: usize,
    name: &str,
    command: &SimpleCommand,
    program: &'static Program,
    start: usize,
) {
    let argv = &command.argv;
    if command.is_about_itself() {
        return;
    }
    if program.takes("input") {
        return shells::input(cx, name, command, false);
    }

    if program.takes("find") {
        uncertain_words(cx, name, command);
        return peel::find(cx, index, name, command);
    }

    // The program may send or store it.
    if !program.reads && program.dash == Dash::Runs {
        let file = command.input_file.iter().cloned();
        file.for_each(|file| cx.add_path(Use::Project, file));
    }

    let words = bundled(cx, command, program);
    let argv = words.as_deref().unwrap_or(argv);
    let mut arguments = Arguments::read(program, argv, start);
    if !command.guessed && (program.builds && !program.takes("host") || start > 1) {
        subcommand(cx, index, name, argv, start, &arguments);
    }
    // The options before a subcommand have been examined.
    arguments.texts.splice(..0, 1..start);
    let row = &Row::new(index, name, command, program, arguments);
    let arguments = &row.arguments;
    options(cx, row);
    if arguments.has_mark("about") && arguments.operands.is_empty() {
        return;
    }

    describe_words(&mut cx.analysis.commands[index], program, argv, arguments);
    if !command.guessed && (program.builds || program.takes("inside")) {
        let words = first_words(&command.argv[start - 1..]);
        let runs_there = !program.takes("host") && runs_elsewhere(name, &words);
        let place = if program.takes("remote") || runs_there {
            Place::Remote
        } else if program.takes("into") {
            Place::Copied
        } else {
            Place::Local
        };
        places(cx, &command.argv, place, arguments);
        addresses(cx, name, argv, program);
    }

    if program.takes_any(&["tail", "tasks", "run", "code", "script"]) {
        let at = script_index(program, argv, arguments);
        peel::guess_tails(cx, name, command, at + 1);
    }

    trees::trees(cx, row);
    operands(cx, row);
    if name == "git" {
        git::git(cx, row, start);
    }
}

/// Notes the addresses of what a builder loads, but for the words of what it starts.
fn addresses(cx: &mut Context, name: &str, argv: &[Word], program: &Program) {
    const RUNNERS: [&str; 8] = [
        "remote", "code", "script", "host", "run", "make", "tasks", "single",
    ];
    if !program.builds || program.takes_any(&RUNNERS) || name == "helm" {
        return;
    }
    let is_end = |word: &&Word| word.is("--");
    for word in argv.iter().take_while(|word| !is_end(word)) {
        let prefix = word.literal_prefix();
        let text = prefix.to_ascii_lowercase().replace('\\', "/");
        // Also in a description of a package, such as `x:{"git":"ssh://host/x"}`.
        let is_mark = |c: char| "=+\"'{}[], ".contains(c);
        let mut parts = text.split(['=', '+']).chain(text.split(is_mark));
        if parts.any(is_address) {
            cx.add_path(Use::Address, word.clone());
        }
    }
}

/// Returns `true` for an address in lower case. Some programs need no slashes behind its scheme;
/// two colons are a part of the name of a test.
fn is_address(text: &str) -> bool {
    let schemes = ["http:", "https:", "ssh://", "git://", "ftp://", "ftps://"];
    let mut ends = schemes
        .iter()
        .filter_map(|scheme| text.strip_prefix(scheme));
    // `http:dev` may be the name of a script.
    let is_host = |end: &str| {
        let is_name = end.starts_with(|c: char| c.is_ascii_alphanumeric());
        end.starts_with('/') || is_name && end.contains(['.', '/', '@'])
    };
    text.starts_with("git@")
        || [
            "http://", "https://", "ssh://", "git://", "ftp://", "ftps://",
        ]
        .iter()
        .any(|scheme| text.contains(scheme))
        || ends.any(is_host)
}

/// Returns `true` for `user@host:path`.
fn is_login(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_plain);
    let login = text
        .split_once(':')
        .and_then(|(login, _)| login.split_once('@'));
    login.is_some_and(|(user, host)| is_name(user) && is_name(host))
}

/// Returns the words of `tar cf archive`, as `tar -cf archive`. Several letters with values are not
/// followed.
fn bundled(cx: &mut Context, command: &SimpleCommand, program: &Program) -> Option<Vec<Word>> {
    let letters = command.argv.get(1).filter(|_| program.takes("tar"))?;
    if letters.starts_with_dash() {
        return None;
    }

    let mut words = command.argv.clone();
    words[1] = chained(Word::from_text("-"), letters);
    let prefix = letters.literal_prefix();
    if let Some(at) = prefix.find('f').filter(|at| at + 1 < prefix.len()) {
        // Letters follow the letter whose value is the next word.
        words[1] = Word::from_text(format!("-{}{}f", &prefix[..at], &prefix[at + 1..]));
    }

    let values = prefix.matches(|c: char| "fCIFTXgbKLNVH".contains(c));
    if prefix.contains(['I', 'F']) || values.count() > 1 {
        peel::every_tail(cx, "tar", command);
    }

    Some(words)
}

/// Returns `true` if the row has no such operand.
fn is_refused(name: &str, program: &Program, word: &Word) -> bool {
    let prefix = word.literal_prefix();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_plain_text = |text: String| text.chars().all(is_plain);
    let is_name = || word.literal().is_some_and(is_plain_text);
    let marks = program.refused().into_iter();
    let mut marks = marks.flat_map(|marks| marks.split(','));
    // The content of a file of arguments is not known.
    let is_named = program.takes("name") || program.takes("host");
    let is_list = program.builds && prefix.starts_with('@') && !is_named;
    let is_local = program.takes("inside") && !program.takes("remote");
    // `:a:b` and `a:b:c` are tasks of gradle.
    let is_coordinate = name.starts_with("mvn") && prefix.matches(':').count() > 1;
    // A folder to build from may be a repository elsewhere.
    let is_folder = program.builds && program.takes("tree") && !program.takes("into");
    // What stands behind the name of a package, which may begin with a scope.
    let source = match prefix.strip_prefix('@') {
        Some(package) => package.split_once('@').map_or("", |(_, source)| source),
        None => prefix.as_str(),
    };
    is_list
        || is_coordinate
        || is_folder && is_login(&prefix)
        || is_local && prefix.contains("://")
        || program.takes("none")
        || program.takes("make") && prefix.contains(|c| "$`;&|<>\n".contains(c))
        || program.takes("plain") && (!is_name() || prefix.ends_with(".msl"))
        || marks.any(|mark| {
            prefix.starts_with(mark)
                || prefix.to_ascii_lowercase().starts_with(mark)
                || mark == ":" && prefix.contains(':')
                || mark == "/" && source.contains('/') && !source.starts_with('.')
        })
}

/// Notes the use of the operands.
fn operands(cx: &mut Context, row: &Row<'_>) {
    let (name, program, arguments) = (row.name, row.program, &row.arguments);
    let words = &arguments.operands;
    let first = words.first().and_then(|word| word.literal());
    tail(cx, row);

    for word in words.iter().filter(|word| is_refused(name, program, word)) {
        cx.note(Reason::Option(name.to_owned(), word.to_string()));
    }

    let mut kinds = program.operands.split([' ', '/', '=']);
    match kinds.next().unwrap_or_default() {
        "code" | "script" => interpreted(cx, row),
        "make" => settings(cx, row),
        "sed" => sed::sed(cx, row),
        "awk" => awk::awk(cx, row),
        "filter" => filter(cx, row),
        "sql" => statements(cx, row),
        "tar" => archive(cx, row),
        // `ps eww` shows the environments of processes.
        "ps" if words.iter().any(|word| word.literal_prefix().contains('e')) => {
            cx.add_path(Use::Read, Word::from_text("/proc/self/environ"));
        }
        "host" => packaged(cx, row),
        // A program that checks or tests the project.
        "run" if works_inside(&first.unwrap_or_default()) => packaged(cx, row),
        "run" => scripts(cx, row),
        "inside" => words
            .iter()
            .for_each(|word| cx.add_path(Use::Project, (*word).clone())),
        _ => {}
    }

    inputs(cx, row);
    derived(cx, row);
    let is_listing = name == "aws" && arguments.begins_with("ls");
    if (program.takes("into") || program.takes("move")) && !is_listing {
        targets(cx, row);
    }

    arrivals::arrivals(cx, row);
    tree_copies::tree_copies(cx, row);
    named(cx, row);
}

/// Notes that the words may be those of a script of the project, or of a program of a package.
/// Slashes enclose a pattern of scripts.
fn scripts(cx: &mut Context, row: &Row<'_>) {
    let (name, command, words) = (row.name, row.command, &row.arguments.operands);
    let is_file = |word: &Word| {
        let prefix = word.literal_prefix();
        prefix.starts_with('-') || prefix.contains(['.', '/']) && !prefix.contains(' ')
    };
    let is_end = |word: &Word| word.is("--");
    let is_own = command.argv.iter().any(is_end) || words.iter().skip(1).all(|word| is_file(word));
    let is_pattern = words.first().is_some_and(|word| word.starts_with_text("/"));
    if is_pattern || !is_own {
        peel::every_tail(cx, name, command);
    } else {
        peel::guess_tails(cx, name, command, 1);
    }
}

/// Notes the folders that an archive is made of or unpacked to, and an archive on another machine,
/// which starts a shell there.
fn archive(cx: &mut Context, row: &Row<'_>) {
    let (name, arguments) = (row.name, &row.arguments);
    let is_remote = |word: &Word| {
        word.to_string().contains(':') || word.is_dynamic() && word.literal_prefix().is_empty()
    };
    if arguments.values_of("archive").any(is_remote) {
        cx.note(Reason::Option(name.to_owned(), "-f".to_owned()));
    }

    let changes = arguments.has_mark("extract");
    let reads = arguments.has_mark("create");
    if changes {
        cx.add_path(Use::Tree(Tree::CHANGE), Word::from_text("."));
        arguments
            .values_of("cd")
            .for_each(|word| cx.add_path(Use::Tree(Tree::CHANGE), word.clone()));
        let expressions = arguments.values_of("rename");
        expressions.for_each(|expression| renamed(cx, expression));
    }

    if changes || !reads {
        let folders = arguments.values_of("cd");
        folders.for_each(|word| cx.add_path(Use::Target, word.clone()));
    }

    if reads {
        let tree = Tree {
            follows_links: arguments.has_mark("follow"),
            ..Tree::READ
        };
        arguments
            .operands
            .iter()
            .for_each(|word| cx.add_path(Use::Tree(tree), (*word).clone()));
    }
}

/// Notes the names, or their beginnings, that `s/pattern/name/` gives to files. A name that takes
/// over a part of the former one, by `&` or a backslash, may be any name.
fn renamed(cx: &mut Context, expression: &Word) {
    let text = expression.literal().unwrap_or_default();
    let mark = text.chars().nth(1).unwrap_or(';');
    let is_other = |next: &str| !next.is_empty() && next.chars().nth(1) != Some(mark);
    if text.split(';').any(is_other) || text.is_empty() {
        return cx.add_path(Use::Target, Word::made());
    }
    let names = text.split(mark).skip(2).step_by(3);
    for name in names.filter(|name| !name.is_empty()) {
        let known_name = Some(name).filter(|name| !name.contains(['&', '\\']));
        let name = known_name.map_or_else(Word::made, Word::from_text);
        cx.add_path(Use::Target, name.followed_by("*"));
        cx.add_path(Use::Target, name);
    }
}
