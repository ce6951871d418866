//! The answers of people, as JSON.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::Decision;
use crate::session::PendingCall;
use crate::tool::Answer;

use super::super::error::ApiError;
use super::super::values::ValueRoom;

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DecisionKind {
    /// The call runs.
    Allow,
    /// The call runs, and those like it for the rest of the session.
    AllowForSession,
    /// The call runs with the arguments in `args`.
    Edit,
    /// The call does not run, and the model reads `message`.
    Deny,
    /// The text in `text` is the result of the call.
    Reply,
}

/// A decision about a pending call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    /// The id of the pending call.
    id: String,
    /// The decision. `answer` is accepted as well, because `/agents/hitl/{name}` uses that key.
    #[serde(alias = "answer")]
    decision: DecisionKind,
    /// The hash of the arguments that were reviewed. Not needed for a denial.
    args_hash: Option<String>,
    /// For `edit`: the arguments that replace the reviewed arguments.
    #[schemars(with = "Option<Value>")]
    args: Option<Box<RawValue>>,
    /// For `deny`: the reason.
    message: Option<String>,
    /// For `reply`: the text.
    text: Option<String>,
    /// For `reply`: the positions of the options that were picked, from 0.
    #[serde(default)]
    picked: Vec<usize>,
}

impl DecisionBody {
    /// Returns the decision about one of these calls, which are given by their ids.
    pub(super) fn decision(
        self,
        pending: &HashMap<&str, &PendingCall>,
        room: &mut ValueRoom,
    ) -> Result<Decision, ApiError> {
        let call = pending.get(&*self.id).ok_or_else(|| {
            let text = format!(
                "the call {:?} does not wait for a decision; it was decided already, or the \
                 thread continued without it",
                self.id
            );
            ApiError::conflict(text)
        })?;
        let fields = AnswerFields {
            args: self.args,
            message: self.message,
            text: self.text,
            picked: self.picked,
        };
        let answer = fields.answer(self.decision, room)?;
        // A denial has no hash yet. The other constructors set the hash of the stored arguments,
        // but the hash that the client has sent must be checked.
        let mut decision = Decision::deny(call, "");
        decision.args_hash = self.args_hash.map(Arc::from);
        decision.answer = answer;
        Ok(decision)
    }
}

/// The answer to a question while its run waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// The decision about a call. `decision` is accepted as well, because `/resume` uses that key.
    #[serde(alias = "decision")]
    answer: Option<DecisionKind>,
    /// For `edit`: the arguments that replace the reviewed arguments.
    #[schemars(with = "Option<Value>")]
    args: Option<Box<RawValue>>,
    /// For `deny`: the reason.
    message: Option<String>,
    /// For `reply`, and without `answer`: the positions of the options that were picked, from 0.
    picked: Option<Vec<usize>>,
    /// For `reply`, and without `answer`: an answer in the person's own words.
    text: Option<String>,
}

impl AnswerBody {
    pub(super) fn answer(self) -> Result<Answer, ApiError> {
        let kind = match (self.answer, &self.picked, &self.text) {
            (Some(kind), _, _) => kind,
            (None, None, None) => {
                let text = "one of the keys \"answer\", \"picked\" and \"text\" is required";
                return Err(ApiError::bad_request(text));
            }
            (None, _, _) => DecisionKind::Reply,
        };
        let fields = AnswerFields {
            args: self.args,
            message: self.message,
            text: self.text,
            picked: self.picked.unwrap_or_default(),
        };
        fields.answer(kind, &mut ValueRoom::default())
    }
}

/// The fields of a body that an answer is made of.
struct AnswerFields {
    args: Option<Box<RawValue>>,
    message: Option<String>,
    text: Option<String>,
    picked: Vec<usize>,
}

impl AnswerFields {
    /// Returns the answer of this kind.
    ///
    /// # Errors
    ///
    /// Returns a 400 if the arguments of an edit are missing, and for arguments or a reply that the
    /// answer would not use.
    fn answer(self, kind: DecisionKind, room: &mut ValueRoom) -> Result<Answer, ApiError> {
        if kind != DecisionKind::Edit && self.args.is_some() {
            return Err(unused("args", "edit"));
        }
        let has_text = self.text.as_ref().is_some_and(|text| !text.is_empty());
        if kind != DecisionKind::Reply && has_text {
            return Err(unused("text", "reply"));
        }
        if kind != DecisionKind::Reply && !self.picked.is_empty() {
            return Err(unused("picked", "reply"));
        }
        Ok(match kind {
            DecisionKind::Allow => Answer::Allow,
            DecisionKind::AllowForSession => Answer::AllowForSession,
            DecisionKind::Edit => {
                let args = self.args.ok_or_else(|| {
                    ApiError::bad_request("the key \"args\" is required for the decision \"edit\"")
                })?;
                Answer::Edit(room.parse("args", &args)?)
            }
            DecisionKind::Deny => {
                let reason = self.message.filter(|message| !message.is_empty());
                Answer::Deny(reason.unwrap_or_else(|| "the user denied the call".to_owned()))
            }
            DecisionKind::Reply => Answer::Reply {
                text: self.text.unwrap_or_default(),
                picked: self.picked,
            },
        })
    }
}

/// Returns the error of a key that only the decision `decision` uses.
fn unused(key: &str, decision: &str) -> ApiError {
    let text = format!("the key {key:?} is only for the decision {decision:?}");
    ApiError::bad_request(text)
}
