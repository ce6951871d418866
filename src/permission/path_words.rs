//! The words of a command that may name files.

use std::collections::HashSet;

use super::programs::wraps;
use super::shell::{Analysis, Files, Part, SimpleCommand, Word, names_in, without_remarks};

/// The maximum number of parts of a word that are examined; a word with more may name any file.
const MAX_PIECES: usize = 256;

/// The use of a file that a word may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WordUse {
    pub(super) files: Files,
    /// True if the program may change the file that the word names.
    pub(super) is_changed: bool,
    /// True if the program may make, replace or remove it, or it may be the folder of git in which
    /// the program puts files.
    pub(super) is_replaced: bool,
    /// True if the program is known to make, replace or remove it, and is not `mkdir`.
    pub(super) is_written: bool,
    /// False if the word is in a text that the program is given as input, or in one that only may
    /// run.
    pub(super) is_certain: bool,
    /// True if the program is git, which takes some words for names of commits and branches.
    pub(super) is_git: bool,
}

/// A word of a command, or of a text that it is given.
struct WholeWord<'a> {
    word: &'a Word,
    /// True if the command leaves the files that it names as they are.
    is_kept: bool,
    /// True if it may name the folder of git as a folder to put files in.
    may_replace: bool,
    /// False if it is in a text that the program is given as input.
    is_own: bool,
}

/// Returns the words of a command that may name files.
fn whole_words(command: &SimpleCommand) -> impl Iterator<Item = WholeWord<'_>> {
    let has_names = command
        .program()
        .is_some_and(|name| name == "git" || wraps(&name));
    let may_replace = move |word: &Word| !has_names && is_folder_of_git(word);
    let pairs = command.argv.windows(2).zip(1..);
    let omitted_words = pairs.filter(|(pair, _)| omits(&pair[0]) && is_folder_of_git(&pair[1]));
    let omitted_words: HashSet<usize> = omitted_words.map(|(_, index)| index).collect();
    let texts: HashSet<usize> = command.texts.iter().copied().collect();
    let words = command.argv.iter().enumerate();
    let words = words.filter(move |(index, word)| !texts.contains(index) && !is_name(*index, word));
    let words = words.map(move |(index, word)| WholeWord {
        word,
        is_kept: command.kept.binary_search(&index).is_ok() && !command.is_code,
        may_replace: may_replace(word) && !omitted_words.contains(&index),
        is_own: true,
    });
    let values = command.values.iter().map(|word| (word, true));
    let input_names = command.input_names.iter().map(|word| (word, false));
    let others = values.chain(input_names);
    words.chain(others.map(move |(word, is_own)| WholeWord {
        word,
        is_kept: false,
        may_replace: is_own && may_replace(word),
        is_own,
    }))
}

/// Returns the words of a command, and parts of them, that may name files, each with the index of
/// its simple command and the word that it is a part of.
pub(super) fn path_words(
    analysis: &Analysis,
) -> impl Iterator<Item = ((usize, &Word), (Word, WordUse))> {
    let commands = analysis.commands.iter().enumerate();
    commands.flat_map(|(at, command)| {
        let is_unknown = command.unlisted.is_some();
        let program = command.program().unwrap_or_default();
        let is_git = program == "git";
        let has_labels = matches!(&*program, "gh" | "glab");
        let writes = command.changes && !is_unknown && !command.is("mkdir");
        let has_parts = is_unknown || is_git || command.is_code || command.has_parts;
        let is_examined = !command.may_be_evaluated();
        // A word such as `ARGS="--config x"` sets a variable for the builder.
        let sets_values = command.is("make") || command.is("gmake");
        whole_words(command).flat_map(move |whole| {
            let mut words = candidates(whole.word);
            words.extend(has_labels.then(|| unlabelled(whole.word)).flatten());
            // A program may unpack it.
            words.extend(is_unknown.then(|| whole.word.stem()));
            let whole_count = words.len();
            if has_parts {
                words.extend(pieces(whole.word, command));
            }
            let is_certain = whole.is_own && is_examined;
            let is_replaced = command.changes || is_unknown || is_certain && whole.may_replace;
            let words = words.into_iter().enumerate();
            words.map(move |(index, word)| {
                let may_be_text = sets_values && index >= whole_count;
                let word_use = WordUse {
                    files: command.files,
                    is_changed: command.files == Files::Changed && !whole.is_kept,
                    is_replaced: is_replaced && !whole.is_kept,
                    is_written: writes && !whole.is_kept,
                    is_certain: is_certain && !may_be_text,
                    is_git,
                };
                ((at, whole.word), (word, word_use))
            })
        })
    })
}

/// Returns `true` for an option that leaves files out.
fn omits(word: &Word) -> bool {
    let prefix = word.literal_prefix();
    prefix.starts_with('-')
        && ["ignore", "exclude", "build-context"]
            .iter()
            .any(|part| prefix.contains(part))
}

/// Returns `true` if the word ends in the name of the folder of git, in which a program that builds
/// or downloads may put files.
fn is_folder_of_git(word: &Word) -> bool {
    let text = word.literal_prefix().to_ascii_lowercase();
    text.trim_end_matches('/').ends_with(".git") && !omits(word)
}

/// Returns `true` for the first word of a command, if it names a program without its folder.
fn is_name(index: usize, word: &Word) -> bool {
    index == 0 && word.literal().is_some_and(|name| !name.contains('/'))
}

