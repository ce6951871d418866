//! The decisions about calls that wait for approval.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{MAX_JSON_DEPTH, is_too_deep};
use crate::session::PendingCall;
use crate::tool::Answer;
#[cfg(feature = "server")]
use crate::util::time::now_ms;

/// The reason why [`Answer::Unanswered`] is refused.
const NO_ANSWER: &str = "it has no answer; leave out a call that is to stay pending";

/// The reason why an answer other than a denial is refused without a hash of the arguments.
const NO_HASH: &str = "`args_hash` is missing; copy it from the pending call";

/// A person's decision about a [`PendingCall`].
///
/// As JSON, it is one of these objects. `picked` may be absent, and a denial may have `args_hash`:
///
/// ```json
/// {"decision": "allow", "id": "..", "args_hash": ".."}
/// {"decision": "allow_for_session", "id": "..", "args_hash": ".."}
/// {"decision": "edit", "id": "..", "args_hash": "..", "args": {}}
/// {"decision": "reply", "id": "..", "args_hash": "..", "text": "..", "picked": [0]}
/// {"decision": "deny", "id": "..", "message": ".."}
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The pending call's id.
    pub id: Arc<str>,
    /// The hash of the reviewed arguments. All answers except a denial require it.
    pub args_hash: Option<Arc<str>>,
    /// The answer. [`Answer::Unanswered`] is refused: to leave a call pending, make no decision
    /// about it.
    pub answer: Answer,
}

impl Decision {
    /// Allows the call as it is shown in `pending`.
    pub fn allow(pending: &PendingCall) -> Self {
        Self::reviewed(pending, Answer::Allow)
    }

    /// Allows the call as it is shown in `pending`, and calls like it for the rest of the session
    /// ([`Answer::AllowForSession`]).
    pub fn allow_for_session(pending: &PendingCall) -> Self {
        Self::reviewed(pending, Answer::AllowForSession)
    }

    /// Allows the call with `args` instead of the arguments that are shown in `pending`.
    pub fn edit(pending: &PendingCall, args: Value) -> Self {
        Self::reviewed(pending, Answer::Edit(args))
    }

    /// Answers the question in `pending` with a text, which is the result of the call: its tool
    /// does not run. The text is limited like a result.
    pub fn reply(pending: &PendingCall, text: impl Into<String>) -> Self {
        Self::reviewed(pending, Answer::reply(text))
    }

    /// Denies the call. A denial needs no hash of the arguments. The model reads up to 10,000
    /// characters of the message.
    pub fn deny(pending: &PendingCall, message: impl Into<String>) -> Self {
        Self {
            id: pending.id.clone(),
            args_hash: None,
            answer: Answer::Deny(message.into()),
        }
    }

    /// Returns a decision about the arguments that are shown in `pending`.
    fn reviewed(pending: &PendingCall, answer: Answer) -> Self {
        Self {
            id: pending.id.clone(),
            args_hash: Some(pending.args_hash.clone()),
            answer,
        }
    }

    /// Checks that the decision can be applied to the call as it is now.
    fn check(&self, call: &PendingCall, now_ms: u64) -> Result<(), Cow<'static, str>> {
        // A denial runs nothing, so it may be about a call that was changed or has expired.
        if !matches!(self.answer, Answer::Deny(_)) {
            self.check_answer(call, now_ms)?;
        }

        match &self.args_hash {
            Some(args_hash) if *args_hash != call.args_hash => Err(
                "the call has other arguments now; read the pending call and decide again".into(),
            ),
            _ => Ok(()),
        }
    }

    /// Checks an answer other than a denial. The caller compares its hash of the arguments.
    fn check_answer(&self, call: &PendingCall, now_ms: u64) -> Result<(), Cow<'static, str>> {
        if !call.is_intact() {
            let text = "the stored call was changed after the question; deny it, or continue with \
                        another input";
            return Err(text.into());
        }

        if self.answer == Answer::Unanswered {
            return Err(NO_ANSWER.into());
        }

        if call.is_expired(now_ms) {
            let text = "the question has expired; deny the call, or continue with another input";
            return Err(text.into());
        }

        if self.args_hash.is_none() {
            return Err(NO_HASH.into());
        }

        if let Answer::Edit(args) = &self.answer
            && is_too_deep(args)
        {
            let text = format!("its arguments are nested deeper than {MAX_JSON_DEPTH} levels");
            return Err(text.into());
        }

        Ok(())
    }
}

