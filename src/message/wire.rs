//! The JSON of messages. The JSON of their parts is in `wire_part`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use super::content::Content;
use super::message::{AssistantMessage, Message, SystemMessage, UserMessage};
use super::messages::Messages;
use super::part::{Part, ToolCall};
use super::result::ToolResult;
use super::role::Role;
use super::wire_part::{present, without_position};
use crate::error::{Error, ErrorKind};

impl Messages {
    /// Reads a history from a JSON array.
    ///
    /// Like `serde_json::from_slice`, but with an error of this crate. For an error in a message,
    /// its text names the message instead of a line and a column.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidMessages`](ErrorKind::InvalidMessages), with the parser's error as its
    /// source, if the JSON is not such an array.
    ///
    /// ```
    /// use agentcore::Messages;
    ///
    /// let history = Messages::from_json(r#"[{"role":"user","content":"Hi"}]"#)?;
    /// assert_eq!(history.last_content(), "Hi");
    ///
    /// let error = Messages::from_json(r#"[{"role":"hacker","content":""}]"#).unwrap_err();
    /// assert_eq!(error.to_string(), r#"message[0]: unknown role "hacker""#);
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, Error> {
        let json = json.as_ref();
        serde_json::from_slice(json).map_err(|error| {
            // For an error inside a message, its index is reported; for text that is not JSON, line
            // and column are more useful.
            match serde_json::from_slice::<IgnoredAny>(json) {
                Ok(_) => invalid(without_position(&error), error),
                Err(syntax) => invalid(syntax.to_string(), syntax),
            }
        })
    }
}

fn invalid(text: String, error: serde_json::Error) -> Error {
    Error::new(ErrorKind::InvalidMessages, text).with_source(error)
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Messages;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Messages, A::Error> {
                let list: Vec<Arc<Message>> = read_each(seq, "message", Arc::new)?;
                Ok(list.into_iter().collect())
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// Reads a sequence; an error contains the index of the element.
fn read_each<'de, A, T, U>(mut seq: A, name: &str, wrap: fn(T) -> U) -> Result<Vec<U>, A::Error>
where
    A: SeqAccess<'de>,
    T: Deserialize<'de>,
{
    let mut items = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(4096));
    loop {
        match seq.next_element() {
            Ok(Some(one)) => items.push(wrap(one)),
            Ok(None) => return Ok(items),
            Err(error) => {
                let index = items.len();
                return Err(de::Error::custom(format_args!("{name}[{index}]: {error}")));
            }
        }
    }
}

#[derive(serde::Serialize)]
struct MessageOut<'a> {
    role: &'a str,
    content: ContentOut<'a>,
    #[serde(skip_serializing_if = "Calls::is_empty")]
    tool_calls: Calls<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool_call_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    silent: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_async: bool,
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (content, tool_calls) = split(self.content().parts());
        let mut out = MessageOut {
            role: self.role().as_str(),
            content,
            tool_calls,
            tool_call_id: "",
            name: "",
            is_error: false,
            details: None,
            display: None,
            silent: false,
            is_async: false,
        };

        if let Self::Tool(result) = self {
            out.tool_call_id = &result.tool_call_id;
            out.name = &result.name;
            out.is_error = result.is_error;
            out.details = result.details.as_ref();
            out.display = result.display.as_deref();
            out.silent = result.silent;
            out.is_async = result.is_async;
        }

        out.serialize(serializer)
    }
}

/// The maximum number of calls with one id, among the parts of a message, with which a call in
/// `tool_calls` is compared. Ids are unique except in damaged messages.
const MAX_SAME_ID: usize = 16;

/// Splits the parts into the fields `content` and `tool_calls`.
///
/// An empty text part is written as a part: as a string it would be read as no part.
fn split(parts: &[Part]) -> (ContentOut<'_>, Calls<'_>) {
    let (text, calls) = match parts {
        [Part::Text(text), calls @ ..] if !text.is_empty() => (text.as_str(), calls),
        calls => ("", calls),
    };
    if calls.iter().all(|part| matches!(part, Part::ToolCall(_))) {
        (ContentOut::Text(text), Calls(calls))
    } else {
        (ContentOut::Parts(parts), Calls(&[]))
    }
}

enum ContentOut<'a> {
    Text(&'a str),
    Parts(&'a [Part]),
}

impl Serialize for ContentOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Parts(parts) => serializer.collect_seq(*parts),
        }
    }
}

struct Calls<'a>(&'a [Part]);

impl Calls<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().filter_map(Part::as_tool_call))
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match split(self.parts()) {
            (content, Calls([])) => content.serialize(serializer),
            _ => ContentOut::Parts(self.parts()).serialize(serializer),
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(expecting = "a message")]
struct MessageIn<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(default)]
    content: Content,
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<Arc<str>>,
    name: Option<Arc<str>>,
    is_error: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    details: Option<Value>,
    display: Option<String>,
    silent: Option<bool>,
    is_async: Option<bool>,
}

/// Returns the calls in `tool_calls` that are not among the parts: some writers put a call into
/// both.
fn other_calls(content: &Content, mut list: Vec<ToolCall>) -> Vec<ToolCall> {
    if list.is_empty() {
        return list;
    }

    let mut calls_by_id = HashMap::<_, Vec<_>>::new();
    for call in content.tool_calls() {
        let same_id = calls_by_id.entry(&call.id).or_default();
        if same_id.len() < MAX_SAME_ID {
            same_id.push(call);
        }
    }

    list.retain(|call| {
        let same_id = calls_by_id.get(&call.id).map_or(&[][..], Vec::as_slice);
        !same_id.contains(&call)
    });
    list
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = MessageIn::deserialize(deserializer)?;
        let role: Role = message.role.parse().map_err(de::Error::custom)?;
        let mut content = message.content;

        let list = other_calls(&content, message.tool_calls.unwrap_or_default());
        content
            .parts_mut()
            .extend(list.into_iter().map(Part::ToolCall));
        Ok(match role {
            Role::System => Self::System(SystemMessage { content }),
            Role::User => Self::User(UserMessage { content }),
            Role::Assistant => Self::Assistant(AssistantMessage { content }),
            Role::Tool => Self::Tool(ToolResult {
                tool_call_id: message.tool_call_id.unwrap_or_default(),
                name: message.name.unwrap_or_default(),
                content,
                is_error: message.is_error.unwrap_or_default(),
                details: message.details,
                display: message.display,
                silent: message.silent.unwrap_or_default(),
                is_async: message.is_async.unwrap_or_default(),
            }),
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(text.into())
            }

            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(text.into())
            }

            fn visit_unit<E>(self) -> Result<Content, E> {
                Ok(Content::new())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Content, A::Error> {
                read_each(seq, "content", |part: Part| part).map(Content::from)
            }
        }

        deserializer.deserialize_any(Parts)
    }
}
