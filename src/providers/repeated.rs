//! Frames that differ from the previous one in only one or two values.
//!
//! Most frames of a stream have the same text around their delta: ids, the model's name, times.
//! That text is parsed only once, which makes each delta cheap.

use std::array;
use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};
use serde::Deserialize;

use crate::util::json_size::escaped_len;

use super::json::Str;

/// The text around `N` values in the frames of a stream.
///
/// A frame with the same text around other values differs only in those values, so only the first
/// one has to be parsed as a whole.
#[derive(Debug)]
pub(super) struct Repeated<const N: usize = 1> {
    /// The text before each value, in the order of the frame. The first is empty until a frame is
    /// learned.
    before: [String; N],
    after: String,
    /// The position of each value in the order of the frame.
    positions: [usize; N],
}

impl<const N: usize> Default for Repeated<N> {
    fn default() -> Self {
        Self {
            before: array::from_fn(|_| String::new()),
            after: String::new(),
            positions: array::from_fn(|position| position),
        }
    }
}

impl<const N: usize> Repeated<N> {
    /// Returns the JSON text of each value, if the text around them in `frame` is the learned one.
    /// All values except the frame's last must be strings or integers without a sign. The returned
    /// text is not checked to be JSON.
    pub(super) fn values<'a>(&self, frame: &'a str) -> Option<[&'a str; N]> {
        if self.before.first().is_none_or(String::is_empty) {
            return None;
        }

        let mut values = [""; N];
        let mut remainder = frame;
        for (position, before) in self.before.iter().enumerate() {
            remainder = remainder.strip_prefix(&**before)?;
            (values[position], remainder) = if position + 1 == N {
                (remainder.strip_suffix(&*self.after)?, "")
            } else {
                remainder.split_at_checked(scalar_len(remainder)?)?
            };
        }
        Some(self.positions.map(|position| values[position]))
    }

    /// Learns the text around `values`, the parts of `frame` that differ from frame to frame. A
    /// value is a slice of `frame`: JSON text, or the text inside the quotes of a string without
    /// escapes. Returns `false` if a value is no slice of the frame or includes its first or last
    /// byte, or if two overlap.
    pub(super) fn learn_values(&mut self, frame: &str, values: [&str; N]) -> bool {
        let ranges = values.map(|value| range_of(frame, value));
        if ranges.iter().any(Option::is_none) {
            return false;
        }
        let ranges = ranges.map(Option::unwrap_or_default);
        let mut order: [usize; N] = array::from_fn(|index| index);
        order.sort_unstable_by_key(|index| ranges[*index].start);

        let mut end = 0;
        for (position, index) in order.into_iter().enumerate() {
            let range = &ranges[index];
            let Some(text) = frame.get(end..range.start) else {
                // The text that was learned before is partly overwritten.
                self.before[0].clear();
                return false;
            };
            self.before[position].clear();
            self.before[position].push_str(text);
            self.positions[index] = position;
            end = range.end;
        }
        self.after.clear();
        self.after.push_str(&frame[end..]);
        true
    }
}

impl Repeated {
    /// Returns the value, if the text around it in `frame` is the learned one.
    pub(super) fn value<'a, T: Deserialize<'a>>(&self, frame: &'a str) -> Option<T> {
        let [json] = self.values(frame)?;
        serde_json::from_str(json).ok()
    }

    /// Returns the value, if it is a string and the text around it in `frame` is the learned one.
    pub(super) fn text<'a>(&self, frame: &'a str) -> Option<Cow<'a, str>> {
        let [json] = self.values(frame)?;
        string(json)
    }

    /// Learns the text around one value, as [`learn_values`](Self::learn_values) does.
    pub(super) fn learn(&mut self, frame: &str, value: &str) -> bool {
        self.learn_values(frame, [value])
    }
}

/// Returns the text of a JSON string. Only rare escapes need the parser, which costs more for the
/// short strings of streams.
pub(super) fn string(json: &str) -> Option<Cow<'_, str>> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    if is_plain(text) {
        return Some(Cow::Borrowed(text));
    }
    if let Some(text) = unescaped(text) {
        return Some(Cow::Owned(text));
    }
    let text: Str<'_> = serde_json::from_str(json).ok()?;
    Some(text.0)
}

