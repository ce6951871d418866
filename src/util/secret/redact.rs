//! The removal of secrets from texts and values.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::escape::Escape;
use super::known;
use super::matcher::Matcher;
use super::secret::REDACTED;

/// The maximum number of times that a text may have been escaped. An error adds one or two to those
/// of the text of a peer.
const MAX_DEPTH: usize = 3;

/// The minimum length, in bytes, of a part of a secret at the edge of a cut that is removed. Three
/// characters are too few to be of use, and ordinary words begin with them.
const MIN_PART: usize = 4;

/// The maximum number of bytes that are left of an escape that a cut has torn, as of `%25252F` or
/// `\\\\ud83d\\\\ude00`.
const MAX_TORN: usize = 20;

/// Returns `text` without the secrets of this process, in any spelling.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    match try_redact(text) {
        Some(changed) => Cow::Owned(changed),
        None => Cow::Borrowed(text),
    }
}

/// Returns `text` without the secrets of this process; `None` if there are none in it.
pub(super) fn try_redact(text: &str) -> Option<String> {
    let patterns = known::patterns()?;
    let mut places = Vec::new();
    search(patterns.all(), text.as_bytes(), 0, &mut places);
    with_places_redacted(text, places)
}

/// Returns `text` with each `%XX` decoded. Bytes that are not UTF-8 are replaced.
#[cfg(any(feature = "http", feature = "nats"))]
pub(crate) fn percent_decoded(text: &str) -> String {
    match Escape::Percent.undo(text.as_bytes()) {
        Some(undone) => String::from_utf8_lossy(&undone).into_owned(),
        None => text.to_owned(),
    }
}

/// Removes the secrets of this process from `text`.
pub(crate) fn redact_text(text: &mut String) {
    if let Some(new_text) = try_redact(text) {
        *text = new_text;
    }
}

/// Removes the secrets of this process from all texts in `value`, including the names of members.
pub(crate) fn redact(value: &mut Value) {
    if known::patterns().is_some() {
        redact_with(value, &try_redact);
    }
}

