//! The repair of a history, and the report of its changes.

use std::fmt;
use std::sync::Arc;

use super::check::ModelCheck;
use super::messages::Messages;
use super::repairer::repair_messages;
use super::role::Role;
use crate::util::text::quoted;

/// The maximum number of changes that the text of a repair names.
const MAX_NAMED: usize = 20;

/// The changes made by [`Messages::repair`], in the order of the messages. Usually there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs(Vec<Repair>);

/// One change. Every `index` is the position of the message before the repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// A call was dropped: it has no name, was cut off before it was whole, or is in a message that
    /// is not the assistant's.
    DroppedCall {
        /// The calling message.
        index: usize,
        /// The call's id; may be empty.
        id: Arc<str>,
        /// The tool's name; may be empty.
        name: Arc<str>,
    },
    /// A result was dropped: it has no call, or its call has another result.
    DroppedResult {
        /// The result.
        index: usize,
        /// The id of the call it named.
        id: Arc<str>,
        /// True if the call has another result.
        duplicate: bool,
    },
    /// An error result was added for a call that has none.
    AddedResult {
        /// The calling message.
        index: usize,
        /// The call's id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A result was moved to the position after its call.
    MovedResult {
        /// The original index.
        index: usize,
        /// The id of its call.
        id: Arc<str>,
    },
    /// A result was given the id or the name of its call.
    CompletedResult {
        /// The result.
        index: usize,
        /// The id of its call.
        id: Arc<str>,
    },
    /// An empty result was given the text `(no output)`.
    FilledResult {
        /// The result.
        index: usize,
    },
    /// A call was given an id of its own, and its result with it.
    Rekeyed {
        /// The calling message.
        index: usize,
        /// The id that was missing (empty) or used before.
        from: Arc<str>,
        /// The new id.
        to: Arc<str>,
    },
    /// Empty text parts were removed.
    DroppedText {
        /// Their message.
        index: usize,
    },
    /// A message without content was removed.
    DroppedMessage {
        /// The message.
        index: usize,
        /// Its role.
        role: Role,
    },
    /// A message was joined to the previous message, which has the same role.
    Merged {
        /// The message.
        index: usize,
        /// The message it was joined to.
        into: usize,
    },
    /// A user message, `(conversation continues)`, was put before the first assistant message.
    AddedOpening {
        /// The assistant's message.
        index: usize,
    },
}

impl Repair {
    /// Returns the index of the message before the repair.
    pub fn index(&self) -> usize {
        match self {
            Self::DroppedCall { index, .. }
            | Self::DroppedResult { index, .. }
            | Self::AddedResult { index, .. }
            | Self::MovedResult { index, .. }
            | Self::CompletedResult { index, .. }
            | Self::FilledResult { index }
            | Self::Rekeyed { index, .. }
            | Self::DroppedText { index }
            | Self::DroppedMessage { index, .. }
            | Self::Merged { index, .. }
            | Self::AddedOpening { index } => *index,
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message[{}]: ", self.index())?;
        match self {
            Self::DroppedCall { id, name, .. } => {
                let (name, id) = (quoted(name), quoted(id));
                write!(f, "dropped unusable call {name} (id {id})")
            }
            Self::DroppedResult { id, duplicate, .. } => {
                let kind = if *duplicate { "second" } else { "orphan" };
                write!(f, "dropped {kind} result for {}", quoted(id))
            }
            Self::AddedResult { id, name, .. } => {
                let (name, id) = (quoted(name), quoted(id));
                write!(
                    f,
                    "added an error result for unanswered call {name} (id {id})"
                )
            }
            Self::MovedResult { id, .. } => {
                write!(f, "moved result for {} to follow its call", quoted(id))
            }
            Self::CompletedResult { id, .. } => {
                let id = quoted(id);
                write!(f, "completed result with id and name of its call {id}")
            }
            Self::FilledResult { .. } => f.write_str("filled empty result"),
            Self::Rekeyed { from, to, .. } => {
                write!(f, "changed call id {} to {}", quoted(from), quoted(to))
            }
            Self::DroppedText { .. } => f.write_str("dropped empty text"),
            Self::DroppedMessage { role, .. } => write!(f, "dropped empty {role} message"),
            Self::Merged { into, .. } => write!(f, "merged into message[{into}]"),
            Self::AddedOpening { .. } => f.write_str("added a user message before it"),
        }
    }
}

impl Repairs {
    /// Returns `true` if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the changes.
    pub fn iter(&self) -> std::slice::Iter<'_, Repair> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Repairs {
    type Item = &'a Repair;
    type IntoIter = std::slice::Iter<'a, Repair>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Names the first 20 changes and the number of the others.
impl fmt::Display for Repairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, repair) in self.iter().take(MAX_NAMED).enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            repair.fmt(f)?;
        }
        match self.len().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            count => write!(f, "\n{count} more changes"),
        }
    }
}

