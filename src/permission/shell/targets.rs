//! The files that programs make under names derived from their words.

use crate::permission::programs::{Arguments, has_fixed_end, is_group, known};

use super::analysis::{Subcommand, Tree, Use};
use super::context::Context;
use super::found::has_found;
use super::inputs::is_pipe;
use super::row::Row;
use super::word::{Part, Word};

/// Notes files that are written under names that the operands begin or end with.
pub(super) fn derived(cx: &mut Context, row: &Row<'_>) {
    let (program, words) = (row.program, &row.arguments.operands);
    extra_files(cx, row);
    if program.takes("prefix") && words.len() < 2 {
        cx.add_path(Use::Target, Word::default().followed_by("x*"));
    }

    if program.operands.starts_with("read write")
        && let Some(file) = words.get(1)
    {
        cx.add_path(Use::Write, (*file).clone());
        if program.takes("prefix") {
            cx.add_path(Use::Target, file.followed_by("*"));
        }
    }

    let changes = program.takes_any(&["write", "cut", "move", "unpack", "tar"]) && !program.reads;
    for text in words.iter().filter_map(|word| word.literal()) {
        // The program expands it itself.
        if changes && text.contains(['*', '?', '[']) {
            cx.add_path(Use::Target, Word::default().followed_by(&text));
        }
    }

    if program.takes("temporary") {
        cx.add_path(Use::Target, Word::default().followed_by("/tmp/*"));
    }
    for word in words.iter().filter(|_| program.takes("ended")) {
        cx.add_path(Use::Target, joined(word, ".").followed_by("*"));
    }

    // Programs add these to names, or replace what stands there.
    const ENDINGS: [&str; 9] = ["gz", "bz2", "xz", "zst", "lz4", "Z", "asc", "sig", "gpg"];
    for (word, at) in words.iter().zip(&row.arguments.operand_indices) {
        let names = ENDINGS.map(|ending| joined(word, &format!(".{ending}")));
        // What `find` finds lies below the folders that it searches, and a pipe has no other name.
        let is_text = || {
            (has_found(word) || is_pipe(word)) && cx.analysis.commands[row.index].texts.contains(at)
        };
        if program.takes_any(&["stem", "ending"]) && !is_text() {
            // gzip looks for these as well.
            let others = [".z", "-z"].map(|ending| joined(word, ending));
            let names = names.iter().chain(&others);
            names.for_each(|name| cx.add_path(Use::Read, name.clone()));
        }
        if program.takes("stem") {
            names
                .into_iter()
                .for_each(|name| cx.add_path(Use::Target, name));
            let stem = word.stem();
            cx.add_path(Use::Target, joined(&stem, ".tar"));
            cx.add_path(Use::Target, stem);
            if let Some(stem) = without_joined_ending(word) {
                cx.add_path(Use::Target, stem);
            }
        }
    }
}

/// Notes the files that `dd`, `unzip` and `xxd` open other than those of their operands.
fn extra_files(cx: &mut Context, row: &Row<'_>) {
    let (program, words) = (row.program, &row.arguments.operands);
    // The name of a file may be an operand with a file of its own, such as `if=.env`.
    let is_any = |word: &&Word| word.is_glob() && !word.literal_prefix().contains('=');
    if program.takes("dd") && words.iter().any(is_any) {
        cx.add_path(Use::Read, Word::unknown());
        cx.add_path(Use::Write, Word::unknown());
    }

    // An archive without the ending, or a pattern of archives, which unzip expands itself.
    let archive = words.first().filter(|_| row.name == "unzip");
    if let Some(text) = archive.and_then(|word| word.literal()) {
        let is_pattern = text.contains(['*', '?', '[']);
        let is_whole = text.to_lowercase().ends_with(".zip");
        let endings = ["", ".zip", ".ZIP"].into_iter();
        for ending in endings.filter(|ending| is_pattern || !is_whole && !ending.is_empty()) {
            let name = format!("{text}{ending}");
            cx.add_path(Use::Read, Word::default().followed_by(&name));
        }
    }

    // Behind its first operand, xxd reads no options.
    let last = row.command.argv.last();
    let last = last.filter(|word| word.starts_with_dash() && !word.is("-"));
    if let Some(word) = last.filter(|_| row.name == "xxd" && !words.is_empty()) {
        cx.add_path(Use::Write, word.clone());
    }
}

