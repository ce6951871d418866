//! Options that run programs, write files or change settings.

use crate::permission::programs::{Dash, Program, UnknownOption, is_uncertain};

use super::analysis::{Reason, SimpleCommand, Tree, Use};
use super::context::Context;
use super::environment::is_outer;
use super::row::Row;
use super::sql::is_plain_sql;
use super::word::{Part, Word};
use super::{git, shells};

/// Notes what the options of `command` do beyond what its operands do.
pub(super) fn options(cx: &mut Context, row: &Row<'_>) {
    let (name, command, program, arguments) = (row.name, row.command, row.program, &row.arguments);
    for option in &arguments.unknown {
        if is_list_of_files(&option.name) {
            // The files stand in a file.
            any_files(cx, program);
            cx.add_path(
                Use::Project,
                option.value.clone().unwrap_or_else(Word::unknown),
            );
        }

        if program.reads {
            output(cx, option);
        }
        match program.dash {
            Dash::Harmless => {}
            Dash::Runs if program.runs_code() => {
                cx.note(Reason::InlineCode(name.to_owned()));
            }
            Dash::Writes | Dash::Runs => {
                cx.note(Reason::Option(name.to_owned(), option.name.clone()));
                if let Some(value) = &option.value {
                    runs(cx, name, &option.name, command, value);
                }
            }
        }
    }

    for at in &arguments.uncertain {
        let word = &command.argv[*at];
        other_file(cx, program, word);
        // Names that end in text that ends no option.
        let is_named = program.dash == Dash::Writes
            && program.takes_any(&["into", "move"])
            && word.is_glob()
            && matches!(word.parts.last(), Some(Part::Text { text, .. }) if text.contains('.'));
        if program.dash != Dash::Harmless && !is_named && may_be_option(cx, word) {
            cx.note(match program.dash {
                Dash::Runs => Reason::Option(name.to_owned(), word.to_string()),
                _ => Reason::Effect(name.to_owned(), word.to_string()),
            });
        }
    }

    for (mark, option) in &arguments.marks {
        match *mark {
            "edit" => cx.note(Reason::Edit(name.to_owned(), option.clone())),
            "effect" if deletes_elsewhere(row, option) => {}
            "effect" => cx.note(Reason::Effect(name.to_owned(), option.clone())),
            "hidden" => cx.note(Reason::Option(name.to_owned(), option.clone())),
            // The names of the files that it makes stand elsewhere.
            "any" => {
                cx.note(Reason::Effect(name.to_owned(), option.clone()));
                cx.add_path(Use::Target, Word::made());
            }
            _ => {}
        }
    }

    for (kind, value) in &arguments.values {
        option_value(cx, row, kind, value);
    }
}

/// Returns `true` if an option of `rsync` deletes files on another machine.
fn deletes_elsewhere(row: &Row<'_>, option: &str) -> bool {
    let operands = &row.arguments.operands;
    if row.name != "rsync" || !option.starts_with("--del") || operands.len() < 2 {
        return false;
    }
    let target = operands.last().and_then(|word| word.literal());
    let host = target.as_deref().and_then(|path| path.split('/').next());
    host.is_some_and(|host| host.contains(':'))
}

/// Notes the file that a reader may write because of an option that its row does not have: a value
/// in the word of the option, unless that selects something, or the word behind an option with the
/// name of an output. Behind another one, it may be a file that is read.
fn output(cx: &mut Context, option: &UnknownOption) {
    const OUTPUTS: &str = "out save report write diag dump log sql count found ignored categor";
    const CHOICES: &str = "exclude ignore include skip not match glob pattern filter e g I";
    let Some(value) = &option.value else {
        return;
    };
    let name = option.name.as_str();
    let mut parts = name.split(['-', '_']).filter(|part| !part.is_empty());
    let may_write = if option.is_attached {
        !parts.any(|part| CHOICES.split(' ').any(|known| known == part))
    } else {
        let is_output = |part: &str| {
            let is_like = |known: &str| part.starts_with(known) || known.starts_with(part);
            part.len() > 1 && OUTPUTS.split(' ').any(is_like)
        };
        matches!(name, "-o" | "-D" | "--format-multi") || parts.any(is_output)
    };
    // What the command makes is the value of too many other options.
    if !may_write || value.is_dynamic() {
        return;
    }
    let prefix = value.literal_prefix();
    let key = prefix.find('=').map(|at| &prefix[..=at]);
    let part = key.and_then(|key| value.without_prefix(key));
    // `html:report.html,json:report.json`
    let items = prefix.split(',').filter_map(|item| item.split_once(':'));
    let files = items.filter(|(_, file)| !file.is_empty());
    let files = files.map(|(_, file)| Word::from_text(file));
    let values = [Some(value.clone()), part].into_iter().flatten();
    values
        .chain(files)
        .for_each(|value| cx.add_path(Use::Target, value));
}