impl Messages {
    /// Makes the history pass [`validate_for_model`](Messages::validate_for_model) and returns the
    /// changes.
    ///
    /// In this order:
    ///
    /// 1. Empty text parts, calls without a name and calls outside assistant messages are dropped.
    /// 2. Results are matched with calls by their ids, then by their positions. A call without a
    ///    result whose arguments are unreadable was cut off while it streamed, and is dropped.
    /// 3. A call whose id is empty or was used before gets a new one (`_2`), as does its result.
    /// 4. Results without a call, second results and messages without content are dropped. All
    ///    other results are placed after their calls, in the order of the calls, with the id and
    ///    the name of the call; an empty one gets the text `(no output)`. A call without a result
    ///    gets an error result.
    /// 5. Adjacent assistant messages are merged. An assistant message at the beginning is
    ///    preceded by a new user message, because dropping it could drop its calls and results as
    ///    well.
    ///
    /// A second repair changes nothing. Messages that need no change stay identical (by pointer),
    /// so that the longest possible prefix equals what a provider has cached. Thinking is never
    /// edited; it is dropped only with its whole message. A history without any content but the
    /// system's cannot be made valid.
    ///
    /// ```
    /// use agentcore::{Messages, ToolCall};
    /// use serde_json::json;
    ///
    /// let call = ToolCall::new("call_1", "grep", json!({"pattern": "fn"}));
    /// let mut history = Messages::from("Search").ai_calling("", [call]);
    /// let repairs = history.repair();
    /// assert_eq!(
    ///     repairs.to_string(),
    ///     r#"message[1]: added an error result for unanswered call "grep" (id "call_1")"#,
    /// );
    /// history.validate_for_model()?;
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    pub fn repair(&mut self) -> Repairs {
        self.repair_keeping(&[])
    }

    /// Repairs the history like [`repair`](Messages::repair), but leaves the calls with these ids
    /// without a result: they are pending. Until they have a result, the history is not valid for a
    /// model.
    pub fn repair_keeping(&mut self, pending: &[Arc<str>]) -> Repairs {
        if self.is_empty() || ModelCheck::is_in_order(self) {
            return Repairs::default();
        }
        let (messages, mut changes) = repair_messages(self.as_slice(), pending);
        if !changes.is_empty() {
            *self = messages.into_iter().collect();
            changes.sort_by_key(Repair::index);
        }
        Repairs(changes)
    }
}

impl ModelCheck {
    /// Checks `messages`. If they are not valid, or their results are not in the order of the
    /// calls, repairs them like [`Messages::repair_keeping`].
    ///
    /// Messages that passed before are not checked again.
    pub fn ensure(&mut self, messages: &mut Messages, pending: &[Arc<str>]) -> Repairs {
        match self.check(messages) {
            Ok(()) if !self.is_unordered() => Repairs::default(),
            _ => messages.repair_keeping(pending),
        }
    }
}