/// Returns the length of the string or the digits at the beginning of `json`; 0 if `json` begins
/// with something else. Returns `None` if their end is not in `json`.
fn scalar_len(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    if bytes.first() != Some(&b'"') {
        return bytes.iter().position(|byte| !byte.is_ascii_digit());
    }

    let mut offset = 1;
    loop {
        offset += memchr2(b'"', b'\\', bytes.get(offset..)?)?;
        if bytes[offset] == b'"' {
            return Some(offset + 1);
        }
        // A backslash and the byte that it escapes.
        offset += 2;
    }
}

/// Returns `true` for the inside of a JSON string without escapes.
fn is_plain(text: &str) -> bool {
    escaped_len(text) == text.len()
}

/// Returns the inside of a JSON string with its escapes decoded; `None` if it has others than the
/// common ones.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut remainder = text;
    while let Some(offset) = memchr(b'\\', remainder.as_bytes()) {
        let (piece, escape) = remainder.split_at(offset);
        if !is_plain(piece) {
            return None;
        }
        out.push_str(piece);
        let mut chars = escape[1..].chars();
        out.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            c @ ('"' | '\\' | '/') => c,
            _ => return None,
        });
        remainder = chars.as_str();
    }
    if !is_plain(remainder) {
        return None;
    }
    out.push_str(remainder);
    Some(out)
}

