//! The body of a `useChat` request.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::agent::Decision;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Content, Message, Part};
use crate::session::PendingCall;

use super::super::super::values::ValueRoom;
use super::super::media::media;
use super::super::run_input::RunInput;

/// The body that `DefaultChatTransport` sends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AiSdkInput {
    /// The thread.
    pub(crate) id: Arc<str>,
    /// The messages, of which the last one is read.
    #[serde(rename = "messages", deserialize_with = "read_last")]
    #[schemars(with = "Vec<UiMessage>")]
    last_message: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) trigger: Trigger,
}

/// The reason of the request. A submitted message replaces the stored message with its id and all
/// later ones if its content differs from the stored one. With `RegenerateMessage`, the last
/// message of the user is answered again: it replaces itself and all later messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trigger {
    #[default]
    SubmitMessage,
    RegenerateMessage,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct UiMessage {
    #[serde(default)]
    id: Arc<str>,
    role: String,
    #[serde(default)]
    parts: Vec<UiPart>,
}

/// A part of any type, with the fields that are read. The type is `text`, `file`, `tool-NAME` or
/// another.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UiPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    media_type: Option<String>,
    url: Option<String>,
    filename: Option<String>,
    state: Option<String>,
    approval: Option<Approval>,
}

/// The user's answer to an approval request.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Approval {
    id: Arc<str>,
    approved: Option<bool>,
    reason: Option<String>,
    /// The hash of the arguments, as it was sent.
    signature: Option<Arc<str>>,
}

impl AiSdkInput {
    /// Returns the last message if it has this role.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequest`](ErrorKind::InvalidRequest) if it is invalid or has more than
    /// 50,000 values.
    fn last_message_of(&self, role: &str) -> Result<Option<UiMessage>> {
        let Some(json) = &self.last_message else {
            return Ok(None);
        };
        let message: UiMessage = ValueRoom::default().parse("messages", json)?;
        Ok(Some(message).filter(|message| message.role == role))
    }

    /// Returns the last message, if it is the user's.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequest`](ErrorKind::InvalidRequest) for a file that cannot be sent to a
    /// model, and for a message that is invalid or has more than 50,000 values.
    pub(crate) fn input(&self) -> Result<RunInput> {
        let Some(message) = self.last_message_of("user")? else {
            return Ok(RunInput::default());
        };
        let mut content = Content::new();
        for part in &message.parts {
            content.push(match &*part.kind {
                "text" => match part.text.as_deref().unwrap_or_default() {
                    // The history has no empty texts, and a message sent again is compared with it.
                    "" => continue,
                    text => Part::text(text),
                },
                "file" => file(part)?,
                // Parts of the client's own, such as `data-` parts, are not for the model.
                _ => continue,
            });
        }
        let message = (message.id, Message::human(content));
        Ok(RunInput::new([message]))
    }

    /// Returns the decisions about the pending calls that the last message has; `None` if there are
    /// none. Answers to questions that were decided earlier are skipped: the message keeps them.
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](ErrorKind::Conflict) if an answer is about other arguments than the
    /// pending call has, and [`InvalidRequest`](ErrorKind::InvalidRequest) for a message that is
    /// invalid or has more than 50,000 values.
    pub(crate) fn decisions(&self, pending: &[PendingCall]) -> Result<Option<Vec<Decision>>> {
        let Some(message) = self.last_message_of("assistant")? else {
            return Ok(None);
        };
        let pending: HashMap<_, _> = pending.iter().map(|call| (&call.id, call)).collect();
        let mut decisions = Vec::new();
        for part in &message.parts {
            if part.state.as_deref() != Some("approval-responded") {
                continue;
            }
            let Some(approval) = &part.approval else {
                continue;
            };
            if let Some(call) = pending.get(&approval.id) {
                decisions.push(approval.decision(call)?);
            }
        }
        Ok(Some(decisions).filter(|decisions| !decisions.is_empty()))
    }
}

impl Approval {
    fn decision(&self, call: &PendingCall) -> Result<Decision> {
        const DENIED: &str = "the user did not allow the call";
        let signature = self.signature.as_ref();
        if signature.is_some_and(|signature| *signature != call.args_hash) {
            let text = format!(
                "the approval of the call {:?} is about other arguments; load the thread again",
                call.id
            );
            return Err(Error::new(ErrorKind::Conflict, text));
        }

        let reason = self.reason.clone().filter(|reason| !reason.is_empty());
        Ok(match (self.approved, reason) {
            // The client has no other field for a text.
            (Some(true), Some(text)) if call.expects_text => Decision::reply(call, text),
            (Some(true), _) => Decision::allow(call),
            (_, reason) => Decision::deny(call, reason.unwrap_or_else(|| DENIED.to_owned())),
        })
    }
}

