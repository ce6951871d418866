//! The answers to calls that waited for approval.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{MAX_JSON_DEPTH, ToolCall, is_too_deep};
use crate::session::PendingCall;

/// A person's decision about a [`PendingCall`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Decision {
    /// The call may run, once.
    Allow {
        /// The pending call's id.
        id: Arc<str>,
        /// The hash of the reviewed arguments.
        args_hash: Arc<str>,
    },
    /// The call may run, and calls like it need no question for the rest of the session, as after
    /// [`Answer::AllowForSession`](crate::Answer::AllowForSession).
    AllowForSession {
        /// The pending call's id.
        id: Arc<str>,
        /// The hash of the reviewed arguments.
        args_hash: Arc<str>,
    },
    /// The call may run, once, with other arguments. They are checked as those of any call; the
    /// history keeps what the model asked for.
    Edit {
        /// The pending call's id.
        id: Arc<str>,
        /// The hash of the reviewed arguments.
        args_hash: Arc<str>,
        /// The arguments to run it with.
        args: Value,
    },
    /// The call does not run, and the model reads why.
    Deny {
        /// The pending call's id.
        id: Arc<str>,
        /// The reason, for the model.
        message: String,
    },
}

impl Decision {
    /// Allows the call as it is shown in `pending`.
    pub fn allow(pending: &PendingCall) -> Self {
        Self::Allow {
            id: pending.id.clone(),
            args_hash: pending.args_hash.clone(),
        }
    }

    /// Allows the call as it is shown in `pending`, and those like it for the rest of the session.
    pub fn allow_for_session(pending: &PendingCall) -> Self {
        Self::AllowForSession {
            id: pending.id.clone(),
            args_hash: pending.args_hash.clone(),
        }
    }

    /// Allows the call with these arguments in the place of those shown in `pending`.
    pub fn edit(pending: &PendingCall, args: Value) -> Self {
        Self::Edit {
            id: pending.id.clone(),
            args_hash: pending.args_hash.clone(),
            args,
        }
    }

    /// Denies the call.
    pub fn deny(pending: &PendingCall, message: impl Into<String>) -> Self {
        Self::Deny {
            id: pending.id.clone(),
            message: message.into(),
        }
    }

    /// The id of the pending call.
    pub fn id(&self) -> &Arc<str> {
        match self {
            Self::Allow { id, .. }
            | Self::AllowForSession { id, .. }
            | Self::Edit { id, .. }
            | Self::Deny { id, .. } => id,
        }
    }

    /// The hash of the reviewed arguments, where they matter.
    fn args_hash(&self) -> Option<&Arc<str>> {
        match self {
            Self::Allow { args_hash, .. }
            | Self::AllowForSession { args_hash, .. }
            | Self::Edit { args_hash, .. } => Some(args_hash),
            Self::Deny { .. } => None,
        }
    }

    /// The call as it may run.
    pub(super) fn call(&self, pending: &PendingCall) -> ToolCall {
        let call = pending.call.clone();
        match self {
            Self::Edit { args, .. } => call.with_args(args.clone()),
            _ => call,
        }
    }
}

/// Decisions about pending calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(Vec<Decision>);

impl Decisions {
    /// Checks that every decision is about a call that is pending now, with the arguments it
    /// has, and that none has expired or been made twice.
    pub(super) fn check(&self, pending: &[PendingCall], now_ms: u64) -> Result<()> {
        let pending: HashMap<_, _> = pending.iter().map(|call| (&call.id, call)).collect();
        let mut decided_ids = HashSet::new();
        for decision in &self.0 {
            let id = decision.id();
            if !decided_ids.insert(id) {
                return Err(refuse(id, "it is decided twice"));
            }
            let Some(call) = pending.get(id) else {
                return Err(refuse(
                    id,
                    "no such call is pending: it was answered already, or the session went on \
                     without an answer",
                ));
            };
            if !call.is_intact() {
                return Err(refuse(
                    id,
                    "the stored call is not the one that was asked about",
                ));
            }
            let Some(args_hash) = decision.args_hash() else {
                continue;
            };
            if call.expires_at_ms.is_some_and(|expiry| expiry < now_ms) {
                return Err(refuse(
                    id,
                    "the question has expired; deny the call, or go on with another input",
                ));
            }
            if let Decision::Edit { args, .. } = decision
                && is_too_deep(args)
            {
                let text = format!("its arguments are nested deeper than {MAX_JSON_DEPTH} levels");
                return Err(refuse(id, &text));
            }
            if *args_hash != call.args_hash {
                return Err(refuse(id, "it was made about other arguments"));
            }
        }
        Ok(())
    }

    /// Checks that none is about a question that was copied with a fork: it is answered where it
    /// was asked.
    pub(super) fn check_session(&self, pending: &[PendingCall], session: &str) -> Result<()> {
        let foreign_calls = pending.iter().filter(|call| *call.session_id != *session);
        let foreign_calls: HashMap<_, _> = foreign_calls.map(|call| (&call.id, call)).collect();
        match self.0.iter().find_map(|one| foreign_calls.get(one.id())) {
            None => Ok(()),
            Some(call) => {
                let reason = format!("it waits in session {:?}; answer it there", call.session_id);
                Err(refuse(&call.id, &reason))
            }
        }
    }

    /// The decisions by the ids of the calls they are about. There is one of each once they are
    /// [checked](Self::check).
    pub(super) fn by_id(&self) -> HashMap<&str, &Decision> {
        let decisions = self.0.iter();
        decisions.map(|one| (&**one.id(), one)).collect()
    }
}

fn refuse(id: &str, why: &str) -> Error {
    let text = format!("the decision about call {id:?} was refused: {why}; nothing was run");
    Error::new(ErrorKind::Conflict, text)
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

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
