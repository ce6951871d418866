//! The conversation as snapshots show it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::message::{Message, Role, Todo, ToolCall, message_size};
use crate::session::{AgentState, PendingCall};
use crate::util::json::json_len;
use crate::util::json_size::escaped_len;

use super::encoder::EncoderOptions;

/// The number of removed messages from which a new chunk begins: a change copies one chunk for the
/// readers that share it.
const CHUNK: usize = 256;

/// The thread before the run, its input, and the messages of the run so far.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// `None` if the conversation before the run is unknown.
    before: Option<AgentState>,
    input: Vec<(Arc<str>, Arc<Message>)>,
    /// The first messages of the run, which its log no longer has, in chunks. The readers share all
    /// chunks that have not changed since.
    removed: Vec<Arc<Vec<ShownMessage>>>,
    messages: Vec<ShownMessage>,
    todos: Arc<Vec<Todo>>,
    files: BTreeSet<Arc<str>>,
    /// The size of the paths as a list of JSON, in bytes.
    files_len: usize,
    pending: Arc<Vec<PendingCall>>,
    /// The size of all messages and of the paths in bytes, as estimated.
    size: usize,
}

/// One message with the id under which readers know it.
#[derive(Clone, Debug)]
pub(super) struct ShownMessage {
    pub(super) id: Arc<str>,
    /// The id of the message in the stream; nil for messages from before the run.
    pub(super) uuid: Uuid,
    pub(super) subagent: Option<Arc<str>>,
    pub(super) message: Arc<Message>,
}

impl History {
    pub(super) fn new(options: EncoderOptions) -> Self {
        let mut history = Self {
            input: options.input,
            ..Self::default()
        };
        if let Some(mut state) = options.state {
            history.set_state(&state);
            // Only the paths are shown, and `pending` has the calls.
            state.files = Arc::default();
            state.pending = Vec::new();
            history.before = Some(state);
        }
        history.size += history.measured_size();
        history
    }

    /// Creates the history of a run whose messages are unknown.
    pub(super) fn of_state(state: AgentState) -> Self {
        Self::new(EncoderOptions {
            state: Some(state),
            ..EncoderOptions::default()
        })
    }

    /// Takes over the tasks, the files and the pending calls.
    pub(super) fn set_state(&mut self, state: &AgentState) {
        self.todos = state.todos.clone();
        for path in state.files.keys() {
            self.add_file(path.clone());
        }
        self.pending = Arc::new(state.pending.clone());
    }

    pub(super) fn set_todos(&mut self, todos: &[Todo]) {
        self.todos = Arc::new(todos.to_vec());
    }

    pub(super) fn add_files(&mut self, paths: &[String]) {
        for path in paths {
            self.add_file(path.as_str().into());
        }
    }

    fn add_file(&mut self, path: Arc<str>) {
        let len = escaped_len(&path) + r#""","#.len();
        if self.files.insert(path) {
            self.size += len;
            self.files_len += len;
        }
    }

    pub(super) fn add(&mut self, message: ShownMessage) {
        self.size += message_size(&message.message);
        self.messages.push(message);
    }

    /// Moves the messages so far to the messages that the readers share. Drops messages of
    /// subagents, but keeps the results of their calls.
    pub(super) fn share(&mut self) {
        let size = &mut self.size;
        self.messages
            .retain(|message| message.subagent.is_none() || removed_from(size, message));
        for message in self.messages.drain(..) {
            match self.removed.last_mut() {
                Some(chunk) if chunk.len() < CHUNK => Arc::make_mut(chunk).push(message),
                _ => self.removed.push(Arc::new(vec![message])),
            }
        }
    }

    /// Removes the messages that another message replaces. Returns `false` if there were none.
    pub(super) fn remove(&mut self, uuids: &[Uuid]) -> bool {
        if uuids.is_empty() {
            return false;
        }
        let is_replaced = |message: &ShownMessage| uuids.contains(&message.uuid);
        let size = &mut self.size;
        let mut has_replaced = false;
        for chunk in &mut self.removed {
            if chunk.iter().any(is_replaced) {
                has_replaced = true;
                Arc::make_mut(chunk)
                    .retain(|message| !is_replaced(message) || removed_from(size, message));
            }
        }
        let count = self.messages.len();
        self.messages
            .retain(|message| !is_replaced(message) || removed_from(size, message));
        has_replaced || self.messages.len() < count
    }

