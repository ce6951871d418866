//! Programs that run code: interpreters, `make`, clients of databases, programs of packages.

use crate::permission::programs::{Arguments, is_console, model};

use super::analysis::{Reason, Use};
use super::context::Context;
use super::options::{is_known_value, is_switch, runs};
use super::row::Row;
use super::shells::is_special;
use super::sql::is_plain_sql;
use super::word::Word;
use super::{peel, shells};

/// Examines the program of a package that the first operand names, like any program of that name.
/// Rules to allow name the command that starts it.
pub(super) fn packaged(cx: &mut Context, row: &Row<'_>) {
    let (index, name, command, arguments) = (row.index, row.name, row.command, &row.arguments);
    let first = arguments.first_operand();
    let Some(at) = first.filter(|_| !matches!(name, "ssh" | "mosh")) else {
        return;
    };

    let text = match command.argv[at].literal() {
        Some(text) if text == "-" => return shells::input(cx, name, command, false),
        Some(text) if !text.contains("://") => text,
        _ => return cx.note(Reason::InlineCode(name.to_owned())),
    };
    let is_mark = |c: char| " \t\n;&|<>()$`\"'\\".contains(c);
    if name == "bun" && text.contains(is_mark) {
        // `bun exec` has a shell of its own.
        shells::run_word(cx, command, name, &command.argv[at]);
    }

    let mut argv = command.argv[at..].to_vec();
    let is_dashes = |word: &Word| word.is("--");
    let dashes = argv.iter().position(is_dashes);
    if let Some(dashes) = dashes {
        // The `--` may end the options of the command that starts the program.
        argv.remove(dashes);
    }

    let (index, start) = command.named_by(index);
    let runner = (index, start + at + usize::from(dashes.is_some()));
    peel::started(cx, name, command, argv, Some(runner));
}

/// Notes the code that an interpreter runs: a file, its input, or a module.
pub(super) fn interpreted(cx: &mut Context, row: &Row<'_>) {
    let (name, command, program, arguments) = (row.name, row.command, row.program, &row.arguments);
    if let Some(module) = arguments.values_of("module").next() {
        return interpreted_module(cx, row, module);
    }

    let Some(file) = arguments.operands.first() else {
        if arguments.unknown.is_empty() {
            shells::input(cx, name, command, false);
        }

        return;
    };

    // `manage.py shell -c ..`, `artisan tinker`
    let subcommand = arguments.operands.get(1).and_then(|word| word.literal());
    let is_fed = command.is_fed() || arguments.operands.len() > 2;
    let mut words = command.argv.iter().map(Word::literal_prefix);
    if subcommand.is_some_and(|word| is_console(&word)) && is_fed
        || words.any(|word| word.contains('('))
    {
        cx.note(Reason::InlineCode(name.to_owned()));
    }

    match file.literal() {
        None => cx.note(Reason::InlineCode(name.to_owned())),
        // `node inspect` is its debugger.
        Some(file) if matches!(&*file, "-" | "inspect") || is_special(&file) => {
            shells::input(cx, name, command, false);
        }
        // An address.
        Some(file) if file.contains([':', '@']) => cx.note(Reason::InlineCode(name.to_owned())),
        Some(file) if program.takes("script") => cx.note(Reason::Script(file)),
        Some(_) => {}
    }
}

/// Examines the module that an interpreter runs (`-m module`, `-mmodule`) as a program, if it is a
/// known one.
fn interpreted_module(cx: &mut Context, row: &Row<'_>, module: &Word) {
    let (index, name, command) = (row.index, row.name, row.command);
    let module_name = module.literal().unwrap_or_default();
    let has_module = |word: &Word| {
        let prefix = word.literal_prefix();
        word == module || prefix.starts_with('-') && prefix.ends_with(&module_name)
    };
    let at = command
        .argv
        .iter()
        .position(has_module)
        .unwrap_or(command.argv.len());
    let mut argv = vec![module.clone()];
    argv.extend(command.argv.iter().skip(at + 1).cloned());
    let (index, start) = command.named_by(index);
    let names = [module_name.clone(), format!("module.{module_name}")];
    let known_name = names
        .iter()
        .find(|name| model(name, &argv).program.is_some());
    match known_name {
        Some(known_name) => {
            argv[0] = Word::from_text(known_name.as_str());
            peel::started(cx, name, command, argv, Some((index, start + at)));
        }
        None => {
            cx.note(Reason::Script(module.to_string()));
            cx.analysis.commands[index].unlisted = Some(start + at + 1);
        }
    }
}

