//! The words of a command that may name files.

use std::collections::HashSet;
use std::sync::Arc;

use super::clues::is_code;
use super::paths::MAX_DIRECTORIES;
use super::shell::{Analysis, Files, Part, SimpleCommand, Word};

/// The maximum number of parts of a word that are examined; a word with more may name any file.
const MAX_PIECES: usize = 256;

/// A word, or a part of one, that may name a file.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct CandidateWord {
    pub(super) word: Word,
    pub(super) files: Files,
    /// The folders that options of an unknown program may name, where its words may start from.
    pub(super) folders: Option<Arc<[Word]>>,
    /// True if the program may change the file that the word names.
    pub(super) is_changed: bool,
    /// True if the program makes, replaces or removes it.
    pub(super) is_replaced: bool,
}

/// The words of a command that may name files.
pub(super) fn path_words(analysis: &Analysis) -> impl Iterator<Item = CandidateWord> {
    analysis.commands.iter().flat_map(|command| {
        let folders = is_unknown(command).then(|| folders(command).into());
        let is_git = command.program().is_some_and(|name| name == "git");
        let is_unknown = folders.is_some();
        let texts: HashSet<usize> = command.texts.iter().copied().collect();
        let words = command
            .argv
            .iter()
            .enumerate()
            .filter(move |(index, _)| !texts.contains(index))
            .map(|(index, word)| (word, command.kept.binary_search(&index).is_ok()));
        // The input of an unknown program may be names of files.
        let feeding = command
            .piped
            .flatten()
            .filter(|_| is_unknown)
            .map(|index| &analysis.commands[index].argv[..]);
        let values = command.values.iter().chain(feeding.unwrap_or_default());
        words
            .chain(values.map(|word| (word, false)))
            .flat_map(move |(word, is_kept)| {
                let mut words = candidates(word);
                let is_anything = is_unknown || command.is_code;
                let is_kept = is_kept && !command.is_code;
                // A program may unpack it.
                words.extend(is_unknown.then(|| word.stem()));
                if is_anything || is_git || command.has_parts {
                    words.extend(pieces(word, is_anything));
                }
                words.into_iter().map(move |word| (word, is_kept))
            })
            .map(move |(word, is_kept)| CandidateWord {
                word,
                files: command.files,
                is_changed: command.files == Files::Changed && !is_kept,
                is_replaced: (command.changes || is_unknown) && !is_kept,
                folders: folders.clone(),
            })
    })
}

/// Returns `true` if nothing is known of what the command does with its words.
pub(super) fn is_unknown(command: &SimpleCommand) -> bool {
    command.unlisted.is_some() && !command.guessed && !command.is_call
}

