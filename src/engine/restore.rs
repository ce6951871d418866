//! A stored session as a state from which a run can continue.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::message::{Message, Messages, Repairs, Role, ToolCall, ToolResult};
use crate::session::{AgentState, PendingCall, StoredSession};

use super::tool_call::add_context;

/// The result of a call that had not begun when its run ended.
const NOT_RUN: &str = "cancelled: the run ended before this call began; it did not run";
/// The result of a call that had begun.
pub(super) const MAY_HAVE_RUN: &str =
    "interrupted: the run ended before this call's result was stored; it may have run";
/// The result of a call that was not approved before the conversation continued.
const NOT_APPROVED: &str =
    "not approved: the conversation went on without an answer; the call did not run";

/// The state a run begins with.
pub(super) struct Restored {
    pub(super) state: AgentState,
    /// True if the stored state had to be repaired.
    pub(super) changed: bool,
    /// The repairs of its history.
    pub(super) repairs: Repairs,
    /// Calls that had no result when their run was dropped.
    pub(super) open: Vec<OpenCall>,
    /// Results that were not emitted yet.
    pub(super) late: Vec<ToolResult>,
}

/// A call without a result.
pub(super) struct OpenCall {
    pub(super) call: ToolCall,
    /// True if its start was stored.
    pub(super) started: bool,
}

impl OpenCall {
    /// The preliminary result of the call.
    pub(super) fn answer(&self) -> ToolResult {
        let text = if self.started { MAY_HAVE_RUN } else { NOT_RUN };
        ToolResult::failed(&self.call, text)
    }
}

/// Makes the history of a stored session whole. Calls that wait for approval stay pending if
/// `keeps_waiting`.
pub(super) fn restore(
    stored: StoredSession,
    id: &str,
    keeps_waiting: bool,
    max_result_bytes: usize,
) -> Restored {
    let mut state = stored.state;
    let loaded = state.messages.clone();
    place_inputs(&mut state, &stored.input_ids);
    let closed = close_questions(&mut state, id, keeps_waiting, max_result_bytes);
    let answered = answer_calls(&mut state, &stored.started, &stored.ended);
    let repairs = state.repair();
    state.keep_places(&loaded);
    let is_new = !stored.input_ids.is_empty() || closed.changed || answered.changed;
    let mut late = closed.results;
    late.extend(answered.late);
    Restored {
        state,
        changed: is_new || !repairs.is_empty(),
        repairs,
        open: answered.open,
        late,
    }
}

/// Records where the inputs stand that a run without an end has appended.
fn place_inputs(state: &mut AgentState, ids: &[Arc<str>]) {
    for id in ids {
        if !state.inputs.contains(id) {
            // Appended by a run that was dropped, so it is the last input.
            state.inputs.begin(id.clone(), last_said(&state.messages));
        }
    }
    // It is known of each answer how it came about. What an input held for the model to go on
    // with is none.
    let (messages, infos) = (&state.messages, &state.infos);
    state.inputs.extend(ids, |at| {
        let role = messages.get(at).map(Message::role);
        role == Some(Role::Assistant) && infos.get(at).is_none()
    });
    state.settle_inputs();
}

/// Questions that are no longer open, and the results of their calls.
struct Closed {
    changed: bool,
    results: Vec<ToolResult>,
}

/// Closes the questions that nothing will answer.
fn close_questions(
    state: &mut AgentState,
    id: &str,
    keeps_waiting: bool,
    max_result_bytes: usize,
) -> Closed {
    // A fork's copy of a question is not its own: answered in both, the call would run twice.
    let stays = |call: &PendingCall| keeps_waiting && *call.session_id == *id;
    let asked = std::mem::take(&mut state.pending);
    let answered = answered(&state.messages);
    let (asked, decided): (Vec<_>, Vec<_>) = asked
        .into_iter()
        .partition(|pending| !answered.contains(&pending.call.id));
    let (pending, closed): (Vec<_>, Vec<_>) = asked.into_iter().partition(stays);
    let changed = !decided.is_empty() || !closed.is_empty();
    state.pending = pending;
    let closed = closed.iter();
    let results: Vec<_> = closed
        .map(|pending| {
            let mut result = ToolResult::failed(&pending.call, NOT_APPROVED);
            add_context(&mut result, &pending.context, max_result_bytes);
            result
        })
        .collect();
    insert_results(&mut state.messages, results.clone());
    Closed { changed, results }
}

/// Calls that had no result in the history.
#[derive(Default)]
struct Answered {
    changed: bool,
    /// Calls that have a preliminary result now.
    open: Vec<OpenCall>,
    /// Results that were stored when their call ended.
    late: Vec<ToolResult>,
}