    /// Returns the messages of the run so far.
    fn of_run(&self) -> impl DoubleEndedIterator<Item = &ShownMessage> {
        let removed = self.removed.iter().flat_map(|chunk| chunk.iter());
        removed.chain(&self.messages)
    }

    pub(super) fn todos(&self) -> &[Todo] {
        &self.todos
    }

    /// Returns the paths of the files that were written, changed or removed.
    pub(super) fn files(&self) -> &BTreeSet<Arc<str>> {
        &self.files
    }

    pub(super) fn pending(&self) -> &[PendingCall] {
        &self.pending
    }

    /// Returns the tasks and files as JSON.
    pub(super) fn state(&self) -> Value {
        json!({"todos": &*self.todos, "files": &self.files})
    }

    /// Returns the size of the tasks and files as JSON, in bytes.
    pub(super) fn state_len(&self) -> usize {
        r#"{"files":[],"todos":}"#.len() + self.files_len + json_len(&*self.todos)
    }

    /// Returns the newest call of the conversation with this id.
    pub(super) fn call(&self, id: &str) -> Option<&ToolCall> {
        let of_run = self.of_run().rev().map(|shown| &shown.message);
        let before = self
            .before
            .iter()
            .flat_map(|state| state.messages.as_slice().iter().rev());
        of_run
            .chain(before)
            .flat_map(|message| message.tool_calls())
            .find(|call| *call.id == *id)
    }

    /// Returns the estimated size of all messages and of the paths in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of entries that no other reader shares.
    pub(super) fn entry_count(&self) -> usize {
        self.messages.len() + self.files.len()
    }

    /// Returns the size of the paths in bytes.
    pub(super) fn files_len(&self) -> usize {
        self.files_len
    }

    /// Estimates the size of all messages in bytes.
    fn measured_size(&self) -> usize {
        let before = self
            .before
            .iter()
            .flat_map(|state| state.messages.as_slice());
        let input = self.input.iter().map(|(_, message)| message);
        let of_run = self.of_run().map(|shown| &shown.message);
        before
            .chain(input)
            .chain(of_run)
            .map(|message| message_size(message))
            .sum()
    }

    /// Returns all messages in order; `None` if those before the run are unknown.
    pub(super) fn messages(&self) -> Option<Vec<ShownMessage>> {
        let before = self.before.as_ref()?;
        let mut input_ids: Vec<Option<&Arc<str>>> = vec![None; before.messages.len()];
        for (id, start) in before.inputs.starts() {
            if let Some(place) = input_ids.get_mut(start) {
                *place = Some(id);
            }
        }

        let earlier = before
            .messages
            .as_slice()
            .iter()
            .enumerate()
            .map(|(index, message)| {
                let info = before.message_info(index);
                let id = match message.role() {
                    Role::Tool => message
                        .as_tool_result()
                        .map(|result| format!("{}.result", result.tool_call_id).into()),
                    Role::Assistant => info.map(|info| match &*info.id {
                        "" => info.uuid.to_string().into(),
                        _ => info.id.clone(),
                    }),
                    _ => input_ids[index].cloned(),
                };
                (id, message)
            });
        let mut messages: Vec<ShownMessage> = Vec::new();
        for (index, (id, message)) in earlier.enumerate() {
            let unnamed = || format!("{}.{index}", before.thread_id).into();
            messages.push(shown_message(id.unwrap_or_else(unnamed), message));
        }
        messages.extend(
            self.input
                .iter()
                .map(|(id, message)| shown_message(id.clone(), message)),
        );
        // The run of a repeated input emits the response that the thread has already.
        let known_ids: HashSet<Uuid> = before.message_infos().map(|(_, info)| info.uuid).collect();
        let is_new =
            |shown: &&ShownMessage| shown.uuid.is_nil() || !known_ids.contains(&shown.uuid);
        messages.extend(self.of_run().filter(is_new).cloned());
        Some(messages)
    }
}

/// Takes a message out of the size. Returns `false`: it is not retained.
fn removed_from(size: &mut usize, message: &ShownMessage) -> bool {
    *size -= message_size(&message.message);
    false
}