/// Returns the word without `-gz`, `-z` or `_z`, in any case of letters, which gzip takes for
/// endings of names.
fn without_joined_ending(word: &Word) -> Option<Word> {
    let mut stem = word.clone();
    let Some(Part::Text { text, .. }) = stem.parts.last_mut() else {
        return None;
    };
    let (name, ending) = text.rsplit_once(['-', '_'])?;
    let is_ending = ["gz", "z"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known));
    let name = is_ending.then(|| name.to_owned())?;
    *text = name;
    Some(stem)
}

/// Notes the subcommand, and the settings that it changes. `start` is the index of the first word
/// after it.
pub(super) fn subcommand(
    cx: &mut Context,
    index: usize,
    name: &str,
    argv: &[Word],
    start: usize,
    arguments: &Arguments<'_>,
) {
    let operands = &arguments.operands;
    let before = argv[..start].iter().rev().nth(1).and_then(Word::literal);
    let has_group = start > 2 && before.is_some_and(|word| is_group(&word));
    let verbs = argv[1..start]
        .iter()
        .filter(|word| !word.starts_with_dash());
    let count = verbs.clone().count();
    // The last word is the subcommand, or the last two if the first of them names its group.
    let verbs = verbs.skip(count.saturating_sub(1 + usize::from(has_group)));
    let words = verbs.chain(operands.iter().copied());
    let words: Vec<String> = words.map(ToString::to_string).collect();
    let globals = argv[1..start].iter().filter(|word| word.starts_with_dash());
    let globals = globals.map(Word::literal_prefix);
    let options: Vec<String> = globals.chain(arguments.names.iter().cloned()).collect();
    // The hash of a commit begins a range.
    let is_range = |word: &Word| match &word.parts[..] {
        [first, Part::Text { text, .. }, ..] => first.is_number() && text.starts_with(".."),
        _ => false,
    };
    let mut uncertain = arguments.uncertain.iter().map(|at| &argv[*at]);
    let is_open = uncertain.any(|word| !has_fixed_end(word) && !is_range(word));
    setting_files(cx, name, &words, &options);
    cx.analysis.commands[index].subcommand = Some(Subcommand {
        words,
        options,
        is_open,
    });
}

/// Notes the settings that a known subcommand changes.
pub(super) fn setting_files(cx: &mut Context, name: &str, words: &[String], options: &[String]) {
    if let Some(known) = known(name, words, options, 0) {
        let files = known.settings();
        files.for_each(|file| cx.add_path(Use::Target, Word::from_text(file).with_home()));
    }
}

/// Returns the word with a text behind it.
pub(super) fn joined(word: &Word, text: &str) -> Word {
    let mut word = word.clone();
    word.push_text(text, true);
    word
}

/// Returns the word with another one behind it.
pub(super) fn chained(mut word: Word, next: &Word) -> Word {
    word.parts.extend_from_slice(&next.parts);
    word
}

/// Returns the text with a name in the place of its `*`, as `sed -i` names former files. Behind a
/// second `*` the file may have any name.
fn around(name: &Word, text: &str) -> Word {
    let Some((before, behind)) = text.split_once('*') else {
        return Word::from_text(text);
    };
    let mut file = chained(Word::from_text(before), name);
    if behind.contains('*') {
        file.push_value(None, true);
    } else {
        file.push_text(behind, true);
    }
    file
}

