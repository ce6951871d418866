//! What programs do with their operands, by their rows.

use crate::permission::programs::{Arguments, Model, Program, model, runs_elsewhere};

use super::analysis::{Files, Reason, SimpleCommand, Tree};
use super::context::Context;
use super::options::{options, uncertain_words};
use super::word::Word;
use super::{awk, git, peel, sed, shells};

/// Looks at a command by the row of its program.
pub(super) fn modelled(cx: &mut Context, index: usize, name: &str, command: &SimpleCommand) {
    let argv = &command.argv;
    let Model {
        globals,
        program,
        start,
    } = model(name, argv);
    if let Some((row, globals)) = &globals {
        options(cx, name, command, row, globals);
    }

    let Some(program) = program else {
        if name == "git" {
            let subcommand = argv[start - 1].to_string();
            cx.note(Reason::Option("git".to_owned(), subcommand));
            return;
        }

        let subcommand = argv.get(start - 1).and_then(Word::literal);
        if !runs_elsewhere(name, subcommand.into_iter()) {
            cx.found.commands[index].unlisted = Some(start);
        }

        return;
    };

    describe(&mut cx.found.commands[index], program);
    by_row(cx, index, name, command, program, start);
}

/// Looks at the options and operands of a command, `start` words behind its beginning.
fn by_row(
    cx: &mut Context,
    index: usize,
    name: &str,
    command: &SimpleCommand,
    program: &'static Program,
    start: usize,
) {
    let argv = &command.argv;
    match program.operands {
        _ if is_about_itself(argv) => return,
        "input" => return shells::input(cx, name, command, false),
        _ => {}
    }

    if matches!(program.operands, "sed" | "awk" | "find") {
        uncertain_words(cx, name, command);
    }

    match program.operands {
        "sed" => return sed::sed(cx, index, command),
        "awk" => return awk::awk(cx, index, name, command),
        "find" => return peel::find(cx, index, name, command),
        _ => {}
    }

    let words = bundled(cx, command, program);
    let argv = words.as_deref().unwrap_or(argv);
    let arguments = Arguments::read(program, argv, start);
    options(cx, name, command, program, &arguments);
    if arguments.has_mark("about") && arguments.operands.is_empty() {
        return;
    }

    let own = &mut cx.found.commands[index];
    own.values = arguments.attached.clone();
    if program.takes("pattern") && !arguments.has_mark("first") {
        own.pattern = arguments.operands.first().copied().cloned();
    }

    if arguments.has_mark("edit") {
        cx.found.commands[index].files = Files::Changed;
        cx.found.commands[index].changes = true;
    }

    trees(cx, command, program, &arguments);
    operands(cx, index, name, command, program, &arguments);
    if name == "git" {
        git::git(cx, command, start, program, &arguments);
    }
}

/// Notes what the program does with the files that its operands name.
fn describe(command: &mut SimpleCommand, program: &Program) {
    let is_text = program.takes("text") && !program.takes("read");
    command.files = if !program.reads {
        Files::Changed
    } else if is_text {
        Files::Unopened
    } else {
        Files::Read
    };
    command.has_parts = program.takes("parts");
    command.shows = program.takes("show");
    command.changes = ["into", "write", "move", "dd"]
        .iter()
        .any(|kind| program.takes(kind));
}

/// Whether the program only says something about itself.
fn is_about_itself(argv: &[Word]) -> bool {
    let option = argv.get(1).and_then(Word::literal);
    argv.len() == 2 && option.is_some_and(|o| matches!(o.as_str(), "--version" | "--help" | "-V"))
}

/// The words of `tar cf archive`, as `tar -cf archive`. Several letters with values are not
/// followed.
fn bundled(cx: &mut Context, command: &SimpleCommand, program: &Program) -> Option<Vec<Word>> {
    let letters = command.argv.get(1).filter(|_| program.takes("tar"))?;
    if letters.starts_with_dash() {
        return None;
    }

    let mut words = command.argv.clone();
    let mut dashed = Word::from_text("-");
    dashed.parts.extend(letters.parts.iter().cloned());
    words[1] = dashed;
    let prefix = letters.literal_prefix();
    if let Some(at) = prefix.find('f').filter(|at| at + 1 < prefix.len()) {
        // Letters follow the one whose value is the next word.
        words[1] = Word::from_text(format!("-{}{}f", &prefix[..at], &prefix[at + 1..]));
    }

    if prefix.contains(['I', 'F']) {
        peel::every_tail(cx, "tar", command);
    }

    Some(words)
}

