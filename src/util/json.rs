//! Sizes of JSON: the number of values in a text, before any of them is made, and the length of the
//! text of a value.

use std::io;

use memchr::memchr2;
use serde::Serialize;
use serde_json::Value;

/// The maximum number of values read at once of a server's reply or of a call's arguments.
///
/// As a value, an element of a list takes 32 bytes, and an object with one field up to 650, however
/// short its text is: this many take 130 MB at most.
pub(crate) const MAX_VALUES: usize = 200_000;

/// The nesting at which `serde_json` gives up.
const PARSER_DEPTH: usize = 128;

/// Returns `true` if JSON text has more than `max_values` values.
pub(crate) fn has_more_values(text: impl AsRef<[u8]>, max_values: usize) -> bool {
    let text = text.as_ref();
    // A value has at least one byte.
    text.len() > max_values && count(text, max_values, usize::MAX) > max_values
}

/// Counts the values that a parser creates from JSON text: objects, arrays, strings, numbers and
/// literals at any depth, but not the names of fields. Stops at `max_values + 1`.
///
/// Takes linear time and allocates nothing. If the text is invalid, or nested deeper than parsers
/// read, the count includes the values created before the error, except a string right before a
/// colon, which is taken for the name of a field.
pub(crate) fn count_values(text: impl AsRef<[u8]>, max_values: usize) -> usize {
    count(text.as_ref(), max_values, PARSER_DEPTH)
}

/// Counts values, up to `max_values + 1` or nesting deeper than `max_depth`.
fn count(text: &[u8], max_values: usize, max_depth: usize) -> usize {
    let mut count = 0_usize;
    let mut depth = 0_usize;
    let mut offset = 0;

    // True if the next scalar is a new value, and if the previous value was a string.
    let mut is_new = true;
    let mut was_string = false;
    while let Some(&byte) = text.get(offset) {
        offset += 1;
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => continue,
            b',' => is_new = true,
            b':' => {
                // The string was the name of a field.
                count -= usize::from(was_string);
                is_new = true;
            }
            b'[' | b'{' => {
                count += 1;
                depth += 1;
                is_new = true;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                is_new = false;
            }
            b'"' => {
                count += 1;
                is_new = false;
                offset = end_of_string(text, offset);
            }
            _ if is_new => {
                count += 1;
                is_new = false;
            }
            _ => {}
        }

        was_string = byte == b'"';
        if count > max_values || depth > max_depth {
            break;
        }
    }

    count
}

/// The end of the string whose first character is at `at`: the offset after its quote.
pub(crate) fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(remaining) = text.get(at..) {
        match remaining.first() {
            // A vectorised search would be slow for many escapes in a row.
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            _ => match memchr2(b'"', b'\\', remaining) {
                Some(len) => at += len,
                None => break,
            },
        }
    }
    text.len()
}

/// Returns the number of bytes of all texts in a value, such as the arguments of a call. The value
/// may be nested deeper than the stack allows a recursion.
pub(crate) fn text_len<'a>(value: &'a Value) -> usize {
    let mut len = value.as_str().map_or(0, str::len);
    let mut containers: Vec<&Value> = Vec::new();
    let mut container = Some(value);
    while let Some(value) = container {
        let mut add = |value: &'a Value| match value {
            Value::String(text) => len += text.len(),
            Value::Array(_) | Value::Object(_) => containers.push(value),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        };
        match value {
            Value::Array(items) => items.iter().for_each(&mut add),
            Value::Object(entries) => entries.values().for_each(&mut add),
            _ => {}
        }
        container = containers.pop();
    }

    len
}

/// Returns the number of bytes of the value's JSON text, without making the text.
pub(crate) fn json_len(value: &impl Serialize) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => unreachable!("keys are strings, and a counter takes everything"),
    }
}

