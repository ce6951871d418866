//! The folders that programs read or change with all that is in them.

use crate::permission::programs::{Arguments, Program};

use super::analysis::{Tree, Use};
use super::context::Context;
use super::inputs::is_pipe;
use super::row::Row;
use super::word::Word;

/// Notes the folders that are read or changed with all that is in them.
pub(super) fn trees(cx: &mut Context, row: &Row<'_>) {
    let (command, program, arguments) = (row.command, row.program, &row.arguments);
    let is_all = arguments.has_mark("all");
    let shows = arguments.has_mark("diff");
    let writes = program.takes_any(&["cut", "move"]) && !shows && !arguments.has_mark("list");
    let changes = writes || arguments.has_mark("cut") || is_all;
    let (mut read_tree, changed_tree) = tree_uses(program, arguments);
    read_tree.skips_hidden &= !cx.shows_hidden;
    globs(cx, arguments);
    for (mark, tree) in [("here", changed_tree), ("whole", read_tree)] {
        if arguments.has_mark(mark) {
            cx.add_path(Use::Tree(tree), Word::from_text("."));
        }
    }

    if empties_here(program, arguments) {
        cx.add_path(Use::Target, Word::made());
    }

    // A program that writes back, or lists names, shows no content.
    let is_silent = program.takes("inside") && (changes || arguments.has_mark("list"));
    let reads = program.takes_any(&["tree", "links", "visible", "move"]) && !is_silent
        || arguments.has_mark("tree")
        || arguments.has_mark("links")
        || shows
        || is_all;
    let is_elsewhere = arguments.values_of("unpack").next().is_some();
    if program.takes("unpack") && !is_elsewhere && !arguments.has_mark("list") {
        cx.add_path(Use::Tree(Tree::CHANGE), Word::from_text("."));
    }

    if !changes && !reads {
        return;
    }

    let mut words = tree_words(program, arguments);
    // A search reads its input if that is certainly a pipe.
    let is_piped = program.takes("visible")
        && command.piped.is_some()
        && command.input.is_none()
        && cx.analysis.functions.is_empty()
        && !command.via.iter().any(|name| name.ends_with("xargs"));
    if words.is_empty() && program.operands.contains("=.") && !is_piped {
        words.push(Word::from_text("."));
    }

    for (_, tree) in [(reads, read_tree), (changes, changed_tree)]
        .iter()
        .filter(|(applies, _)| *applies)
    {
        for word in &words {
            cx.add_path(Use::Tree(*tree), word.clone());
        }
    }
}

/// Returns `true` if all files of the workspace may be removed or replaced: `.` is a folder whose
/// files the program replaces, a source that it removes (`--remove-source-files`), or a target that
/// it makes equal to its sources (`--delete`).
fn empties_here(program: &Program, arguments: &Arguments<'_>) -> bool {
    let is_copier = program.takes("into");
    let marks = &arguments.marks;
    let has = |start: &str| {
        let mut marks = marks.iter();
        marks.any(|(mark, option)| *mark == "effect" && option.starts_with(start))
    };
    let words = &arguments.operands;
    let mut places = words.iter().enumerate();
    places.any(|(at, word)| {
        let is_target = is_copier && at + 1 == words.len();
        let option = if is_target { "--del" } else { "--rem" };
        word.is(".") && (has(option) || arguments.has_mark("all"))
    })
}

/// Returns the words that name folders which a program reads or changes.
fn tree_words(program: &Program, arguments: &Arguments<'_>) -> Vec<Word> {
    let is_given = arguments.has_mark("first");
    let has_pattern = program.operands.starts_with("text ")
        || program.takes("filter")
        || program.takes("pattern");
    let leading = usize::from(has_pattern && !is_given);
    let mut words = arguments.operands.iter().skip(leading).collect::<Vec<_>>();
    if (program.takes("into") || program.takes("move")) && !is_given && words.len() > 1 {
        words.pop();
    }

    // `:!x` is all but that, and a pipe is no folder.
    words.retain(|word| {
        let prefix = word.literal_prefix();
        !is_pipe(word) && !prefix.starts_with(":!") && !prefix.starts_with(":^")
    });
    // Folders that are compared may be the values of options.
    let values = arguments.values_of("read");
    let values = values.filter(|_| program.takes("links"));
    let words = words.into_iter().copied().chain(values);
    words.map(folder_of_pattern).collect()
}

/// Returns the folder before a pattern that the program expands itself; the word if it is none.
fn folder_of_pattern(word: &Word) -> Word {
    let text = word.literal().unwrap_or_default();
    match text.find(['*', '?', '[', '{']) {
        None => word.clone(),
        Some(at) => Word::from_text(match text[..at].rsplit_once('/') {
            None => ".".to_owned(),
            Some((folder, _)) => format!("{folder}/"),
        }),
    }
}

/// Notes the files that a search is limited to.
fn globs(cx: &mut Context, arguments: &Arguments<'_>) {
    for glob in arguments.values_of("glob").filter_map(Word::literal) {
        let name = glob.rsplit('/').next().unwrap_or_default();
        if let Some(ending) = name.strip_prefix("*.").filter(|_| !glob.starts_with('!')) {
            // It finds hidden files as well.
            let name = format!("**.{}", ending.to_lowercase());
            cx.add_path(Use::Read, Word::default().followed_by(&name));
        }
    }
}

/// Returns the parts of folders that a program reads, and changes.
fn tree_uses(program: &Program, arguments: &Arguments<'_>) -> (Tree, Tree) {
    let mut globs = arguments.values_of("glob");
    let mut kinds = arguments.values_of("kind");
    let is_code = |kind: &Word| kind.literal().is_some_and(|kind| is_code(&kind));
    let is_visible = !arguments.has_mark("dot") && !globs.any(names_hidden) && kinds.all(is_code);
    // What compresses all of a folder follows links.
    let marks = ["links", "follow", "all"];
    let follows_links = program.takes("links") || marks.iter().any(|mark| arguments.has_mark(mark));
    let read_tree = Tree {
        skips_hidden: program.takes("visible") && is_visible,
        follows_links,
        ..Tree::READ
    };
    let changed_tree = Tree {
        follows_links,
        ..Tree::CHANGE
    };

    (read_tree, changed_tree)
}

/// Returns `true` if the files of a type have no hidden names. A search by type finds hidden files.
fn is_code(kind: &str) -> bool {
    const KINDS: &str = "rust py python js ts go java kotlin c cpp cs ruby php swift css";
    KINDS.split(' ').any(|known| known == kind)
}

/// Returns `true` if a pattern of files may include hidden ones: it neither excludes files nor is
/// about an ending alone.
fn names_hidden(glob: &Word) -> bool {
    let Some(text) = glob.literal() else {
        return true;
    };
    let name = text.rsplit('/').next().unwrap_or_default();
    let ending = name.strip_prefix("*.").unwrap_or(".");
    let is_ending = !ending.is_empty() && ending.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    !text.starts_with('!') && !is_ending && !is_name
}