/// Notes what `make` may run because of the variables that are set for it.
pub(super) fn settings(cx: &mut Context, row: &Row<'_>) {
    let (name, command) = (row.name, row.command);
    let is_target = |word: &Word| word.literal().is_some_and(|text| !text.contains('='));
    let words = row.arguments.operands.iter();
    for word in words.filter(|word| !is_target(word)) {
        if is_plain_setting(word) {
            runs(cx, name, "=", command, word);
        } else {
            cx.note(Reason::Option(name.to_owned(), word.to_string()));
        }
    }
}

/// Returns `true` if a word of `make` is a target, or sets a variable to something harmless: a
/// switch, a number, or what a variable of this name is known to hold.
fn is_plain_setting(word: &Word) -> bool {
    const NAMES: &str = "\
        V VERBOSE DEBUG RELEASE MODE BUILD PROFILE ARCH GOOS GOARCH VERSION TAG TEST TESTS \
        TESTCASE FILTER PKG ENV STAGE TARGET NAME";
    let prefix = word.literal_prefix();
    let Some((variable, value)) = prefix.split_once('=') else {
        return true;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,+-".contains(c);
    let is_flag = |flag: &str| {
        let is_plain = !flag.contains(',') && is_known_value("flag", flag);
        is_plain
            && ["-O", "-g", "-W", "-D", "-m", "-f", "-std="]
                .iter()
                .any(|known| flag.starts_with(known))
    };
    let is_known = NAMES.split_ascii_whitespace().any(|name| name == variable);
    // `X!=..` runs its value.
    word.literal().is_some()
        && !variable.ends_with('!')
        && (is_switch(value) && !variable.contains("PATH")
            || is_known && value.chars().all(is_plain) && !value.starts_with('-')
            || matches!(variable, "CFLAGS" | "CXXFLAGS" | "CPPFLAGS")
                && value.split(' ').all(is_flag))
}

/// Notes the statements that a client of a database is given as operands or input, unless they are
/// plain SQL: the client's own commands may run programs.
pub(super) fn statements(cx: &mut Context, row: &Row<'_>) {
    let (index, name, command, arguments) = (row.index, row.name, row.command, &row.arguments);
    // The first word names the database.
    let is_plain = |word: &&Word| word.literal().is_some_and(|text| is_plain_sql(&text));
    if !arguments.operands.iter().skip(1).all(is_plain) {
        cx.inline_code(index, name);
    }

    match command.input.as_ref().filter(|_| !command.is_other_input) {
        Some(input) => match input.literal() {
            Some(text) if is_plain_sql(&text) => {}
            Some(_) => cx.note(Reason::InlineCode(name.to_owned())),
            None => cx.note(Reason::Script(format!("the input of {name}"))),
        },
        None if command.piped.is_some() => cx.note(Reason::InlineCode(name.to_owned())),
        None => {}
    }
}

/// Notes texts among the operands, commands in the input, and addresses.
pub(super) fn inputs(cx: &mut Context, row: &Row<'_>) {
    let (index, name, command) = (row.index, row.name, row.command);
    let (program, arguments) = (row.program, &row.arguments);
    let words = &arguments.operands;
    let is_given = arguments.has_mark("first") || arguments.values_of("sed").next().is_some();
    if program.takes_any(&["sed", "awk", "filter"])
        && !is_given
        && (name != "yq" || words.len() > 1)
        && !cx.analysis.commands[index].is_code
    {
        let first = arguments.first_operand();
        cx.analysis.commands[index].texts.extend(first);
    }

    if program.takes("globs") {
        addresses(cx, arguments);
    }

    let is = |test: fn(&str) -> bool| {
        let mut texts = words.iter().filter_map(|word| word.literal());
        texts.any(|text| test(&text))
    };
    let is_console = program.builds && is(is_console) || arguments.has_mark("console");
    let reads_code = program.builds && !program.takes_any(&["inside", "remote"]);
    if command.is_fed()
        && (program.takes("stdin") || is_console || reads_code && is(|word| word == "-"))
    {
        shells::input(cx, name, command, false);
    }
}

/// Notes words after `--`, unless the row has them for the project's own: they may be options of
/// another program, or set what it runs.
pub(super) fn tail(cx: &mut Context, row: &Row<'_>) {
    let (name, command, program) = (row.name, row.command, row.program);
    let mut words = command.argv.iter();
    let is_clippy = name == "cargo" && words.clone().any(|word| word.is("clippy"));
    // The words of `dotnet test` are settings of its runner.
    let is_dotnet_test = name == "dotnet" && words.clone().any(|word| word.is("test"));
    let is_own = program.takes("tail") && !is_clippy && !is_dotnet_test;
    let has_tail = program.builds && !is_own && !program.takes_any(&["code", "host"]);
    if !has_tail || !words.any(|word| word.is("--")) {
        return;
    }

    let is_plain = |word: &Word| {
        let prefix = word.literal_prefix();
        // `-j4`, `-D warnings`
        let value = prefix.strip_prefix("-j").unwrap_or("-");
        let mut levels = ["-A", "-D", "-F", "-W"].into_iter().filter(|_| is_clippy);
        let is_known = value.bytes().all(|b| b.is_ascii_digit())
            || levels.any(|level| prefix.starts_with(level) && !prefix.contains('='));
        is_known || !prefix.is_empty() && !prefix.starts_with('-') && !prefix.contains(['=', '$'])
    };
    if program.takes("remote") || !words.all(is_plain) {
        cx.note(Reason::Option(name.to_owned(), "--".to_owned()));
    }
}

/// Notes that any file may be read because of lists and ranges in addresses and in names of files
/// that are sent, or written because of `#1` in names of files that are written.
fn addresses(cx: &mut Context, arguments: &Arguments<'_>) {
    let values = arguments
        .values_of("file")
        .chain(arguments.values_of("url"));
    let words = arguments.operands.iter().copied().chain(values);
    let is_file = |word: &Word| {
        let text = word.to_string().to_ascii_lowercase();
        text.starts_with("file:") || text.contains(['{', '[']) && !text.starts_with("http")
    };
    if words.into_iter().any(is_file) {
        cx.add_path(Use::Read, Word::unknown());
        cx.add_path(Use::Project, Word::unknown());
    }

    let mut files = arguments.values_of("write");
    if files.any(|word| word.literal_prefix().contains('#')) {
        cx.add_path(Use::Write, Word::unknown());
    }
}

/// Notes a filter of `jq` or `yq` that may load files by name.
pub(super) fn filter(cx: &mut Context, row: &Row<'_>) {
    let (index, name, arguments) = (row.index, row.name, &row.arguments);
    if arguments.has_mark("first") {
        let is_file = |word: &Word| word.literal().is_some_and(|file| !is_special(&file));
        if !arguments.values_of("read").all(is_file) {
            cx.inline_code(index, name);
        }
        return;
    }

    let verbs = ["e", "eval", "ea", "eval-all"];
    let is_filter = |text: &Option<String>| {
        name != "yq" || !text.iter().any(|text| verbs.contains(&text.as_str()))
    };
    let mut texts = arguments.operands.iter().map(|word| word.literal());
    match texts.find(is_filter) {
        Some(Some(text)) if loads(&text) => cx.inline_code(index, name),
        // It may be any filter.
        Some(None) => cx.add_path(Use::Read, Word::unknown()),
        _ => {}
    }
}

/// Returns `true` if a filter may load a file, or runs text. A key is no function.
fn loads(filter: &str) -> bool {
    let names = ["import", "include", "load", "strload", "eval"];
    let mut places = names.iter().flat_map(|name| filter.match_indices(name));
    places.any(|(at, _)| {
        let before = filter[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
    })
}
