//! Inputs with an id of the caller, which makes them idempotent.
//!
//! An input has the range of its messages in the history and, once a run has ended, the position of
//! its response. Each change of the history that moves or removes messages calls a method of
//! [`Inputs`], which adapts these positions or clears them.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::message::{AssistantMessage, Message, Messages};

/// The number of inputs that a session keeps when the oldest are dropped.
const MAX_INPUTS: usize = 1_000;

/// The number of inputs beyond [`MAX_INPUTS`] at which the oldest are dropped: several at once,
/// because the whole list is stored after each change.
const TRIM_SLACK: usize = 250;

/// The inputs of a session that have ids, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Inputs(Arc<Vec<Input>>);

impl Default for Inputs {
    /// Returns an empty list. All empty ones share one allocation.
    fn default() -> Self {
        static EMPTY: LazyLock<Inputs> = LazyLock::new(|| Inputs(Arc::default()));
        EMPTY.clone()
    }
}

/// An input's id and its position in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Input {
    id: Arc<str>,
    /// The position of its first message; `None` if the input is not in the history, or if the
    /// position is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<usize>,
    /// The position after its last message.
    #[serde(default)]
    until: usize,
    /// The position of its response, once there is one. Stored under this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<usize>,
}

/// The difference between two states of a session's list of inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputsChange {
    /// The number of leading inputs that are the same.
    keep: usize,
    /// The later inputs.
    then: Vec<Input>,
}

impl InputsChange {
    /// Returns the number of leading inputs that stay.
    pub(crate) fn keep(&self) -> usize {
        self.keep
    }

    /// Returns the number of added inputs.
    pub(crate) fn len(&self) -> usize {
        self.then.len()
    }

    /// Returns the length of the ids of the added inputs, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        self.then.iter().map(|input| input.id.len()).sum()
    }
}

/// The state of an input.
pub(crate) enum InputState<'a> {
    /// The input has a response, which is the message at this position.
    WithResponse(usize, &'a AssistantMessage),
    /// The input begins at this message and has no response yet.
    Open(usize),
    /// The position of the input, or of its response, is not known.
    Lost,
}

impl Inputs {
    /// Returns the difference from `old`. At most the first `max_shared` inputs count as the same.
    pub(crate) fn since(&self, old: &Self, max_shared: usize) -> InputsChange {
        let pairs = self.0.iter().zip(old.0.iter()).take(max_shared);
        let shared_len = pairs.take_while(|(new, old)| new == old).count();
        InputsChange {
            keep: shared_len,
            then: self.0[shared_len..].to_vec(),
        }
    }

    pub(crate) fn apply(&mut self, change: InputsChange) {
        let inputs = Arc::make_mut(&mut self.0);
        inputs.truncate(change.keep);
        inputs.extend(change.then);
        self.drop_oldest();
    }

    /// Returns the number of consecutive inputs at the end whose ids are among `ids`.
    pub(crate) fn count_last_of(&self, ids: &[Arc<str>]) -> usize {
        let ids: HashSet<_> = ids.iter().collect();
        let inputs = self.0.iter().rev();
        inputs.take_while(|input| ids.contains(&input.id)).count()
    }

    /// Removes the inputs that begin at message `len` or later, and their ids from `ids`. Removes
    /// only consecutive inputs at the end whose ids are among `ids`: those of the records since the
    /// state was last saved.
    pub(crate) fn remove_listed_from(&mut self, ids: &mut Vec<Arc<str>>, len: usize) {
        // A cut mostly removes the newest inputs, or none. Then no set of all ids is made.
        while let Some(last) = self.0.last().filter(|last| last.from >= Some(len)) {
            let Some(at) = ids.iter().rposition(|id| *id == last.id) else {
                return;
            };
            ids.remove(at);
            Arc::make_mut(&mut self.0).pop();
        }
        if !self.0.iter().any(|input| input.from >= Some(len)) {
            return;
        }

        let own_count = self.count_last_of(ids);
        let first = self.len() - own_count;
        let removed_ids: HashSet<_> = self.0[first..]
            .iter()
            .filter(|input| input.from >= Some(len))
            .map(|input| input.id.clone())
            .collect();
        if removed_ids.is_empty() {
            return;
        }

        ids.retain(|id| !removed_ids.contains(id));
        let inputs = Arc::make_mut(&mut self.0);
        let appended = inputs.split_off(first);
        inputs.extend(
            appended
                .into_iter()
                .filter(|input| !removed_ids.contains(&input.id)),
        );
    }

