//! Who may follow whom: the last step of a repair, and the order of results.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::chain::Messages;
use super::message::Message;
use super::repair::Repair;
use super::role::Role;

/// What the user says before an assistant that speaks first.
const OPENING: &str = "(conversation continues)";

/// Makes the user begin and the assistant not speak twice in a row. Each message comes with its
/// index in the broken history.
pub(super) fn order(
    messages: Vec<(usize, Arc<Message>)>,
    changes: &mut Vec<Repair>,
) -> Vec<Arc<Message>> {
    let mut ordered: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    let mut begun = false;
    let mut into = 0;
    for (index, message) in messages {
        let role = message.role();
        if !begun && role == Role::Assistant {
            ordered.push(Arc::new(Message::human(OPENING)));
            changes.push(Repair::AddedOpening { index });
        }
        begun |= role != Role::System;
        match ordered.last_mut() {
            Some(last) if repeats(last, role) => {
                let parts = message.content().parts().iter().cloned();
                Arc::make_mut(last).content_mut().parts_mut().extend(parts);
                changes.push(Repair::Merged { index, into });
            }
            _ => {
                into = index;
                ordered.push(message);
            }
        }
    }
    ordered
}

impl Messages {
    /// The same messages with the results of each turn in the order of its calls, for wire formats
    /// without ids; `None` when they are so already. Results of no call come last.
    pub(crate) fn in_call_order(&self) -> Option<Self> {
        let mut ordered = None;
        let all = self.as_slice();
        let is_call = |message: &Arc<Message>| message.tool_calls().next().is_some();
        let mut next = 0;
        while let Some(from) = all[next..].iter().position(is_call) {
            let calls = next + from;
            let is_result = |message: &&Arc<Message>| message.role() == Role::Tool;
            let results = all[calls + 1..].iter().take_while(is_result).count();
            next = calls + 1 + results;
            let places = places(&all[calls], &all[calls + 1..next]);
            if places.is_sorted() {
                continue;
            }
            let mut turn: Vec<_> = places.into_iter().zip(&all[calls + 1..next]).collect();
            turn.sort_by_key(|(place, _)| *place);
            let ordered: &mut Vec<_> = ordered.get_or_insert_with(|| self.to_vec());
            for (slot, (_, result)) in ordered[calls + 1..next].iter_mut().zip(turn) {
                *slot = result.clone();
            }
        }
        ordered.map(|ordered: Vec<_>| ordered.into_iter().collect())
    }
}

/// Which call of the message each result answers: the first with its id that no result before
/// answers.
fn places(calls: &Message, results: &[Arc<Message>]) -> Vec<usize> {
    let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (place, call) in calls.tool_calls().enumerate() {
        open.entry(&*call.id).or_default().push_back(place);
    }
    let places = results.iter().map(|message| {
        let id = &message.as_tool_result()?.tool_call_id;
        open.get_mut(&**id)?.pop_front()
    });
    places.map(|place| place.unwrap_or(usize::MAX)).collect()
}

/// Whether a message of `role` may not follow `last`. Only calls that await an approval have
/// no result after them; their message stays as it is.
fn repeats(last: &Message, role: Role) -> bool {
    role == Role::Assistant && last.role() == role && last.tool_calls().next().is_none()
}
