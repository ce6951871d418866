//! The removal of secrets from texts and values.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::escape::Escape;
use super::known;
use super::matcher::Matcher;
use super::secret::REDACTED;

/// The maximum number of times that escapes may have been escaped again.
const MAX_DEPTH: usize = 2;

/// A shorter part of a secret at the edge of a cut may stay: three characters are too little to be
/// of use, and ordinary words begin with them.
const MIN_PART: usize = 4;

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
    places.extend(part(matcher, text, cut));
    if let Some(new_text) = with_places_redacted(text, places) {
        *text = new_text;
    }
}

/// Returns the place of a part of a secret at the edge of `text`.
fn part(matcher: &Matcher, text: &str, cut: Cut) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let parts = [None, Some(Escape::Percent), Some(Escape::Backslash)].map(|escape| {
        // An incomplete escape is not decoded.
        let text = match (escape, cut) {
            (Some(escape), Cut::End) => escape.without_torn(bytes),
            _ => bytes,
        };

        let unescaped = match escape {
            Some(escape) => escape.undo(text)?,
            None => text.to_vec(),
        };

        let place = match cut {
            Cut::End => matcher.open_end(&unescaped)..unescaped.len(),
            Cut::Start => 0..matcher.open_start(&unescaped),
        };

        if place.len() < MIN_PART {
            return None;
        }

        let mut place = match escape {
            Some(escape) => escape.origins(text, &[place]).pop()?,
            None => place,
        };

        if cut == Cut::End {
            place.end = bytes.len();
        }

        Some(place)
    });

    parts.into_iter().flatten().max_by_key(Range::len)
}

/// Adds the places of secrets in `text`, which has been freed of escapes `depth` times.
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
        let mut start = place.start;
        let mut end = place.end;
        while !text.is_char_boundary(start) {
            start -= 1;
        }

        while !text.is_char_boundary(end) {
            end += 1;
        }

        out.push_str(&text[copied_end..start.max(copied_end)]);
        out.push_str(REDACTED);
        copied_end = end.max(copied_end);
    }

    out.push_str(&text[copied_end..]);
    out
}
