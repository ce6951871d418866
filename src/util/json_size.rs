//! Sizes that texts and values have in JSON and in memory, computed without making the JSON.

use serde_json::Value;

/// The memory of a [`Value`], which includes the pointer to its text or list.
const VALUE: usize = 32;

/// The least memory of a text, or of the list of an array.
const ALLOCATION: usize = 64;

/// The memory of one node of an object's B-tree, which has at least [`NODE_FIELDS`] fields unless
/// it is the only node.
const NODE: usize = 640;
const NODE_FIELDS: usize = 5;

// The bytes of a text are compared several at once, as a word. The result of a comparison is a word
// that has the high bit of each byte for which it is true, and no other bits. Shifted right by 7,
// it has a 1 in each of these bytes. The sum of such words has one count in each byte.

/// The number of bytes in a word.
pub(crate) const WORD: usize = size_of::<u64>();
/// The maximum number of words that are counted in one sum. No byte of the sum may overflow, so the
/// maximum is at most 255.
const MAX_WORDS: usize = 32;
/// The maximum length of a text whose bytes are looked up one by one, in bytes.
const SHORT_TEXT: usize = 32;

/// A word with this bit in each byte.
const HIGH_BITS: u64 = each_byte(0x80);
/// A word with all other bits.
const LOW_BITS: u64 = each_byte(0x7f);
const QUOTES: u64 = each_byte(b'"');
const BACKSLASHES: u64 = each_byte(b'\\');
/// The bits of which a control character has none.
const NO_CONTROL_BITS: u64 = each_byte(0xe0);
const ONES: u64 = each_byte(1);
const SEVENS: u64 = each_byte(7);
const EIGHTS: u64 = each_byte(8);
const ELEVENS: u64 = each_byte(11);
const FOURTEENS: u64 = each_byte(14);

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
    if text.len() <= SHORT_TEXT {
        return text.bytes().map(escaped_byte_len).sum();
    }

    let (words, end) = text.as_bytes().as_chunks::<WORD>();
    let added: usize = words.chunks(MAX_WORDS).map(added_len).sum();
    let end_len: usize = end.iter().map(|byte| escaped_byte_len(*byte)).sum();
    words.len() * WORD + added + end_len
}

/// Returns the longest prefix of `text` that takes at most `len` bytes inside a string of JSON.
pub(crate) fn escaped_prefix(text: &str, len: usize) -> &str {
    let mut remaining = len;
    let mut start = 0;
    let (words, _) = text.as_bytes().as_chunks::<WORD>();
    for words in words.chunks_exact(MAX_WORDS) {
        let words_len = words.len() * WORD;
        match remaining.checked_sub(words_len + added_len(words)) {
            Some(room) => remaining = room,
            None => break,
        }
        start += words_len;
    }

    // The bytes of a character that is cut here are not escaped.
    while !text.is_char_boundary(start) {
        start -= 1;
        remaining += 1;
    }

    for (at, c) in text[start..].char_indices() {
        let char_len = match c {
            '\0'..='\x7f' => escaped_byte_len(c as u8),
            c => c.len_utf8(),
        };
        match remaining.checked_sub(char_len) {
            Some(room) => remaining = room,
            None => return &text[..start + at],
        }
    }
    text
}

/// Returns `true` if no byte is escaped inside a string of JSON.
#[cfg_attr(not(feature = "http"), expect(dead_code))]
pub(crate) fn is_plain(words: &[[u8; WORD]]) -> bool {
    // Without an early exit, the compiler compares several words together.
    let plain_bytes = words.iter().fold(HIGH_BITS, |plain_bytes, word| {
        let word = u64::from_ne_bytes(*word);
        let has_no_control = nonzero_bytes(word & NO_CONTROL_BITS);
        let has_no_quote = nonzero_bytes(word ^ QUOTES);
        let has_no_backslash = nonzero_bytes(word ^ BACKSLASHES);
        plain_bytes & has_no_control & has_no_quote & has_no_backslash
    });
    plain_bytes == HIGH_BITS
}

