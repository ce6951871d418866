//! The validation of a growing history.

use std::sync::Arc;

use crate::util::hash::{IdMap, IdSet};

use super::message::Message;
use super::messages::{Messages, shared_prefix};
use super::part::Part;
use super::role::Role;
use super::validate::{Problem, ValidationError, check_calls_allowed, check_message};

/// A check like [`Messages::validate_for_model`] for a history that is checked each time it grows.
///
/// It remembers the messages that passed, by pointer, and checks only the messages after them. A
/// check costs one pointer comparison for each message that passed before, and the work for the new
/// messages.
///
/// ```
/// use agentcore::{Messages, message::ModelCheck};
///
/// let mut check = ModelCheck::new();
/// let mut history = Messages::from("Hi");
/// check.check(&history)?;
/// history.push(agentcore::Message::ai("Hello."));
/// check.check(&history)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelCheck {
    /// The messages that `state` includes. They are held so that their addresses are not used
    /// again. The list is separate from the history's, which stays unshared and can grow in place.
    seen: Vec<Arc<Message>>,
    state: CheckState,
}

impl ModelCheck {
    /// Creates a check that has not processed any messages yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks `messages`.
    ///
    /// # Errors
    ///
    /// Returns the first problem, as [`Messages::validate_for_model`] does. Unless the problem is a
    /// result that is still missing at the end, the next check starts from the first message.
    pub fn check(&mut self, messages: &Messages) -> Result<(), ValidationError> {
        let history = messages.as_slice();
        self.rewind(shared_prefix(&self.seen, history));
        for (index, message) in history.iter().enumerate().skip(self.seen.len()) {
            if let Err(error) = self.state.add(index, message) {
                *self = Self::default();
                return Err(error);
            }
            self.seen.push(message.clone());
        }
        self.state.end()
    }

    /// Checks `messages` without remembering them.
    pub(super) fn once(messages: &Messages) -> Result<(), ValidationError> {
        Self::check_once(messages).map(drop)
    }

    /// Returns `true` if `messages` are valid and all results are in the order of their calls.
    pub(super) fn is_in_order(messages: &Messages) -> bool {
        Self::check_once(messages).is_ok_and(|state| state.unordered.is_none())
    }

    /// Returns `true` if results that this check has seen are in another order than their calls.
    pub(super) fn is_unordered(&self) -> bool {
        self.state.unordered.is_some()
    }

    fn check_once(messages: &Messages) -> Result<CheckState, ValidationError> {
        let mut state = CheckState::default();
        for (index, message) in messages.iter().enumerate() {
            state.add(index, message)?;
        }
        state.end().map(|()| state)
    }

    /// Drops the state after the first `len` messages, back to where no call is open.
    fn rewind(&mut self, len: usize) {
        if len == self.seen.len() {
            return;
        }

        let role = |index: usize| self.seen.get(index).map(|message| message.role());
        let mut len = len;
        while len > 0 && role(len - 1) == Some(Role::Tool) {
            len -= 1;
        }

        if len > 0 && role(len - 1) == Some(Role::Assistant) {
            len -= 1;
        }

        for message in self.seen.drain(len..) {
            for call in message.tool_calls() {
                self.state.ids.remove(&call.id);
            }
        }

        self.state.last_role = self.seen.last().map(|message| message.role());
        self.state.has_begun = self.seen.iter().any(|m| m.role() != Role::System);
        self.state.unordered.take_if(|index| *index >= len);
        self.state.turn = Turn::default();
    }
}

/// The state of the check after the messages so far.
#[derive(Clone, Debug, Default)]
struct CheckState {
    /// The id of every call.
    ids: IdSet,
    /// The role of the message before.
    last_role: Option<Role>,
    /// True once there was a message that is not a system message.
    has_begun: bool,
    /// The calls of the last assistant message.
    turn: Turn,
    /// The first result that comes after the result of a later call of its turn.
    unordered: Option<usize>,
}

