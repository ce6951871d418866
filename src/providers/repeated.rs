//! Frames that differ from the one before in a single value.
//!
//! Most frames of a stream say the same around the piece of text they bring: ids, the model's
//! name, times. What was read once and says nothing new need not be read again, which halves the
//! work for a delta.

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// How often in a row a frame is learned in vain before that is given up.
const PATIENCE: u8 = 4;

/// What stands around one value in the frames of a stream.
#[derive(Debug)]
pub(super) struct Repeated {
    /// The value's key with its colon, as servers write it: without white space.
    key: &'static str,
    /// Empty while nothing is known.
    before: String,
    after: String,
    misses: u8,
}

impl Repeated {
    /// `key` is `"name":`.
    pub(super) fn new(key: &'static str) -> Self {
        Self {
            key,
            before: String::new(),
            after: String::new(),
            misses: 0,
        }
    }

    /// The value, if everything around it in `frame` is known.
    pub(super) fn value<'a, T: Deserialize<'a>>(&mut self, frame: &'a str) -> Option<T> {
        if self.before.is_empty() {
            return None;
        }
        let rest = frame.strip_prefix(&*self.before)?;
        let mut values = Deserializer::from_str(rest).into_iter();
        let value = values.next()?.ok()?;
        if rest[values.byte_offset()..] != *self.after {
            return None;
        }
        self.misses = 0;
        Some(value)
    }

    /// Learns from a frame that was read whole. `is_empty` is given the frame with `null` for the
    /// value, and says whether it is a frame that says nothing but its value.
    pub(super) fn learn(&mut self, frame: &str, is_empty: impl FnOnce(&str) -> bool) {
        if self.misses >= PATIENCE {
            return;
        }
        let Some(at) = memmem::find(frame.as_bytes(), self.key.as_bytes()) else {
            return;
        };
        let (before, rest) = frame.split_at(at + self.key.len());
        let mut values = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        if !matches!(values.next(), Some(Ok(_))) {
            return;
        }
        let after = &rest[values.byte_offset()..];
        self.misses += 1;
        self.before.clear();
        // Closed right here it must be whole: a key deeper inside would leave something open.
        let is_own = serde_json::from_str::<IgnoredAny>(&format!("{before}null}}")).is_ok();
        if is_own && is_empty(&format!("{before}null{after}")) {
            self.before.push_str(before);
            self.after.clear();
            self.after.push_str(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn is_object(frame: &str) -> bool {
        serde_json::from_str::<Value>(frame).is_ok_and(|value| value.is_object())
    }

    #[test]
    fn what_was_learned_is_not_read_again() {
        let mut repeated = Repeated::new("\"d\":");
        repeated.learn(r#"{"id":1,"d":"a","u":null}"#, is_object);
        let mut value = |frame| repeated.value::<&str>(frame);
        assert_eq!(value(r#"{"id":1,"d":"b","u":null}"#), Some("b"));
        assert_eq!(value(r#"{"id":2,"d":"b","u":null}"#), None);
        assert_eq!(value(r#"{"id":1,"d":"b","u":2}"#), None);
        assert_eq!(value(r#"{"id":1,"d":"b","u":null,"d":"c"}"#), None);
        assert_eq!(value(r#"{"id":1,"d":7,"u":null}"#), None);
        assert_eq!(value(r#"{"id":1,"d":"b"#), None);
    }

    #[test]
    fn keys_inside_of_other_values_are_not_taken() {
        for frame in [
            r#"{"id":{"d":1},"d":"a"}"#,
            r#"{"id":{"d":1}}"#,
            r#"{"id":[{"d":1}]}"#,
            r#"["d":1]"#,
        ] {
            let mut repeated = Repeated::new("\"d\":");
            let own = |frame: &str| {
                serde_json::from_str::<Value>(frame).is_ok_and(|value| value["d"].is_null())
            };
            repeated.learn(frame, own);
            assert_eq!(repeated.value::<Value>(frame), None, "{frame}");
        }
        let frame = r#"{"id":"\"d\":1","d":"a"}"#;
        let mut repeated = Repeated::new("\"d\":");
        repeated.learn(frame, is_object);
        assert_eq!(repeated.value::<&str>(frame), Some("a"));
    }

    #[test]
    fn learning_in_vain_ends() {
        let mut repeated = Repeated::new("\"d\":");
        for id in 0..PATIENCE {
            repeated.learn(&format!(r#"{{"id":{id},"d":1}}"#), is_object);
        }
        repeated.learn(r#"{"id":"x","d":1}"#, is_object);
        assert_eq!(repeated.value::<u8>(r#"{"id":"x","d":1}"#), None);
    }
}