/// The number of bytes that the escapes in at most [`MAX_WORDS`] words add to them.
fn added_len(words: &[[u8; WORD]]) -> usize {
    let (mut plain_bytes, mut no_controls) = (0, 0);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        let has_no_control = nonzero_bytes(word & NO_CONTROL_BITS);
        let has_no_quote = nonzero_bytes(word ^ QUOTES);
        let has_no_backslash = nonzero_bytes(word ^ BACKSLASHES);
        plain_bytes += (has_no_control & has_no_quote & has_no_backslash) >> 7;
        no_controls += has_no_control >> 7;
    }

    let len = words.len() * WORD;
    let escapes = len - sum_of_bytes(plain_bytes);
    let controls = len - sum_of_bytes(no_controls);
    if controls == 0 {
        return escapes;
    }
    // A short escape adds one byte, and one like `\u0001` adds five.
    escapes + 4 * (controls - short_escapes(words))
}

/// The number of control characters with a short escape in at most [`MAX_WORDS`] words: the
/// characters 8 to 13 except 11.
fn short_escapes(words: &[[u8; WORD]]) -> usize {
    let mut short_escapes = 0;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        let is_not_8_to_15 = nonzero_bytes((word ^ EIGHTS) & !SEVENS);
        let is_not_14_or_15 = nonzero_bytes((word ^ FOURTEENS) & !ONES);
        let is_not_11 = nonzero_bytes(word ^ ELEVENS);
        short_escapes += (!is_not_8_to_15 & is_not_14_or_15 & is_not_11) >> 7;
    }
    sum_of_bytes(short_escapes)
}

/// A word of eight times this byte.
const fn each_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD])
}

/// The high bit of each byte that is not zero.
#[inline(always)] // Also without optimization: it runs for each word.
const fn nonzero_bytes(word: u64) -> u64 {
    // No sum reaches the next byte.
    (((word & LOW_BITS) + LOW_BITS) | word) & HIGH_BITS
}

fn sum_of_bytes(word: u64) -> usize {
    word.to_ne_bytes().into_iter().map(usize::from).sum()
}

/// Returns `true` for a byte that a string of JSON has as an escape.
pub(crate) const fn is_escaped(byte: u8) -> bool {
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
        // The arrays and objects that are still to be measured.
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

    /// Measures a value without other values in it. A value that contains others is pushed onto
    /// `stack`.
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

    /// Texts of several blocks of words, with few or many escapes.
    fn long_text() -> impl Strategy<Value = String> {
        let few = "(?s)[a-zé𝄞]{0,250}[\\x00-\\x7f]{0,4}";
        let many = "(?s)[\\x00-\\x7fé]{0,250}";
        let pieces = proptest::collection::vec(prop_oneof![few, many], 0..5);
        pieces.prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn every_byte_of_a_long_text_is_counted_by_itself() {
        for byte in 0..0x80_u8 {
            for place in [0, 7, 8, 254, 255, 256, 299] {
                let mut bytes = vec![b'a'; 300];
                bytes[place] = byte;
                let text = String::from_utf8(bytes).unwrap();
                assert_eq!(escaped_len(&text), json_len(&text), "{byte} at {place}");
            }
        }
        let text = "\0".repeat(2048);
        assert_eq!(escaped_len(&text), 6 * 2048);
    }

    proptest! {
        #[test]
        fn escaped_length_is_that_of_the_serializer(text in "(?s)(.|[\\x00-\\x1f\"]){0,300}") {
            prop_assert_eq!(escaped_len(&text), json_len(&text));
        }

        #[test]
        fn escaped_length_of_a_long_text_is_that_of_its_bytes(text in long_text()) {
            let expected: usize = text.bytes().map(escaped_byte_len).sum();
            prop_assert_eq!(escaped_len(&text), expected);
            prop_assert_eq!(expected, json_len(&text));
        }

        #[test]
        fn escaped_prefix_of_a_long_text_is_that_of_its_characters(text in long_text(), len in 0_usize..4000) {
            let mut remaining = len;
            let fits = |c: &char| {
                let char_len = json_len(c.encode_utf8(&mut [0; 4]));
                let room = remaining.checked_sub(char_len);
                remaining = room.unwrap_or(0);
                room.is_some()
            };
            let expected: String = text.chars().take_while(fits).collect();
            prop_assert_eq!(escaped_prefix(&text, len), expected);
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
