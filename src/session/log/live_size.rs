//! The memory of the session that a log makes, estimated and updated with each record.

use std::sync::Arc;

use crate::message::Message;
use crate::session::record::Record;
use crate::session::size::{INFO, of_message, of_pending, of_todos};
use crate::session::{AgentState, MessageInfo, PendingCall, StoredSession};
use crate::util::json_size::JsonSize;

/// The memory of an entry in a list or map with its text, without the bytes of the text.
const ENTRY: usize = 160;

/// The memory of a session, in bytes. Replaced and removed items do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveSize {
    /// That of each message, with its metadata.
    messages: Vec<usize>,
    message_bytes: usize,
    /// That of calls that have started or ended.
    open_call_bytes: usize,
    input_id_bytes: usize,
    /// That of the inputs, and their number.
    input_bytes: usize,
    input_count: usize,
    todo_bytes: usize,
    file_bytes: usize,
    pending_bytes: usize,
    pending_count: usize,
    compaction_bytes: usize,
    about_bytes: usize,
}

impl LiveSize {
    /// Measures a session. After any records, the counted size is at least this.
    pub(super) fn of(session: &StoredSession) -> Self {
        let state = &session.state;
        let mut messages: Vec<_> = state.messages.iter().map(of_stored).collect();
        for (index, info) in state.infos.iter() {
            if let Some(size) = messages.get_mut(index) {
                *size += of_info(info);
            }
        }

        let mut size = Self {
            message_bytes: messages.iter().sum(),
            messages,
            open_call_bytes: of_ids(&session.started)
                + session
                    .ended
                    .iter()
                    .map(|ended| of_stored(ended))
                    .sum::<usize>(),
            input_id_bytes: of_ids(&session.input_ids),
            input_bytes: state.inputs.text_len() + state.inputs.len() * ENTRY,
            input_count: state.inputs.len(),
            todo_bytes: of_todos(&state.todos),
            compaction_bytes: state
                .compaction
                .as_ref()
                .map_or(0, |made| made.summary.len()),
            ..Self::default()
        };

        let files = state.files.iter();
        size.file_bytes = files.map(|(path, content)| of_file(path, content)).sum();
        size.about_bytes = of_texts([&state.user_id, &state.title, &state.cwd]);
        size.settle(session);
        size
    }

    pub(super) fn total(&self) -> usize {
        self.message_bytes
            + self.open_call_bytes
            + self.input_id_bytes
            + self.input_bytes
            + self.todo_bytes
            + self.file_bytes
            + self.pending_bytes
            + self.compaction_bytes
            + self.about_bytes
    }

    /// Counts a record that is about to be applied to a session with this state.
    pub(super) fn count(&mut self, record: &Record, state: &AgentState) {
        let added = added_size(record);
        match record {
            Record::Message { input_id, .. } => {
                self.messages.push(added);
                self.message_bytes += added;
                self.input_count += usize::from(input_id.is_some());
            }
            Record::MessageInfo { .. } => {
                if let Some(last) = self.messages.last_mut() {
                    *last += added;
                    self.message_bytes += added;
                }
            }
            Record::Truncated { messages } if *messages < self.messages.len() => {
                let removed_bytes = self.messages.drain(messages..).sum::<usize>();
                self.message_bytes -= removed_bytes;
            }
            Record::ToolStarted { .. } | Record::ToolEnded { .. } => self.open_call_bytes += added,
            Record::Input { .. } => self.input_id_bytes += added,
            Record::Inputs { change } => {
                let shared_count = change.keep().min(self.input_count);
                let kept_bytes =
                    self.input_bytes.checked_div(self.input_count).unwrap_or(0) * shared_count;
                self.input_bytes = kept_bytes + added;
                self.input_count = shared_count + change.len();
                self.input_id_bytes = 0;
            }
            Record::About { .. } => self.about_bytes = added,
            Record::Todos { .. } => self.todo_bytes = added,
            Record::File { path, .. } => {
                let old_content = state.files.get(path);
                let freed = old_content.map_or(0, |content| of_file(path, content));
                self.file_bytes = (self.file_bytes + added).saturating_sub(freed);
            }
            Record::Compaction { .. } => self.compaction_bytes = added,
            Record::Pending { calls } => {
                self.pending_bytes = added;
                self.pending_count = calls.len();
            }
            // Only the calls that go are measured: the others may be many.
            Record::Answered { ids } => {
                let calls = state.pending.iter();
                let answered_calls = calls.filter(|call| ids.contains(&call.id));
                for call in answered_calls {
                    self.pending_bytes -= of_pending_call(call);
                    self.pending_count -= 1;
                }
            }
            Record::Truncated { .. } | Record::ToolsSettled | Record::Unknown => {}
        }
    }

    /// Counts what a record has removed from the session to which it was applied.
    pub(super) fn settle(&mut self, session: &StoredSession) {
        if session.started.is_empty() && session.ended.is_empty() {
            self.open_call_bytes = 0;
        }

        let pending = &session.state.pending;
        if pending.len() != self.pending_count {
            self.pending_bytes = pending.iter().map(of_pending_call).sum();
            self.pending_count = pending.len();
        }
    }
}