/// Notes the folders that are read or changed with all that is in them.
fn trees(cx: &mut Context, command: &SimpleCommand, program: &Program, arguments: &Arguments<'_>) {
    let spec = program.operands;
    let cuts = program.takes("cut") || program.takes("move") || arguments.has_mark("cut");
    let skips_hidden = program.takes("visible") && !arguments.has_mark("dot");
    let follows_links =
        program.takes("links") || arguments.has_mark("links") || arguments.has_mark("follow");
    let mut tree = |word: &Word, cuts: bool| {
        cx.found.trees.push(Tree {
            skips_hidden,
            follows_links,
            ..Tree::new(word.clone(), cuts)
        });
    };

    for (mark, cuts) in [("here", true), ("whole", false)] {
        if arguments.has_mark(mark) {
            tree(&Word::from_text("."), cuts);
        }
    }

    let reads = ["tree", "links", "visible", "move"]
        .iter()
        .any(|kind| program.takes(kind))
        || arguments.has_mark("tree")
        || arguments.has_mark("links");
    if !cuts && !reads {
        return;
    }

    let is_given = arguments.has_mark("first");
    let has_pattern = spec.starts_with("text ") || program.takes("pattern");
    let leading = usize::from(has_pattern && !is_given);
    let mut words = arguments.operands.iter().skip(leading).collect::<Vec<_>>();
    if (program.takes("into") || program.takes("move")) && !is_given && words.len() > 1 {
        words.pop();
    }

    for word in &words {
        if reads {
            tree(word, false);
        }
        if cuts {
            tree(word, true);
        }
    }

    // With piped input, a search reads that.
    let is_piped = program.takes("visible") && command.piped.is_some();
    if words.is_empty() && spec.contains("=.") && !is_piped {
        tree(&Word::from_text("."), cuts);
    }
}

fn operands(
    cx: &mut Context,
    index: usize,
    name: &str,
    command: &SimpleCommand,
    program: &Program,
    arguments: &Arguments<'_>,
) {
    if let Some(marks) = program.refused() {
        let is_end = |word: &Word| word.literal().is_some_and(|word| word == "--");
        if marks == "--" && command.argv.iter().any(is_end) {
            cx.note(Reason::Option(name.to_owned(), marks.to_owned()));
        }

        for word in &arguments.operands {
            let prefix = word.literal_prefix();
            if marks.split(',').any(|mark| prefix.starts_with(mark)) {
                cx.note(Reason::Option(name.to_owned(), word.to_string()));
            }
        }
    }

    let words = &arguments.operands;
    match program.operands.split(' ').next().unwrap_or_default() {
        "code" | "script" => interpreted(cx, index, name, command, program, arguments),
        "make" => words
            .iter()
            .filter(|word| !is_plain_setting(word))
            .for_each(|word| cx.note(Reason::Option(name.to_owned(), word.to_string()))),
        "sql" => statements(cx, name, command, words),
        "tar" => archive(cx, name, arguments),
        "ps" => environments(cx, words),
        "host" => packaged(cx, name, command, words),
        "inside" => cx.found.folders.extend(words.iter().copied().cloned()),
        _ => {}
    }

    if program.operands == "read write" {
        cx.found.writes.extend(words.get(1).copied().cloned());
    }

    if program.takes("into") && (program.takes("tree") || arguments.has_mark("tree")) {
        let targets = words.last().copied().into_iter();
        let targets = targets.chain(arguments.values_of("into"));
        let trees = targets.map(|word| Tree::new(word.clone(), true));
        cx.found.trees.extend(trees);
    }

    let has_target = arguments.values_of("into").next().is_some();
    if (program.takes("into") || program.takes("move")) && !has_target {
        cx.found.targets.extend(words.last().copied().cloned());
    }
}

/// A program of a package: its options are those of a program of its name.
fn packaged(cx: &mut Context, name: &str, command: &SimpleCommand, words: &[&Word]) {
    let Some(first) = words
        .first()
        .filter(|_| !matches!(name, "ssh" | "mosh" | "autossh"))
    else {
        return;
    };

    let at = command.argv.iter().position(|word| word == *first);
    let argv = at.map(|at| &command.argv[at..]).unwrap_or_default();
    if let Some(program) = first.literal() {
        tail_options(cx, &program, command, argv);
    }
}