/// Returns the range of `value` in `frame`; `None` if it is no slice of `frame`, or includes its
/// first or last byte. The range of a string includes its quotes.
fn range_of(frame: &str, value: &str) -> Option<Range<usize>> {
    let start = (value.as_ptr() as usize).checked_sub(frame.as_ptr() as usize)?;
    let end = start + value.len();
    if start == 0 || end >= frame.len() {
        return None;
    }
    let is_quote = |at: usize| frame.as_bytes()[at] == b'"';
    if is_quote(start - 1) && is_quote(end) {
        Some(start - 1..end + 1)
    } else {
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(frame: &str, value: &str) -> Repeated {
        let at = frame.find(value).unwrap_or(frame.len());
        let mut repeated = Repeated::default();
        repeated.learn(frame, &frame[at..at + value.len()]);
        repeated
    }

    #[test]
    fn learned_frame_yields_its_changed_value() {
        for value in ["\"a\"", "a"] {
            let repeated = learned(r#"{"id":1,"d":"a","u":null}"#, value);
            let value = |frame| repeated.value::<&str>(frame);
            assert_eq!(value(r#"{"id":1,"d":"b","u":null}"#), Some("b"));
            assert_eq!(value(r#"{"id":1,"d":"","u":null}"#), Some(""));
            assert_eq!(value(r#"{"id":2,"d":"b","u":null}"#), None);
            assert_eq!(value(r#"{"id":1,"d":"b","u":2}"#), None);
            assert_eq!(value(r#"{"id":1,"d":7,"u":null}"#), None);
            assert_eq!(value(r#"{"id":1,"d":"b"#), None);
            assert_eq!(value(r#"{"id":1,"d":"b""#), None);
        }
    }

    #[test]
    fn text_is_that_of_the_parser() {
        let repeated = learned(r#"{"d":"a","u":null}"#, "a");
        for value in [
            r#""""#,
            r#""b""#,
            r#"" Zürich 🏔""#,
            r#""a\"b\n""#,
            r#""\\\/\t\\n""#,
            r#""\r\b""#,
            r#""\n\u00e9""#,
            r#""a\nb"c""#,
            "\"a\\n\u{1}\"",
            r#""a\x""#,
            r#""a\\""#,
            r#""a\\\""#,
            r#""\u00e9""#,
            "\"a\nb\"",
            r#""a"b""#,
            r#"""#,
            r#""a\""#,
            "7",
            "",
        ] {
            let frame = format!(r#"{{"d":{value},"u":null}}"#);
            let parsed = repeated.value::<Str<'_>>(&frame);
            let expected = parsed.as_ref().map(Str::as_str);
            assert_eq!(repeated.text(&frame).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn two_values_are_found_in_either_order() {
        let frames = [
            r#"{"n":7,"d":"a","u":[1]}"#,
            r#"{"d":"a","n":7}"#,
            r#"{"d":"a","n":7,"u":null}"#,
        ];
        for frame in frames {
            let at = |text: &str| &frame[frame.find(text).unwrap()..][..text.len()];
            let mut repeated = Repeated::<2>::default();
            assert_eq!(repeated.values(frame), None);
            repeated.learn_values(frame, [at("a"), at("7")]);
            assert_eq!(repeated.values(frame), Some([r#""a""#, "7"]));
            for text in [r#""""#, r#""b\"\\""#, r#"" 7,\"d\":""#] {
                let next = frame.replace(r#""a""#, text).replace('7', "18");
                let expected = [text.replace('7', "18"), "18".to_owned()];
                assert_eq!(
                    repeated
                        .values(&next)
                        .map(|values| values.map(str::to_owned)),
                    Some(expected),
                    "{next}"
                );
            }
            assert_eq!(repeated.values(&frame.replace('n', "m")), None);
            assert_eq!(repeated.values(&frame[..frame.len() - 1]), None);
            let unclosed = frame.replace(r#""a""#, "\"a");
            let text = repeated
                .values(&unclosed)
                .and_then(|[text, _]| string(text));
            assert_eq!(text, None);
        }
    }

    #[test]
    fn last_of_two_values_may_be_of_any_type() {
        let frame = r#"{"d":"a","u":{"n":[1]}}"#;
        let at = |text: &str| &frame[frame.find(text).unwrap()..][..text.len()];
        let mut repeated = Repeated::<2>::default();
        repeated.learn_values(frame, [at("a"), at(r#"{"n":[1]}"#)]);
        let values = repeated.values(r#"{"d":"b","u":{"n":[]}}"#);
        assert_eq!(values, Some([r#""b""#, r#"{"n":[]}"#]));
        assert_eq!(repeated.values(r#"{"d":{},"u":{"n":[]}}"#), None);
        assert_eq!(repeated.values(r#"{"d":"b\"#), None);
    }

    #[test]
    fn values_that_overlap_are_not_learned() {
        let frame = r#"{"d":{"n":1}}"#;
        let mut repeated = Repeated::<2>::default();
        repeated.learn_values(frame, [&frame[5..12], &frame[10..11]]);
        assert_eq!(repeated.values(frame), None);
    }

    #[test]
    fn frame_with_several_changed_values_is_not_matched() {
        let repeated = learned(r#"{"d":"a","u":null}"#, "a");
        let value = |frame| repeated.value::<&str>(frame);
        assert_eq!(value(r#"{"d":"b","u":null,"d":"c","u":null}"#), None);
        assert_eq!(value(r#"{"d":"b","d":"c","u":null}"#), None);
        assert_eq!(value(r#"{"d":"b"c","u":null}"#), None);
    }

    #[test]
    fn values_of_any_type_are_learned() {
        let list = learned(r#"{"d":[1],"u":2}"#, "[1]");
        assert_eq!(list.value::<Vec<u8>>(r#"{"d":[],"u":2}"#), Some(vec![]));
        assert_eq!(
            list.value::<Vec<u8>>(r#"{"d":[3,4],"u":2}"#),
            Some(vec![3, 4])
        );
        let empty = learned(r#"{"d":""}"#, "\"\"");
        assert_eq!(empty.value::<&str>(r#"{"d":"a"}"#), Some("a"));
        let escaped = learned(r#"{"d":"a\"b"}"#, r#""a\"b""#);
        assert_eq!(
            escaped.value::<String>(r#"{"d":"\n"}"#).as_deref(),
            Some("\n")
        );
    }

    #[test]
    fn value_outside_the_frame_is_not_learned() {
        let frame = r#"{"d":"a"}"#;
        let other = String::from("a");
        let mut repeated = Repeated::default();
        repeated.learn(frame, &other);
        assert_eq!(repeated.value::<&str>(frame), None);
    }
}