fn shown_message(id: Arc<str>, message: &Arc<Message>) -> ShownMessage {
    ShownMessage {
        id,
        uuid: Uuid::nil(),
        subagent: None,
        message: message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Messages;
    use crate::model::ModelResponse;
    use crate::session::MessageInfo;

    fn message(text: &str, subagent: Option<&str>) -> ShownMessage {
        let mut message = shown_message(text.into(), &Arc::new(Message::ai(text)));
        message.uuid = Uuid::from_u128(text.len() as u128);
        message.subagent = subagent.map(Arc::from);
        message
    }

    #[test]
    fn removed_messages_are_those_of_the_agent_and_are_shared() {
        let mut history = History::new(EncoderOptions::new("r").with_state(AgentState::new("s")));
        history.add(message("a", None));
        history.add(message("child", Some("call.1")));
        history.share();
        let mut reader = history.clone();
        reader.add(message("bb", None));
        assert!(Arc::ptr_eq(&reader.removed[0], &history.removed[0]));
        let texts = |history: &History| {
            let messages = history.messages().unwrap();
            messages
                .iter()
                .map(|shown| shown.message.text().into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(&reader), ["a", "bb"]);

        assert!(!reader.remove(&[Uuid::from_u128(9)]));
        assert!(Arc::ptr_eq(&reader.removed[0], &history.removed[0]));
        assert!(reader.remove(&[Uuid::from_u128(1)]));
        assert_eq!(texts(&reader), ["bb"]);
        assert_eq!(texts(&history), ["a"]);
    }

    #[test]
    fn removal_copies_at_most_the_last_chunk_that_a_reader_shares() {
        let mut history = History::new(EncoderOptions::new("r").with_state(AgentState::new("s")));
        let share = |history: &mut History, count: usize| {
            for _ in 0..count {
                history.add(message("a", None));
                history.share();
            }
        };
        share(&mut history, 3 * CHUNK + 1);
        let mut reader = history.clone();
        share(&mut history, CHUNK);
        let shares = |reader: &History, index: usize| {
            Arc::ptr_eq(&reader.removed[index], &history.removed[index])
        };
        let shared: Vec<_> = (0..4).map(|index| shares(&reader, index)).collect();
        assert_eq!(shared, [true, true, true, false]);
        assert_eq!(reader.messages().unwrap().len(), 3 * CHUNK + 1);
        assert_eq!(history.messages().unwrap().len(), 4 * CHUNK + 1);

        reader.add(message("bb", None));
        reader.share();
        assert!(reader.remove(&[Uuid::from_u128(2)]));
        assert!((0..3).all(|index| shares(&reader, index)));
    }

    #[test]
    fn response_that_the_thread_has_already_is_shown_once() {
        let mut state = AgentState::new("s");
        state.messages = Messages::from("Go").ai("a");
        let info = MessageInfo::of(&ModelResponse::new("a"), Uuid::from_u128(1));
        state.set_last_info(Arc::new(info));
        let mut history = History::new(EncoderOptions::new("r").with_state(state));
        history.add(message("a", None));
        assert_eq!(history.messages().unwrap().len(), 2);
        history.add(message("bb", None));
        assert_eq!(history.messages().unwrap().len(), 3);
    }

    #[test]
    fn size_is_that_of_all_messages_and_paths_after_each_change() {
        let mut state = AgentState::new("s");
        state.messages = Messages::from("x".repeat(1_000));
        state.files = Arc::new([("/a".into(), "content".into())].into());
        let options = EncoderOptions::new("r").with_state(state.clone());
        let mut history = History::new(options.with_input("i", Message::human("input")));
        let check = |history: &History, paths: usize| {
            assert_eq!(history.size(), history.measured_size() + paths);
        };
        check(&history, 5);
        history.add(message("a", None));
        history.add(message("child", Some("call.1")));
        check(&history, 5);
        history.share();
        history.add(message("bb", None));
        check(&history, 5);
        history.remove(&[Uuid::from_u128(1), Uuid::from_u128(2)]);
        check(&history, 5);
        history.add_files(&["/a".to_owned(), "/bb".to_owned()]);
        history.set_state(&state);
        check(&history, 11);
        assert_eq!(history.state_len(), history.state().to_string().len() + 1);
    }
}
