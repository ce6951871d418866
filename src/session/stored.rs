//! A stored session, and how records change it.

use std::collections::HashSet;
use std::sync::Arc;

use crate::message::Message;

use super::agent_state::{AgentState, PendingCall};
use super::damage::Damage;
use super::inputs::{InputsChange, drop_oldest_ids};
use super::json::title_of;
use super::open_calls::OpenCalls;
use super::record::Record;
use super::tool_state::ToolState;

#[cfg(all(test, feature = "session-log"))]
thread_local!(
    /// The number of pending calls that records with answers have examined.
    pub(super) static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) }
);

/// A session as a store returns it.
///
/// Its JSON is that of its [`AgentState`] with `started`, `ended`, `input_ids` and the first text
/// of the user. The damage is not written. A store can save this JSON as a snapshot and, after
/// reading it, [`apply`](Self::apply) later records.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoredSession {
    /// The state as it was last saved, with all records that were appended since.
    pub state: AgentState,
    /// Ids of calls that had started, and had no result, when the last run ended. Long lists are in
    /// no particular order.
    pub started: Vec<Arc<str>>,
    /// Results of calls that had ended when the last run ended, and that are not in the history
    /// yet. Long lists are in no particular order.
    pub ended: Vec<Arc<Message>>,
    /// The caller's ids of the inputs that were appended since the state was last saved, about
    /// 1,000 at most; older ones are dropped. Ids from before are in the state.
    pub input_ids: Vec<Arc<str>>,
    /// The parts that could not be read. A run reports them once, in warnings; they are returned
    /// until a run has continued the session.
    pub damage: Vec<Damage>,
    /// The first text of the user, for a title that stays when the history is cut.
    pub(super) first_text: Option<Arc<str>>,
    /// The positions of the calls in `started` and `ended`.
    open_calls: OpenCalls,
}

impl StoredSession {
    /// Creates a session with this state.
    pub fn new(state: AgentState) -> Self {
        let first_text = state.messages.user_messages().find_map(title_of);
        Self {
            state,
            first_text,
            ..Self::default()
        }
    }

    /// Changes the session as the variant of [`Record`] describes. A record that does not fit
    /// changes nothing, such as a cut to more messages than there are, metadata after a message
    /// that is no response, or a record of a later version.
    pub fn apply(&mut self, record: Record) {
        let state = &mut self.state;
        match record {
            Record::Message { message, input_id } => self.add_message(message, input_id),
            Record::MessageInfo { info } => state.set_last_info(info),
            Record::Truncated { messages } => self.truncate(messages),
            Record::ToolStarted { call_id } => self.open_calls.start(&mut self.started, call_id),
            Record::ToolEnded { result } => {
                if let Some(tool_result) = result.as_tool_result() {
                    let id = &tool_result.tool_call_id;
                    self.open_calls
                        .remove(&mut self.started, &mut self.ended, id);
                    self.open_calls.end(&mut self.ended, result);
                }
            }
            Record::ToolsSettled => {
                self.started.clear();
                self.ended.clear();
            }
            Record::Input { id } => self.add_input_id(id),
            Record::Inputs { change } => {
                state.inputs.apply(change);
                self.input_ids.clear();
            }
            Record::About {
                user_id,
                title,
                cwd,
                parent,
            } => {
                (state.user_id, state.title) = (user_id, title);
                (state.cwd, state.parent) = (cwd, parent);
            }
            Record::Todos { todos } => state.todos = todos,
            Record::File { path, content } => {
                let files = Arc::make_mut(&mut state.files);
                match content {
                    Some(content) => drop(files.insert(path, content)),
                    None => drop(files.remove(&path)),
                }
            }
            Record::Compaction { compaction } => state.compaction = compaction,
            Record::Pending { calls } => state.pending = calls,
            Record::Answered { ids } => self.remove_answered(ids),
            Record::Unknown => {}
        }
    }

    /// Removes the pending calls with these ids. Calls are mostly answered in their order, so the
    /// first ones are examined first.
    fn remove_answered(&mut self, ids: Vec<Arc<str>>) {
        let ids: HashSet<_> = ids.into_iter().collect();
        let pending = &mut self.state.pending;
        #[cfg(all(test, feature = "session-log"))]
        EXAMINED.set(EXAMINED.get() + pending.len());
        let is_answered = |call: &PendingCall| ids.contains(&call.id);
        let first_calls = pending.iter().take_while(|call| is_answered(call)).count();
        pending.drain(..first_calls);
        if first_calls < ids.len() {
            pending.retain(|call| !is_answered(call));
        }
    }

    fn add_message(&mut self, message: Arc<Message>, input_id: Option<Arc<str>>) {
        if let Some(result) = message.as_tool_result() {
            let id = &result.tool_call_id;
            self.open_calls
                .remove(&mut self.started, &mut self.ended, id);
        }

        if self.first_text.is_none() && matches!(*message, Message::User(_)) {
            self.first_text = title_of(&message);
        }

        let state = &mut self.state;
        if let Some(id) = input_id {
            let index = state.messages.len();
            state.inputs.begin(id.clone(), index..index + 1);
            state.inputs.drop_oldest();
            self.add_input_id(id);
        }

        self.state.messages.push(message);
    }

