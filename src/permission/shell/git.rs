//! Commands that git runs for its options, its configuration and its aliases.

use crate::permission::programs::{Arguments, Program};

use super::analysis::{Reason, SimpleCommand, Tree, Use};
use super::arrivals;
use super::context::Context;
use super::row::Row;
use super::word::Word;

/// Notes the effects of a subcommand that are not in its row.
pub(super) fn git(cx: &mut Context, row: &Row<'_>, start: usize) {
    let (command, program, arguments) = (row.command, row.program, &row.arguments);
    let rest = &command.argv[start..];
    let words = rest.iter().map(Word::literal_prefix).collect::<Vec<_>>();
    let subcommand = command.argv[start - 1].literal().unwrap_or_default();
    if program.takes("config") {
        return config(cx, command, arguments);
    }

    let first = arguments
        .operands
        .first()
        .map(|word| word.literal_prefix())
        .unwrap_or_default();
    let runs = match subcommand.as_str() {
        "bisect" => matches!(&*first, "run" | "replay" | "visualize" | "view"),
        "submodule" => matches!(&*first, "foreach" | "update" | "add"),
        _ => program.takes("danger"),
    };
    if runs {
        cx.note(Reason::Option("git".to_owned(), subcommand.clone()));
        super::peel::guess_tails(cx, "git", command, 1);
    }

    copies(cx, &subcommand, &first, arguments);
    arrivals::checked_out(cx, row, &subcommand, &first);
    if subcommand == "init" && has_template(command, start, arguments) {
        cx.add_path(Use::Write, Word::from_text(".git/hooks"));
    }

    let is_any = finds_any(program, &words, arguments);
    let mut paths = words.iter().skip_while(|word| *word != "--");
    if is_any || subcommand == "grep" && paths.nth(1).is_none() {
        cx.add_path(Use::Tree(Tree::READ), Word::from_text("."));
    }

    let is_applied = matches!(&*subcommand, "apply" | "am") && !arguments.has_mark("about");
    let changes = program.takes_any(&["cut", "write", "move"]);
    if is_applied || is_any && changes {
        cx.add_path(Use::Tree(Tree::CHANGE), Word::from_text("."));
    }

    outside(cx, &subcommand, &words, arguments);
    if words.iter().any(|word| word.contains("ext::")) {
        cx.note(Reason::Option("git".to_owned(), "ext::".to_owned()));
    }
}

/// Returns `true` if the words may select files of the repository that they do not name: by git's
/// own wildcards, which match slashes, by `:` and `:(..)`, or because they only exclude files.
fn finds_any(program: &Program, words: &[String], arguments: &Arguments<'_>) -> bool {
    let mut magic = words.iter().filter(|word| word.starts_with(':'));
    let has_files = program.takes("cut") || !program.takes("text") && !program.takes("name");
    let is_pattern = |word: &&Word| {
        let text = word.to_string();
        !text.starts_with(':') && text.contains(['*', '?', '['])
    };
    let has_text = program.takes("pattern") && !arguments.has_mark("first");
    let mut files = arguments.operands.iter().skip(usize::from(has_text));
    magic.any(|word| word == ":" || word.starts_with(":/") || word.starts_with(":("))
        || has_files && files.any(is_pattern)
        || words
            .iter()
            .any(|word| word.starts_with(":^") || word.starts_with(":!"))
            && (program.takes("tree") || program.takes("cut"))
}

/// Notes the folder that a subcommand makes, and all files of the repository if it copies them.
fn copies(cx: &mut Context, subcommand: &str, first: &str, arguments: &Arguments<'_>) {
    let is_local = |word: &&Word| is_path(&word.literal_prefix());
    let copies = match subcommand {
        "worktree" => first == "add",
        "clone" => arguments.operands.first().is_some_and(is_local),
        _ => false,
    };
    // The folder that is made.
    let folder = match subcommand {
        "submodule" if first == "add" => arguments.operands.last(),
        "worktree" if first == "move" => arguments.operands.last(),
        "clone" | "worktree" if copies || subcommand == "clone" => arguments.operands.get(1),
        _ => None,
    };
    if let Some(folder) = folder {
        cx.add_path(Use::Target, (*folder).clone());
        cx.add_path(Use::Target, folder.last_name());
        if subcommand == "clone" {
            cx.add_path(Use::Project, (*folder).clone());
        }
    }

    if copies {
        cx.add_path(Use::Tree(Tree::READ), Word::from_text("."));
    }
}

/// Returns `true` if `git init` may copy the hooks of a folder that an option, a setting or a
/// variable names.
fn has_template(command: &SimpleCommand, start: usize, arguments: &Arguments<'_>) -> bool {
    let is_setting = |word: &Word| {
        let text = word.to_string().to_ascii_lowercase();
        text.contains("init.templatedir")
    };
    let is_variable = |name: &String| name == "GIT_TEMPLATE_DIR";
    !arguments.unknown.is_empty()
        || command.argv[..start].iter().any(is_setting)
        || command.assignments.iter().any(is_variable)
}

