//! A stored session as a state from which a run can continue.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Messages, Repairs, Role, ToolCall, ToolResult, message_size};
use crate::session::{AgentState, PendingCall, StoredSession};
use crate::util::blocking::{LARGE_TEXT, blocking};

use super::request::RequestBuilder;
use super::result_context::ResultContext;

/// The result of a call that had not begun when its run ended.
const NOT_RUN: &str = "cancelled: the run ended before this call began; it did not run";
/// The result of a call that had begun.
pub(super) const MAY_HAVE_RUN: &str =
    "interrupted: the run ended before this call's result was stored; it may have run";
/// The result of a call that was not approved before the conversation continued.
const NOT_APPROVED: &str =
    "not approved: the conversation continued without an answer; the call did not run";

/// The number of parts of messages, of started and pending calls and of input ids from which on a
/// session is restored on a thread for blocking work.
const LONG: usize = 1_000;

/// The state a run begins with.
#[derive(Default)]
pub(super) struct Restored {
    pub(super) state: AgentState,
    /// The builder of the run's requests, which has checked the history.
    pub(super) requests: RequestBuilder,
    /// True if the state must be saved, because it differs from the stored one.
    pub(super) must_save: bool,
    /// The repairs of its history.
    pub(super) repairs: Repairs,
    pub(super) interrupted_calls: Vec<InterruptedCall>,
    /// Results that were added to the history, and that no run has emitted: those of closed
    /// questions, and those that were stored when their call ended.
    pub(super) late_results: Vec<ToolResult>,
}

/// A call that had no result when its run was dropped.
pub(super) struct InterruptedCall {
    pub(super) call: ToolCall,
    /// True if its start was stored.
    pub(super) is_started: bool,
}

impl InterruptedCall {
    /// Returns the preliminary result of the call. The history has it until the call gets its final
    /// result.
    pub(super) fn preliminary_result(&self) -> ToolResult {
        let text = if self.is_started {
            MAY_HAVE_RUN
        } else {
            NOT_RUN
        };
        ToolResult::failed(&self.call, text)
    }
}

/// Repairs the history of a stored session. A long one is repaired on a thread for blocking work.
/// Pending calls stay pending if `keeps_pending`.
pub(super) async fn restore(
    stored: StoredSession,
    id: &Arc<str>,
    keeps_pending: bool,
    max_result_bytes: usize,
) -> Result<Restored> {
    if is_new(&stored) {
        return Ok(Restored {
            state: stored.state,
            ..Restored::default()
        });
    }
    if !is_long(&stored) {
        return Ok(restore_now(stored, id, keeps_pending, max_result_bytes));
    }
    let id = id.clone();
    blocking(move || Ok(restore_now(stored, &id, keeps_pending, max_result_bytes))).await
}

/// Returns `true` if the session has nothing to repair: neither messages nor calls nor inputs, and
/// nothing about them.
fn is_new(stored: &StoredSession) -> bool {
    let state = &stored.state;
    state.messages.is_empty()
        && state.infos.is_empty()
        && state.pending.is_empty()
        && state.inputs.is_empty()
        && stored.input_ids.is_empty()
        && stored.started.is_empty()
        && stored.ended.is_empty()
}

/// Returns `true` if the session has at least [`LONG`] parts of messages, started and pending calls
/// and input ids, or [`LARGE_TEXT`] bytes of messages. A message without parts counts as one part.
fn is_long(stored: &StoredSession) -> bool {
    let state = &stored.state;
    let mut count = stored.input_ids.len() + stored.started.len() + state.pending.len();
    let mut bytes = 0;
    let results = stored.ended.iter().map(|message| &**message);
    let mut messages = state.messages.iter().chain(results);
    let mut is_long = count >= LONG;
    while !is_long && let Some(message) = messages.next() {
        count += message.content().parts().len().max(1);
        bytes += message_size(message);
        is_long = count >= LONG || bytes >= LARGE_TEXT;
    }
    is_long
}