/// The values of options, no more than are followed.
fn folders(command: &SimpleCommand) -> Vec<Word> {
    let pairs = command.argv.windows(2);
    let values = pairs.filter_map(|pair| match pair {
        [option, value] if option.starts_with_dash() && !value.starts_with_dash() => {
            Some(value.clone())
        }
        _ => None,
    });
    let options = command.argv.iter().filter(|word| word.starts_with_dash());
    let attached = options.flat_map(|word| candidates(word).into_iter().skip(1));
    let mut folders = Vec::new();
    for folder in values.chain(attached) {
        if folders.len() > MAX_DIRECTORIES {
            break;
        }
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The parts of a word that may be a path: all of it, or the part after an option's name, and its
/// other spellings.
fn candidates(word: &Word) -> Vec<Word> {
    let prefix = word.literal_prefix();
    let mut words = vec![word.clone()];
    for mark in ['=', '@', ':', '<', ','] {
        if let Some((key, _)) = prefix.split_once(mark)
            && let Some(suffix) = word.without_prefix(&format!("{key}{mark}"))
        {
            words.push(with_home(suffix));
        }
    }

    // The first and all others of a list.
    let items = prefix.split([',', ':']).skip(2);
    words.extend(items.filter(|item| !item.is_empty()).map(Word::from_text));

    let mut letters = prefix.chars();
    if letters.next() == Some('-')
        && let Some(letter) = letters.next().filter(|c| c.is_ascii_alphabetic())
        && let Some(suffix) = word.without_prefix(&format!("-{letter}"))
    {
        words.push(with_home(suffix));
        // `-Cf.env`
        let ends = prefix.char_indices().skip(3).take(4);
        words.extend(ends.map(|(at, _)| Word::from_text(&prefix[at..])));
    }

    words.extend(file_urls(word, &prefix));
    if prefix.contains("://") && prefix.contains('%') {
        words.push(decoded(word));
    }
    words
}

/// The parts of a word between marks that stand in no path. Words that may be anything are also
/// divided at blanks, and may hold several options before a value.
fn pieces(word: &Word, is_anything: bool) -> Vec<Word> {
    let mut texts = word.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = match word.literal() {
        Some(text) => text,
        None => texts.by_ref().collect::<Vec<_>>().join("="),
    };

    let is_mark =
        |c: char| "=@:,<;\"'{}()|".contains(c) || is_anything && (c == '\\' || c.is_whitespace());
    let mut pieces = text
        .split(is_mark)
        .filter(|piece| piece.len() < text.len())
        .map(str::to_owned)
        .collect::<Vec<_>>();
    if is_anything && text.starts_with('-') && !text.starts_with("--") {
        let ends = text.char_indices().skip(3).take(4);
        pieces.extend(ends.map(|(at, _)| text[at..].to_owned()));
    }

    let mut pieces: Vec<_> = pieces.iter().map(|piece| piece.trim().to_owned()).collect();
    pieces.retain(|piece| !piece.is_empty());
    if pieces.len() > MAX_PIECES {
        return vec![Word::unknown()];
    }

    let pieces = pieces.into_iter().map(Word::from_text).map(with_home);
    // An interpreter may put together any path.
    let unknown = (is_anything && is_code(word)).then(Word::unknown);
    pieces.chain(unknown).collect()
}

/// The paths of a `file:` URL, its escapes decoded and its lists and ranges as wildcards.
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
    paths.iter().chain(&plain_paths).map(decoded).collect()
}

/// The paths that a `file:` URL may be; none for another text.
pub(super) fn paths_of_url(url: &str) -> Vec<String> {
    let is_url = url
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let words = is_url.then(|| file_urls(&Word::from_text(url), url));
    let path = |word: Word| word.literal().unwrap_or_else(|| url.to_owned());
    words.into_iter().flatten().map(path).collect()
}

/// The word with `%73` decoded, and `{a,b}` and `[x-y]` as wildcards.
fn decoded(word: &Word) -> Word {
    let mut path = Word::default();
    for part in &word.parts {
        let Part::Text { text, .. } = part else {
            path.parts.push(part.clone());
            continue;
        };

        let mut bytes = Vec::new();
        let mut characters = text.bytes().peekable();
        let flush = |bytes: &mut Vec<u8>, path: &mut Word| {
            path.push_text(&String::from_utf8_lossy(bytes), true);
            bytes.clear();
        };
        while let Some(byte) = characters.next() {
            match byte {
                b'%' => {
                    let digits = [characters.next(), characters.next()];
                    let [Some(high), Some(low)] = digits.map(hex_digit) else {
                        return Word::unknown();
                    };
                    bytes.push(high * 16 + low);
                }
                b'{' | b'[' => {
                    let end = if byte == b'{' { b'}' } else { b']' };
                    flush(&mut bytes, &mut path);
                    path.push_value(None, true);
                    while characters.next().is_some_and(|byte| byte != end) {}
                }
                byte => bytes.push(byte),
            }
        }
        flush(&mut bytes, &mut path);
    }

    path
}

fn hex_digit(byte: Option<u8>) -> Option<u8> {
    let digit = char::from(byte?).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// The word with `~` expanded, which some programs do where the shell does not.
fn with_home(word: Word) -> Word {
    match word.without_prefix("~/") {
        Some(rest) => {
            let mut home = Word::default();
            home.parts.push(Part::Home(String::new()));
            home.push_text("/", true);
            home.parts.extend(rest.parts);
            home
        }
        None => word,
    }
}