    /// Clears the positions of inputs that begin at message `position` or later, or whose response
    /// is there: those messages have changed.
    #[cfg(feature = "session-log")]
    pub(crate) fn clear_positions_from(&mut self, position: usize) {
        if self.is_empty() {
            return;
        }
        for input in Arc::make_mut(&mut self.0) {
            if input.from.max(input.answer) >= Some(position) {
                (input.from, input.answer) = (None, None);
            }
        }
    }

    /// Returns the size of the ids in bytes.
    pub(crate) fn text_len(&self) -> usize {
        self.0.iter().map(|input| input.id.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the ids of the inputs.
    #[cfg(feature = "server")]
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|input| &*input.id)
    }

    /// Returns the ids of the inputs, and the positions of their first messages.
    #[cfg(feature = "server")]
    pub(crate) fn starts(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.0
            .iter()
            .filter_map(|input| Some((&input.id, input.from?)))
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.0.iter().any(|input| *input.id == *id)
    }

    /// Records the last message of the history as the response to all earlier inputs that have
    /// none, if a run may have ended with that message.
    pub(crate) fn record_response(&mut self, messages: &Messages) {
        let is_open = |input: &Input| {
            let is_before = input.until < messages.len();
            input.from.is_some() && input.answer.is_none() && is_before
        };

        if messages.last().and_then(final_response).is_none() || !self.0.iter().any(is_open) {
            return;
        }

        for input in Arc::make_mut(&mut self.0) {
            if is_open(input) {
                input.answer = Some(messages.len() - 1);
            }
        }
    }

    /// Adds the input `id`, which consists of these messages.
    pub(crate) fn begin(&mut self, id: Arc<str>, messages: Range<usize>) {
        Arc::make_mut(&mut self.0).push(Input {
            id,
            from: Some(messages.start),
            until: messages.end,
            answer: None,
        });
    }

    /// Adds the id of an input that is not in the history, such as an answer to a question.
    pub(crate) fn add_id(&mut self, id: Arc<str>) {
        Arc::make_mut(&mut self.0).push(Input {
            id,
            from: None,
            until: 0,
            answer: None,
        });
        self.drop_oldest();
    }

    /// Drops the oldest when there are too many.
    pub(crate) fn drop_oldest(&mut self) {
        if self.len() > MAX_INPUTS + TRIM_SLACK {
            drop_oldest_ids(Arc::make_mut(&mut self.0));
        }
    }

    /// Ends the inputs before this message. The message is a response now, even if it was part of
    /// an input before.
    pub(crate) fn end_inputs_at(&mut self, message: usize) {
        if self.0.iter().any(|input| input.until > message) {
            for input in Arc::make_mut(&mut self.0) {
                input.until = input.until.min(message);
            }
        }
    }

    /// Adds the unknown ids among `ids` as inputs that each consist of these messages.
    pub(crate) fn begin_unknown(&mut self, ids: &[Arc<str>], messages: &Range<usize>) {
        let mut known_ids: HashSet<_> = self.0.iter().map(|input| input.id.clone()).collect();
        for id in ids {
            if known_ids.insert(id.clone()) {
                self.begin(id.clone(), messages.clone());
            }
        }
    }

    /// Extends the inputs `ids`, for which only the first message was recorded, over the following
    /// messages for which `is_part` returns `true`. The history has `len` messages.
    pub(crate) fn extend(&mut self, ids: &[Arc<str>], len: usize, is_part: impl Fn(usize) -> bool) {
        if ids.is_empty() {
            return;
        }

        // The end of the parts that begin at each message, so that none is examined twice.
        let mut ends: Vec<_> = (0..len).collect();
        let mut end = len;
        for at in (0..len).rev() {
            if !is_part(at) {
                end = at;
            }
            ends[at] = end;
        }

        let ids: HashSet<_> = ids.iter().collect();
        for input in Arc::make_mut(&mut self.0) {
            if input.answer.is_none() && ids.contains(&input.id) {
                input.until = ends.get(input.until).copied().unwrap_or(input.until);
            }
        }
    }

