//! The memory of a session, estimated and updated with each record.

use std::collections::HashSet;
use std::mem::size_of;
use std::slice;
use std::sync::Arc;

use crate::message::{Message, Messages, Todo, message_size};
use crate::model::Compaction;
use crate::util::json_size::JsonSize;

use super::agent_state::{AgentState, PendingCall};
use super::inputs::Inputs;
use super::message_info::MessageInfo;
use super::record::Record;
use super::stored::StoredSession;

/// The overhead of a shared value: its counters, and the overhead of the allocator.
const SHARED_OVERHEAD: usize = 32;

/// The overhead of an entry in a map.
const MAP_OVERHEAD: usize = 24;

/// The memory of an entry in a list or map with its text, without the bytes of the text.
const TEXT_ENTRY: usize = 160;

/// The memory of the metadata of a message, without its texts.
const INFO: usize = size_of::<MessageInfo>() + SHARED_OVERHEAD + MAP_OVERHEAD;

/// The memory of a session, in bytes. Replaced and removed items do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionSize {
    /// The memory of each message.
    messages: Vec<usize>,
    message_bytes: usize,
    info_bytes: usize,
    /// The memory of calls that have started or ended, until all have ended.
    open_call_bytes: usize,
    input_id_bytes: usize,
    /// The memory of the inputs when they were last set. Inputs that are added with messages count
    /// with these messages.
    input_bytes: usize,
    /// The number of inputs, with those that were added with messages.
    input_count: usize,
    todo_bytes: usize,
    file_bytes: usize,
    pending_bytes: usize,
    pending_count: usize,
    compaction_bytes: usize,
    /// The memory of the user, the title, the working directory and the parent.
    about_bytes: usize,
}

impl SessionSize {
    /// Measures a session from its values. The size that was updated with each record is at least
    /// this, apart from differences in the lengths of the ids of inputs.
    #[cfg(test)]
    pub(super) fn of(session: &StoredSession) -> Self {
        Self::default().of_next(&Messages::default(), session)
    }

    /// Measures a session that takes the place of one with this size and these messages. Messages
    /// that both share are not measured again.
    pub(super) fn of_next(self, old_messages: &Messages, session: &StoredSession) -> Self {
        let state = &session.state;
        let shared_len = state.messages.shared_prefix(old_messages);
        let mut messages = self.messages;
        let removed_bytes = messages
            .drain(shared_len.min(messages.len())..)
            .sum::<usize>();
        let mut size = Self {
            message_bytes: self.message_bytes - removed_bytes,
            messages,
            ..Self::default()
        };

        let messages = state.messages.iter().skip(shared_len);
        messages.for_each(|message| size.add_message(message));
        state.infos.iter().for_each(|(_, info)| size.add_info(info));
        let ended_results = session.ended.iter();
        ended_results.for_each(|result| size.add_ended(result));
        session.started.iter().for_each(|id| size.add_started(id));
        state.todos.iter().for_each(|todo| size.add_todo(todo));
        state.pending.iter().for_each(|call| size.add_pending(call));
        let files = state.files.iter();
        files.for_each(|(path, content)| size.add_file(path, content));
        size.set_inputs(&state.inputs);
        size.set_input_ids(&session.input_ids);
        size.set_compaction(state.compaction.as_ref());
        size.set_about(state);
        size
    }

    pub(super) fn add_message(&mut self, message: &Message) {
        let size = message_size(message);
        self.messages.push(size);
        self.message_bytes += size;
    }

    pub(super) fn add_info(&mut self, info: &MessageInfo) {
        self.info_bytes += of_info(info);
    }

    pub(super) fn add_started(&mut self, call_id: &str) {
        self.open_call_bytes += of_id(call_id);
    }

    pub(super) fn add_ended(&mut self, result: &Message) {
        self.open_call_bytes += message_size(result);
    }

    pub(super) fn add_todo(&mut self, todo: &Todo) {
        self.todo_bytes += of_todos(slice::from_ref(todo));
    }

    pub(super) fn add_file(&mut self, path: &str, content: &str) {
        self.file_bytes += of_file(path, content);
    }

    pub(super) fn add_pending(&mut self, call: &PendingCall) {
        self.pending_bytes += of_pending(call);
        self.pending_count += 1;
    }

    pub(super) fn set_inputs(&mut self, inputs: &Inputs) {
        self.input_bytes = inputs.text_len() + inputs.len() * TEXT_ENTRY;
        self.input_count = inputs.len();
    }

    pub(super) fn set_input_ids(&mut self, ids: &[Arc<str>]) {
        self.input_id_bytes = ids.iter().map(|id| of_id(id)).sum();
    }