/// Notes the file that a word names if it is an option when the command runs.
fn other_file(cx: &mut Context, program: &Program, word: &Word) {
    if program.reads && program.names_files() && may_be_option(cx, word) {
        // A file behind a mark has any name.
        let is_named = word.is_glob() && program.refused().is_none();
        let end = word.parts.last().and_then(Part::text);
        let end = end.filter(|_| is_named).unwrap_or_default();
        cx.add_path(Use::Read, Word::default().followed_by(&format!("**{end}")));
    }
}

/// Notes that the program works on files that its words do not name.
fn any_files(cx: &mut Context, program: &Program) {
    cx.add_path(Use::Read, Word::unknown());
    if !program.reads {
        cx.add_path(Use::Target, Word::unknown());
    }
}

/// Returns `true` if the value of an option may contain the names of files.
fn is_list_of_files(option: &str) -> bool {
    let mut names = ["--file", "--filelist", "--files-from", "--files0-from"].iter();
    option.contains("-from") || option.len() > 2 && names.any(|name| name.starts_with(option))
}

/// Returns `true` for a file in a folder with a name that is usual for the results of builders.
fn is_output(file: &Word) -> bool {
    let path = file.literal().unwrap_or_default();
    let mut names = path.split('/');
    let folder = names.next().unwrap_or_default();
    matches!(folder, "bin" | "build" | "dist" | "out" | "target") && names.all(|name| name != "..")
}

/// Returns the uses of the path in a value of this kind.
fn uses_of_value(program: &Program, kind: &str, value: &Word) -> &'static [Use] {
    match kind {
        "write" if program.builds && is_output(value) => &[Use::Target, Use::Project],
        "write" | "pipe" => &[Use::Write],
        "into" => &[Use::Target],
        "cd" if program.takes("cut") => &[Use::Directory, Use::Project, Use::Target],
        "cd" => &[Use::Directory, Use::Project],
        "unpack" => &[Use::Target, Use::Project, Use::Tree(Tree::CHANGE)],
        "outdir" => &[Use::Write, Use::Tree(Tree::CHANGE)],
        "file" | "jar" | "names" => &[Use::Project],
        "read" if program.takes("shown") => &[Use::Read],
        "read" if program.builds => &[Use::Source, Use::Tree(Tree::READ)],
        "tree" => &[Use::Tree(Tree::READ)],
        "git" => &[Use::Directory, Use::Repository],
        _ => &[],
    }
}

/// Notes what the value of an option is used for.
fn option_value(cx: &mut Context, row: &Row<'_>, kind: &str, value: &Word) {
    let (name, command, program) = (row.name, row.command, row.program);
    for path_use in uses_of_value(program, kind, value) {
        cx.add_path(*path_use, value.clone());
    }

    let is_known = |text: String| is_known_value(kind, &text);
    let prefix = value.literal_prefix();
    // It expands the pattern itself.
    let is_pattern = kind == "read" && prefix.contains(['*', '?', '[']);
    if is_pattern && matches!(name, "kubectl" | "oc") {
        cx.add_path(Use::Read, Word::default().followed_by(&prefix));
    }
    let may_run = match kind {
        "url" => prefix.starts_with('@'),
        "suffix" => !is_backup(name, value),
        "file" | "read" => is_address(value, program),
        "pipe" => prefix.is_empty() || prefix.starts_with(['|', '!']),
        "rename" => true,
        "property" => !is_plain_property(value),
        "sql" | "flag" | "name" | "rev" | "format" | "plugin" | "linker" | "strategy" | "mode"
        | "write-out" => !value.literal().is_some_and(is_known),
        _ => false,
    };
    if may_run {
        cx.note(Reason::Option(name.to_owned(), value.to_string()));
    }

    match kind {
        "names" => any_files(cx, program),
        "prefix" => {
            cx.add_path(Use::Write, value.clone());
            cx.add_path(Use::Target, value.followed_by("*"));
        }
        "unset" => cx.unset(&value.to_string()),
        "file" if program.builds && value.is("-") => {
            shells::input(cx, name, command, false);
        }
        "setting" => git::setting(cx, command, value),
        "run" | "property" => runs(cx, name, kind, command, value),
        "pipe" => {
            if let Some(program) = prefix.get(..1).and_then(|mark| value.without_prefix(mark)) {
                runs(cx, name, kind, command, &program);
            }
        }
        _ => {}
    }
}

/// Returns `true` for an address, with or without a scheme where a builder loads it.
fn is_address(value: &Word, program: &Program) -> bool {
    let prefix = value.literal_prefix();
    let host = prefix.split('/').next().unwrap_or_default();
    let is_host = host.len() < prefix.len() && !host.starts_with('.') && host.contains('.');
    prefix.contains("://") || program.builds && (is_host || prefix.contains('@'))
}