/// Replaces all texts in `value` that `change` changes, including the names of members. Returns
/// `true` if there was one.
pub(super) fn redact_with(value: &mut Value, change: &dyn Fn(&str) -> Option<String>) -> bool {
    match value {
        Value::String(text) => match change(text) {
            Some(changed) => {
                *text = changed;
                true
            }
            None => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |has_changed, item| {
            redact_with(item, change) | has_changed
        }),
        Value::Object(members) => {
            let mut has_changed = false;
            for member in members.values_mut() {
                has_changed |= redact_with(member, change);
            }

            if members.keys().any(|name| change(name).is_some()) {
                has_changed = true;
                let old_members = std::mem::take(members).into_iter();
                *members = old_members
                    .map(|(name, member)| (change(&name).unwrap_or(name), member))
                    .collect();
            }

            has_changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The edge at which a text was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Start,
    End,
}

/// Removes the secrets of this process from a text that was cut before it could be redacted,
/// including the part of a secret at the cut.
pub(crate) fn redact_cut(text: &mut String, cut: Cut) {
    if let Some(patterns) = known::patterns() {
        redact_cut_with(patterns.all(), text, cut);
    }
}

pub(super) fn redact_cut_with(matcher: &Matcher, text: &mut String, cut: Cut) {
    let mut places = Vec::new();
    search(matcher, text.as_bytes(), 0, &mut places);
    places.extend(part_at_cut(matcher, text.as_bytes(), cut));
    if let Some(new_text) = with_places_redacted(text, places) {
        *text = new_text;
    }
}

/// Returns the place of the part of a secret at the cut edge of `text`; `None` if there is none.
fn part_at_cut(matcher: &Matcher, text: &[u8], cut: Cut) -> Option<Range<usize>> {
    let place = match cut {
        Cut::End => {
            // The decoding of bytes that end inside a character has replaced that character.
            let text = text.strip_suffix("\u{fffd}".as_bytes()).unwrap_or(text);
            open_start(matcher, text, 0, MIN_PART)..text.len()
        }
        Cut::Start => 0..partial_prefix_end(matcher, text),
    };
    (!place.is_empty()).then_some(place)
}

/// Returns the end of the longest beginning of `text` that is the end of a secret, in any spelling;
/// 0 if there is none.
fn partial_prefix_end(matcher: &Matcher, text: &[u8]) -> usize {
    // Only the beginning is read, with at most `MAX_TORN` bytes for each byte of a needle.
    let max_len = matcher.longest.saturating_add(1).saturating_mul(MAX_TORN);
    let text = &text[..text.len().min(max_len)];

    // The cut may be inside an escape, of which the last bytes are left.
    let is_of_escape = |byte: &&u8| byte.is_ascii_hexdigit() || b"\\unrtx{}".contains(byte);
    let max_torn_len = text.iter().take(MAX_TORN).take_while(is_of_escape).count();
    let ends = (0..=max_torn_len).filter_map(|torn_len| {
        let len = partial_prefix_len(matcher, &text[torn_len..], 0);
        (len > 0).then_some(torn_len + len)
    });
    ends.max().unwrap_or(0)
}

/// Returns the length of the longest beginning of `text`, whose escapes have been undone `depth`
/// times, that is the end of a secret.
fn partial_prefix_len(matcher: &Matcher, text: &[u8], depth: usize) -> usize {
    let exact_len = |text: &[u8]| {
        let len = matcher.partial_prefix_len(text);
        if len < MIN_PART { 0 } else { len }
    };

    let mut len = exact_len(text);
    for escape in [Escape::LineBreak, Escape::Percent, Escape::Backslash] {
        if escape != Escape::LineBreak && depth == MAX_DEPTH {
            continue;
        }

        let Some(unescaped) = escape.undo(text) else {
            continue;
        };

        let place = if escape == Escape::LineBreak {
            0..exact_len(&unescaped)
        } else {
            0..partial_prefix_len(matcher, &unescaped, depth + 1)
        };

        if !place.is_empty() {
            let origins = escape.origins(text, &[place]);
            len = len.max(origins.first().map_or(0, |origin| origin.end));
        }
    }

    len
}

/// Returns the offset from which on `text` may be the beginning of a secret that later text
/// completes, in any spelling; the length of `text` if there is none. No secret in `text` lies
/// across the offset.
#[cfg(all(feature = "process", unix))]
pub(crate) fn partial_suffix_start(text: &[u8]) -> usize {
    match known::patterns() {
        Some(patterns) => partial_suffix_start_with(patterns.all(), text),
        None => text.len(),
    }
}

#[cfg(all(feature = "process", unix))]
fn partial_suffix_start_with(matcher: &Matcher, text: &[u8]) -> usize {
    let start = open_start(matcher, text, 0, 1);
    let mut places = Vec::new();
    search(matcher, text, 0, &mut places);

    // The end of a complete secret may be the beginning of another.
    let mut places = merged(places).into_iter();
    let place = places.find(|place| place.contains(&start));
    place.map_or(start, |place| place.start)
}

/// Returns the start of the longest end of `text`, whose escapes have been undone `depth` times,
/// that may be the beginning of a secret, of at least `min_len` characters.
fn open_start(matcher: &Matcher, text: &[u8], depth: usize, min_len: usize) -> usize {
    let mut start = matcher.partial_suffix_start(text);
    if text.len() - start < min_len {
        start = text.len();
    }

    let origin = |escape: Escape, text: &[u8], open: Range<usize>| {
        let origins = escape.origins(text, std::slice::from_ref(&open));
        origins.first().map_or(text.len(), |origin| origin.start)
    };

    if let Some(unescaped) = Escape::LineBreak.undo(text) {
        let open = matcher.partial_suffix_start(&unescaped)..unescaped.len();
        // Many lines end in a character with which a spelling of a secret begins.
        if open.len() >= MIN_PART {
            start = start.min(origin(Escape::LineBreak, text, open));
        }
    }

    if depth == MAX_DEPTH {
        return start;
    }

    for escape in [Escape::Percent, Escape::Backslash] {
        let complete = escape.without_torn(text);
        let complete = if may_continue(&text[complete.len()..]) {
            // The escape may be the first character of a secret.
            if min_len <= 1 {
                start = start.min(complete.len());
            }
            complete
        } else {
            text
        };

        let unescaped = match escape.undo(complete) {
            Some(unescaped) => Cow::Owned(unescaped),
            None if complete.len() < text.len() => Cow::Borrowed(complete),
            None => continue,
        };
        let open = open_start(matcher, &unescaped, depth + 1, min_len)..unescaped.len();
        if !open.is_empty() {
            start = start.min(origin(escape, complete, open));
        }
    }

    start
}

/// Returns `true` if later text may complete this incomplete escape.
fn may_continue(torn: &[u8]) -> bool {
    let Some((_mark, digits)) = torn.split_first() else {
        return false;
    };
    let mut digits = digits.iter();
    digits.all(|byte| byte.is_ascii_hexdigit() || b"ux{\\".contains(byte))
}

/// Adds the places of secrets in `text`, whose escapes have been undone `depth` times.
pub(super) fn search(matcher: &Matcher, text: &[u8], depth: usize, places: &mut Vec<Range<usize>>) {
    matcher.find(text, places);
    let mut search_inside = |escape: Escape, depth| {
        let Some(unescaped) = escape.undo(text) else {
            return;
        };

        let mut inner = Vec::new();
        if escape == Escape::LineBreak {
            matcher.find(&unescaped, &mut inner);
        } else {
            search(matcher, &unescaped, depth, &mut inner);
        }

        if !inner.is_empty() {
            places.extend(escape.origins(text, &inner));
        }
    };

    search_inside(Escape::LineBreak, depth);
    if depth < MAX_DEPTH {
        search_inside(Escape::Percent, depth + 1);
        search_inside(Escape::Backslash, depth + 1);
    }
}

/// Returns the ranges in order, with overlapping ranges merged.
pub(super) fn merged(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    places.dedup_by(|next, before| {
        let overlaps = next.start < before.end;
        if overlaps {
            before.end = before.end.max(next.end);
        }
        overlaps
    });
    places
}

/// Returns the place with the rest of the characters in which it begins and ends.
pub(super) fn in_characters(text: &str, place: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = place;
    while !text.is_char_boundary(start) {
        start -= 1;
    }

    while !text.is_char_boundary(end) {
        end += 1;
    }

    start..end
}

/// Returns `text` with `[redacted]` at `places`; `None` if there are none.
pub(super) fn with_places_redacted(text: &str, places: Vec<Range<usize>>) -> Option<String> {
    (!places.is_empty()).then(|| with_places_redacted_after(text, 0, places))
}

/// Returns `text` after its first `passed` bytes, with `[redacted]` at the places that end there.
pub(super) fn with_places_redacted_after(
    text: &str,
    passed: usize,
    places: Vec<Range<usize>>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied_end = passed;
    let places = merged(places).into_iter();
    for place in places.filter(|place| place.end > passed) {
        let Range { start, end } = in_characters(text, place);
        out.push_str(&text[copied_end..start.max(copied_end)]);
        out.push_str(REDACTED);
        copied_end = end.max(copied_end);
    }

    out.push_str(&text[copied_end..]);
    out
}

#[cfg(all(test, feature = "process", unix))]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::super::spelling;
    use super::*;

    const KEY: &str = "zqxwvkjzqh/gwxyqzvkjw\"qxzgkqvwzx\u{e4}qkzvwbtmz";

    const KEY_WITH_LINES: &str =
        "-----BEGIN X-----\nMIIEpAIBAAKCAQEAtq\nx7Zk/ew+EwHQ\\n\"==\n-----END X-----";

    fn escaped(escape: impl Fn(u8) -> String) -> String {
        KEY.bytes().map(escape).collect()
    }

    fn json(text: &str) -> String {
        serde_json::Value::from(text).to_string()
    }

    /// Secrets, each with a spelling of which each escape may be torn.
    fn escaped_spellings() -> Vec<(&'static str, String)> {
        let base64 = STANDARD.encode(format!("-{KEY}+"));
        let lines = [&base64[..24], &base64[24..48], &base64[48..]];
        let base64_json = json(&lines.join("\n"));
        let key_json = json(KEY_WITH_LINES);
        vec![
            (KEY, escaped(|byte| format!("\\x{byte:02x}"))),
            (KEY, json(&base64_json)),
            (KEY, base64_json),
            (KEY, json(&lines.join("\r\n"))),
            (KEY_WITH_LINES, json(&key_json)),
            (KEY_WITH_LINES, key_json),
        ]
    }

    /// The key in several spellings.
    fn spellings() -> Vec<String> {
        let base64 = STANDARD.encode(format!("-{KEY}+"));
        let lines = [&base64[..24], &base64[24..48], &base64[48..]];
        let key_json = json(KEY);
        vec![
            KEY.to_owned(),
            json(&key_json),
            key_json,
            escaped(|byte| format!("%{byte:02x}")),
            escaped(|byte| format!("%25{byte:02X}")),
            escaped(|byte| format!("%2525{byte:02X}")),
            escaped(|byte| format!("{byte:02x}")),
            lines.join("\n"),
            base64,
        ]
    }

    #[test]
    fn partial_suffix_start_splits_no_secret() {
        let matcher = Matcher::new(spelling::all(KEY));
        for spelling in spellings() {
            let text = format!("z zq {spelling} z% \\u {spelling}. Done.\n");
            let mut places = Vec::new();
            search(&matcher, text.as_bytes(), 0, &mut places);
            let places = merged(places);
            assert_eq!(places.len(), 2, "{text}");
            for cut in 0..=text.len() {
                let start = partial_suffix_start_with(&matcher, &text.as_bytes()[..cut]);

                // A base64 character at the edge has only some bits of the key.
                let is_split =
                    |place: &Range<usize>| place.start + 1 < start && start + 4 < place.end;
                assert!(!places.iter().any(is_split), "{:?}", text.get(start..cut));
            }
            assert_eq!(
                partial_suffix_start_with(&matcher, text.as_bytes()),
                text.len()
            );
        }
    }

    #[test]
    fn a_cut_leaves_no_part_of_a_secret() {
        let key_spellings = spellings().into_iter().map(|spelling| (KEY, spelling));
        for (key, spelling) in key_spellings.chain(escaped_spellings()) {
            let matcher = Matcher::new(spelling::all(key));
            let text = format!("z zq z% \\u {spelling} z% \\u zq. Done.\n");
            let mut places = Vec::new();
            search(&matcher, text.as_bytes(), 0, &mut places);
            let places = merged(places);
            assert_eq!(places.len(), 1, "{text}");
            let place = places[0].clone();

            // A base64 character at each edge has only some bits of the key.
            let min_len = place.len() / key.len() * MIN_PART + 1;
            for cut in place.start..=place.end {
                if !text.is_char_boundary(cut) {
                    continue;
                }

                let (start, end) = text.split_at(cut);
                if cut - place.start >= min_len {
                    let mut redacted = start.to_owned();
                    redact_cut_with(&matcher, &mut redacted, Cut::End);
                    let prefix = redacted.strip_suffix(REDACTED);
                    let prefix = prefix.filter(|prefix| start.starts_with(prefix));
                    assert!(
                        prefix.is_some_and(|prefix| prefix.len() <= place.start + 1),
                        "{start} became {redacted}"
                    );
                }

                if place.end - cut >= min_len {
                    let mut redacted = end.to_owned();
                    redact_cut_with(&matcher, &mut redacted, Cut::Start);
                    let suffix = redacted.strip_prefix(REDACTED);
                    let suffix = suffix.filter(|suffix| end.ends_with(suffix));
                    assert!(
                        suffix.is_some_and(|s| s.len() <= text.len() - place.end + 1),
                        "{end} became {redacted}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_cut_inside_a_character_leaves_no_part_of_a_secret() {
        let matcher = Matcher::new(spelling::all(KEY));
        let text = format!("a {KEY}");
        let position = text.find('\u{e4}').unwrap();
        let mut text = String::from_utf8_lossy(&text.as_bytes()[..=position]).into_owned();
        redact_cut_with(&matcher, &mut text, Cut::End);
        assert_eq!(text, "a [redacted]\u{fffd}");
    }

    #[test]
    fn a_cut_keeps_other_text() {
        let matcher = Matcher::new(spelling::all(KEY));
        for text in [
            "",
            "tmz, a zqx",
            "u00e4 \\u00e",
            "%2",
            "%7a%71%78",
            "\n\\\\",
            "return null\\r\\n",
            "n\\r\\ntmz",
        ] {
            for cut in [Cut::Start, Cut::End] {
                let mut redacted = text.to_owned();
                redact_cut_with(&matcher, &mut redacted, cut);
                assert_eq!(redacted, text);
            }
        }
    }

    #[test]
    fn partial_suffix_start_passes_other_text() {
        let matcher = Matcher::new(spelling::all(KEY));
        for text in ["", "a % b\n", "C:\\Users\n", "50 %, ", "zqx.\n", "zqx\n"] {
            let start = partial_suffix_start_with(&matcher, text.as_bytes());
            assert_eq!(start, text.len(), "{text}");
        }
        assert_eq!(partial_suffix_start_with(&matcher, b"a zqx"), 2);
    }
}