/// Gives every call of the last answer a result, except those that wait for approval.
fn answer_calls(state: &mut AgentState, started: &[Arc<str>], ended: &[Arc<Message>]) -> Answered {
    let waiting: HashSet<_> = state.waiting().into_iter().collect();
    let started: HashSet<_> = started.iter().collect();
    let ended = ended.iter().filter_map(|ended| ended.as_tool_result());
    let ended: HashMap<_, _> = ended.map(|ended| (&ended.tool_call_id, ended)).collect();
    let mut answered = Answered::default();
    let mut results = Vec::new();
    for call in unanswered(&state.messages) {
        if waiting.contains(&call.id) {
            continue;
        }
        answered.changed = true;
        if let Some(result) = ended.get(&call.id) {
            results.push((*result).clone());
            answered.late.push((*result).clone());
            continue;
        }
        let started = started.contains(&call.id);
        let call = OpenCall { call, started };
        results.push(call.answer());
        answered.open.push(call);
    }
    insert_results(&mut state.messages, results);
    answered
}

/// The calls of the last assistant message that have no result: earlier ones are repaired.
fn unanswered(messages: &Messages) -> Vec<ToolCall> {
    let all = messages.as_slice();
    let Some(last) = all
        .iter()
        .rposition(|message| message.role() == Role::Assistant)
    else {
        return Vec::new();
    };
    let results = all[last + 1..]
        .iter()
        .filter_map(|message| message.as_tool_result());
    let answered: HashSet<_> = results.map(|result| &result.tool_call_id).collect();
    all[last]
        .tool_calls()
        .filter(|call| !answered.contains(&call.id))
        .cloned()
        .collect()
}

/// The ids of the calls that are answered. Of calls with one id the last one counts.
fn answered(messages: &Messages) -> HashSet<Arc<str>> {
    let mut answered = HashSet::new();
    for message in messages {
        for call in message.tool_calls() {
            answered.remove(&call.id);
        }
        if let Some(result) = message.as_tool_result() {
            answered.insert(result.tool_call_id.clone());
        }
    }
    answered
}

/// The range of the last input messages.
fn last_said(messages: &Messages) -> Range<usize> {
    let said = |message: &&Arc<Message>| message.role().is_user_input();
    let all = messages.as_slice();
    let end = all
        .iter()
        .rposition(|message| said(&message))
        .map_or(0, |at| at + 1);
    end - all[..end].iter().rev().take_while(said).count()..end
}

/// Inserts a result at the position of its call's results: after the call, in the order of the
/// calls.
///
/// Returned is the place; none where there is no such call.
pub(super) fn insert_result(messages: &mut Messages, result: ToolResult) -> Option<usize> {
    let all = messages.as_slice();
    let calling = all.iter().rposition(|message| {
        message.role() == Role::Assistant
            && message
                .tool_calls()
                .any(|call| call.id == result.tool_call_id)
    });
    let calling = calling?;
    let mut ranks = HashMap::new();
    for (rank, call) in all[calling].tool_calls().enumerate() {
        ranks.entry(&call.id).or_insert(rank);
    }
    let rank = |id: &Arc<str>| ranks.get(id).copied();
    let own = rank(&result.tool_call_id);
    let later = all[calling + 1..]
        .iter()
        .take_while(|message| message.role() == Role::Tool)
        .take_while(|message| {
            message
                .as_tool_result()
                .is_some_and(|other| rank(&other.tool_call_id) < own)
        })
        .count();
    let place = calling + 1 + later;
    messages.insert(place, Message::Tool(result));
    Some(place)
}

/// Inserts every result as [`insert_result`] does. Those of unknown calls are dropped.
fn insert_results(messages: &mut Messages, results: Vec<ToolResult>) {
    if results.is_empty() {
        return;
    }
    let mut places = HashMap::new();
    for (calling, message) in messages.iter().enumerate() {
        let calls = message.tool_calls().enumerate();
        places.extend(calls.map(|(rank, call)| (call.id.clone(), (calling, rank))));
    }
    let place = |result: &ToolResult| places.get(&result.tool_call_id).copied();
    let results = results.into_iter();
    let mut results: Vec<_> = results
        .filter_map(|result| Some((place(&result)?, result)))
        .collect();
    results.sort_by_key(|(place, _)| *place);
    let mut results = results.into_iter().peekable();
    let mut whole = Vec::with_capacity(messages.len() + results.len());
    // The answer whose results follow.
    let mut calling = None;
    for (position, message) in messages.as_slice().iter().enumerate() {
        // A result goes before the first one of a later call.
        let next = message.as_tool_result().and_then(place);
        let is_before = |place: (usize, usize)| match (message.role(), next) {
            (Role::Tool, Some(next)) if next.0 == place.0 => place <= next,
            (Role::Tool, _) => false,
            _ => true,
        };
        while let Some((_, result)) =
            results.next_if(|(place, _)| Some(place.0) == calling && is_before(*place))
        {
            whole.push(Arc::new(Message::Tool(result)));
        }
        if message.role() != Role::Tool {
            calling = Some(position);
        }
        whole.push(message.clone());
    }
    whole.extend(results.map(|(_, result)| Arc::new(Message::Tool(result))));
    *messages = whole.into_iter().collect();
}
