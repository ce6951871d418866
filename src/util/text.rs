//! The cutting of texts between characters.
//!
//! The public functions count characters (Unicode scalar values), so that no cut splits one.
//! [`head`] and [`tail`] return the number of characters that were cut, and [`head_tail`] passes it
//! to its marker.

use std::borrow::Cow;

use super::json_size::{escaped_len, escaped_prefix};
use super::secret::{Cut, redact_cut, redacted};

/// Returns the first `max_chars` characters of `text`, and how many follow them.
///
/// ```
/// use agentcore::text::head;
///
/// assert_eq!(head("größe", 3), ("grö", 2));
/// assert_eq!(head("größe", 9), ("größe", 0));
/// ```
pub fn head(text: &str, max_chars: usize) -> (&str, usize) {
    // A text has at most as many characters as bytes.
    if text.len() <= max_chars {
        return (text, 0);
    }
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => (&text[..at], text[at..].chars().count()),
        None => (text, 0),
    }
}

/// Returns the last `max_chars` characters of `text`, and how many stand before them.
///
/// ```
/// assert_eq!(agentcore::text::tail("größe", 3), ("öße", 2));
/// ```
pub fn tail(text: &str, max_chars: usize) -> (&str, usize) {
    if text.len() <= max_chars {
        return (text, 0);
    }
    let Some(index) = max_chars.checked_sub(1) else {
        return ("", text.chars().count());
    };
    match text.char_indices().nth_back(index) {
        Some((at, _)) => (&text[at..], text[..at].chars().count()),
        None => (text, 0),
    }
}

/// Returns `text` in at most `max_chars` characters. A text that is cut ends in `...`, which
/// counts; with a limit of three or less, only dots remain.
///
/// ```
/// use agentcore::text::truncate;
///
/// assert_eq!(truncate("hello world", 5), "he...");
/// assert_eq!(truncate("abcd", 3), "...");
/// assert_eq!(truncate("abc", 3), "abc");
/// ```
pub fn truncate(text: &str, max_chars: usize) -> Cow<'_, str> {
    const MARK: &str = "...";
    if head(text, max_chars).1 == 0 {
        return Cow::Borrowed(text);
    }
    match max_chars.checked_sub(MARK.len()) {
        Some(room) => Cow::Owned(format!("{}{MARK}", head(text, room).0)),
        None => Cow::Borrowed(&MARK[..max_chars]),
    }
}

/// Returns [`truncate`] of `text` after its secrets are redacted, because the cut could leave a
/// part of one.
pub(crate) fn truncate_redacted(text: &str, max_chars: usize) -> String {
    truncate(&redacted(text), max_chars).into_owned()
}

/// Returns the start of a name from outside in quotation marks, for an error.
pub(crate) fn quoted(name: &str) -> String {
    format!("{:?}", truncate_redacted(name, 64))
}

/// Returns the words of `text` on one line, of at most `max_chars` characters, in time that does
/// not depend on the words after these.
pub(crate) fn line_of(text: &str, max_chars: usize) -> String {
    let mut line = String::with_capacity(text.len().min(2 * max_chars));
    let mut chars = 0;
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
            chars += 1;
        }
        line.push_str(word);
        chars += word.chars().count();
        // Longer than the line: it is cut either way.
        if chars > max_chars {
            break;
        }
    }
    truncate(&line, max_chars).into_owned()
}

/// Returns the first `head_chars` and the last `tail_chars` characters of `text`, with a marker
/// between them that gets the number of omitted ones.
///
/// A text that fits into both together is returned unchanged.
///
/// ```
/// use agentcore::text::head_tail;
///
/// let cut = head_tail("0123456789", 2, 3, |omitted| format!("[{omitted} more]"));
/// assert_eq!(cut, "01[5 more]789");
/// ```
pub fn head_tail(
    text: &str,
    head_chars: usize,
    tail_chars: usize,
    marker: impl FnOnce(usize) -> String,
) -> Cow<'_, str> {
    let (start, remaining) = head(text, head_chars);
    if remaining <= tail_chars {
        return Cow::Borrowed(text);
    }
    let (end, omitted_chars) = tail(&text[start.len()..], tail_chars);
    Cow::Owned(format!("{start}{}{end}", marker(omitted_chars)))
}

/// Returns `true` for a character that is invisible or changes the direction of the text, so that a
/// person who reads a command does not see what it runs.
pub(crate) fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Cuts `text` to `room` bytes, including the note about the cut, and frees the remaining memory.
/// `size` is the size of the whole result, and `max_bytes` the limit that the note names. Sizes are
/// in bytes of JSON. Returns `true` if the text was cut.
pub(crate) fn cut_bytes(text: &mut String, size: usize, room: usize, max_bytes: usize) -> bool {
    cut_bytes_with(text, size, room, max_bytes, |_, _| {})
}

/// Like [`cut_bytes`], with a change of the part that stays, which gets its maximum length.
fn cut_bytes_with(
    text: &mut String,
    size: usize,
    room: usize,
    max_bytes: usize,
    change: impl FnOnce(&mut String, usize),
) -> bool {
    let len = escaped_len(text);
    if len <= room {
        return false;
    }
    let size = size.max(len);
    let note = format!("\n... (cut: {size} bytes are more than the limit of {max_bytes})");
    let max_len = room.saturating_sub(escaped_len(&note));
    text.truncate(escaped_prefix(text, max_len).len());
    change(text, max_len);
    text.push_str(&note);
    text.shrink_to_fit();
    true
}

/// Like [`cut_bytes`] for a text that is a whole result, without copying the part that is cut off.
/// `size` is the size of the whole result, of which `text` may be only the start. The text was not
/// redacted before: the part of a secret at the cut is replaced as the secret itself is.
#[cfg_attr(not(feature = "tools"), expect(dead_code))]
pub(crate) fn copy_cut(text: &str, size: usize, max_bytes: usize) -> String {
    // A character more than fits, so that it is cut.
    let len = floor_char_boundary(text, max_bytes.saturating_add(4));
    let mut copy = text[..len].to_owned();
    cut_bytes_with(&mut copy, size, max_bytes, max_bytes, |start, max_len| {
        redact_cut(start, Cut::End);
        // The replacement of a part may be longer than the part.
        start.truncate(escaped_prefix(start, max_len).len());
    });
    copy
}

/// Returns the length of the longest start of `text` of at most `len` bytes.
pub(crate) fn floor_char_boundary(text: &str, len: usize) -> usize {
    let mut ends = (0..=len.min(text.len())).rev();
    ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}