    /// Adds an id and drops the oldest ids beyond the limit.
    fn add_input_id(&mut self, id: Arc<str>) {
        self.input_ids.push(id);
        drop_oldest_ids(&mut self.input_ids);
    }

    fn truncate(&mut self, messages: usize) {
        let state = &mut self.state;
        if messages >= state.messages.len() {
            if messages == 0 {
                self.first_text = None;
            }
            return;
        }
        state.messages.as_mut_vec().truncate(messages);
        state.infos.keep(messages);
        // Only the inputs that were appended since the state was saved. The next `Inputs` record
        // has the changes of the others.
        state
            .inputs
            .remove_listed_from(&mut self.input_ids, messages);
    }

    /// Returns the records that make this session's state equal to the stored part of `state`, with
    /// no call open. Messages that both share are compared by their pointers.
    #[must_use]
    pub fn difference(&self, state: &AgentState) -> Vec<Record> {
        let old_state = &self.state;
        let mut records = Vec::new();
        let metadata = Record::about(state);
        if metadata != Record::about(old_state) {
            records.push(metadata);
        }

        // The task list and the files come before the messages, so that a copy of the session that
        // ends at one of these messages has them as well.
        ToolState::of(old_state).push_changes(&ToolState::of(state), &mut records);
        push_changed_messages(old_state, state, &mut records);
        if !self.started.is_empty() || !self.ended.is_empty() {
            records.push(Record::ToolsSettled);
        }

        if old_state.compaction != state.compaction {
            let compaction = state.compaction.clone();
            records.push(Record::Compaction { compaction });
        }

        if !self.input_ids.is_empty() || old_state.inputs != state.inputs {
            let change = self.changed_inputs(state);
            records.push(Record::Inputs { change });
        }

        records.extend(changed_pending(&old_state.pending, &state.pending));
        records
    }

    /// Returns the records that create this session, at least one.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let nothing = Self::default();
        let mut records = nothing.difference(&self.state);

        // The first record of a session is written even without metadata.
        if !matches!(records.first(), Some(Record::About { .. })) {
            records.insert(0, Record::about(&self.state));
        }

        let started_records = self.started.iter().cloned();
        records.extend(started_records.map(|call_id| Record::ToolStarted { call_id }));
        let ended_results = self.ended.iter().cloned();
        records.extend(ended_results.map(|result| Record::ToolEnded { result }));
        let ids = self.input_ids.iter().cloned();
        records.extend(ids.map(|id| Record::Input { id }));
        records
    }

    /// Returns the difference of the inputs from the stored ones. Inputs that were appended since
    /// the state was saved count as changed, because some readers have them at other positions.
    fn changed_inputs(&self, now: &AgentState) -> InputsChange {
        let appended = self.state.inputs.count_last_of(&self.input_ids);
        let saved_count = self.state.inputs.len() - appended;
        now.inputs.since(&self.state.inputs, saved_count)
    }
}

/// Adds the records that make the messages of `before` those of `now`.
fn push_changed_messages(before: &AgentState, now: &AgentState, records: &mut Vec<Record>) {
    let old = &before.messages;
    let new = &now.messages;
    let mut shared_len = old.shared_prefix(new);

    // A hook may have rebuilt equal messages.
    shared_len += old.as_slice()[shared_len..]
        .iter()
        .zip(&new.as_slice()[shared_len..])
        .take_while(|(a, b)| a == b)
        .count();
    let first_changed_info = before.infos.first_difference(&now.infos);
    shared_len = shared_len.min(first_changed_info.unwrap_or(shared_len));
    if shared_len < old.len() {
        records.push(Record::Truncated {
            messages: shared_len,
        });

        if new.is_empty() {
            // The first input was removed: a second cut drops the title as well.
            records.push(Record::Truncated { messages: 0 });
        }
    }

    for (message, at) in new.as_slice()[shared_len..].iter().zip(shared_len..) {
        records.push(Record::Message {
            message: message.clone(),
            input_id: None,
        });

        let info = now.infos.get(at).cloned();
        records.extend(info.map(|info| Record::MessageInfo { info }));
    }
}

/// Returns the change of the pending calls. If some calls were removed, nothing else changed, and
/// fewer calls were removed than stay, the record names only the removed calls. So not all pending
/// calls are written again each time that one of them is answered.
fn changed_pending(before: &[PendingCall], now: &[PendingCall]) -> Option<Record> {
    if before == now {
        return None;
    }

    let mut remaining = now.iter().peekable();
    let removed = before
        .iter()
        .filter(|call| remaining.next_if_eq(call).is_none());
    let ids: Vec<_> = removed.map(|call| call.id.clone()).collect();
    let has_unique_ids = || {
        let ids: HashSet<_> = before.iter().map(|call| &call.id).collect();
        ids.len() == before.len()
    };

    if remaining.next().is_none() && ids.len() < now.len() && has_unique_ids() {
        return Some(Record::Answered { ids });
    }

    let calls = now.to_vec();
    Some(Record::Pending { calls })
}
