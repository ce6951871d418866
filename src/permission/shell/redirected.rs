//! The files of redirections whose names are values of variables.

use std::collections::HashMap;

use super::analysis::{SimpleCommand, Use};
use super::context::Context;
use super::word::{Part, Word};

/// Adds the files of redirections with the values that the script assigns to their variables. If
/// there is one such value, and nothing else may change it, it replaces the variable.
pub(super) fn guess_files(cx: &mut Context) {
    let may_change = may_change_values(cx);
    let mut files: HashMap<Word, Option<Word>> = HashMap::new();
    for at in 0..cx.analysis.paths.len() {
        let (path_use, word) = &cx.analysis.paths[at];
        if *path_use != Use::Write || !word.is_dynamic() {
            continue;
        }
        let word = word.clone();
        let file = match files.get(&word) {
            Some(file) => file.clone(),
            None => {
                let guesses = cx.guesses(&word);
                let may_change = may_change || cx.analysis.makes(&word);
                let file = match &guesses[..] {
                    [guess] if !may_change && is_exact(&word, guess) => Some(guess.clone()),
                    _ => None,
                };
                for guess in guesses {
                    let pattern = word.may_split().then(|| guess.as_pattern()).flatten();
                    for file in pattern.into_iter().chain([guess]) {
                        cx.add_path(Use::Write, file);
                    }
                }
                files.insert(word, file.clone());
                file
            }
        };
        if let Some(file) = file {
            cx.analysis.paths[at].1 = file;
        }
    }
}

/// Returns `true` if variables may get other values than those that the script assigns, or if these
/// may be split in another way.
fn may_change_values(cx: &Context) -> bool {
    const SETTERS: [&str; 5] = [".", "source", "eval", "trap", "enable"];
    let analysis = &cx.analysis;
    let is_setter = |command: &SimpleCommand| SETTERS.iter().any(|name| command.is(name));
    let mut names = ["IFS", "TMPDIR"].into_iter();
    analysis.sets_any
        || analysis.sets_names
        || names.any(|name| cx.constants.contains_key(name))
        || analysis.commands.iter().any(is_setter)
}

/// Returns `true` if the shell neither splits nor expands the guess that takes the place of a word,
/// and all of it is known but for numbers and names of new files.
fn is_exact(word: &Word, guess: &Word) -> bool {
    let is_changed = |c: char| c.is_whitespace() || "*?[\\".contains(c);
    let mut texts = guess.parts.iter().filter_map(Part::text);
    let may_expand = word.may_split() && texts.any(|text| text.contains(is_changed));
    !may_expand && (guess.literal().is_some() || guess.is_of_new_names())
}