/// Returns `true` if an address is a path.
fn is_path(address: &str) -> bool {
    !address.contains(':') || address.starts_with("file:")
}

/// Notes files outside the repository, and addresses that run a program.
fn outside(cx: &mut Context, subcommand: &str, words: &[String], arguments: &Arguments<'_>) {
    // Two files of which one lies elsewhere are compared without `--no-index` as well.
    let has_files = matches!(subcommand, "bundle" | "diff");
    if has_files || words.iter().any(|word| word == "--no-index") {
        let files = arguments.operands.iter();
        let files = files.filter(|word| !word.is_number());
        files.for_each(|word| cx.add_path(Use::Project, (*word).clone()));
    }

    // The hooks of a repository that is pushed to are run.
    let addresses = match subcommand {
        "push" => arguments.operands.get(..1).unwrap_or_default(),
        "remote" => &arguments.operands[..],
        _ => &[],
    };
    let has_folder = addresses.iter().any(|word| {
        let prefix = word.literal_prefix();
        // Names of remotes have no colon, so this is an address that the command itself gives.
        let is_address = subcommand == "push" && prefix.contains(':');
        let is_folder = is_path(&prefix) && prefix.contains(['/', '.', ':']);
        word.literal().is_none() || is_address || is_folder
    });

    // `git-remote-x` is run for the addresses `x::y` and `x://y`.
    const SCHEMES: [&str; 9] = [
        "http", "https", "git", "ssh", "file", "ftp", "ftps", "git+ssh", "ssh+git",
    ];
    let remotes = ["fetch", "pull", "push", "clone", "remote", "ls-remote"];
    let is_helper = |word: &&Word| {
        let prefix = word.literal_prefix();
        let end = prefix.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let (scheme, address) = prefix.split_at(end.unwrap_or(prefix.len()));
        address.starts_with("::") || address.starts_with("://") && !SCHEMES.contains(&scheme)
    };
    let runs_helper = remotes.contains(&subcommand) && arguments.operands.iter().any(is_helper);
    if runs_helper {
        cx.hide_script();
    }
    if has_folder || runs_helper {
        cx.note(Reason::Option("git".to_owned(), subcommand.to_owned()));
    }
}

/// Returns `true` for a setting that changes nothing of what git runs, reads and writes.
fn is_harmless(setting: &Word) -> bool {
    let text = setting.literal().unwrap_or_default();
    let Some((name, value)) = text.split_once('=') else {
        return false;
    };
    match &*name.to_ascii_lowercase() {
        "user.name" | "user.email" | "color.ui" | "core.quotepath" => true,
        "core.pager" => value == "cat",
        "commit.gpgsign" => value == "false",
        _ => false,
    }
}

/// `name=value` of a configuration.
pub(super) fn setting(cx: &mut Context, command: &SimpleCommand, word: &Word) {
    if is_harmless(word) {
        return;
    }
    cx.note(Reason::Option("git".to_owned(), "-c".to_owned()));
    let prefix = word.literal_prefix();
    let Some((name, _)) = prefix.split_once('=') else {
        return;
    };
    if let Some(value) = word.without_prefix(&format!("{name}=")) {
        value_of(cx, command, name, &value);
    }
}

/// A value that may be run: a shell command after `!`, a git command for an alias.
fn value_of(cx: &mut Context, command: &SimpleCommand, name: &str, value: &Word) {
    let shell = value.without_prefix("!");
    if shell.is_none() && name.to_ascii_lowercase().starts_with("alias.") {
        let mut aliased = Word::from_text("git ");
        aliased.parts.extend(value.parts.iter().cloned());
        super::shells::run_word(cx, command, "git -c", &aliased);
    }
    let text = shell.as_ref().unwrap_or(value);
    cx.examine_text(|cx| super::shells::run_word(cx, command, "git -c", text));
}

/// `git config`: reading is harmless, setting is not.
fn config(cx: &mut Context, command: &SimpleCommand, arguments: &Arguments<'_>) {
    let words = &arguments.operands;
    let first = words.first().and_then(|word| word.literal());
    let is_name = |name: &String| name.contains('.');
    let reads = match first.as_deref() {
        None => arguments.has_mark("about"),
        Some("get" | "list") => true,
        Some(_) => arguments.has_mark("about") || words.len() == 1 && first.iter().all(is_name),
    };
    if reads && !arguments.has_mark("change") {
        return;
    }

    cx.note(Reason::Option("git".to_owned(), "config".to_owned()));
    cx.add_path(Use::Write, Word::from_text(".git/config"));
    if let [.., name, value] = words.as_slice() {
        value_of(cx, command, &name.literal_prefix(), value);
    }
}
