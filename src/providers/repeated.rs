//! Frames that differ from the one before in a single value.
//!
//! Most frames of a stream have equal text around their piece of text: ids, the model's name,
//! times. That text is read once, which leaves a small part of the work for a delta.

use std::ops::Range;

use serde::Deserialize;

/// The text around one value in the frames of a stream.
///
/// A frame with equal text on both sides of another value differs in that value alone, so the first
/// one needs to be read as a whole and the second one does not.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    /// Empty while nothing is known.
    before: String,
    after: String,
}

impl Repeated {
    /// The value, if everything around it in `frame` is known.
    pub(super) fn value<'a, T: Deserialize<'a>>(&self, frame: &'a str) -> Option<T> {
        if self.before.is_empty() {
            return None;
        }
        let rest = frame.strip_prefix(&*self.before)?;
        serde_json::from_str(rest.strip_suffix(&*self.after)?).ok()
    }

    /// Learns from a frame that was read whole and whose only news was `value`: JSON text that is
    /// part of `frame`, or a string without escapes, without its quotes.
    pub(super) fn learn(&mut self, frame: &str, value: &str) {
        let Some(range) = place(frame, value) else {
            return;
        };
        self.before.clear();
        self.before.push_str(&frame[..range.start]);
        self.after.clear();
        self.after.push_str(&frame[range.end..]);
    }
}

/// The range of `value`, which is borrowed from `frame`, in it; of a string with its quotes.
fn place(frame: &str, value: &str) -> Option<Range<usize>> {
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