/// The calls of one assistant message.
#[derive(Clone, Debug, Default)]
struct Turn {
    /// The index of its message.
    index: usize,
    /// The ids of its calls, each with `true` if it has a result.
    calls: Vec<(Arc<str>, bool)>,
    /// The position of each id among the calls. Empty until a result is not that of the first
    /// open call: results nearly always come in order.
    places: IdMap<usize>,
    /// The number of leading calls that all have a result.
    first_open: usize,
    /// The number of calls up to the last one with a result.
    end_with_result: usize,
}

impl Turn {
    /// Returns the place of the call with this id.
    fn place(&mut self, id: &Arc<str>) -> Option<usize> {
        let first_open = self.calls.get(self.first_open);
        if first_open.is_some_and(|(first_id, _)| first_id == id) {
            return Some(self.first_open);
        }
        if self.places.is_empty() {
            let ids = self.calls.iter().map(|(id, _)| id.clone());
            self.places = ids.zip(0..).collect();
        }
        self.places.get(id).copied()
    }
}

impl CheckState {
    /// Adds the next message, which has the index `index`.
    fn add(&mut self, index: usize, message: &Message) -> Result<(), ValidationError> {
        let reject = |problem| Err(ValidationError::at(index, problem));
        let role = message.role();
        if role != Role::Tool {
            self.check_results()?;
            if !self.turn.calls.is_empty() {
                self.turn = Turn::default();
            }
        }

        check_message(index, message)?;
        check_calls_allowed(index, message)?;
        if message.content().is_blank() {
            return reject(Problem::EmptyMessage(role));
        }

        let empty = |part: &Part| matches!(part, Part::Text(text) if text.is_empty());
        if message.content().parts().iter().any(empty) {
            return reject(Problem::EmptyText);
        }

        match message {
            Message::Tool(result) => self.add_result(index, &result.tool_call_id)?,
            Message::System(_) => {}
            Message::User(_) | Message::Assistant(_) => {
                if !self.has_begun && role != Role::User {
                    return reject(Problem::UserNotFirst(role));
                }

                if role == Role::Assistant && self.last_role == Some(role) {
                    return reject(Problem::RepeatedAssistant);
                }

                for (number, call) in message.tool_calls().enumerate() {
                    if !self.ids.insert(call.id.clone()) {
                        let problem = Problem::DuplicateCallId(call.id.clone());
                        return Err(ValidationError::at_call(index, number, problem));
                    }

                    self.turn.index = index;
                    self.turn.calls.push((call.id.clone(), false));
                }
            }
        }

        self.has_begun |= role != Role::System;
        self.last_role = Some(role);
        Ok(())
    }

    /// Adds a result of the call with this id.
    fn add_result(&mut self, index: usize, id: &Arc<str>) -> Result<(), ValidationError> {
        let turn = &mut self.turn;
        let Some(place) = turn.place(id) else {
            let problem = Problem::UnknownCall(id.clone());
            return Err(ValidationError::at(index, problem));
        };

        let (_, has_result) = &mut turn.calls[place];
        if std::mem::replace(has_result, true) {
            let problem = Problem::AnsweredTwice(id.clone());
            return Err(ValidationError::at(index, problem));
        }

        if place < turn.end_with_result {
            self.unordered.get_or_insert(index);
        }

        turn.end_with_result = turn.end_with_result.max(place + 1);
        let remaining_calls = turn.calls[turn.first_open..].iter();
        turn.first_open += remaining_calls
            .take_while(|(_, has_result)| *has_result)
            .count();
        Ok(())
    }

    /// Returns an error if a call of the turn has no result.
    fn check_results(&self) -> Result<(), ValidationError> {
        match self.turn.calls.get(self.turn.first_open) {
            None => Ok(()),
            Some((id, _)) => {
                let problem = Problem::Unanswered(id.clone());
                let index = self.turn.index;
                let number = self.turn.first_open;
                Err(ValidationError::at_call(index, number, problem))
            }
        }
    }

    fn end(&self) -> Result<(), ValidationError> {
        match (self.has_begun, self.last_role) {
            (true, _) => self.check_results(),
            (false, Some(_)) => Err(ValidationError::new(Problem::NoConversation)),
            (false, None) => Err(ValidationError::new(Problem::NoMessages)),
        }
    }
}