/// Returns the parts of a word that may be a path: all of it, or the part after an option's name,
/// and its other spellings.
fn candidates(word: &Word) -> Vec<Word> {
    let prefix = word.literal_prefix();
    let mut words = vec![word.clone()];
    for mark in ['=', '@', ':', '<', ','] {
        if let Some((key, _)) = prefix.split_once(mark)
            && let Some(suffix) = word.without_prefix(&format!("{key}{mark}"))
        {
            words.extend(spellings(suffix));
        }
    }

    // The items of a list behind the first two.
    let items = prefix.split([',', ':', '=']).skip(2);
    words.extend(items.filter(|item| !item.is_empty()).map(Word::from_text));

    let mut letters = prefix.chars();
    if letters.next() == Some('-')
        && let Some(letter) = letters.next().filter(|c| c.is_ascii_alphabetic())
        && let Some(suffix) = word.without_prefix(&format!("-{letter}"))
    {
        words.extend(spellings(suffix));
        // `-Cf.env`
        let ends = prefix.char_indices().skip(3).take(4);
        words.extend(ends.map(|(at, _)| Word::from_text(&prefix[at..])));
    }

    words.extend(file_urls(word, &prefix));
    if prefix.contains("://") && prefix.contains('%') {
        words.push(decoded(word, true));
    }
    words
}

/// Returns the file of a word such as `file#label`.
fn unlabelled(word: &Word) -> Option<Word> {
    let prefix = word.literal_prefix();
    let (file, _) = prefix.split_once('#')?;
    (!file.is_empty()).then(|| Word::from_text(file))
}

/// Returns the word and, if it begins with `~/`, the word in the home directory: a program may
/// expand `~` where the shell does not, because it is quoted.
fn spellings(word: Word) -> impl Iterator<Item = Word> {
    let home = word.without_prefix("~/").map(|_| word.clone().with_home());
    home.into_iter().chain([word])
}

/// Returns the parts of a word between marks that stand in no path.
fn pieces(word: &Word, command: &SimpleCommand) -> Vec<Word> {
    let texts = word.parts.iter().filter_map(Part::text);
    let mut text = match word.literal() {
        Some(text) => text,
        None => texts.collect::<Vec<_>>().join("="),
    };
    if let Some(program) = command.program().filter(|_| command.is_code) {
        text = without_remarks(&text, &program);
    }

    let pieces = names_in(&text)
        .filter(|piece| piece.len() < text.len())
        .map(Word::from_text)
        .flat_map(spellings)
        .collect::<Vec<_>>();
    if pieces.len() > MAX_PIECES {
        return vec![Word::unknown()];
    }
    pieces
}

/// Returns the paths of a `file:` URL, its escapes decoded and its lists and ranges as wildcards.
fn file_urls(word: &Word, prefix: &str) -> Vec<Word> {
    let lowercase = prefix.to_ascii_lowercase();
    let schemes = ["file:", "fileb:"].into_iter();
    let mut ends = schemes.filter_map(|scheme| Some(lowercase.find(scheme)? + scheme.len()));
    let Some(url) = ends
        .next()
        .and_then(|end| word.without_prefix(&prefix[..end]))
    else {
        return Vec::new();
    };

    let slashes = url.literal_prefix();
    let paths = match slashes.strip_prefix("//") {
        None => vec![Some(url)],
        Some(authority) => {
            // Some programs have no host there.
            let host = authority.split('/').next().unwrap_or_default();
            let prefixes = [format!("//{host}"), "//".to_owned()];
            prefixes.map(|prefix| url.without_prefix(&prefix)).into()
        }
    };
    let paths: Vec<Word> = paths.into_iter().flatten().collect();
    let texts = paths.iter().filter_map(Word::literal);
    // Without a query or a fragment.
    let plain_paths = texts.filter_map(|text| Some(text.split_once(['?', '#'])?.0.to_owned()));
    let plain_paths: Vec<Word> = plain_paths.map(Word::from_text).collect();
    paths
        .iter()
        .chain(&plain_paths)
        .map(|path| decoded(path, true))
        .collect()
}

/// Returns the paths that a `file:` URL may be; none for another text.
pub(super) fn paths_of_url(url: &str) -> Vec<String> {
    let is_url = url
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let words = is_url.then(|| file_urls(&Word::from_text(url), url));
    let path = |word: Word| word.literal().unwrap_or_else(|| url.to_owned());
    words.into_iter().flatten().map(path).collect()
}

/// Returns the word with `%73` decoded, and `{a,b}` and `[x-y]` as wildcards if it `has_lists`.
pub(super) fn decoded(word: &Word, has_lists: bool) -> Word {
    let mut path = Word::default();
    for part in &word.parts {
        let Part::Text { text, .. } = part else {
            path.parts.push(part.clone());
            continue;
        };

        let mut bytes = Vec::new();
        let mut remaining = text.as_bytes();
        while let [byte, after @ ..] = remaining {
            remaining = after;
            let end = if *byte == b'{' { b'}' } else { b']' };
            let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
            let code = digit(0).zip(digit(1));
            let code = code.and_then(|(high, low)| u8::try_from(16 * high + low).ok());
            match (byte, code) {
                (b'%', Some(code)) => {
                    bytes.push(code);
                    remaining = &after[2..];
                }
                (b'{' | b'[', _) if has_lists => {
                    path.push_text(&String::from_utf8_lossy(&std::mem::take(&mut bytes)), true);
                    path.push_value(None, true);
                    let at = after.iter().position(|byte| *byte == end);
                    remaining = at.map_or(&[], |at| &after[at + 1..]);
                }
                _ => bytes.push(*byte),
            }
        }
        path.push_text(&String::from_utf8_lossy(&bytes), true);
    }

    path
}
