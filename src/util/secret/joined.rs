//! The redaction of texts that readers join.

use std::ops::Range;

use super::exact_search::ExactSearch;
use super::known;
use super::redact::{in_characters, merged, search};
use super::secret::REDACTED;

/// Removes the secrets of this process from texts that readers join. A secret that continues in
/// later texts is replaced in the text in which it begins. Returns `true` if there was a secret.
pub(crate) fn redact_joined(texts: &mut [&mut String]) -> bool {
    let Some(patterns) = known::patterns() else {
        return false;
    };
    let joined: String = texts.iter().map(|text| text.as_str()).collect();
    let mut places = Vec::new();
    search(patterns.all(), joined.as_bytes(), 0, &mut places);
    // The end of a text may be read as the beginning of an escape of the next text, so each text is
    // searched alone as well.
    let mut offset = 0;
    for text in &*texts {
        let mut own_places = Vec::new();
        search(patterns.all(), text.as_bytes(), 0, &mut own_places);
        let own_places = own_places.into_iter();
        places.extend(own_places.map(|place| offset + place.start..offset + place.end));
        offset += text.len();
    }

    if places.is_empty() {
        return false;
    }
    let places = places
        .into_iter()
        .map(|place| in_characters(&joined, place));
    replace_places(texts, &merged(places.collect()));
    true
}

impl ExactSearch {
    /// Removes the secrets from texts that readers join. A secret that continues in later texts is
    /// replaced in the text in which it begins.
    pub(crate) fn redact_joined(&self, texts: &mut [&mut String]) {
        let joined: String = texts.iter().map(|text| text.as_str()).collect();
        let mut places = Vec::new();
        self.matcher().find(joined.as_bytes(), &mut places);
        if !places.is_empty() {
            replace_places(texts, &merged(places));
        }
    }
}

/// Puts `[redacted]` at places of the joined texts, which are in order and do not overlap.
fn replace_places(texts: &mut [&mut String], places: &[Range<usize>]) {
    let mut places = places.iter().peekable();
    let mut start = 0;
    for text in texts {
        let end = start + text.len();
        let mut new_text = String::new();
        let mut copied_end = start;
        while let Some(place) = places.peek().filter(|place| place.start < end) {
            if place.start >= start {
                new_text.push_str(&text[copied_end - start..place.start - start]);
                new_text.push_str(REDACTED);
            }
            copied_end = place.end.min(end);
            if place.end > end {
                break;
            }
            places.next();
        }

        if copied_end > start {
            new_text.push_str(&text[copied_end - start..]);
            **text = new_text;
        }
        start = end;
    }
}
