//! The effects of an `awk` program.

use crate::permission::programs::Arguments;

use super::analysis::{Reason, Use};
use super::context::Context;
use super::word::Word;

/// `awk` can run commands, read and write files.
pub(super) fn awk(cx: &mut Context, index: usize, name: &str, arguments: &Arguments<'_>) {
    let Some(program) = arguments.operands.first() else {
        return;
    };
    let Some(text) = program.literal() else {
        return cx.inline_code(index, name);
    };

    let is_network = |word: &&Word| word.literal_prefix().contains("/inet");
    if text.contains('@')
        || arguments.operands.iter().any(is_network)
        || [
            "system",
            "getline",
            "/inet",
            "extension",
            "ARGV",
            "ARGC",
            "SYMTAB",
        ]
        .iter()
        .any(|word| text.contains(word))
        || prints_to(&text, '|')
    {
        cx.inline_code(index, name);
    } else if prints_to(&text, '>') {
        cx.note(Reason::Edit(name.to_owned(), "print >".to_owned()));
        for file in written_files(&text) {
            cx.add_path(Use::Write, file);
        }
    }
}

/// Returns `true` if a `print` is followed by `mark` before its statement ends. Elsewhere `>`
/// compares, and `|` is part of a regular expression or of `||`.
///
/// What follows a slash or a `#` may be a regular expression or a comment, in which quotes mean
/// nothing: there the mark counts wherever it stands.
fn prints_to(program: &str, mark: char) -> bool {
    program.match_indices("print").any(|(at, print)| {
        let rest = &program[at + print.len()..];
        let mut in_text = false;
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    chars.next();
                }
                '"' => in_text = !in_text,
                _ if in_text => {}
                ';' | '}' => return false,
                '/' | '#' => return rest[at..].contains(mark),
                '|' if mark == '|' && chars.next_if(|(_, next)| *next == '|').is_some() => {}
                c if c == mark => return true,
                _ => {}
            }
        }

        false
    })
}

/// The files that `print >` writes; anything if one is not a text alone.
fn written_files(program: &str) -> Vec<Word> {
    let targets = program.split('>').skip(1).map(|target| {
        let target = target.trim_start_matches('>').trim_start();
        let text = target.strip_prefix('"')?.split_once('"');
        let is_whole = |end: &str| {
            let end = end.trim_start_matches([' ', '\t']);
            end.is_empty() || end.starts_with([';', '}', '\n'])
        };
        text.filter(|(text, end)| !text.contains('\\') && is_whole(end))
            .map(|(text, _)| Word::from_text(text))
    });
    targets
        .map(|word| word.unwrap_or_else(Word::unknown))
        .collect()
}
