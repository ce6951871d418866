//! Sizes that texts and values have in JSON and in memory, computed without making the JSON.

use serde_json::Value;

/// The memory of a value in its array or object, and of the pointer to its text or list.
const VALUE: usize = 32;

/// The least memory of a list or text of its own.
const ALLOCATION: usize = 64;

/// The memory of one node of an object's tree, which has at least [`NODE_FIELDS`] fields unless it
/// is the only one.
const NODE: usize = 640;
const NODE_FIELDS: usize = 5;

/// The bytes of a text up to which its bytes are looked up one by one.
const SHORT_TEXT: usize = 32;

/// The number of bytes that each byte takes inside a string of JSON.
const ESCAPED_LENS: [u8; 256] = {
    let mut lens = [1; 256];
    let mut byte: u8 = 0;
    while byte < u8::MAX {
        if is_written_as_number(byte) {
            lens[byte as usize] = 6;
        } else if is_escaped(byte) {
            lens[byte as usize] = 2;
        }
        byte += 1;
    }
    lens
};

/// The number of bytes that `text` takes inside a string of JSON, where quotes, backslashes and
/// control characters are escaped.
pub(crate) fn escaped_len(text: &str) -> usize {
    let mut len = text.len();
    if len <= SHORT_TEXT {
        return text.bytes().map(escaped_byte_len).sum();
    }

    // A chunk's escapes fit into a byte, with which they are counted in vectors.
    for chunk in text.as_bytes().chunks(u8::MAX.into()) {
        let escapes = count(chunk, is_escaped);
        if escapes > 0 {
            len += escapes + 4 * count(chunk, is_written_as_number);
        }
    }
    len
}

/// The longest start of `text` that takes at most `len` bytes inside a string of JSON.
pub(crate) fn escaped_prefix(text: &str, len: usize) -> &str {
    let mut remaining = len;
    for (at, c) in text.char_indices() {
        let char_len = match c {
            '\0'..='\x7f' => escaped_byte_len(c as u8),
            c => c.len_utf8(),
        };
        match remaining.checked_sub(char_len) {
            Some(room) => remaining = room,
            None => return &text[..at],
        }
    }
    text
}

/// The number of these bytes in a chunk of at most 255.
fn count(chunk: &[u8], is_counted: impl Fn(u8) -> bool) -> usize {
    let counts = chunk.iter().map(|byte| u8::from(is_counted(*byte)));
    counts.sum::<u8>().into()
}

const fn is_escaped(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// True for control characters without a short escape, which are written as `\u0001`.
const fn is_written_as_number(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0c)
}

fn escaped_byte_len(byte: u8) -> usize {
    ESCAPED_LENS[usize::from(byte)].into()
}

/// The size of a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonSize {
    /// About the bytes of its text.
    pub(crate) text: usize,
    /// About the bytes that it takes in memory, its texts counted as JSON.
    pub(crate) memory: usize,
    /// The values in it, itself included.
    pub(crate) values: usize,
}

impl JsonSize {
    /// Measures a value, which may be nested more deeply than any thread's stack.
    pub(crate) fn of(value: &Value) -> Self {
        let mut size = Self::default();
        // The values to visit that have values themselves.
        let mut stack = Vec::new();
        let mut next_value = Some(value);
        while let Some(value) = next_value {
            match value {
                Value::Array(items) => {
                    size.add(items.len() + 1, ALLOCATION);
                    items.iter().for_each(|item| size.visit(item, &mut stack));
                }
                Value::Object(fields) => {
                    let names = fields.keys().map(|name| escaped_len(name) + 4);
                    let nodes = fields.len().div_ceil(NODE_FIELDS);
                    size.add(names.sum::<usize>() + 1, nodes * NODE);
                    let values = fields.values();
                    values.for_each(|value| size.visit(value, &mut stack));
                }
                value => size.visit(value, &mut stack),
            }
            next_value = stack.pop();
        }

        size
    }

    /// Measures a value without others in it. One that has others is pushed onto `stack`.
    fn visit<'a>(&mut self, value: &'a Value, stack: &mut Vec<&'a Value>) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.add(4, 0),
            Value::String(text) => self.add(escaped_len(text) + 2, ALLOCATION),
            Value::Array(_) | Value::Object(_) => stack.push(value),
        }
    }

    fn add(&mut self, text: usize, allocated: usize) {
        self.values += 1;
        self.text = self.text.saturating_add(text);
        self.memory = self.memory.saturating_add(text + VALUE + allocated);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn json_len(text: &str) -> usize {
        serde_json::to_string(text).unwrap().len() - 2
    }

    proptest! {
        #[test]
        fn escaped_length_is_that_of_the_serializer(text in "(?s)(.|[\\x00-\\x1f\"]){0,300}") {
            prop_assert_eq!(escaped_len(&text), json_len(&text));
        }

        #[test]
        fn escaped_prefix_is_the_longest_that_fits(text in "(?s)[\"\\\\\\x00-\\x1fé𝄞a-c]{0,12}", len in 0_usize..40) {
            let prefix = escaped_prefix(&text, len);
            prop_assert!(json_len(prefix) <= len);
            prop_assert!(text.starts_with(prefix));
            if let Some(next) = text[prefix.len()..].chars().next() {
                let longer = [prefix, next.encode_utf8(&mut [0; 4])].concat();
                prop_assert!(json_len(&longer) > len);
            }
        }
    }

    #[test]
    fn size_of_a_value_counts_text_values_and_memory() {
        let size = JsonSize::of(&json!({"a": ["\u{1}\"", 1, null]}));
        assert_eq!((size.text, size.values), (6 + 4 + 10 + 4 + 4, 5));
        assert_eq!(size.memory, size.text + 5 * VALUE + NODE + 2 * ALLOCATION);
    }

    #[test]
    fn deeply_nested_value_is_measured_without_recursion() {
        let mut value = Value::Null;
        for _ in 0..200_000 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(JsonSize::of(&value).values, 200_001);
        while let Value::Array(mut items) = value {
            value = items.pop().unwrap();
        }
    }
}
