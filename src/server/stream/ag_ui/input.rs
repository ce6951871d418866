//! The body of an AG-UI request.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::Decision;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Content, Media, Message, Part};
use crate::session::PendingCall;

use super::super::super::values::ValueRoom;
use super::super::media::media;
use super::super::run_input::RunInput;

/// A `RunAgentInput`. The tools, the state and the properties of the client are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgUiInput {
    pub(crate) thread_id: Arc<str>,
    pub(crate) run_id: Arc<str>,
    /// The trailing messages of the user.
    #[serde(deserialize_with = "read_trailing")]
    #[schemars(with = "Vec<InputMessage>")]
    messages: Vec<InputMessage>,
    #[serde(default)]
    context: Vec<Context>,
    #[serde(default)]
    pub(crate) resume: Option<Vec<ResumeEntry>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiMessage")]
struct InputMessage {
    #[serde(default)]
    id: Arc<str>,
    #[schemars(with = "String")]
    role: InputRole,
    /// A text, or a list of parts.
    #[serde(default)]
    #[schemars(with = "Value")]
    content: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InputRole {
    User,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum InputContent {
    Text(String),
    Parts(Vec<InputPart>),
    /// Anything else, which counts as no content.
    Other(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputPart {
    Text {
        text: String,
    },
    Image {
        source: Source,
    },
    Audio {
        source: Source,
    },
    Document {
        source: Source,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
enum Source {
    Data {
        value: String,
        mime_type: String,
    },
    Url {
        value: String,
        mime_type: Option<String>,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiContext")]
struct Context {
    description: String,
    value: String,
}

/// The answer to one interrupt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeEntry {
    interrupt_id: Arc<str>,
    status: ResumeStatus,
    #[serde(default)]
    payload: Option<ResumePayload>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResumeStatus {
    Resolved,
    Cancelled,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResumePayload {
    approved: Option<bool>,
    #[schemars(with = "Option<Value>")]
    edited_args: Option<Box<RawValue>>,
    message: Option<String>,
    text: Option<String>,
}

impl AgUiInput {
    /// Returns the trailing messages of the user, with the context at the end of the last message.
    /// If the thread has some of them, by their ids, all messages up to the last known one are
    /// omitted, because a failed run has stored them. The last message always stays: a client may
    /// send an input twice, and it is then stored once, by the id of this message.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequest`](ErrorKind::InvalidRequest) for a part that cannot be sent to a
    /// model, and for contents of more than 50,000 values.
    pub(crate) fn input(&self, is_known: impl Fn(&str) -> bool) -> Result<RunInput> {
        let trailing = &self.messages[..];
        let earlier = &trailing[..trailing.len().saturating_sub(1)];
        let last_known = earlier
            .iter()
            .rposition(|message| !message.id.is_empty() && is_known(&message.id));
        let new_messages = &trailing[last_known.map_or(0, |last| last + 1)..];
        let mut room = ValueRoom::default();
        let mut messages = Vec::new();
        for message in new_messages {
            messages.push((message.id.clone(), content(message, &mut room)?));
        }

        if let Some((_, last)) = messages.last_mut()
            && !self.context.is_empty()
        {
            last.push(Part::text(self.context_text()));
        }
        Ok(RunInput::new(
            messages
                .into_iter()
                .map(|(id, content)| (id, Message::human(content))),
        ))
    }

    fn context_text(&self) -> String {
        let lines = self
            .context
            .iter()
            .map(|context| format!("\n{}: {}", context.description, context.value));
        format!("\n\nContext:{}", lines.collect::<String>())
    }

    /// Returns the decisions about the pending calls; `None` if the request has none. Clients may
    /// send an empty list when nothing is pending.
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](ErrorKind::Conflict) if a pending call has no entry, or an entry is
    /// about a call that is not pending or whose question has expired.
    pub(crate) fn decisions(
        &self,
        pending: &[PendingCall],
        now_ms: u64,
    ) -> Result<Option<Vec<Decision>>> {
        let Some(entries) = &self.resume else {
            return Ok(None);
        };
        let pending_by_id: HashMap<_, _> = pending.iter().map(|call| (&call.id, call)).collect();
        let mut room = ValueRoom::default();
        let mut ids = HashSet::new();
        let mut decisions = Vec::new();
        for entry in entries {
            let id = &entry.interrupt_id;
            let Some(call) = pending_by_id.get(id) else {
                return Err(conflict(format!(
                    "no call waits under the interrupt {id:?}"
                )));
            };
            if !ids.insert(id) {
                return Err(conflict(format!("the interrupt {id:?} has two entries")));
            }
            let is_late = call.is_expired(now_ms);
            if is_late && entry.status == ResumeStatus::Resolved {
                return Err(conflict(format!(
                    "the interrupt {id:?} has expired; cancel it, and ask again"
                )));
            }
            decisions.push(entry.decision(call, &mut room)?);
        }

        match pending.iter().find(|call| !ids.contains(&call.id)) {
            Some(call) => Err(conflict(format!(
                "the interrupt {:?} has no entry; `resume` covers every call that waits",
                call.id
            ))),
            None => Ok(Some(decisions).filter(|decisions| !decisions.is_empty())),
        }
    }
}

impl ResumeEntry {
    fn decision(&self, call: &PendingCall, room: &mut ValueRoom) -> Result<Decision> {
        const CANCELLED: &str = "the user cancelled the question";
        const DENIED: &str = "the user did not allow the call";
        let payload = match (self.status, &self.payload) {
            (ResumeStatus::Cancelled, _) => return Ok(Decision::deny(call, CANCELLED)),
            (ResumeStatus::Resolved, Some(payload)) => payload,
            (ResumeStatus::Resolved, None) => {
                return Err(invalid(format!(
                    "the entry of the interrupt {:?} has no payload",
                    call.id
                )));
            }
        };

        let message = || payload.message.clone().unwrap_or_else(|| DENIED.to_owned());
        match payload {
            ResumePayload {
                approved: Some(false),
                ..
            } => Ok(Decision::deny(call, message())),
            ResumePayload {
                approved: Some(true),
                edited_args: Some(args),
                ..
            } => Ok(Decision::edit(call, room.parse("editedArgs", args)?)),
            ResumePayload {
                approved: None,
                edited_args: Some(_),
                ..
            } => Err(invalid(format!(
                "the payload of the interrupt {:?} has `editedArgs` without `approved: true`",
                call.id
            ))),
            ResumePayload {
                text: Some(text), ..
            } => Ok(Decision::reply(call, text)),
            ResumePayload {
                approved: Some(true),
                ..
            } => Ok(Decision::allow(call)),
            _ => Err(invalid(format!(
                "the payload of the interrupt {:?} has neither `approved` nor `text`",
                call.id
            ))),
        }
    }
}

/// Reads the trailing messages of the user. All others are checked and not kept.
fn read_trailing<'de, D>(from: D) -> std::result::Result<Vec<InputMessage>, D::Error>
where
    D: Deserializer<'de>,
{
    struct TrailingMessages;

    impl<'de> Visitor<'de> for TrailingMessages {
        type Value = Vec<InputMessage>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A>(self, mut list: A) -> std::result::Result<Self::Value, A::Error>
        where
            A: SeqAccess<'de>,
        {
            let mut trailing = Vec::new();
            while let Some(message) = list.next_element::<InputMessage>()? {
                if message.role == InputRole::User {
                    trailing.push(message);
                } else {
                    trailing.clear();
                }
            }
            Ok(trailing)
        }
    }

    from.deserialize_seq(TrailingMessages)
}

fn content(message: &InputMessage, room: &mut ValueRoom) -> Result<Content> {
    let Some(json) = &message.content else {
        return Ok(Content::new());
    };
    let parts = match room.parse("content", json)? {
        InputContent::Text(text) => return Ok(Content::from(text)),
        InputContent::Parts(parts) => parts,
        InputContent::Other(_) => return Ok(Content::new()),
    };

    let mut content = Content::new();
    for part in parts {
        content.push(match part {
            InputPart::Text { text } => Part::text(text),
            InputPart::Image { source } => Part::Image(read_source(&source)?),
            InputPart::Audio { source } => Part::Audio(read_source(&source)?),
            InputPart::Document { source } => Part::Document(read_source(&source)?),
            InputPart::Unknown => {
                let text = "a part of a message is of an unknown type; use text, image, audio or \
                            document";
                return Err(invalid(text.to_owned()));
            }
        });
    }
    Ok(content)
}

fn read_source(source: &Source) -> Result<Media> {
    match source {
        Source::Data { value, mime_type } => Ok(Media::base64(mime_type.as_str(), value.as_str())),
        Source::Url { value, mime_type } => media(value, mime_type.as_deref()),
        Source::Unknown => {
            let text = "the source of a part is of an unknown type; use data or url";
            Err(invalid(text.to_owned()))
        }
    }
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidRequest, text)
}

fn conflict(text: String) -> Error {
    Error::new(ErrorKind::Conflict, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ToolCall;
    use crate::tool::Answer;

    fn body(fields: &Value) -> AgUiInput {
        let mut body = json!({"threadId": "t", "runId": "r", "messages": [], "tools": [],
            "state": null, "forwardedProps": {}});
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        serde_json::from_value(body).unwrap()
    }

    fn pending(id: &str, expires_at_ms: Option<u64>) -> PendingCall {
        let call = ToolCall::new(format!("call_{id}"), "act", json!({"n": 1}));
        let mut pending = PendingCall::new(id.into(), "t".into(), call, "sure?".to_owned());
        pending.expires_at_ms = expires_at_ms;
        pending
    }

    #[test]
    fn input_is_the_trailing_user_messages_with_the_context() {
        let body = body(&json!({
            "messages": [
                {"id": "1", "role": "user", "content": "old"},
                {"id": "2", "role": "activity", "activityType": "x", "content": {"a": 1}},
                {"id": "3", "role": "user", "content": "new"},
                {"id": "4", "role": "user", "content": [
                    {"type": "text", "text": "this"},
                    {"type": "image", "source":
                        {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
                ]},
            ],
            "context": [{"description": "page", "value": "home"}],
        }));
        let input = body.input(|_| false).unwrap();
        assert_eq!(input.input_id.as_deref(), Some("4"));
        let [(_, first), (_, second)] = &*input.messages else {
            panic!("{input:?}");
        };
        assert_eq!(first.text(), "new");
        assert_eq!(second.text(), "this\n\nContext:\npage: home");
        assert!(matches!(second.content().parts()[1], Part::Image(_)));
    }

    #[test]
    fn input_after_a_failed_run_leaves_out_the_messages_that_are_stored() {
        let message = |id: &str| json!({"id": id, "role": "user", "content": id});
        let body = body(&json!({"messages": [message("a"), message("b"), message("c")]}));
        let ids = |known: &[&str]| {
            let input = body.input(|id| known.contains(&id)).unwrap();
            let ids = input.messages.iter().map(|(id, _)| &**id);
            ids.collect::<String>()
        };
        assert_eq!(ids(&[]), "abc");
        assert_eq!(ids(&["a"]), "bc");
        // Messages that were sent together have the id of the last one.
        assert_eq!(ids(&["b"]), "c");
        assert_eq!(ids(&["a", "b", "c"]), "c");
        assert_eq!(ids(&["c"]), "abc");
    }

    #[test]
    fn content_and_arguments_of_too_many_values_are_an_error() {
        let values = json!(vec![json!({"": 0}); 50_000]);
        let entry = json!({"interruptId": "a", "status": "resolved",
            "payload": {"approved": true, "editedArgs": values}});
        let input = body(&json!({
            "messages": [{"id": "1", "role": "user", "content": values}],
            "resume": [entry],
        }));
        for error in [
            input.input(|_| false).unwrap_err(),
            input.decisions(&[pending("a", None)], 5).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.to_string().contains("50000"), "{error}");
        }
    }

    #[test]
    fn unknown_part_is_an_error_that_names_the_known_ones() {
        let part = json!({"type": "video", "source": {"type": "url", "value": "https://a"}});
        let messages = json!([{"id": "1", "role": "user", "content": [part]}]);
        let body = body(&json!({ "messages": messages }));
        let error = body.input(|_| false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("use text, image"), "{error}");
    }

    #[test]
    fn edited_arguments_without_an_approval_are_an_error() {
        for payload in [
            json!({"editedArgs": {"n": 2}}),
            json!({"editedArgs": {"n": 2}, "text": "later"}),
        ] {
            let entry = json!({"interruptId": "a", "status": "resolved", "payload": payload});
            let body = body(&json!({"resume": [entry]}));
            let error = body.decisions(&[pending("a", None)], 5).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(
                error.to_string().contains("without `approved: true`"),
                "{error}"
            );
        }
    }

    #[test]
    fn resume_entries_become_decisions() {
        let calls = [
            pending("a", Some(10)),
            pending("b", None),
            pending("c", Some(1)),
        ];
        let body = body(&json!({"resume": [
            {"interruptId": "a", "status": "resolved", "payload": {"approved": true}},
            {"interruptId": "b", "status": "resolved",
                "payload": {"approved": true, "editedArgs": {"n": 2}}},
            {"interruptId": "c", "status": "cancelled"},
        ]}));
        let decisions = body.decisions(&calls, 5).unwrap().unwrap();
        let answers: Vec<_> = decisions.iter().map(|one| one.answer.clone()).collect();
        assert_eq!(answers[..2], [Answer::Allow, Answer::Edit(json!({"n": 2}))]);
        assert!(matches!(answers[2], Answer::Deny(_)));
        assert_eq!(decisions[0].args_hash.as_ref(), Some(&calls[0].args_hash));
    }

    #[test]
    fn resume_with_missing_foreign_or_expired_entries_is_a_conflict() {
        let calls = [pending("a", Some(1))];
        let entry = |id| {
            json!({"interruptId": id, "status": "resolved",
            "payload": {"approved": true}})
        };
        for (resume, text) in [
            (json!([]), "\"a\" has no entry"),
            (json!([entry("b")]), "under the interrupt \"b\""),
            (json!([entry("a")]), "has expired"),
        ] {
            let body = body(&json!({ "resume": resume }));
            let error = body.decisions(&calls, 5).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.to_string().contains(text), "{error}");
        }
        assert!(body(&json!({})).decisions(&calls, 5).unwrap().is_none());
    }

    #[test]
    fn empty_list_of_entries_without_a_pending_call_is_no_decision() {
        let body = body(&json!({"resume": []}));
        assert!(body.decisions(&[], 5).unwrap().is_none());
    }
}
