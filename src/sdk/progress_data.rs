//! The payload of a progress message.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The payload of a [`ToolProgress`](super::ToolProgress), which is read as a JSON value.
///
/// The payloads of a call's start and end are made when they are first read: every call has both,
/// and most readers read neither.
#[derive(Clone)]
pub struct ProgressData(Payload);

#[derive(Clone)]
enum Payload {
    Value(Value),
    /// A value that is made when it is first read.
    Pending(Source, OnceLock<Value>),
}

#[derive(Clone)]
enum Source {
    Started { args: Arc<Value> },
    Done { is_error: bool, output: Arc<str> },
}

impl ProgressData {
    /// Creates the payload of a call that begins.
    pub(crate) fn started(args: Arc<Value>) -> Self {
        Self::of(Source::Started { args })
    }

    /// Creates the payload of a call that has ended.
    pub(crate) fn done(is_error: bool, output: &str) -> Self {
        let output = output.into();
        Self::of(Source::Done { is_error, output })
    }

    fn of(source: Source) -> Self {
        Self(Payload::Pending(source, OnceLock::new()))
    }
}

impl Source {
    fn value(&self) -> Value {
        let mut fields = Map::new();
        let mut set_field = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        match self {
            Self::Started { args } => {
                set_field("args", (**args).clone());
                set_field("state", "started".into());
            }
            Self::Done { is_error, output } => {
                set_field("is_error", (*is_error).into());
                set_field("output", (&**output).into());
                set_field("state", "done".into());
            }
        }

        Value::Object(fields)
    }
}

impl From<Value> for ProgressData {
    fn from(value: Value) -> Self {
        Self(Payload::Value(value))
    }
}

impl Deref for ProgressData {
    type Target = Value;

    fn deref(&self) -> &Value {
        match &self.0 {
            Payload::Value(value) => value,
            Payload::Pending(source, value) => value.get_or_init(|| source.value()),
        }
    }
}

impl PartialEq for ProgressData {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Value> for ProgressData {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

impl Serialize for ProgressData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl fmt::Display for ProgressData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for ProgressData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn payload_of_a_start_and_of_an_end_reads_as_a_value() {
        let args = json!({"text": "hi"});
        let start_data = ProgressData::started(Arc::new(args.clone()));
        assert_eq!(start_data, json!({"state": "started", "args": args}));
        let end_data = ProgressData::done(true, "no");
        assert_eq!(end_data["output"], "no");
        let expected = json!({"state": "done", "is_error": true, "output": "no"});
        assert_eq!(
            serde_json::to_string(&end_data).unwrap(),
            expected.to_string()
        );
        assert_eq!(end_data, ProgressData::from(expected));
    }
}
