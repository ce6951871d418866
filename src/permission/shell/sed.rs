//! The effects of a `sed` script.

use super::analysis::Use;
use super::context::Context;
use super::row::Row;
use super::word::{Part, Word};

/// The maximum number of files that are looked for in a script.
const MAX_FILES: usize = 64;

/// The mark in the place of a part of a script that is not known. No script of a command has it.
const UNKNOWN: char = '\0';

/// `sed`: scripts of plain commands are harmless; `e`, `w`, `r` and what is not known are not.
pub(super) fn sed(cx: &mut Context, row: &Row<'_>) {
    let arguments = &row.arguments;
    let mut scripts: Vec<&Word> = arguments.values_of("sed").collect();
    if scripts.is_empty() {
        scripts.extend(arguments.operands.first());
    }

    let texts: Vec<String> = scripts.into_iter().map(text_of).collect();
    let script = texts.join("\n");
    if script.contains(UNKNOWN) || read_plain(&script).is_none() {
        cx.inline_code(row.index, "sed");
        files(cx, &script);
        if let Some(file) = made_file(&script) {
            cx.add_path(Use::Write, file);
        }
    }
}

/// Returns the text of a script, with a mark for each part that is not known.
fn text_of(script: &Word) -> String {
    let texts = script.parts.iter().map(|part| match part {
        Part::Text { text, .. } => text.clone(),
        Part::Brace(c) => c.to_string(),
        _ => UNKNOWN.to_string(),
    });
    texts.collect()
}

/// Returns the first file that a script writes under a name that is known in part.
fn made_file(script: &str) -> Option<Word> {
    let is_flag = |c: char| c.is_ascii_digit() || "gpiImMe".contains(c) || c == UNKNOWN;
    let mut remaining = script;
    loop {
        remaining = remaining.trim_start_matches([' ', '\t', '\n', ';', '{', '}', UNKNOWN]);
        let command_text = match remaining.strip_prefix('\\') {
            Some(pattern) => {
                let delimiter = pattern.chars().next()?;
                after_delimiter(&pattern[delimiter.len_utf8()..], delimiter)?
            }
            None => after_addresses(remaining)?,
        };
        remaining = command_text.trim_start_matches([' ', '\t', '!', UNKNOWN]);
        let command = remaining.chars().next()?;
        remaining = &remaining[command.len_utf8()..];
        if matches!(command, 's' | 'y') {
            remaining = after_substitution(remaining)?.trim_start_matches(is_flag);
        }

        let file = match command {
            '{' => continue,
            'a' | 'i' | 'c' => {
                remaining = after_text(remaining);
                continue;
            }
            'w' | 'W' => Some(remaining),
            's' => remaining.strip_prefix('w'),
            _ => None,
        };
        let name = file.and_then(|file| file.lines().next());
        if let Some(name) = name.filter(|name| name.contains(UNKNOWN)) {
            return Some(word_of(name.trim_start()));
        }
        let takes_line = file.is_some() || matches!(command, 'r' | 'R' | '#');
        let ends: &[char] = if takes_line {
            &['\n']
        } else {
            &['\n', ';', '}']
        };
        remaining = &remaining[remaining.find(ends)?..];
    }
}

/// Returns the word that a text with marks represents.
fn word_of(text: &str) -> Word {
    let mut word = Word::default();
    for (index, known) in text.split(UNKNOWN).enumerate() {
        if index > 0 {
            word.push_value(None, true);
        }
        word.push_text(known, true);
    }
    word
}

/// Notes the files that `w` and `r` name anywhere in a script, each up to the end of its line, as
/// far as all of that is known.
fn files(cx: &mut Context, script: &str) {
    let ends = script
        .lines()
        .filter_map(|line| line.rsplit(UNKNOWN).next());
    let uses = ends.flat_map(|end| {
        end.char_indices().filter_map(move |(at, c)| match c {
            'w' | 'W' => Some((&end[at + 1..], Use::Write)),
            'r' | 'R' => Some((&end[at + 1..], Use::Read)),
            _ => None,
        })
    });
    for (count, (path, path_use)) in uses.enumerate() {
        let is_known = count < MAX_FILES;
        let word = is_known.then(|| Word::from_text(path.trim_start()));
        cx.add_path(path_use, word.unwrap_or_else(Word::unknown));
        if !is_known {
            return;
        }
    }
}

