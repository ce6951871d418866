//! The words of a command that may name files.

use std::sync::Arc;

use super::paths::MAX_DIRECTORIES;
use super::shell::{Analysis, Files, Part, SimpleCommand, Word};

/// The parts of one word that are looked at; a word with more may name any file.
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
}

/// The words of a command that may name files.
pub(super) fn path_words(analysis: &Analysis) -> impl Iterator<Item = CandidateWord> {
    analysis.commands.iter().flat_map(|command| {
        let folders = is_unknown(analysis, command).then(|| folders(command).into());
        let is_git = command.program().is_some_and(|name| name == "git");
        let keeps_operands = keeps_operands(command);
        let words = command.argv.iter().chain(&command.values);
        let words = words.filter(move |word| Some(*word) != command.pattern.as_ref());
        let is_unknown = folders.is_some();
        words
            .flat_map(move |word| {
                let mut words = candidates(word);
                if is_unknown || command.has_parts {
                    words.extend(pieces(word, is_unknown));
                }
                words.extend(is_git.then(|| pathspec(word)).flatten());
                let is_kept = keeps_operands && !word.starts_with_dash();
                words.into_iter().map(move |word| (word, is_kept))
            })
            .map(move |(word, is_kept)| CandidateWord {
                word,
                files: command.files,
                is_changed: command.files == Files::Changed && !is_kept,
                folders: folders.clone(),
            })
    })
}

/// Returns `true` if nothing is known of what the command does with its words.
pub(super) fn is_unknown(analysis: &Analysis, command: &SimpleCommand) -> bool {
    let is_function = |name: String| analysis.functions.contains(&name);
    command.unlisted.is_some() && !command.guessed && !command.program().is_some_and(is_function)
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

    let mut letters = prefix.chars();
    if letters.next() == Some('-')
        && let Some(letter) = letters.next().filter(|c| c.is_ascii_alphabetic())
        && let Some(suffix) = word.without_prefix(&format!("-{letter}"))
    {
        words.push(with_home(suffix));
    }

    words.extend(file_urls(word, &prefix));
    words
}

/// The parts of a word between marks that stand in no path. The words of an unknown program are
/// also divided at blanks, and may hold several options before a value.
fn pieces(word: &Word, is_unknown: bool) -> Vec<Word> {
    let Some(text) = word.literal() else {
        return Vec::new();
    };

    let is_mark = |c: char| "=@:,<;\"'{}()|".contains(c) || is_unknown && c.is_whitespace();
    let pieces = text.split(is_mark).filter(|piece| piece.len() < text.len());
    let mut pieces = pieces.map(str::to_owned).collect::<Vec<_>>();
    if is_unknown && text.starts_with('-') && !text.starts_with("--") {
        let ends = text.char_indices().skip(3).take(4);
        pieces.extend(ends.map(|(at, _)| text[at..].to_owned()));
    }

    pieces.retain(|piece| !piece.is_empty());
    if pieces.len() > MAX_PIECES {
        return vec![Word::unknown()];
    }

    let words = pieces.into_iter().map(Word::from_text);
    words.map(with_home).collect()
}

/// The wildcards of a pathspec, which git expands itself.
fn pathspec(word: &Word) -> Option<Word> {
    let text = word.literal()?;
    text.contains(['*', '?'])
        .then(|| Word::default().followed_by(&text))
}

/// The paths of a `file:` URL, its escapes decoded and its lists and ranges as wildcards.
fn file_urls(word: &Word, prefix: &str) -> Vec<Word> {
    let lowercase = prefix.to_ascii_lowercase();
    let Some(at) = lowercase.find("file:") else {
        return Vec::new();
    };

    let Some(url) = word.without_prefix(&prefix[..at + 5]) else {
        return Vec::new();
    };

    let slashes = url.literal_prefix();
    let path = match slashes.strip_prefix("//") {
        None => Some(url),
        Some(authority) => {
            let host = authority.split('/').next().unwrap_or_default();
            url.without_prefix(&format!("//{host}"))
        }
    };
    path.map(|path| decoded(&path)).into_iter().collect()
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

/// Returns `true` if a program that may write files leaves those that its operands name as they
/// are, except for its targets.
fn keeps_operands(command: &SimpleCommand) -> bool {
    let argv = &command.argv;
    let program = command.program().unwrap_or_default();
    if argv.iter().any(Word::is_dynamic) {
        return false;
    }
    let has_glob = argv.iter().any(Word::is_glob);
    match program.as_str() {
        "source" | "." => true,
        "cp" => !has_glob && !argv.last().is_some_and(Word::starts_with_dash),
        "git" => match argv.get(1).and_then(Word::literal).as_deref() {
            Some("add" | "blame" | "commit" | "status") => true,
            Some("diff" | "log" | "show") => {
                let is_output = |word: &Word| word.literal_prefix().starts_with("--o");
                !has_glob && !argv.iter().any(is_output)
            }
            _ => false,
        },
        _ => false,
    }
}