/// Returns `true` if the suffix only marks the file as a former one. Other programs than these cut
/// it off as well, or not all of their versions have the option.
fn is_backup(name: &str, suffix: &Word) -> bool {
    let suffix = suffix.literal();
    matches!(name, "cp" | "gcp" | "mv" | "ln" | "sed" | "gsed")
        && suffix
            .is_some_and(|suffix| matches!(&*suffix, "" | ".bak" | ".orig" | ".old" | "~" | ".tmp"))
}

/// Returns `true` if the text is a value of this kind that starts and loads nothing.
pub(super) fn is_known_value(kind: &str, text: &str) -> bool {
    const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];
    match kind {
        "sql" => is_plain_sql(text),
        // `-fuse-ld=..`, `-Wl,-o,..`, `-fplugin=..` and `-ftime-trace=..` are not.
        "flag" => {
            const NAMES: &str = "\
                std march mtune arch tune cpu sanitize error no-error visibility lto \
                diagnostics-color";
            let (name, value) = text.split_once('=').unwrap_or((text, "0"));
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-+".contains(c);
            let name = name.trim_start_matches(['-', 'f', 'W']);
            let is_known = NAMES.split(' ').any(|known| known == name);
            name.chars().all(is_plain)
                && name != "llvm"
                && !["dump", "record"].iter().any(|part| name.contains(part))
                && value
                    .chars()
                    .all(|c| c.is_ascii_digit() || is_known && (is_plain(c) || c == ','))
        }
        "rev" => !text.starts_with('-'),
        "plugin" => text.starts_with("no:"),
        // `-s -w -X main.version=1`, `all=-N -l`
        "linker" => text.split_ascii_whitespace().all(|word| {
            let word = word.trim_matches(['\'', '"']).trim_start_matches("all=");
            let is_value = !word.starts_with('-') && !word.contains("=-");
            is_value && !word.contains('@')
                || matches!(word, "-s" | "-w" | "-X" | "-N" | "-l" | "-m")
        }),
        "name" => !text.replace(";verbosity=", "").contains(['/', '.', '=']),
        "format" => !text.contains("file"),
        "strategy" => STRATEGIES.contains(&text),
        "mode" => text == "readonly" || text == "vendor",
        "write-out" => {
            !text.starts_with('@') && text.matches('%').count() == text.matches("%{").count()
        }
        _ => true,
    }
}

/// Returns `true` if a property only switches something, or has a name that chooses among what the
/// project has.
fn is_plain_property(value: &Word) -> bool {
    const NAMES: &str = "\
        CMAKE_BUILD_TYPE CMAKE_CXX_STANDARD CMAKE_C_STANDARD test it.test spring.profiles.active \
        Configuration Version revision groups includes excludes optimize target expression";
    let Some(text) = value.literal() else {
        return false;
    };
    let Some((name, value)) = text.split_once('=') else {
        return !text.contains('/');
    };
    let name = name.split(':').next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.,*#+".contains(c);
    let is_name = NAMES.split_ascii_whitespace().any(|known| known == name);
    is_switch(value) || is_name && value.chars().all(is_plain)
}

/// Returns `true` if the value is a switch or a number.
pub(super) fn is_switch(value: &str) -> bool {
    let switches = ["on", "off", "true", "false", "yes", "no"];
    let is_number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number && !value.starts_with('.')
        || switches
            .iter()
            .any(|switch| value.eq_ignore_ascii_case(switch))
}

/// Notes words of a program that are only known when the shell runs, and that may be options.
pub(super) fn uncertain_words(cx: &mut Context, name: &str, command: &SimpleCommand) {
    for word in &command.argv[1..] {
        if is_uncertain(word) && may_be_option(cx, word) {
            cx.note(Reason::Option(name.to_owned(), word.to_string()));
        }
    }
}

/// Notes that the value of an option may be run.
pub(super) fn runs(
    cx: &mut Context,
    name: &str,
    option: &str,
    command: &SimpleCommand,
    value: &Word,
) {
    // `exec=program`, `ProxyCommand=program`.
    let prefix = value.literal_prefix();
    let key = prefix.find('=').map(|at| &prefix[..=at]);
    let part = key.and_then(|key| value.without_prefix(key));
    cx.guessing(|cx| {
        for value in [Some(value.clone()), part].into_iter().flatten() {
            shells::run_word(cx, command, &format!("{name} {option}"), &value);
        }
    });
}

/// Returns `true` if a word that is only known when the command runs may be an option.
fn may_be_option(cx: &Context, word: &Word) -> bool {
    let variable = word.parts.first().and_then(Part::variable);
    !variable.is_some_and(|variable| {
        is_outer(variable)
            && !cx.constants.contains_key(variable)
            && !cx.analysis.unknown.contains(variable)
    })
}