/// Returns the start of the value's JSON text, of at most `max_bytes`, without making the rest, and
/// `true` if it was cut.
pub(crate) fn json_head(value: &impl Serialize, max_bytes: usize) -> (String, bool) {
    struct Head {
        bytes: Vec<u8>,
        room: usize,
    }

    impl io::Write for Head {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.room);
            self.bytes.extend_from_slice(&bytes[..len]);
            self.room -= len;
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut head = Head {
        bytes: Vec::new(),
        room: max_bytes,
    };
    // A full head ends the writing.
    let is_cut = serde_json::to_writer(&mut head, value).is_err();
    let mut chunks = head.bytes.utf8_chunks();
    let text = chunks.next().map_or("", |chunk| chunk.valid());
    (text.to_owned(), is_cut)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt;

    use proptest::prelude::*;
    use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
    use serde_json::{Value, json};

    use super::*;

    thread_local!(static MADE: Cell<usize> = const { Cell::new(0) });

    /// A value that counts itself when it is made.
    struct Counted;

    impl Counted {
        fn make<E>() -> Result<Self, E> {
            MADE.set(MADE.get() + 1);
            Ok(Self)
        }
    }

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Self)
        }
    }

    impl<'de> Visitor<'de> for Counted {
        type Value = Self;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }

        fn visit_unit<E>(self) -> Result<Self, E> {
            Self::make()
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
            Self::make()
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
            Self::make()
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
            Self::make()
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
            Self::make()
        }

        fn visit_str<E>(self, _: &str) -> Result<Self, E> {
            Self::make()
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
            Self::make::<A::Error>()?;
            while items.next_element::<Self>()?.is_some() {}
            Ok(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
            Self::make::<A::Error>()?;
            while fields.next_entry::<String, Self>()?.is_some() {}
            Ok(self)
        }
    }

    /// Returns the number of values that a parser makes before it ends, with or without an error.
    fn made_of(text: &str) -> usize {
        MADE.set(0);
        let _ = serde_json::from_str::<Counted>(text);
        MADE.get()
    }

    fn made(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(made).sum(),
            Value::Object(fields) => fields.values().map(made).sum(),
            _ => 0,
        }
    }

    /// Checks the count of a text that may be invalid. The string before the error, at which
    /// parsing ends, may be counted as a key: `"":`.
    fn has_at_least_the_parsed_values(text: &str) -> bool {
        count_values(text, usize::MAX) + 1 >= made_of(text)
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop::string::string_regex(r#"[ab"\\{}\[\],:é\n]{0,8}"#)
            .unwrap()
            .boxed();
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            let fields = prop::collection::btree_map(text.clone(), inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn count_equals_the_number_of_parsed_values(value in any_json(), is_pretty: bool) {
            let text = if is_pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };

            let count = made(&value);
            prop_assert_eq!(count_values(&text, usize::MAX), count);
            prop_assert!(has_more_values(&text, count - 1));
            prop_assert!(!has_more_values(&text, count));

            // Truncated texts and texts without one character.
            for at in text.char_indices().map(|(at, _)| at) {
                let mut broken = text.clone();
                broken.remove(at);
                for text in [&text[..at], &broken] {
                    prop_assert!(has_at_least_the_parsed_values(text), "{}", text);
                }
            }
        }

        #[test]
        fn count_is_at_least_the_number_of_parsed_values(text in r#"[\[\]{}:,"\\ 1nul]{0,40}"#) {
            prop_assert!(has_at_least_the_parsed_values(&text));
        }
    }

    #[test]
    fn count_of_invalid_text_includes_values_before_the_error() {
        for (text, least) in [
            ("", 0),
            ("  ", 0),
            (r#"{"a":[0,0,"#, 4),
            (r#"[0,0,::::::"#, 3),
            (r#"["a","b":":":"c""#, 3),
            (r#"[1,"a\"#, 3),
            (r#"[1,"a\""#, 3),
            ("[[[[", 4),
            ("{}{}{}", 3),
            ("a,b,c", 3),
        ] {
            assert!(count_values(text, usize::MAX) >= least, "{text}");
        }
    }

    #[test]
    fn counting_stops_at_the_depth_limit_of_parsers() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(count_values(nested(127), usize::MAX), 127);
        assert!(serde_json::from_str::<Value>(&nested(127)).is_ok());
        assert_eq!(count_values(nested(200), usize::MAX), 129);
        assert!(serde_json::from_str::<Value>(&nested(200)).is_err());
        assert!(has_more_values(nested(200), 199));
    }

    #[test]
    fn head_of_json_is_cut_at_a_character() {
        let value = serde_json::json!({"a": "é", "b": [1, 2]});
        let text = value.to_string();
        for max_bytes in 0..=text.len() + 1 {
            let end = crate::util::text::floor_char_boundary(&text, max_bytes);
            let is_cut = max_bytes < text.len();
            assert_eq!(
                json_head(&value, max_bytes),
                (text[..end].to_owned(), is_cut)
            );
        }
    }

    #[test]
    fn counting_stops_at_the_limit() {
        let text = json!(vec![0; 1_000]).to_string();
        assert_eq!(count_values(&text, 10), 11);
        assert_eq!(count_values(&text, 0), 1);
        assert_eq!(count_values(&text, usize::MAX), 1_001);
    }

    #[test]
    fn texts_count_wherever_they_are() {
        for (value, len) in [
            (json!({"a": "one", "b": 1, "c": null}), 3),
            (json!({"a": ["one", {"b": "three"}], "c": [[]]}), 8),
            (json!("one"), 3),
        ] {
            assert_eq!(text_len(&value), len, "{value}");
        }

        let mut deep = (0..100_000).fold(json!("four"), |value, _| Value::Array(vec![value]));
        assert_eq!(text_len(&deep), 4);
        // A drop of the whole would recurse.
        while let Value::Array(mut items) = deep {
            deep = items.pop().unwrap();
        }
    }
}