/// Reads the last element of a list. All others are checked for their syntax and not kept.
fn read_last<'de, D>(from: D) -> std::result::Result<Option<Box<RawValue>>, D::Error>
where
    D: Deserializer<'de>,
{
    struct LastElement;

    impl<'de> Visitor<'de> for LastElement {
        type Value = Option<Box<RawValue>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A>(self, mut list: A) -> std::result::Result<Self::Value, A::Error>
        where
            A: SeqAccess<'de>,
        {
            let mut last = None;
            while let Some(element) = list.next_element()? {
                last = Some(element);
            }
            Ok(last)
        }
    }

    from.deserialize_seq(LastElement)
}

fn file(part: &UiPart) -> Result<Part> {
    let url = part.url.as_deref().unwrap_or_default();
    let media_type = part.media_type.as_deref();
    let mut media = media(url, media_type)?;
    if let Some(name) = &part.filename {
        media = media.with_name(name.as_str());
    }
    Ok(match media_type.and_then(|name| name.split('/').next()) {
        Some("image") => Part::Image(media),
        Some("audio") => Part::Audio(media),
        _ => Part::Document(media),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::message::{Media, ToolCall};
    use crate::tool::Answer;

    fn body(messages: &Value) -> AiSdkInput {
        let body = json!({"id": "t", "messages": messages, "trigger": "submit-message"});
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn input_is_the_last_user_message() {
        let body = body(&json!([
            {"id": "1", "role": "user", "parts": [{"type": "text", "text": "old"}]},
            {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}]},
            {"id": "3", "role": "user", "metadata": {}, "parts": [
                {"type": "text", "text": "new"},
                {"type": "file", "mediaType": "image/png", "filename": "a.png",
                    "url": "data:image/png;base64,AAAA"},
                {"type": "data-x", "data": 1},
            ]},
        ]));
        let input = body.input().unwrap();
        assert_eq!(input.input_id.as_deref(), Some("3"));
        let (_, message) = &input.messages[0];
        assert_eq!(message.text(), "new");
        let Part::Image(media) = &message.content().parts()[1] else {
            panic!("{message:?}");
        };
        assert_eq!(
            *media,
            Media::base64("image/png", "AAAA").with_name("a.png")
        );
    }

    #[test]
    fn last_message_of_too_many_values_is_an_error_and_an_earlier_one_is_not_read() {
        let message = |role: &str| {
            let parts = vec![json!({"type": ""}); 25_000];
            json!({"id": "1", "role": role, "parts": parts})
        };
        for role in ["user", "assistant"] {
            let body = body(&json!([message(role)]));
            let errors = [body.input().unwrap_err(), body.decisions(&[]).unwrap_err()];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::InvalidRequest);
                assert!(error.to_string().contains("50000"), "{error}");
            }
        }
        let last = json!({"id": "2", "role": "user", "parts": [{"type": "text", "text": "Hi"}]});
        let body = body(&json!([message("assistant"), {"role": 1}, last]));
        assert_eq!(body.input().unwrap().messages[0].1.text(), "Hi");
    }

    #[test]
    fn file_at_an_unknown_address_is_an_error() {
        for url in ["file:///etc/passwd", "data:text/plain,hi", "data:x", ""] {
            let parts = json!([{"type": "file", "mediaType": "text/plain", "url": url}]);
            let body = body(&json!([{"id": "1", "role": "user", "parts": parts}]));
            assert_eq!(
                body.input().unwrap_err().kind(),
                ErrorKind::InvalidRequest,
                "{url}"
            );
        }
    }

    #[test]
    fn approvals_become_decisions_about_the_reviewed_arguments() {
        let call = ToolCall::new("call_1", "act", json!({}));
        let pending = PendingCall::new("ask_1".into(), "t".into(), call, "sure?".to_owned());
        let decide = |approval: Value| {
            let part = json!({"type": "dynamic-tool", "state": "approval-responded",
                "toolName": "act", "toolCallId": "call_1", "input": {}, "approval": approval});
            let messages = json!([{"id": "1", "role": "assistant", "parts": [part]}]);
            body(&messages).decisions(std::slice::from_ref(&pending))
        };

        let allowed = decide(json!({"id": "ask_1", "approved": true,
            "signature": pending.args_hash}));
        assert_eq!(allowed.unwrap(), Some(vec![Decision::allow(&pending)]));
        let denied = decide(json!({"id": "ask_1", "approved": false, "reason": "no"}));
        assert_eq!(
            denied.unwrap().unwrap()[0].answer,
            Answer::Deny("no".to_owned())
        );
        assert_eq!(
            decide(json!({"id": "old", "approved": true})).unwrap(),
            None
        );
        let stale = decide(json!({"id": "ask_1", "approved": true, "signature": "x"}));
        assert_eq!(stale.unwrap_err().kind(), ErrorKind::Conflict);
    }
}
