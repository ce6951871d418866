//! The list `reasoning_details` of OpenRouter, assembled from the pieces of a stream.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The name of the list.
pub(super) const DETAILS: &str = "reasoning_details";

/// The types whose entries arrive in pieces, and the field of their text. Entries of other types,
/// encrypted ones among them, arrive whole.
const STREAMED: [(&str, &str); 2] = [("reasoning.text", "text"), ("reasoning.summary", "summary")];

/// An entry, or a piece of one.
type Entry = Map<String, Value>;

/// The entries in the order in which they began. A server that signs them checks that they come
/// back as they were.
#[derive(Debug, Default)]
pub(super) struct Details {
    entries: Vec<Entry>,
    /// The position of the last entry of each type and index.
    of_index: HashMap<(&'static str, u64), usize>,
}

/// The part of a piece that was collected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Collected {
    /// Text of this length in bytes, at the end of an entry.
    Text(usize),
    Whole,
}

impl Details {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry that arrived whole.
    pub(super) fn add(&mut self, entry: Entry) {
        if let (Some((kind, _)), Some(index)) = (streamed(&entry), index_of(&entry)) {
            self.of_index.insert((kind, index), self.entries.len());
        }
        self.entries.push(entry);
    }

    /// Adds a piece to the entry that it belongs to, or as the beginning of one.
    pub(super) fn join(&mut self, piece: Entry) -> Collected {
        let Some((field, position)) = self.place_of(&piece) else {
            self.add(piece);
            return Collected::Whole;
        };

        let entry = &mut self.entries[position];
        let mut text_len = 0;
        let mut has_new_field = false;
        for (name, value) in piece {
            match (entry.get_mut(&name), value) {
                (_, Value::Null) => {}
                (Some(Value::String(text)), Value::String(end)) if name == field => {
                    text.push_str(&end);
                    text_len += end.len();
                }
                (Some(former), value) if *former == value => {}
                (_, value) => {
                    has_new_field = true;
                    entry.insert(name, value);
                }
            }
        }

        if has_new_field {
            Collected::Whole
        } else {
            Collected::Text(text_len)
        }
    }

    /// Returns the text field of a piece, and the position of the entry that it continues.
    fn place_of(&self, piece: &Entry) -> Option<(&'static str, usize)> {
        let (kind, field) = streamed(piece)?;
        let index = index_of(piece);
        let position = match index {
            Some(index) => *self.of_index.get(&(kind, index))?,
            None => self.entries.len().checked_sub(1)?,
        };
        let entry = &self.entries[position];
        let is_same = |name: &str| match (text_of(entry, name), text_of(piece, name)) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        // A signature is for the text before it, so a text after it belongs to another entry.
        let has_text =
            |entry: &Entry, name: &str| text_of(entry, name).is_some_and(|text| !text.is_empty());
        let is_open = !has_text(entry, "signature") || !has_text(piece, field);
        let continues = is_open && is_same("type") && is_same("id") && index_of(entry) == index;
        continues.then_some((field, position))
    }

    /// Takes the list.
    pub(super) fn take(&mut self) -> Value {
        self.of_index.clear();
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().map(Value::Object).collect()
    }
}

/// Returns the text to show of a piece.
pub(super) fn shown_text(piece: &Entry) -> &str {
    streamed(piece)
        .and_then(|(_, field)| text_of(piece, field))
        .unwrap_or_default()
}

/// Returns the type of a piece of text, and the field of the text.
fn streamed(piece: &Entry) -> Option<(&'static str, &'static str)> {
    let kind = text_of(piece, "type")?;
    STREAMED.into_iter().find(|(streamed, _)| *streamed == kind)
}

fn index_of(piece: &Entry) -> Option<u64> {
    piece.get("index")?.as_u64()
}

fn text_of<'a>(entry: &'a Entry, name: &str) -> Option<&'a str> {
    entry.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn joined(pieces: &Value) -> Value {
        let mut details = Details::default();
        for piece in pieces.as_array().unwrap() {
            details.join(piece.as_object().unwrap().clone());
        }
        details.take()
    }

    #[test]
    fn pieces_of_one_index_become_one_entry() {
        let text = |text: &str, index: u64| json!({"type": "reasoning.text", "text": text, "index": index, "format": "f"});
        let end = json!({"type": "reasoning.text", "signature": "s", "text": null, "index": 0});
        let summary = json!({"type": "reasoning.summary", "summary": "x", "index": 0});
        let pieces = json!([
            text("a", 0),
            text("b", 0),
            text("c", 1),
            summary,
            end,
            text("d", 1)
        ]);
        let first = json!({"type": "reasoning.text", "text": "ab", "index": 0, "format": "f", "signature": "s"});
        assert_eq!(joined(&pieces), json!([first, text("cd", 1), summary]));
    }

    #[test]
    fn pieces_without_an_index_continue_the_last_entry() {
        let text = |text: &str| json!({"type": "reasoning.text", "text": text});
        let indexed = json!({"type": "reasoning.text", "text": "c", "index": 3});
        let pieces = json!([text("a"), text("b"), indexed, text("d")]);
        assert_eq!(joined(&pieces), json!([text("ab"), indexed, text("d")]));
    }

    #[test]
    fn text_behind_a_signature_is_another_entry() {
        let text = |text: &str, signature: Option<&str>| {
            let mut entry = json!({"type": "reasoning.text", "text": text, "index": 0});
            if let Some(signature) = signature {
                entry["signature"] = signature.into();
            }
            entry
        };
        let late = json!({"type": "reasoning.text", "signature": "2", "index": 0});
        let pieces = json!([text("a", Some("1")), text("b", None), late]);
        let expected = json!([text("a", Some("1")), text("b", Some("2"))]);
        assert_eq!(joined(&pieces), expected);
    }

    #[test]
    fn empty_signatures_and_texts_end_no_entry() {
        let entry = |text: &str, signature: &str| {
            let mut entry = json!({"type": "reasoning.text", "text": text, "index": 0});
            entry["signature"] = signature.into();
            entry
        };
        let last = entry("", "s");
        let pieces = json!([entry("a", ""), entry("b", ""), last, last]);
        assert_eq!(joined(&pieces), json!([entry("ab", "s")]));
    }

    #[test]
    fn encrypted_entries_and_other_ids_stay_apart() {
        let encrypted = json!({"type": "reasoning.encrypted", "data": "x", "index": 0});
        let summary =
            |id: &str| json!({"type": "reasoning.summary", "summary": id, "id": id, "index": 0});
        let pieces = json!([encrypted, encrypted, summary("a"), summary("b")]);
        assert_eq!(joined(&pieces), pieces);
    }

    #[test]
    fn collected_part_of_a_piece_is_reported() {
        let mut details = Details::default();
        let mut join = |piece: &Value| details.join(piece.as_object().unwrap().clone());
        let text = json!({"type": "reasoning.text", "text": "ab", "index": 0});
        assert_eq!(join(&text), Collected::Whole);
        assert_eq!(join(&text), Collected::Text(2));
        let end = json!({"type": "reasoning.text", "signature": "s", "index": 0});
        assert_eq!(join(&end), Collected::Whole);
        assert_eq!(join(&end), Collected::Text(0));
    }
}