    /// Drops the inputs that began at message `len` or after it: these messages were removed.
    pub(crate) fn remove_from(&mut self, len: usize) {
        if self.is_empty() {
            return;
        }
        Arc::make_mut(&mut self.0).retain(|input| input.from.is_none_or(|from| from < len));
    }

    /// Drops these inputs.
    pub(crate) fn forget(&mut self, ids: &[Arc<str>]) {
        let ids: HashSet<_> = ids.iter().collect();
        if self.0.iter().any(|input| ids.contains(&input.id)) {
            Arc::make_mut(&mut self.0).retain(|input| !ids.contains(&input.id));
        }
    }

    /// Clears the positions that may be wrong in a changed history. It has `len` messages, of which
    /// the first `shared_len` are unchanged. An input with a response keeps its positions if the
    /// response is among the unchanged messages. An input without one keeps its position if it
    /// begins among them or directly after them, and ends within the history.
    pub(crate) fn clear_positions_after(&mut self, shared_len: usize, len: usize) {
        let is_lost = |input: &Input| match (input.from, input.answer) {
            (_, Some(answer)) => answer >= shared_len,
            (from, None) => from.is_some_and(|from| from > shared_len || input.until > len),
        };

        if !self.0.iter().any(is_lost) {
            return;
        }

        for input in Arc::make_mut(&mut self.0) {
            if is_lost(input) {
                (input.from, input.answer) = (None, None);
            }
        }
    }

    /// Adapts the positions to messages that were inserted into the history. `insertions` has, for
    /// each of these messages, the position that the message after it had before, in order.
    pub(crate) fn adapt_to_insertions(&mut self, insertions: &[usize]) {
        let Some(first) = insertions.first() else {
            return;
        };
        let is_moved =
            |input: &Input| input.until > *first || input.from.max(input.answer) >= Some(*first);
        if !self.0.iter().any(is_moved) {
            return;
        }

        // Stored positions may be any numbers.
        let new_position = |position: usize| {
            let count = insertions.partition_point(|at| *at <= position);
            position.saturating_add(count)
        };
        for input in Arc::make_mut(&mut self.0) {
            input.from = input.from.map(new_position);
            input.answer = input.answer.map(new_position);
            if let Some(last) = input.until.checked_sub(1) {
                input.until = new_position(last).saturating_add(1);
            }
        }
    }

    /// Adapts the inputs to a history that was cut to its first `len` messages. An input whose
    /// response was removed is open again.
    pub(crate) fn reopen_from(&mut self, len: usize) {
        if self.is_empty() {
            return;
        }
        for input in Arc::make_mut(&mut self.0) {
            input.answer.take_if(|answer| *answer >= len);
        }
        self.clear_positions_after(len, len);
    }

    /// Puts the inputs of an earlier history in front of this list. The first `shared_len` messages
    /// of both histories are the same: earlier inputs in them keep their positions. For an id in
    /// both lists, only the earlier input stays.
    pub(crate) fn prepend(&mut self, mut earlier: Self, shared_len: usize) {
        if earlier.is_empty() {
            return;
        }
        earlier.clear_positions_after(shared_len, shared_len);
        let ids: HashSet<_> = earlier.0.iter().map(|input| &input.id).collect();
        let own_inputs: Vec<_> = self
            .0
            .iter()
            .filter(|input| !ids.contains(&input.id))
            .cloned()
            .collect();
        Arc::make_mut(&mut earlier.0).extend(own_inputs);
        *self = earlier;
    }

    /// Returns the position of the first message of the input `id`, if it is known.
    #[cfg(feature = "gateway")]
    pub(crate) fn start_of(&self, id: &str) -> Option<usize> {
        self.0.iter().rfind(|input| *input.id == *id)?.from
    }

    /// Returns the state of the input `id` in this history; `None` if the id is unknown.
    pub(crate) fn find<'a>(&self, id: &str, messages: &'a Messages) -> Option<InputState<'a>> {
        let input = self.0.iter().rfind(|input| *input.id == *id)?;
        let response_at = |at: usize| Some((at, messages.get(at).and_then(final_response)?));
        Some(match (input.answer.and_then(response_at), input.from) {
            (Some((at, response)), _) => InputState::WithResponse(at, response),
            (None, Some(from)) if input.answer.is_none() => InputState::Open(from),
            (None, _) => InputState::Lost,
        })
    }
}