    pub(super) fn set_compaction(&mut self, compaction: Option<&Compaction>) {
        self.compaction_bytes = compaction.map_or(0, of_compaction);
    }

    pub(super) fn set_about(&mut self, state: &AgentState) {
        self.about_bytes = of_texts([&state.user_id, &state.title, &state.cwd, &state.parent]);
    }

    pub(super) fn total(&self) -> usize {
        self.message_bytes
            + self.info_bytes
            + self.open_call_bytes
            + self.input_id_bytes
            + self.input_bytes
            + self.todo_bytes
            + self.file_bytes
            + self.pending_bytes
            + self.compaction_bytes
            + self.about_bytes
    }

    /// Applies a record to the session with this size.
    pub(super) fn apply(&mut self, session: &mut StoredSession, record: Record) {
        self.count(&record, &session.state);
        session.apply(record);
        self.count_removed(session);
    }

    /// Counts a record that is about to be applied to a session with this state.
    fn count(&mut self, record: &Record, state: &AgentState) {
        let added = added_size(record);
        match record {
            Record::Message { input_id, .. } => {
                self.messages.push(added);
                self.message_bytes += added;
                self.input_count += usize::from(input_id.is_some());
            }
            Record::MessageInfo { .. } => {
                let last = state.messages.len().checked_sub(1);
                let replaced = last.and_then(|last| state.infos.get(last));
                let freed = replaced.map_or(0, |info| of_info(info));
                self.info_bytes = (self.info_bytes + added).saturating_sub(freed);
            }
            Record::Truncated { messages } if *messages < self.messages.len() => {
                let removed_bytes = self.messages.drain(messages..).sum::<usize>();
                self.message_bytes -= removed_bytes;
                let freed = state.infos.after(*messages).map(of_info).sum();
                self.info_bytes = self.info_bytes.saturating_sub(freed);
            }
            Record::ToolStarted { .. } | Record::ToolEnded { .. } => self.open_call_bytes += added,
            Record::Input { .. } => self.input_id_bytes += added,
            Record::Inputs { change } => {
                // The sizes of single inputs are not stored: those that stay count with the mean.
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
                let ids: HashSet<_> = ids.iter().collect();
                let calls = state.pending.iter();
                for call in calls.filter(|call| ids.contains(&call.id)) {
                    self.pending_bytes = self.pending_bytes.saturating_sub(of_pending(call));
                    self.pending_count = self.pending_count.saturating_sub(1);
                }
            }
            Record::Truncated { .. } | Record::ToolsSettled | Record::Unknown => {}
        }
    }

    /// Counts what a record has removed from the session to which it was applied.
    fn count_removed(&mut self, session: &StoredSession) {
        if session.started.is_empty() && session.ended.is_empty() {
            self.open_call_bytes = 0;
        }

        let pending = &session.state.pending;
        if pending.len() != self.pending_count {
            self.pending_bytes = pending.iter().map(of_pending).sum();
            self.pending_count = pending.len();
        }
    }
}

/// Returns the maximum number of bytes that a record adds, without subtracting the bytes that it
/// replaces.
pub(super) fn added_size(record: &Record) -> usize {
    match record {
        Record::Message { message, input_id } => {
            // In the inputs of the state, and in `input_ids`.
            let id = input_id.as_ref().map_or(0, |id| 2 * of_id(id));
            message_size(message) + id
        }
        Record::MessageInfo { info } => of_info(info),
        Record::ToolStarted { call_id: id } | Record::Input { id } => of_id(id),
        Record::ToolEnded { result } => message_size(result),
        Record::Inputs { change } => change.text_len() + change.len() * TEXT_ENTRY,
        Record::About {
            user_id,
            title,
            cwd,
            parent,
        } => of_texts([user_id, title, cwd, parent]),
        Record::Todos { todos } => of_todos(todos),
        Record::File { path, content } => {
            content.as_ref().map_or(0, |content| of_file(path, content))
        }
        Record::Compaction { compaction } => compaction.as_ref().map_or(0, of_compaction),
        Record::Pending { calls } => calls.iter().map(of_pending).sum(),
        Record::Truncated { .. }
        | Record::ToolsSettled
        | Record::Answered { .. }
        | Record::Unknown => 0,
    }
}

fn of_info(info: &MessageInfo) -> usize {
    let reason = info.stop_reason.as_ref();
    let reason_len = reason.map_or(0, |reason| reason.as_str().len());
    INFO + info.id.len() + info.model.len() + reason_len
}

pub(super) fn of_id(id: &str) -> usize {
    id.len() + TEXT_ENTRY
}

fn of_file(path: &str, content: &str) -> usize {
    path.len() + content.len() + TEXT_ENTRY
}