/// Notes the files whose names an option makes of those of the operands.
fn suffixed(cx: &mut Context, row: &Row<'_>) {
    for suffix in row.arguments.values_of("suffix") {
        for word in &row.arguments.operands {
            if !cx.has_room_for_path() {
                return;
            }
            let suffix = suffix.literal_prefix();
            cx.add_path(Use::Target, joined(word, &suffix));
            if suffix.contains('*') {
                let name = around(&word.last_name(), &suffix);
                let folder = word.literal();
                let folder = folder.as_deref().and_then(|path| path.rsplit_once('/'));
                if let Some((folder, _)) = folder {
                    let folder = Word::from_text(format!("{folder}/"));
                    cx.add_path(Use::Target, chained(folder, &name));
                }
                cx.add_path(Use::Target, name);
            }
            if row.program.takes("stem")
                && let Some(text) = word.literal()
                && let Some(stem) = text.strip_suffix(&*suffix)
            {
                cx.add_path(Use::Target, Word::from_text(stem));
            }
        }
    }
}

/// Notes the names under which the program keeps what it replaces.
fn backups(cx: &mut Context, row: &Row<'_>) {
    const SUFFIX: &str = "SIMPLE_BACKUP_SUFFIX";
    let has_mark = row.arguments.has_mark("backup");
    let words = row.arguments.operands.iter();
    for word in words.filter(|_| has_mark || row.name == "patch") {
        if has_mark {
            cx.add_path(Use::Target, joined(word, "~"));
            cx.add_path(Use::Target, joined(word, ".~").followed_by("*"));
        }
        let values = cx.constants.get(SUFFIX).into_iter().flatten();
        let suffixes: Vec<String> = values.map(Word::literal_prefix).collect();
        for suffix in suffixes {
            cx.add_path(Use::Target, joined(word, &suffix));
        }
        if cx.analysis.unknown.contains(SUFFIX) {
            cx.add_path(Use::Target, word.followed_by("*"));
        }
    }
}

/// Notes the files and folders that are made here under the names of what is elsewhere.
pub(super) fn named(cx: &mut Context, row: &Row<'_>) {
    let (program, arguments) = (row.program, &row.arguments);
    let words = &arguments.operands;
    let is_remote = program.takes("remote");
    let is_named = program.takes("named")
        || program.takes("globs") && arguments.has_mark("effect")
        || arguments.has_mark("unpacked")
        || is_remote
            && ["clone", "fork"]
                .iter()
                .any(|verb| arguments.begins_with(verb));
    for word in words.iter().filter(|_| is_named) {
        if let Some(name) = name_before_query(word) {
            cx.add_path(Use::Target, name);
        }
        let is_known = |name: &String| !name.contains('%');
        let Some(text) = word.last_name().literal().filter(is_known) else {
            cx.add_path(Use::Target, Word::unknown());
            continue;
        };

        let text = match word.literal() {
            Some(address) if text.is_empty() || text == ".git" => address,
            _ => text,
        };
        let text = text.split(['?', '#', ';']).next().unwrap_or_default();
        let text = text.trim_end_matches('/').trim_end_matches("/.git");
        for file in [local_name(text), "index.html"] {
            let file = file.trim_end_matches(".git").trim_end_matches(".bundle");
            cx.add_path(Use::Target, Word::default().followed_by(file));
        }
    }

    suffixed(cx, row);
    backups(cx, row);

    // The files that an option puts in a folder.
    let folders = arguments.values_of("outdir");
    let folders = folders.chain(arguments.values_of("unpack"));
    let names = words
        .iter()
        .copied()
        .chain(arguments.values_of("write"))
        .collect::<Vec<_>>();
    for folder in folders {
        for name in &names {
            if !cx.has_room_for_path() {
                return;
            }
            let folder = joined(folder, "/");
            cx.add_path(Use::Target, chained(folder.clone(), &name.last_name()));
            // The name of a file elsewhere ends before these.
            let address = name.literal().unwrap_or_default();
            if let Some((path, _)) = address.split_once(['?', '#', ';']) {
                cx.add_path(Use::Target, joined(&folder, local_name(path)));
            }
        }
    }
}

