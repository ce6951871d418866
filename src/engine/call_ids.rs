//! The assignment of unique ids to tool calls.

use std::sync::Arc;

use crate::message::{Message, Messages, Part};
use crate::model::ModelResponse;
use crate::util::hash::IdSet;
use crate::util::unique_names::UniqueNames;

/// The beginning of the ids of calls that the provider gave no id.
const NO_ID: &str = "call";

/// The ids of all calls in a history. Some providers use an id again, or give none; sent back
/// like that, the history would be refused forever.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    used: IdSet,
    unique_names: UniqueNames,
}

impl CallIds {
    pub(super) fn of(messages: &Messages) -> Self {
        let mut ids = Self::default();
        ids.add(messages.as_slice());
        ids
    }

    /// Adds the ids of the calls in messages that were added to the history.
    pub(super) fn add(&mut self, messages: &[Arc<Message>]) {
        let calls = messages.iter().flat_map(|message| message.tool_calls());
        self.used.extend(calls.map(|call| call.id.clone()));
    }

    /// Gives every call of a response an id that is unique in the history. An id that is already
    /// there gets a number appended.
    pub(super) fn claim(&mut self, response: &mut ModelResponse) {
        for part in response.content.parts_mut() {
            let Part::ToolCall(call) = part else {
                continue;
            };

            let is_new = !call.id.is_empty() && self.used.insert(call.id.clone());
            if is_new {
                continue;
            }

            // Calls without an id are numbered, starting with the first.
            let used_ids = &self.used;
            let is_taken = |id: &str| id == NO_ID || used_ids.contains(id);
            let base = if call.id.is_empty() { NO_ID } else { &*call.id };
            call.id = self.unique_names.free(base, is_taken);
            self.used.insert(call.id.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ToolCall;

    #[test]
    fn reused_call_ids_get_a_number() {
        let call = |id: &str| ToolCall::new(id, "f", json!({}));
        let history = Messages::from("hi")
            .ai_calling("", [call("a")])
            .tool("a", "f", "1");
        let mut ids = CallIds::of(&history);
        let mut response = ModelResponse::new(
            Message::ai_calling("", [call("a"), call(""), call("a"), call("b")])
                .content()
                .clone(),
        );
        ids.claim(&mut response);
        let claimed_ids: Vec<_> = response
            .tool_calls()
            .map(|call| call.id.to_string())
            .collect();
        assert_eq!(claimed_ids, ["a_2", "call_2", "a_3", "b"]);
    }
}