fn of_compaction(compaction: &Compaction) -> usize {
    compaction.summary.len()
}

fn of_texts(texts: [&Option<Arc<str>>; 4]) -> usize {
    texts.into_iter().flatten().map(|text| text.len()).sum()
}

fn of_todos(todos: &[Todo]) -> usize {
    todos
        .iter()
        .map(|todo| size_of_val(todo) + todo.title.len() + todo.id.len() + SHARED_OVERHEAD)
        .sum()
}

/// Returns the size of a pending call, in bytes. Its arguments count, although they may be
/// shared with a message: a call that was read from a log has its own.
pub(super) fn of_pending(pending: &PendingCall) -> usize {
    let call = &pending.call;
    let own_ids = [&pending.id, &pending.session_id, &pending.args_hash];
    let id_sizes = own_ids
        .into_iter()
        .chain([&call.id, &call.name])
        .chain(&pending.agent)
        .chain(&pending.agent_id)
        .chain(&pending.input_prompt)
        .map(|text| text.len() + SHARED_OVERHEAD);
    let context = pending.context.iter();
    let context_sizes = context.map(|text| size_of_val(text) + text.len());
    let raw = call.raw_args.as_ref().map_or(0, |raw| raw.len());
    let extra = call.extra.as_ref().map_or(0, |extra| extra.raw.get().len());
    let texts = pending.question.len() + id_sizes.chain(context_sizes).sum::<usize>();
    size_of_val(pending) + texts + JsonSize::of(&call.args).memory + raw + extra
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Media, Part, ToolCall, ToolResult};
    use crate::model::ModelResponse;

    fn text(rng: &mut fastrand::Rng) -> String {
        "x".repeat(rng.usize(..2_000))
    }

    fn pending(rng: &mut fastrand::Rng) -> PendingCall {
        let call = ToolCall::new("c", "t", json!({"a": [text(rng)]}));
        PendingCall::new(rng.u8(..4).to_string().into(), "a".into(), call, text(rng))
    }

    fn random_record(rng: &mut fastrand::Rng, state: &AgentState) -> Record {
        let id = Arc::<str>::from(rng.u8(..4).to_string());
        let call = ToolCall::new(&*id, "t", json!({}));
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
            let mut size = SessionSize::default();
            for _ in 0..60 {
                let record = random_record(&mut rng, &session.state);
                let text = format!("{record:?}");
                size.apply(&mut session, record);
                let expected = SessionSize::of(&session);

                // Inputs that came with messages count with them, and calls until all have ended.
                let of_inputs = |size: &SessionSize| {
                    size.message_bytes + size.input_bytes + size.input_id_bytes
                };
                let of_others =
                    |size: &SessionSize| size.total() - size.open_call_bytes - of_inputs(size);
                assert!(size.total() >= expected.total(), "{text}");
                assert_eq!(of_others(&size), of_others(&expected), "{text}");
                assert!(
                    of_inputs(&size) <= of_inputs(&expected) + 60 * 2 * (TEXT_ENTRY + 1),
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
        let mut size = SessionSize::default();
        let message = Arc::new(Message::ai("Hi"));
        for record in [
            Record::Message {
                message,
                input_id: None,
            },
            Record::MessageInfo { info },
        ] {
            size.apply(&mut session, record);
        }
        assert!(size.total() > 1_000);
        assert_eq!(size.total(), SessionSize::of(&session).total());
        size.apply(&mut session, Record::Truncated { messages: 0 });
        assert_eq!(size.total(), 0);
    }

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
            let bytes = message_size(&message);
            assert!((10_000..12_000).contains(&bytes), "{bytes}: {message:?}");
        }

        let mut state = AgentState::new("s");
        let total =
            |state: &AgentState| SessionSize::of(&StoredSession::new(state.clone())).total();
        let empty = total(&state);
        Arc::make_mut(&mut state.files).insert("a".into(), long_text.as_str().into());
        let with_file = total(&state);
        assert!(with_file >= empty + 10_000);
        let mut pending = PendingCall::new("p".into(), "s".into(), call, "sure?".into());
        pending.context.push(long_text);
        state.pending.push(pending);
        assert!(total(&state) >= with_file + 10_000);
    }

    #[test]
    fn session_that_shares_messages_is_measured_as_a_new_one() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut session = StoredSession::new(AgentState::new("a"));
        let mut size = SessionSize::default();
        for _ in 0..200 {
            let mut next = session.clone();
            for _ in 0..rng.usize(..4) {
                next.apply(random_record(&mut rng, &next.state));
            }
            size = size.of_next(&session.state.messages, &next);
            assert_eq!(size.total(), SessionSize::of(&next).total());
            session = next;
        }
    }
}
