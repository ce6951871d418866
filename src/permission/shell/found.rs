//! Files that `find` finds: they lie below the folders that it searches.

use crate::permission::programs::model;

use super::analysis::Use;
use super::context::Context;
use super::find_words::{changes_by_name, edits, executed, executes_readers};
use super::word::{Part, Word};

/// The way in which a command of `find` selects the files that it runs programs for.
pub(super) struct Found {
    /// True if the files lie below the folders that its words name.
    is_below: bool,
    /// True if it only reads them, too, and names select them.
    is_read: bool,
}

impl Found {
    pub(super) fn new(argv: &[Word]) -> Self {
        let is_known = |word: &Word| {
            let text = word.literal();
            text.is_some_and(|text| !text.starts_with("-files0"))
        };
        let is_below = argv.iter().all(is_known) && changes_by_name(argv);
        Self {
            is_below,
            is_read: is_below && !has_other_tests(argv) && executes_readers(argv),
        }
    }

    /// Notes that the places of files in a program that `find` runs, the command at an index, count
    /// by the folders that are searched. That is known if the program reads or removes its files.
    pub(super) fn take(&self, cx: &mut Context, index: usize, words: &[Word]) {
        let name = words.first().and_then(Word::basename).unwrap_or_default();
        let is_remover = || matches!(&*name, "rm" | "rmdir" | "unlink");
        if !(self.is_read && is_reader(&name, words) || self.is_below && is_remover()) {
            return;
        }
        let places = words.iter().enumerate().skip(1);
        let places = places.filter(|(_, word)| word.is("{}")).map(|(at, _)| at);
        if let Some(own) = cx.analysis.commands.get_mut(index) {
            own.texts.extend(places);
        }
    }

    /// Notes the names of the files that `find` runs programs for, if these only read. A wildcard
    /// of `find` also matches a dot at the beginning of a name, as a doubled one does.
    pub(super) fn add_names(&self, cx: &mut Context, argv: &[Word]) {
        if !self.is_read || executed(argv).next().is_none() {
            return;
        }
        for pair in argv.windows(2).filter(|pair| pair[0].is("-name")) {
            let text = pair[1].literal().unwrap_or_default();
            let is_wild = text.starts_with(['*', '?', '[', '\\']);
            let start = if is_wild { "**" } else { "" };
            let name = Word::default().followed_by(&format!("{start}{text}"));
            cx.add_path(Use::Read, name);
        }
    }
}

/// Returns `true` if `find` selects files by other tests than names, or deletes them. A negated
/// test only leaves files out; a negated `-delete` still deletes.
fn has_other_tests(argv: &[Word]) -> bool {
    const OTHERS: &str = "-iname -path -ipath -wholename -iwholename -regex -iregex -empty";
    let is_negation = |word: &Word| word.is("!") || word.is("-not");
    let mut pairs = argv.windows(2);
    pairs.any(|pair| {
        let mut others = OTHERS.split(' ');
        pair[1].is("-delete") || !is_negation(&pair[0]) && others.any(|other| pair[1].is(other))
    })
}

/// Returns `true` if the program only reads.
fn is_reader(name: &str, words: &[Word]) -> bool {
    let model = model(name, words);
    model.program.is_some_and(|program| program.reads) && !edits(&model, words)
}

/// Notes that the files may lie anywhere if a command may put a link in a folder that is searched.
pub(super) fn forget_found(cx: &mut Context) {
    if cx.analysis.arrivals.is_empty() {
        return;
    }
    for command in &mut cx.analysis.commands {
        let argv = &command.argv;
        command
            .texts
            .retain(|at| !argv.get(*at).is_some_and(has_found));
    }
}

/// Returns `true` if a part of the word is a file that `find` finds.
pub(super) fn has_found(word: &Word) -> bool {
    word.parts
        .iter()
        .any(|part: &Part| part.variable() == Some("{}"))
}