/// Returns the name in front of what an address has behind its path, where slashes may stand, too.
fn name_before_query(word: &Word) -> Option<Word> {
    let texts = word.parts.iter().map(|part| match part {
        Part::Glob('?') => "?",
        part => part.text().unwrap_or_default(),
    });
    let address: String = texts.collect();
    let (path, _) = address.split_once(['?', '#', ';'])?;
    let name = local_name(path.trim_end_matches('/'));
    if name.contains('%') {
        return Some(Word::unknown());
    }
    (!name.is_empty()).then(|| Word::default().followed_by(name))
}

/// Returns the name that a file or folder elsewhere gets here.
pub(super) fn local_name(address: &str) -> &str {
    address.rsplit(['/', ':']).next().unwrap_or_default()
}

/// Notes the targets of a program that copies, moves or links, and the links that it makes.
pub(super) fn targets(cx: &mut Context, row: &Row<'_>) {
    let (program, arguments) = (row.program, &row.arguments);
    let here = Word::from_text(".");
    let words = &arguments.operands;
    let is_alone = words.len() == 1;
    let folder = arguments.values_of("into").next();
    let folder = folder.or(is_alone.then_some(&here));
    let Some(target) = folder.or(words.last().copied()) else {
        return;
    };

    if folder.is_none() {
        cx.add_path(Use::Target, target.clone());
    }

    let has_parents = arguments.has_mark("parents");
    let is_certain = folder.is_some()
        || has_parents
        || words.len() > 2
        || match target.basename() {
            Some(name) => matches!(name.as_str(), "" | "." | ".."),
            None => !target.is_glob() || target.is_dynamic(),
        };
    let target_use = if is_certain {
        Use::Target
    } else {
        Use::TargetInFolder
    };
    let sources = words.iter().copied();
    for source in sources.filter(|source| !std::ptr::eq(*source, target)) {
        let whole_path = has_parents.then(|| source.clone());
        // The slash at the end means the content of the folder to rsync alone.
        let named_source = match row.name {
            "rsync" => source.clone(),
            _ => source.without_end_slashes(),
        };
        let name = whole_path.unwrap_or_else(|| named_source.last_name());
        let mut file = joined(target, "/");
        let remote_name = named_source.literal().filter(|name| name.contains(':'));
        let remote_file = remote_name.map(|source| file.followed_by(local_name(&source)));
        file.parts.extend(name.parts);
        // A name that is not known is that of a file in the folder.
        for file in [Some(file), remote_file].into_iter().flatten() {
            if is_known_path(&file) {
                cx.add_path(target_use, file);
            }
        }
    }

    let is_tree = || program.takes("tree") || arguments.has_mark("tree");
    if program.takes("into") && (is_tree() || arguments.has_mark("links")) {
        cx.add_path(Use::Tree(Tree::CHANGE), target.clone());
    }

    if program.takes("link") || arguments.has_mark("link") {
        let (folder, sources) = match (folder, words.split_last()) {
            (None, Some((target, sources))) => (*target, sources),
            _ => (folder.unwrap_or(&here), &words[..]),
        };
        for source in sources {
            link_source(cx, folder, source);
        }
    }
}

/// Returns `true` if no part of the path is unknown, but for the folder that it begins with.
fn is_known_path(path: &Word) -> bool {
    let mut parts = path.parts.iter().enumerate();
    parts.all(|(at, part)| match part {
        Part::Value { name, .. } => at == 0 && matches!(name.as_deref(), Some("PWD" | "HOME")),
        _ => true,
    })
}

/// Notes what a link leads to. Its source counts from the folder of the link, or from the folder
/// where the program runs.
fn link_source(cx: &mut Context, folder: &Word, source: &Word) {
    let is_absolute =
        matches!(source.parts.first(), Some(Part::Home(_))) || source.starts_with_text("/");
    let places = [joined(folder, "/"), joined(folder, "/../")];
    let places = places.into_iter().filter(|_| !is_absolute);
    for place in places.chain([Word::default()]) {
        cx.add_path(Use::Linked, chained(place, source));
    }
}
