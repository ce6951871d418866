//! An estimate of the memory a session takes.

use std::mem::size_of;

use crate::message::{Message, Messages, Todo, message_size};

use super::agent_state::{AgentState, PendingCall};
use super::message_info::MessageInfo;
use super::record::Record;

/// The overhead of a shared value: its counters, and that of the allocator.
const SHARED: usize = 32;

/// The overhead of an entry in a map.
const PLACE: usize = 24;

/// The size of a message's metadata.
pub(super) const INFO: usize = size_of::<MessageInfo>() + SHARED + PLACE;

/// The bytes of these messages.
pub(super) fn of_messages(messages: &Messages, from: usize) -> u64 {
    let messages = messages.iter().skip(from);
    messages.map(of_message).sum()
}

/// The bytes of one message: itself and all that it points to.
pub(super) fn of_message(message: &Message) -> u64 {
    message_size(message) as u64
}

/// The bytes of a state without its messages.
pub(super) fn beside(state: &AgentState) -> u64 {
    let files = state.files.iter();
    let files = files.map(|(path, content)| path.len() + content.len() + PLACE + 2 * SHARED);
    let pending = state.pending.iter().map(of_pending);
    let summary = state.compaction.as_ref();
    let summary = summary.map_or(0, |made| made.summary.len());
    let total = files.chain(pending).sum::<usize>() + of_todos(&state.todos) + summary;
    let places = (state.infos.len() + state.inputs.len()) * INFO;
    (size_of::<AgentState>() + total + places) as u64
}

/// The size a record adds; `None` for one that replaces or removes what it cannot know the size of.
pub(super) fn of_record(record: &Record) -> Option<u64> {
    let bytes = match record {
        Record::Message { message, .. } | Record::ToolEnded { result: message } => {
            return Some(of_message(message));
        }
        Record::File { path, content } => {
            path.len() + content.as_ref().map_or(0, |content| content.len())
        }
        Record::Todos { todos } => of_todos(todos),
        Record::MessageInfo { .. } => INFO,
        Record::ToolStarted { call_id: id } | Record::Input { id } => id.len() + SHARED,
        Record::About { .. } | Record::Unknown => 0,
        Record::Truncated { .. }
        | Record::ToolsSettled
        | Record::Inputs { .. }
        | Record::Compaction { .. }
        | Record::Pending { .. }
        | Record::Answered { .. } => return None,
    };

    Some(bytes as u64)
}

/// The bytes of a call that waits.
pub(super) fn of_pending(call: &PendingCall) -> usize {
    let context = call
        .context
        .iter()
        .map(|text| size_of_val(text) + text.len());
    let ids = [&call.id, &call.session_id, &call.args_hash];
    let names = [&call.call.id, &call.call.name];
    let texts = ids.into_iter().chain(names).map(|text| text.len() + SHARED);
    size_of_val(call) + call.question.len() + context.sum::<usize>() + texts.sum::<usize>()
}

/// The bytes of a task list.
pub(super) fn of_todos(todos: &[Todo]) -> usize {
    let todos = todos.iter();
    let sizes = todos.map(|todo| size_of_val(todo) + todo.title.len() + todo.id.len() + SHARED);
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::message::{Media, Part, ToolCall, ToolResult};

    #[test]
    fn size_counts_every_long_field() {
        let long_text = "x".repeat(10_000);
        let call = ToolCall::new("c", "t", json!({"deep": [{"text": long_text}]}));
        let mut detailed = ToolResult::ok(&call, "ok");
        detailed.details = Some(json!([long_text]));
        let mut displayed = ToolResult::ok(&call, "ok");
        displayed.display = Some(long_text.clone());
        let image = Part::Image(Media::base64("image/png", long_text.as_str()));
        for message in [
            Message::human(long_text.as_str()),
            Message::human(vec![image]),
            Message::ai_calling("", [call.clone()]),
            Message::Tool(detailed),
            Message::Tool(displayed),
        ] {
            let bytes = of_message(&message);
            assert!((10_000..12_000).contains(&bytes), "{bytes}: {message:?}");
        }

        let mut state = AgentState::new("s");
        let empty = beside(&state);
        Arc::make_mut(&mut state.files).insert("a".into(), long_text.as_str().into());
        let with_file = beside(&state);
        assert!(with_file >= empty + 10_000);
        let mut pending = PendingCall::new("p".into(), "s".into(), call, "sure?".into());
        pending.context.push(long_text);
        state.pending.push(pending);
        assert!(beside(&state) >= with_file + 10_000);
    }
}