/// The bytes that a record adds at most, the old ones of what it replaces not subtracted.
pub(super) fn added_size(record: &Record) -> usize {
    match record {
        Record::Message { message, input_id } => {
            let id = input_id.as_ref().map_or(0, |id| 2 * (id.len() + ENTRY));
            of_stored(message) + id
        }
        Record::MessageInfo { info } => of_info(info),
        Record::ToolStarted { call_id: id } | Record::Input { id } => id.len() + ENTRY,
        Record::ToolEnded { result } => of_stored(result),
        Record::Inputs { change } => change.text_len() + change.len() * ENTRY,
        Record::About {
            user_id,
            title,
            cwd,
        } => of_texts([user_id, title, cwd]),
        Record::Todos { todos } => of_todos(todos),
        Record::File { path, content } => {
            content.as_ref().map_or(0, |content| of_file(path, content))
        }
        Record::Compaction { compaction } => {
            compaction.as_ref().map_or(0, |made| made.summary.len())
        }
        Record::Pending { calls } => calls.iter().map(of_pending_call).sum(),
        Record::Truncated { .. }
        | Record::ToolsSettled
        | Record::Answered { .. }
        | Record::Unknown => 0,
    }
}

fn of_stored(message: &Message) -> usize {
    usize::try_from(of_message(message)).unwrap_or(usize::MAX)
}

fn of_info(info: &MessageInfo) -> usize {
    INFO + info.id.len() + info.model.len()
}

fn of_file(path: &str, content: &str) -> usize {
    path.len() + content.len() + ENTRY
}

fn of_ids(ids: &[Arc<str>]) -> usize {
    ids.iter().map(|id| id.len() + ENTRY).sum()
}

fn of_texts(texts: [&Option<Arc<str>>; 3]) -> usize {
    texts.into_iter().flatten().map(|text| text.len()).sum()
}

fn of_pending_call(call: &PendingCall) -> usize {
    let args = JsonSize::of(&call.call.args);
    of_pending(call) + args.memory + call.call.raw_args.as_ref().map_or(0, |raw| raw.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, Todo, ToolCall, ToolResult};
    use crate::model::{Compaction, ModelResponse};
    use crate::session::inputs::Inputs;

    fn text(rng: &mut fastrand::Rng) -> String {
        "x".repeat(rng.usize(..2_000))
    }

    fn pending(rng: &mut fastrand::Rng) -> PendingCall {
        let call = ToolCall::new("c", "t", serde_json::json!({"a": [text(rng)]}));
        PendingCall::new(rng.u8(..4).to_string().into(), "a".into(), call, text(rng))
    }

    fn random_record(rng: &mut fastrand::Rng, state: &AgentState) -> Record {
        let id = Arc::<str>::from(rng.u8(..4).to_string());
        let call = ToolCall::new(&*id, "t", serde_json::json!({}));
        let result = Arc::new(Message::Tool(ToolResult::ok(&call, text(rng))));
        match rng.u8(..14) {
            0 => Record::Message {
                message: result,
                input_id: None,
            },
            1..=3 => Record::Message {
                message: Arc::new(Message::human(text(rng))),
                input_id: rng.bool().then_some(id),
            },
            4 => Record::Truncated {
                messages: rng.usize(..=state.messages.len() + 1),
            },
            5 => Record::ToolStarted { call_id: id },
            6 => Record::ToolEnded { result },
            7 => Record::ToolsSettled,
            8 => Record::Todos {
                todos: Arc::new(vec![Todo::new("1", text(rng)); rng.usize(..3)]),
            },
            9 => Record::File {
                path: id,
                content: rng.bool().then(|| text(rng).into()),
            },
            10 => Record::Compaction {
                compaction: rng.bool().then(|| Compaction::new(text(rng), 0)),
            },
            11 => Record::Pending {
                calls: (0..rng.usize(..4)).map(|_| pending(rng)).collect(),
            },
            12 => Record::Answered { ids: vec![id] },
            _ => Record::Inputs {
                change: state.inputs.since(&Inputs::default(), 0),
            },
        }
    }

    #[test]
    fn size_after_any_records_is_that_of_the_session() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut session = StoredSession::new(AgentState::new("a"));
            let mut size = LiveSize::default();
            for _ in 0..60 {
                let record = random_record(&mut rng, &session.state);
                let text = format!("{record:?}");
                size.count(&record, &session.state);
                session.apply(record);
                size.settle(&session);
                let expected = LiveSize::of(&session);

                // Inputs that came with messages count with them, and calls until all have ended.
                let of_inputs =
                    |size: &LiveSize| size.message_bytes + size.input_bytes + size.input_id_bytes;
                let of_others =
                    |size: &LiveSize| size.total() - size.open_call_bytes - of_inputs(size);
                assert!(size.total() >= expected.total(), "{text}");
                assert_eq!(of_others(&size), of_others(&expected), "{text}");
                assert!(
                    of_inputs(&size) <= of_inputs(&expected) + 60 * 2 * (ENTRY + 1),
                    "{text}"
                );
                assert!(
                    size.open_call_bytes <= expected.open_call_bytes + 60 * 4_000,
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn metadata_counts_with_its_message() {
        let mut response = ModelResponse::new("");
        response.model = "m".repeat(1_000).into();
        let info = Arc::new(MessageInfo::of(&response, uuid::Uuid::nil()));
        let mut session = StoredSession::new(AgentState::new("a"));
        let mut size = LiveSize::default();
        let message = Arc::new(Message::ai("Hi"));
        for record in [
            Record::Message {
                message,
                input_id: None,
            },
            Record::MessageInfo { info },
        ] {
            size.count(&record, &session.state);
            session.apply(record);
        }
        assert!(size.total() > 1_000);
        assert_eq!(size.total(), LiveSize::of(&session).total());
        size.count(&Record::Truncated { messages: 0 }, &session.state);
        assert_eq!(size.total(), 0);
    }
}