/// The JSON of a [`Decision`].
#[derive(Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
enum DecisionJson<'a> {
    Allow {
        id: Arc<str>,
        args_hash: Arc<str>,
    },
    AllowForSession {
        id: Arc<str>,
        args_hash: Arc<str>,
    },
    Edit {
        id: Arc<str>,
        args_hash: Arc<str>,
        args: Cow<'a, Value>,
    },
    Reply {
        id: Arc<str>,
        args_hash: Arc<str>,
        text: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "<[usize]>::is_empty")]
        picked: Cow<'a, [usize]>,
    },
    Deny {
        id: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args_hash: Option<Arc<str>>,
        message: Cow<'a, str>,
    },
}

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let id = self.id.clone();
        let args_hash = || {
            let text = || ser::Error::custom(refusal_text(&self.id, NO_HASH));
            self.args_hash.clone().ok_or_else(text)
        };

        let json = match &self.answer {
            Answer::Allow => DecisionJson::Allow {
                id,
                args_hash: args_hash()?,
            },
            Answer::AllowForSession => DecisionJson::AllowForSession {
                id,
                args_hash: args_hash()?,
            },
            Answer::Edit(args) => DecisionJson::Edit {
                id,
                args_hash: args_hash()?,
                args: Cow::Borrowed(args),
            },
            Answer::Reply { text, picked } => DecisionJson::Reply {
                id,
                args_hash: args_hash()?,
                text: Cow::Borrowed(text),
                picked: Cow::Borrowed(picked),
            },
            Answer::Deny(message) => DecisionJson::Deny {
                id,
                args_hash: self.args_hash.clone(),
                message: Cow::Borrowed(message),
            },
            Answer::Unanswered => return Err(ser::Error::custom(refusal_text(&id, NO_ANSWER))),
        };

        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (id, args_hash, answer) = match DecisionJson::deserialize(deserializer)? {
            DecisionJson::Allow { id, args_hash } => (id, Some(args_hash), Answer::Allow),
            DecisionJson::AllowForSession { id, args_hash } => {
                (id, Some(args_hash), Answer::AllowForSession)
            }
            DecisionJson::Edit {
                id,
                args_hash,
                args,
            } => (id, Some(args_hash), Answer::Edit(args.into_owned())),
            DecisionJson::Reply {
                id,
                args_hash,
                text,
                picked,
            } => {
                let answer = Answer::Reply {
                    text: text.into_owned(),
                    picked: picked.into_owned(),
                };
                (id, Some(args_hash), answer)
            }
            DecisionJson::Deny {
                id,
                args_hash,
                message,
            } => (id, args_hash, Answer::Deny(message.into_owned())),
        };

        Ok(Self {
            id,
            args_hash,
            answer,
        })
    }
}

/// Decisions about pending calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(Vec<Decision>);

impl Decisions {
    /// Checks each decision, and that no call has two.
    ///
    /// A decision must be about a pending call and its present arguments, and the question must not
    /// have expired.
    pub(super) fn check(&self, pending: &[PendingCall], now_ms: u64) -> Result<()> {
        let pending: HashMap<_, _> = pending.iter().map(|call| (&call.id, call)).collect();
        let mut decided_ids = HashSet::new();
        for decision in &self.0 {
            let id = &decision.id;
            if !decided_ids.insert(id) {
                return Err(refusal_error(
                    id,
                    "there are two decisions for it; send one for each call",
                ));
            }

            let Some(call) = pending.get(id) else {
                return Err(refusal_error(
                    id,
                    "no such call is pending: it was answered already, or the session continued \
                     without an answer",
                ));
            };

            let check = decision.check(call, now_ms);
            check.map_err(|reason| refusal_error(id, &reason))?;
        }

        Ok(())
    }

    /// Checks that no decision is about a question that was copied with a fork. Such a question is
    /// answered in the session that asked it.
    pub(super) fn check_session(&self, pending: &[PendingCall], session: &str) -> Result<()> {
        let foreign_calls: HashMap<_, _> = pending
            .iter()
            .filter(|call| *call.session_id != *session)
            .map(|call| (&call.id, call))
            .collect();
        let mut decisions = self.0.iter();
        match decisions.find_map(|decision| foreign_calls.get(&decision.id)) {
            None => Ok(()),
            Some(call) => {
                let reason = format!("it waits in session {:?}; answer it there", call.session_id);
                Err(refusal_error(&call.id, &reason))
            }
        }
    }

    /// Returns the decisions by the ids of their calls. After a [check](Self::check), each call has
    /// at most one.
    pub(super) fn by_id(&self) -> HashMap<&str, &Decision> {
        let decisions = self.0.iter();
        decisions
            .map(|decision| (&*decision.id, decision))
            .collect()
    }
}

/// Checks that decisions can be made about the calls that are pending now.
///
/// # Errors
///
/// Returns [`ErrorKind::Conflict`] if a call is not pending, has other arguments, has two
/// decisions, or if its question has expired.
#[cfg(feature = "server")]
pub(crate) fn check_decisions(decisions: &[Decision], pending: &[PendingCall]) -> Result<()> {
    Decisions(decisions.to_vec()).check(pending, now_ms())
}

/// Returns the error for a refused decision about the call with this id.
fn refusal_error(id: &str, reason: &str) -> Error {
    let text = format!("{}; nothing was run", refusal_text(id, reason));
    Error::new(ErrorKind::Conflict, text)
}

fn refusal_text(id: &str, reason: &str) -> String {
    format!("the decision about call {id:?} was refused: {reason}")
}

impl From<Vec<Decision>> for Decisions {
    fn from(decisions: Vec<Decision>) -> Self {
        Self(decisions)
    }
}

impl<const N: usize> From<[Decision; N]> for Decisions {
    fn from(decisions: [Decision; N]) -> Self {
        Self(decisions.into())
    }
}

impl From<Decision> for Decisions {
    fn from(decision: Decision) -> Self {
        Self(vec![decision])
    }
}

impl FromIterator<Decision> for Decisions {
    fn from_iter<I: IntoIterator<Item = Decision>>(decisions: I) -> Self {
        Self(decisions.into_iter().collect())
    }
}