/// Reads the script. Returns `None` if it does not only select, delete, print, substitute, insert
/// text and jump.
fn read_plain(script: &str) -> Option<()> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
        if rest.is_empty() {
            return Some(());
        }

        let after = after_addresses(rest)?.trim_start_matches([' ', '!']);
        let command = after.chars().next()?;
        rest = &after[command.len_utf8()..];
        match command {
            'p' | 'd' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' | 'q'
            | 'Q' | '{' => {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                if command != '{' && !rest.is_empty() && !rest.starts_with([';', '\n', '}']) {
                    return None;
                }
            }
            's' | 'y' => {
                let is_flag = |c: char| c.is_ascii_digit() || "gpiI".contains(c);
                rest = after_substitution(rest)?.trim_start_matches(is_flag);
                let next = rest.trim_start_matches(' ');
                if !next.is_empty() && !next.starts_with([';', '\n', '}']) {
                    return None;
                }
            }
            'a' | 'i' | 'c' => rest = after_text(rest),
            ':' | 'b' | 't' | 'T' => {
                rest = rest.trim_start_matches(' ');
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                rest = &rest[end.unwrap_or(rest.len())..];

                // Some take all of the line for the label.
                let one_line = !script.contains('\n');
                let ends = rest.is_empty()
                    || rest.starts_with('\n')
                    || one_line && rest.starts_with([';', '}']);
                if !ends {
                    return None;
                }
            }
            _ => return None,
        }
    }
}

/// Returns the part after the text of `a`, `i` or `c`, which ends with a line that no backslash
/// continues.
fn after_text(rest: &str) -> &str {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        if c == '\n' && !escaped {
            return &rest[at..];
        }
        escaped = c == '\\' && !escaped;
    }
    ""
}

fn after_addresses(script: &str) -> Option<&str> {
    let rest = after_address(script)?;
    match rest.strip_prefix(',') {
        Some(second) => after_address(second.trim_start_matches(['+', '~'])),
        None => Some(rest),
    }
}

fn after_address(text: &str) -> Option<&str> {
    let is_number = |c: char| c.is_ascii_digit() || c == '$' || c == '~';
    match text.strip_prefix('/') {
        Some(pattern) => Some(after_delimiter(pattern, '/')?.trim_start_matches('I')),
        None if text.starts_with('\\') => None,
        None => Some(text.trim_start_matches(is_number)),
    }
}

fn after_substitution(rest: &str) -> Option<&str> {
    let delimiter = rest.chars().next()?;
    if delimiter == '\\' || delimiter == '\n' {
        return None;
    }
    let rest = &rest[delimiter.len_utf8()..];
    after_delimiter(after_delimiter(rest, delimiter)?, delimiter)
}

/// Returns the part after the next `delimiter`; `None` if a bracket is not closed before it, where
/// it is text, or if the end of a bracket is not clear.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => after.get(after.chars().next()?.len_utf8()..)?,
            c if c == delimiter => return Some(after),
            '[' => after_bracket(after, delimiter)?,
            _ => after,
        };
    }
    None
}

/// Returns the part after a bracket. Its end is clear if neither `]` nor `^]` begins it, and if it
/// contains no brackets but names of classes.
fn after_bracket(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    if rest.starts_with(']') {
        return None;
    }

    loop {
        let end = rest.find(['[', ']', '\\', delimiter])?;
        let (_, at) = rest.split_at(end);
        if let Some(after) = at.strip_prefix(']') {
            return Some(after);
        }

        if let Some(escaped) = at.strip_prefix('\\') {
            let c = escaped.chars().next().filter(|c| !"[]".contains(*c))?;
            rest = &escaped[c.len_utf8()..];
            continue;
        }

        let class = at.strip_prefix("[:")?;
        let (name, after) = class.split_once(":]")?;
        if !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return None;
        }
        rest = after;
    }
}
