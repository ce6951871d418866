//! Results in the order of their calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::message::Message;
use super::messages::Messages;
use super::role::Role;

impl Messages {
    /// The same messages with the results of each turn in the order of its calls, for wire formats
    /// without ids; `None` when they are so already. Results of no call are last.
    pub(crate) fn in_call_order(&self) -> Option<Self> {
        let mut ordered_messages = None;
        let messages = self.as_slice();
        let is_call = |message: &Arc<Message>| message.tool_calls().next().is_some();
        let mut next = 0;
        while let Some(offset) = messages[next..].iter().position(is_call) {
            let calls = next + offset;
            let is_result = |message: &&Arc<Message>| message.role() == Role::Tool;
            let results = messages[calls + 1..].iter().take_while(is_result).count();
            next = calls + 1 + results;
            if is_in_order(&messages[calls], &messages[calls + 1..next]) {
                continue;
            }

            let places = places(&messages[calls], &messages[calls + 1..next]);
            if places.is_sorted() {
                continue;
            }

            let mut turn: Vec<_> = places.into_iter().zip(&messages[calls + 1..next]).collect();
            turn.sort_by_key(|(place, _)| *place);
            let ordered_messages: &mut Vec<_> =
                ordered_messages.get_or_insert_with(|| self.to_vec());
            for (slot, (_, result)) in ordered_messages[calls + 1..next].iter_mut().zip(turn) {
                *slot = result.clone();
            }
        }

        ordered_messages.map(|ordered_messages: Vec<_>| ordered_messages.into_iter().collect())
    }
}

/// Returns `true` if the results are in the order of the calls. Allocates nothing, because
/// histories are checked for every request.
fn is_in_order(calls: &Message, results: &[Arc<Message>]) -> bool {
    let mut calls = calls.tool_calls();
    results.iter().all(|message| {
        match (message.as_tool_result(), calls.next()) {
            // The id of a result is that of its call, in memory too.
            (Some(result), Some(call)) => {
                Arc::ptr_eq(&result.tool_call_id, &call.id) || result.tool_call_id == call.id
            }
            _ => false,
        }
    })
}

/// The call of the message that each result answers: the first with its id that no result before
/// answers.
fn places(calls: &Message, results: &[Arc<Message>]) -> Vec<usize> {
    let mut open_calls: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, call) in calls.tool_calls().enumerate() {
        open_calls.entry(&*call.id).or_default().push_back(place);
    }
    let places = results.iter().map(|message| {
        let id = &message.as_tool_result()?.tool_call_id;
        open_calls.get_mut(&**id)?.pop_front()
    });
    places.map(|place| place.unwrap_or(usize::MAX)).collect()
}