fn restore_now(
    stored: StoredSession,
    id: &str,
    keeps_pending: bool,
    max_result_bytes: usize,
) -> Restored {
    let mut state = stored.state;
    let loaded_messages = state.messages.clone();
    place_inputs(&mut state, &stored.input_ids);
    let closed_questions = close_questions(&mut state, id, keeps_pending, max_result_bytes);
    let missing_results = add_missing_results(&mut state, &stored.started, &stored.ended);
    let mut requests = RequestBuilder::default();
    let repairs = requests.repair_history_of(&mut state);
    let len = state.messages.len();
    state.inputs.clear_positions_after(len, len);
    state.retain_infos(&loaded_messages);
    let must_save = !stored.input_ids.is_empty()
        || closed_questions.must_save
        || missing_results.must_save
        || !repairs.is_empty();
    let mut late_results = closed_questions.results;
    late_results.extend(missing_results.late_results);
    Restored {
        state,
        requests,
        must_save,
        repairs,
        interrupted_calls: missing_results.interrupted_calls,
        late_results,
    }
}

/// Records the positions of the inputs that a dropped run appended, and settles inputs that have a
/// response.
fn place_inputs(state: &mut AgentState, ids: &[Arc<str>]) {
    if !ids.is_empty() {
        // Appended by a run that was dropped, so it is the last input.
        let last_input = last_input(&state.messages);
        state.inputs.begin_unknown(ids, &last_input);
    }

    // An assistant message without metadata was part of an input, not a response.
    let messages = &state.messages;
    let infos = &state.infos;
    state.inputs.extend(ids, messages.len(), |position| {
        let role = messages.get(position).map(Message::role);
        role == Some(Role::Assistant) && infos.get(position).is_none()
    });
    state.settle_inputs();
}

/// The outcome of closing questions.
struct ClosedQuestions {
    must_save: bool,
    /// The results of the calls whose questions were closed.
    results: Vec<ToolResult>,
}

/// Closes the questions of pending calls that cannot be answered any more, with a result for each
/// call.
fn close_questions(
    state: &mut AgentState,
    id: &str,
    keeps_pending: bool,
    max_result_bytes: usize,
) -> ClosedQuestions {
    // A fork's copy of a question is dropped: if it were answered in both sessions, the call would
    // run twice.
    let stays = |call: &PendingCall| keeps_pending && *call.session_id == *id;
    let pending_calls = std::mem::take(&mut state.pending);
    let ids_with_result = ids_with_result(&state.messages);
    let (pending_calls, decided_calls): (Vec<_>, Vec<_>) = pending_calls
        .into_iter()
        .partition(|pending| !ids_with_result.contains(&pending.call.id));
    let (pending, closed_calls): (Vec<_>, Vec<_>) = pending_calls.into_iter().partition(stays);
    let must_save = !decided_calls.is_empty() || !closed_calls.is_empty();
    state.pending = pending;
    let closed_calls = closed_calls.iter();
    let results: Vec<_> = closed_calls
        .map(|pending| {
            let mut result = ToolResult::failed(&pending.call, NOT_APPROVED);
            let context = ResultContext::new(pending.context.clone());
            context.add_to(&mut result, max_result_bytes);
            result
        })
        .collect();
    insert_results(state, results.clone());
    ClosedQuestions { must_save, results }
}

/// The results of calls that had none.
#[derive(Default)]
struct MissingResults {
    must_save: bool,
    /// The calls that received a preliminary result.
    interrupted_calls: Vec<InterruptedCall>,
    /// Results that were stored when their call ended.
    late_results: Vec<ToolResult>,
}

