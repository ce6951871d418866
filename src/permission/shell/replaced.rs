//! Programs that a command replaces and runs.

use std::collections::HashMap;

use super::analysis::{Files, Reason, SimpleCommand, Use};
use super::context::Context;
use super::inspect::is_system_program;
use super::word::Word;

/// Notes that nothing is known of the program of a command.
pub(super) fn forget(command: &mut SimpleCommand) {
    command.files = Files::Changed;
    command.unlisted.get_or_insert(1);
    command.kept.clear();
    command.texts.clear();
}

/// Returns the names of the files that the command writes. The value is `true` if the shell may
/// look for programs in the folder of such a file.
fn written_names(cx: &Context) -> HashMap<String, bool> {
    let is_of_programs = |folder: &str| folder.trim_end_matches('/').ends_with("bin");
    let mut changes = cx.analysis.used(Use::Directory);
    let is_searched = cx.constants.contains_key("PATH")
        || cx.analysis.unknown.contains("PATH")
        || changes.any(|folder| is_of_programs(&folder.to_string()));
    let mut names: HashMap<String, bool> = HashMap::new();
    let is_written =
        |path_use: &Use| matches!(path_use, Use::Write | Use::Target | Use::TargetInFolder);
    let paths = cx.analysis.paths.iter();
    for (_, word) in paths.filter(|(path_use, _)| is_written(path_use)) {
        let Some(name) = word.last_name().literal() else {
            continue;
        };
        let path = word.to_string();
        let folder = path.rsplit_once('/').map(|(folder, _)| folder);
        *names.entry(name).or_default() |= is_searched || folder.is_some_and(is_of_programs);
    }
    names
}

/// Notes that nothing is known of a program whose file the command may write.
pub(super) fn forget_replaced(cx: &mut Context) {
    let names = written_names(cx);
    let mut scripts = Vec::new();
    for command in &mut cx.analysis.commands {
        let Some(name) = command.program() else {
            continue;
        };
        let Some(is_searched) = names.get(&name) else {
            continue;
        };
        let path = command.argv.first().and_then(Word::literal);
        let is_path = path.is_some_and(|path| path.contains('/') && !is_system_program(&path));
        if !is_path && !is_searched {
            continue;
        }
        forget(command);
        if !command.guessed {
            scripts.push(name);
        }
    }
    for name in scripts {
        cx.note(Reason::Script(name));
    }
}