/// Notes what the options of the program behind `command` do.
fn tail_options(cx: &mut Context, name: &str, command: &SimpleCommand, argv: &[Word]) {
    let Model {
        program: Some(program),
        start,
        ..
    } = model(name, argv)
    else {
        return;
    };

    let arguments = Arguments::read(program, argv, start);
    let tail = SimpleCommand {
        argv: argv.to_vec(),
        ..command.clone()
    };
    options(cx, name, &tail, program, &arguments);
}

/// The program of an interpreter: a file, its input, or a module.
fn interpreted(
    cx: &mut Context,
    index: usize,
    name: &str,
    command: &SimpleCommand,
    program: &Program,
    arguments: &Arguments<'_>,
) {
    if let Some(module) = arguments.values_of("module").next() {
        let module_name = module.literal().unwrap_or_default();
        let at = command.argv.iter().position(|word| word == module);
        let argv = at.map(|at| command.argv[at..].to_vec()).unwrap_or_default();
        let names = [module_name.clone(), format!("module.{module_name}")];
        let known_name = names
            .iter()
            .find(|name| model(name, &argv).program.is_some());
        match known_name {
            Some(known_name) => {
                tail_options(cx, known_name, command, &argv);
                peel::guess(cx, name, command, argv);
            }
            None => {
                cx.note(Reason::Script(module.to_string()));
                cx.found.commands[index].unlisted = at.map(|at| at + 1);
            }
        }

        return;
    }

    let Some(file) = arguments.operands.first() else {
        if arguments.unknown.is_empty() {
            shells::input(cx, name, command, false);
        }

        return;
    };

    match file.literal() {
        None => cx.note(Reason::InlineCode(name.to_owned())),
        Some(file) if file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/") => {
            shells::input(cx, name, command, false);
        }
        Some(file) if program.takes("script") => cx.note(Reason::Script(file)),
        Some(_) => {}
    }
}

/// Whether a word of `make` is a target, or sets a variable to something harmless.
fn is_plain_setting(word: &Word) -> bool {
    let prefix = word.literal_prefix();
    let Some((variable, value)) = prefix.split_once('=') else {
        return true;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,+-".contains(c);
    word.literal().is_some()
        && variable.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        && !variable.contains("SHELL")
        && !matches!(
            variable,
            "CC" | "CXX" | "LD" | "AR" | "AS" | "CPP" | "RM" | "MAKE" | "MAKEFLAGS" | "MAKEFILES"
        )
        && value.chars().all(is_plain)
}

/// An archive elsewhere starts a shell there; extracting writes below a folder.
fn archive(cx: &mut Context, name: &str, arguments: &Arguments<'_>) {
    let is_remote = |word: &Word| {
        word.literal_prefix().contains(':') || word.is_dynamic() && word.literal_prefix().is_empty()
    };
    if arguments.values_of("archive").any(is_remote) {
        cx.note(Reason::Option(name.to_owned(), "-f".to_owned()));
    }

    let cuts = arguments.has_mark("extract");
    let reads = arguments.has_mark("create");
    let follows_links = arguments.has_mark("follow");
    let mut tree = |word: Word, cuts: bool| {
        cx.found.trees.push(Tree {
            follows_links,
            ..Tree::new(word, cuts)
        });
    };

    if cuts {
        tree(Word::from_text("."), true);
        arguments
            .values_of("cd")
            .for_each(|word| tree(word.clone(), true));
    }

    if reads {
        arguments
            .operands
            .iter()
            .for_each(|word| tree((*word).clone(), false));
    }
}

/// `ps eww` shows the environments of processes.
fn environments(cx: &mut Context, words: &[&Word]) {
    if words.iter().any(|word| word.literal_prefix().contains('e')) {
        cx.found.reads.push(Word::from_text("/proc/self/environ"));
    }
}

/// Clients of databases: their own commands in the input may run programs.
fn statements(cx: &mut Context, name: &str, command: &SimpleCommand, words: &[&Word]) {
    const FUNCTIONS: [&str; 5] = [
        "load_extension",
        "writefile",
        "readfile",
        "edit(",
        "program",
    ];
    let calls = |word: &&Word| {
        let text = word.literal_prefix().to_ascii_lowercase();
        FUNCTIONS.iter().any(|function| text.contains(function))
    };
    if words.iter().any(calls) {
        cx.note(Reason::InlineCode(name.to_owned()));
    }

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