/// Drops the oldest of a list of inputs or their ids when there are too many.
pub(super) fn drop_oldest_ids<T>(ids: &mut Vec<T>) {
    if ids.len() > MAX_INPUTS + TRIM_SLACK {
        ids.drain(..ids.len() - MAX_INPUTS);
    }
}

/// Returns the message, if a run may have ended with it.
fn final_response(message: &Message) -> Option<&AssistantMessage> {
    match message {
        Message::Assistant(response) if message.tool_calls().next().is_none() => Some(response),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{AgentState, Record, StoredSession};

    #[test]
    fn newest_inputs_are_kept() {
        let mut inputs = Inputs::default();
        for n in 0..5_000 {
            inputs.begin(n.to_string().into(), n..n + 1);
            inputs.drop_oldest();
            assert!(inputs.len() <= MAX_INPUTS + TRIM_SLACK);
            let expected = (n + 1).saturating_sub(MAX_INPUTS)..=n;
            assert!(
                inputs.contains(&n.to_string()) && inputs.contains(&expected.start().to_string())
            );
        }
        assert!(!inputs.contains("0"));
    }

    /// The number of ids is limited because each cut of the history examines all of them.
    #[test]
    fn session_keeps_the_newest_ids_of_any_records() {
        const MOST: usize = MAX_INPUTS + TRIM_SLACK;
        let mut session = StoredSession::default();
        let check = |session: &StoredSession, newest: &str| {
            let inputs = &session.state.inputs;
            assert!(inputs.len() <= MOST && session.input_ids.len() <= MOST);
            assert!(inputs.contains(newest));
        };

        for number in 0..5_000 {
            let id = Arc::<str>::from(number.to_string());
            session.apply(Record::Input { id: id.clone() });
            session.apply(Record::Message {
                message: Message::human("x").into(),
                input_id: Some(id.clone()),
            });
            check(&session, &id);
        }

        let input = |number: usize| Input {
            id: number.to_string().into(),
            from: None,
            until: 0,
            answer: None,
        };
        let then: Vec<_> = (0..5_000).map(input).collect();
        let change = InputsChange { keep: 1_000, then };
        session.apply(Record::Inputs {
            change: change.clone(),
        });
        check(&session, "4999");

        let state = AgentState {
            inputs: Inputs(Arc::new(change.then)),
            messages: Messages::from("x"),
            ..AgentState::default()
        };
        let text = serde_json::to_string(&StoredSession::new(state)).unwrap();
        check(&serde_json::from_str(&text).unwrap(), "4999");
    }

    #[test]
    fn inputs_move_with_their_messages() {
        let mut inputs = Inputs::default();
        for (id, messages) in [("a", 0..1), ("b", 2..4), ("c", 5..6)] {
            inputs.begin(id.into(), messages);
        }
        inputs.adapt_to_insertions(&[2, 2, 5]);
        let positions: Vec<_> = inputs
            .0
            .iter()
            .map(|input| (input.from, input.until))
            .collect();
        assert_eq!(positions, [(Some(0), 1), (Some(4), 6), (Some(8), 9)]);
    }

    #[test]
    fn position_of_an_input_is_lost_with_the_messages_before_it() {
        let mut inputs = Inputs::default();
        inputs.begin("a".into(), 0..1);
        let history = Messages::from("A").ai("a");
        inputs.record_response(&history);
        let history = history.human("?").ai("!").human("B");
        inputs.record_response(&history);
        inputs.begin("b".into(), 4..5);
        let state_of = |inputs: &Inputs, id: &str| match inputs.find(id, &history) {
            None => "unknown".to_owned(),
            Some(InputState::Lost) => "lost".to_owned(),
            Some(InputState::Open(from)) => format!("open from {from}"),
            Some(InputState::WithResponse(_, response)) => response.content.text().into_owned(),
        };

        assert_eq!(state_of(&inputs, "a"), "a");
        assert_eq!(state_of(&inputs, "b"), "open from 4");
        assert_eq!(state_of(&inputs, "c"), "unknown");
        inputs.clear_positions_after(3, 5);
        assert_eq!(state_of(&inputs, "a"), "a");
        assert_eq!(state_of(&inputs, "b"), "lost");
        inputs.remove_from(0);
        assert_eq!(state_of(&inputs, "a"), "unknown");
        assert!(inputs.contains("b"), "what is lost may be there");
    }
}
