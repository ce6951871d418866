//! The stored session as a run can go on with it.

use std::ops::Range;
use std::sync::Arc;

use crate::message::{Message, Messages, Role, ToolCall, ToolResult};
use crate::state::{AgentState, PendingCall, StoredSession, answers};

use super::drive::Driver;

/// The result of a call that had not begun when its run ended.
const NOT_RUN: &str = "cancelled: the run ended before this call began; it did not run";
/// The result of a call that had begun.
pub(super) const MAY_HAVE_RUN: &str =
    "interrupted: the run ended before this call's result was stored; it may have run";
/// The result of a call nobody approved before the conversation went on.
const NOT_APPROVED: &str =
    "not approved: the conversation went on without an answer; the call did not run";

/// What a run begins with.
pub(super) struct Restored {
    pub(super) state: AgentState,
    /// Whether anything had to be done to what was stored.
    pub(super) changed: bool,
    /// Calls that had no result when their run was dropped.
    pub(super) open: Vec<OpenCall>,
    /// Results that nobody was shown.
    pub(super) late: Vec<ToolResult>,
}

/// A call without a result.
pub(super) struct OpenCall {
    pub(super) call: ToolCall,
    /// Whether its start was stored.
    pub(super) started: bool,
}

impl OpenCall {
    /// What it is answered with for now.
    pub(super) fn answer(&self) -> ToolResult {
        let text = if self.started { MAY_HAVE_RUN } else { NOT_RUN };
        ToolResult::failed(&self.call, text)
    }
}

impl Driver {
    /// The stored state with its history made whole. Calls that wait for approval go on waiting
    /// if `keeps_waiting`.
    pub(super) fn restore(
        &mut self,
        stored: StoredSession,
        id: &str,
        keeps_waiting: bool,
    ) -> Restored {
        let mut state = stored.state;
        let loaded = state.messages.clone();
        let mut changed = false;
        let (mut open, mut late) = (Vec::new(), Vec::new());
        for id in &stored.input_ids {
            changed = true;
            if !state.inputs.contains(id) {
                // Appended by a run that was dropped, so it is the last one said.
                state.inputs.begin(id.clone(), last_said(&state.messages));
            }
        }
        // It is known of each answer how it came about. What an input held for the model to go on
        // with is none.
        let (messages, infos) = (&state.messages, &state.infos);
        state.inputs.extend(&stored.input_ids, |at| {
            let said = messages.get(at).map(Message::role);
            said == Some(Role::Assistant) && infos.get(at).is_none()
        });
        state.settle_inputs();
        // A fork's copy of a question is not its own: answered in both, the call would run twice.
        let is_kept = |call: &PendingCall| keeps_waiting && *call.session_id == *id;
        let asked = std::mem::take(&mut state.pending);
        let (asked, decided): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .partition(|pending| !has_result(&state.messages, &pending.call.id));
        let (kept, closed): (Vec<_>, Vec<_>) = asked.into_iter().partition(is_kept);
        changed |= !decided.is_empty() || !closed.is_empty();
        state.pending = kept;
        for pending in closed {
            let result = ToolResult::failed(&pending.call, NOT_APPROVED);
            insert_result(&mut state.messages, result.clone());
            late.push(result);
        }
        let waiting = state.waiting();
        for call in unanswered(&state.messages) {
            if waiting.contains(&call.id) {
                continue;
            }
            let ended = stored.ended.iter().find(|ended| answers(ended, &call.id));
            if let Some(result) = ended.and_then(|ended| ended.as_tool_result()) {
                insert_result(&mut state.messages, result.clone());
                late.push(result.clone());
                changed = true;
                continue;
            }
            let started = stored.started.contains(&call.id);
            let call = OpenCall { call, started };
            insert_result(&mut state.messages, call.answer());
            open.push(call);
            changed = true;
        }
        let repairs = state.repair();
        if !repairs.is_empty() {
            changed = true;
            self.cx
                .warn(format!("the stored history was repaired: {repairs}"));
        }
        state.keep_places(&loaded);
        Restored {
            state,
            changed,
            open,
            late,
        }
    }
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
    all[last]
        .tool_calls()
        .filter(|call| {
            !all[last + 1..]
                .iter()
                .any(|message| answers(message, &call.id))
        })
        .cloned()
        .collect()
}

/// Whether the call, one of the last assistant message that has calls, is answered.
fn has_result(messages: &Messages, call_id: &str) -> bool {
    let calls = |message: &Message| message.tool_calls().any(|call| *call.id == *call_id);
    let behind = messages.as_slice().iter().rev();
    behind
        .take_while(|message| !calls(message))
        .any(|message| answers(message, call_id))
}

/// Where the last thing said to the model stands.
fn last_said(messages: &Messages) -> Range<usize> {
    let said = |message: &&Arc<Message>| message.role().is_user_input();
    let all = messages.as_slice();
    let end = all
        .iter()
        .rposition(|message| said(&message))
        .map_or(0, |at| at + 1);
    end - all[..end].iter().rev().take_while(said).count()..end
}

/// Puts a result where its call's results stand: after the call, in the order of the calls.
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
    let order: Vec<_> = all[calling]
        .tool_calls()
        .map(|call| call.id.clone())
        .collect();
    let rank = |id: &Arc<str>| order.iter().position(|other| other == id);
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
