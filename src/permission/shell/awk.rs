//! The effects of an `awk` program.

use super::context::Context;
use super::row::Row;
use super::word::Word;

/// `awk` can run commands, read and write files.
pub(super) fn awk(cx: &mut Context, row: &Row<'_>) {
    let (index, name, arguments) = (row.index, row.name, &row.arguments);
    const WORDS: &str = "@ system getline /inet extension ARGV ARGC SYMTAB";
    let Some(program) = arguments.operands.first() else {
        return;
    };
    let Some(text) = program.literal() else {
        return cx.inline_code(index, name);
    };

    // Some versions read options behind the program as well.
    let is_network = |word: &&Word| word.literal_prefix().contains("/inet");
    let is_option = |word: &&Word| word.starts_with_dash() && word.len() > 1;
    if arguments.operands.iter().any(is_network)
        || arguments.operands.iter().skip(1).any(is_option)
        || WORDS.split(' ').any(|word| text.contains(word))
        || prints_to(&text)
    {
        cx.inline_code(index, name);
    }
}

/// Returns `true` if a `print` is followed by `>` or `|` before its statement ends. Elsewhere `>`
/// compares, and `|` is part of a regular expression or of `||`.
///
/// What follows a slash or a `#` may be a regular expression or a comment, in which quotes mean
/// nothing: there a mark counts wherever it stands.
fn prints_to(program: &str) -> bool {
    let last_mark = program.rfind(['>', '|']);
    // True if a `print` is before the cursor in its statement: outside of texts, or in one.
    let (mut is_open, mut is_quoted) = (false, false);
    let mut chars = program.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        is_open |= program[..at].ends_with("print");
        match c {
            '\\' => {
                chars.next();
            }
            '"' => std::mem::swap(&mut is_open, &mut is_quoted),
            '/' | '#' if is_open && last_mark > Some(at) => return true,
            ';' | '}' | '/' | '#' => is_open = false,
            '|' if chars.next_if(|(_, next)| *next == '|').is_some() => {}
            '>' | '|' if is_open => return true,
            _ => {}
        }
    }
    false
}