/// Gives every call of the last response a result, except pending calls.
fn add_missing_results(
    state: &mut AgentState,
    started_ids: &[Arc<str>],
    ended_results: &[Arc<Message>],
) -> MissingResults {
    let pending_ids: HashSet<_> = state.pending_call_ids().into_iter().collect();
    let started_ids: HashSet<_> = started_ids.iter().collect();
    let ended_results: HashMap<_, _> = ended_results
        .iter()
        .filter_map(|result| result.as_tool_result())
        .map(|result| (&result.tool_call_id, result))
        .collect();
    let mut output = MissingResults::default();
    let mut results = Vec::new();
    for call in calls_without_result(&state.messages) {
        if pending_ids.contains(&call.id) {
            continue;
        }

        output.must_save = true;
        if let Some(result) = ended_results.get(&call.id) {
            results.push((*result).clone());
            output.late_results.push((*result).clone());
            continue;
        }

        let call = InterruptedCall {
            call: call.clone(),
            is_started: started_ids.contains(&call.id),
        };

        results.push(call.preliminary_result());
        output.interrupted_calls.push(call);
    }

    insert_results(state, results);
    output
}

/// Returns the calls of the last assistant message that have no result. The repair of the history
/// adds the results of earlier calls.
pub(super) fn calls_without_result(messages: &Messages) -> Vec<&ToolCall> {
    let history = messages.as_slice();
    let Some(last) = history
        .iter()
        .rposition(|message| message.role() == Role::Assistant)
    else {
        return Vec::new();
    };

    let results = history[last + 1..]
        .iter()
        .filter_map(|message| message.as_tool_result());
    let ids_with_result: HashSet<_> = results.map(|result| &result.tool_call_id).collect();
    history[last]
        .tool_calls()
        .filter(|call| !ids_with_result.contains(&call.id))
        .collect()
}

/// Returns the ids of the calls that have a result. If several calls have the same id, the last one
/// counts.
fn ids_with_result(messages: &Messages) -> HashSet<Arc<str>> {
    let mut ids = HashSet::new();
    for message in messages {
        for call in message.tool_calls() {
            ids.remove(&call.id);
        }
        if let Some(result) = message.as_tool_result() {
            ids.insert(result.tool_call_id.clone());
        }
    }
    ids
}

/// Returns the position of the last result of each call.
pub(super) fn result_positions(messages: &Messages) -> HashMap<Arc<str>, usize> {
    messages
        .iter()
        .enumerate()
        .filter_map(|(position, message)| {
            let result = message.as_tool_result()?;
            Some((result.tool_call_id.clone(), position))
        })
        .collect()
}

/// Returns the range of the last input messages.
fn last_input(messages: &Messages) -> Range<usize> {
    let is_input = |message: &&Arc<Message>| message.role().is_user_input();
    let history = messages.as_slice();
    let end = history
        .iter()
        .rposition(|message| is_input(&message))
        .map_or(0, |index| index + 1);
    end - history[..end].iter().rev().take_while(is_input).count()..end
}

/// Inserts every result at the position of its call's results: after the call, in the order of the
/// calls. Results of unknown calls are dropped. The inputs after a result move with their messages.
pub(super) fn insert_results(state: &mut AgentState, results: Vec<ToolResult>) {
    if results.is_empty() {
        return;
    }

    let messages = &state.messages;
    // The place of each call: the index of its response, and its rank among the response's calls.
    let mut places = HashMap::new();
    for (call_index, message) in messages.iter().enumerate() {
        let calls = message.tool_calls().enumerate();
        places.extend(calls.map(|(rank, call)| (call.id.clone(), (call_index, rank))));
    }

    let place = |result: &ToolResult| places.get(&result.tool_call_id).copied();
    let mut placed_results: Vec<_> = results
        .into_iter()
        .filter_map(|result| Some((place(&result)?, result)))
        .collect();
    placed_results.sort_by_key(|(place, _)| *place);
    let result_count = placed_results.len();
    let mut results = placed_results.into_iter().peekable();
    let mut output = Vec::with_capacity(messages.len() + result_count);
    // The position of the message that follows each result.
    let mut insertions = Vec::with_capacity(result_count);

    // Merges two sorted lists: the messages, and the results by the place of their call.
    // `call_index` is the index of the last message that is no result.
    let mut call_index = None;
    for (position, message) in messages.as_slice().iter().enumerate() {
        // A result goes before the first stored result of the same or a later call of its response,
        // at the latest before the next message that is no result.
        let next = message.as_tool_result().and_then(place);
        let is_before = |place: (usize, usize)| match (message.role(), next) {
            (Role::Tool, Some(next)) if next.0 == place.0 => place <= next,
            (Role::Tool, _) => false,
            _ => true,
        };

        while let Some((_, result)) =
            results.next_if(|(place, _)| Some(place.0) == call_index && is_before(*place))
        {
            output.push(Arc::new(Message::Tool(result)));
            insertions.push(position);
        }

        if message.role() != Role::Tool {
            call_index = Some(position);
        }

        output.push(message.clone());
    }

    insertions.resize(result_count, messages.len());
    output.extend(results.map(|(_, result)| Arc::new(Message::Tool(result))));
    state.messages = output.into_iter().collect();
    state.inputs.adapt_to_insertions(&insertions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Part;
    use crate::session::{InputState, Record};

    const COUNT: usize = 150_000;

    fn restored(session: StoredSession) -> AgentState {
        restore_now(session, "a", false, 1_024).state
    }

    #[test]
    fn parts_of_one_message_make_a_session_long() {
        let mut session = StoredSession::new(AgentState::new("a"));
        for (count, expected) in [(LONG - 1, false), (LONG, true)] {
            let parts = vec![Part::Text("x".into()); count];
            session.state.messages = [Arc::new(Message::human(parts))].into_iter().collect();
            assert_eq!(is_long(&session), expected);
        }
    }

    #[test]
    fn long_texts_and_many_calls_make_a_session_long() {
        let stored = || StoredSession::new(AgentState::new("a"));
        let mut long_text = stored();
        let text = "x".repeat(LARGE_TEXT);
        long_text.state.messages = [Arc::new(Message::ai(&*text))].into_iter().collect();
        let mut long_args = stored();
        let mut call = ToolCall::new("1", "t", serde_json::json!({}));
        call.raw_args = Some(text.into());
        let message = Message::ai(vec![Part::ToolCall(call.clone())]);
        long_args.state.messages = [Arc::new(message)].into_iter().collect();
        let mut many_starts = stored();
        many_starts.started = vec!["1".into(); LONG];
        let result = Arc::new(Message::Tool(ToolResult::failed(&call, "")));
        let mut many_results = stored();
        many_results.ended = vec![result; LONG];
        let mut long_details = stored();
        let mut large_result = ToolResult::failed(&call, "");
        large_result.details = Some("x".repeat(LARGE_TEXT).into());
        long_details.ended = vec![Arc::new(Message::Tool(large_result))];
        for session in [
            long_text,
            long_args,
            many_starts,
            many_results,
            long_details,
        ] {
            assert!(is_long(&session));
        }
        assert!(!is_long(&stored()));
    }

    #[test]
    fn inputs_without_a_place_are_restored() {
        let mut session = StoredSession::new(AgentState::new("a"));
        session.state.messages = Messages::from("x");
        for id in ["0", "1", "0"] {
            let id = id.into();
            session.apply(Record::Input { id });
        }

        let state = restored(session);
        assert_eq!(state.inputs.len(), 2);
        let state_of_first = state.inputs.find("0", &state.messages);
        assert!(matches!(state_of_first, Some(InputState::Open(0))));
    }

    /// Would take minutes if each id searched all later messages.
    #[test]
    fn many_inputs_before_many_messages_are_restored() {
        let mut session = StoredSession::new(AgentState::new("a"));
        let ask = Message::human("x").into();
        let parts = (0..COUNT).map(|_| Arc::new(Message::ai("y")));
        session.state.messages = std::iter::once(ask).chain(parts).collect();
        for number in 0..1_000 {
            let id = number.to_string().into();
            session.apply(Record::Input { id });
        }

        assert_eq!(restored(session).inputs.len(), 1_000);
    }
}
