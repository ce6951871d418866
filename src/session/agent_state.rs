//! [`AgentState`], the state of one conversation, and its pending calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::message::{Message, Messages, Repairs, Todo, ToolCall};
use crate::model::{Compaction, ModelResponse, SystemPrompt};
use crate::tool::{StateView, Tool};
use crate::usage::Usage;
use crate::util::Values;
use crate::util::hash::fnv1a;
use crate::util::lenient::or_default;

use super::inputs::Inputs;
use super::message_info::{Infos, MessageInfo};

pub(crate) type Files = BTreeMap<Arc<str>, Arc<str>>;

/// Returns the difference between two maps of files: each changed path with its new content, or
/// `None` if the file was removed.
pub(crate) fn changed_files<'a>(
    before: &'a Files,
    after: &'a Files,
) -> impl Iterator<Item = (&'a Arc<str>, Option<&'a Arc<str>>)> {
    let is_known = |path: &Arc<str>, content: &Arc<str>| {
        let old_content = before.get(path);
        old_content
            .is_some_and(|old_content| Arc::ptr_eq(old_content, content) || old_content == content)
    };
    let removed = before.keys().filter(|path| !after.contains_key(*path));
    let written_files = after
        .iter()
        .filter(move |(path, content)| !is_known(path, content));
    removed
        .map(|path| (path, None))
        .chain(written_files.map(|(path, content)| (path, Some(content))))
}

/// The state of one conversation: the data that hooks read and change, and that a store saves.
///
/// JSON: `thread_id`, `user_id?`, `title?`, `cwd?`, `parent?`, `messages`, `todos?`, `files?`,
/// `compaction?`, `pending?`, `inputs?`, `infos?`; the other fields belong to one run and are not
/// saved. Clones share the history, the task list, the files and the metadata, so that a clone is
/// cheap, however long the history is.
///
/// ```
/// use agentcore::AgentState;
///
/// let mut state = AgentState::new("th_8f3a2b");
/// state.messages = "hello".into();
/// assert_eq!(
///     serde_json::to_string(&state)?,
///     r#"{"thread_id":"th_8f3a2b","messages":[{"role":"user","content":"hello"}]}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentState {
    /// The session's id.
    #[serde(default)]
    pub thread_id: Arc<str>,
    /// The id of the session's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Arc<str>>,
    /// The title for lists; without one, they show the user's first input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// The working directory of the agent that began the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Arc<str>>,
    /// The session whose run began this session, if this is the session of a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    /// The whole history.
    #[serde(default, deserialize_with = "or_default")]
    pub messages: Messages,
    /// The task list.
    #[serde(default = "no_todos", skip_serializing_if = "is_empty_list")]
    pub todos: Arc<Vec<Todo>>,
    /// The files that the tools for files wrote: paths with their contents.
    #[serde(default = "no_files", skip_serializing_if = "is_empty_map")]
    pub files: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    /// The summary that replaces the history's beginning in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The pending calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
    /// The inputs with ids, and their positions.
    #[serde(default, skip_serializing_if = "Inputs::is_empty")]
    pub(crate) inputs: Inputs,
    /// The metadata of the responses.
    #[serde(default, skip_serializing_if = "Infos::is_empty")]
    pub(crate) infos: Infos,

    /// The system prompt of this run. The model receives the sections that the `before_agent` hooks
    /// leave here. A section that they do not change here is sent as
    /// [`RunContext::system`](crate::RunContext::system) has it. The sections of a state that a
    /// hook has loaded or created are added to the prompt of the run.
    #[serde(skip)]
    pub system_prompt: SystemPrompt,
    /// True in the state of a run, which has the run's prompt. False in a state that a hook has
    /// loaded or created.
    #[serde(skip)]
    pub(crate) is_of_run: bool,
    /// The values of this run, from the caller and from hooks and tools.
    #[serde(skip)]
    pub values: Values,
    /// The run's last response; set in `after_agent`.
    #[serde(skip)]
    pub response: Option<Arc<ModelResponse>>,
    /// The messages this run added to the history; set in `after_agent`.
    #[serde(skip)]
    pub output_messages: Messages,
    /// The usage of this run; set in `after_agent`.
    #[serde(skip)]
    pub usage: Option<Usage>,
    #[serde(skip)]
    pub(crate) tools: Vec<Arc<dyn Tool>>,
}

impl Default for AgentState {
    fn default() -> Self {
        Self {
            thread_id: Arc::default(),
            user_id: None,
            title: None,
            cwd: None,
            parent: None,
            messages: Messages::default(),
            todos: no_todos(),
            files: no_files(),
            compaction: None,
            pending: Vec::new(),
            inputs: Inputs::default(),
            infos: Infos::default(),
            system_prompt: SystemPrompt::default(),
            is_of_run: false,
            values: Values::default(),
            response: None,
            output_messages: Messages::default(),
            usage: None,
            tools: Vec::new(),
        }
    }
}

impl AgentState {
    /// Creates an empty conversation.
    pub fn new(thread_id: impl Into<Arc<str>>) -> Self {
        Self {
            thread_id: thread_id.into(),
            ..Self::default()
        }
    }

    /// Returns the part that a store saves: the state without the fields of one run.
    #[must_use]
    pub fn stored(&self) -> Self {
        Self {
            thread_id: self.thread_id.clone(),
            user_id: self.user_id.clone(),
            title: self.title.clone(),
            cwd: self.cwd.clone(),
            parent: self.parent.clone(),
            messages: self.messages.clone(),
            todos: self.todos.clone(),
            files: self.files.clone(),
            compaction: self.compaction.clone(),
            pending: self.pending.clone(),
            inputs: self.inputs.clone(),
            infos: self.infos.clone(),
            ..Self::default()
        }
    }

    /// Adds a tool for this run. Call it in [`Hook::before_agent`](crate::Hook::before_agent). The
    /// tool takes precedence over the agent's own tool of the same name, and is removed when the
    /// run ends or the hook fails.
    pub fn register_tool(&mut self, tool: impl Tool) {
        self.tools.push(Arc::new(tool));
    }

    /// Returns the metadata of the assistant message at this position of the history. Returns
    /// `None` if no run has stored the message, or a hook has moved or changed it.
    pub fn message_info(&self, message: usize) -> Option<&MessageInfo> {
        self.infos.get(message).map(|info| &**info)
    }

    /// Returns the metadata of all assistant messages, with their positions in the history, in
    /// order.
    pub fn message_infos(&self) -> impl DoubleEndedIterator<Item = (usize, &MessageInfo)> {
        self.infos.iter().map(|(message, info)| (message, &**info))
    }

    /// Stores the metadata of the last message, if that is a response.
    pub(crate) fn set_last_info(&mut self, info: Arc<MessageInfo>) {
        if let Some(Message::Assistant(_)) = self.messages.last() {
            self.infos.put(self.messages.len() - 1, info);
        }
    }

    /// Keeps the data stored by position in the history only where `old_messages` has the same
    /// message at that position.
    pub(crate) fn retain_positions(&mut self, old_messages: &Messages) {
        let shared_len = self.messages.shared_prefix(old_messages);
        self.inputs
            .clear_positions_after(shared_len, self.messages.len());
        self.retain_infos(old_messages);
    }

    /// Keeps the metadata of the responses that are at the same position in `old_messages`.
    pub(crate) fn retain_infos(&mut self, old_messages: &Messages) {
        let now = self.messages.as_slice();
        let old_messages = old_messages.as_slice();
        self.infos
            .retain(|at| match (now.get(at), old_messages.get(at)) {
                (Some(now), Some(old)) => Arc::ptr_eq(now, old),
                _ => false,
            });
    }

    /// Marks the last message of the history as the response to all inputs without one, if it is a
    /// complete response.
    pub(crate) fn settle_inputs(&mut self) {
        let last = self.messages.len().checked_sub(1);
        let info = last.and_then(|last| self.infos.get(last));
        if !info.is_some_and(|info| info.is_incomplete()) {
            self.inputs.record_response(&self.messages);
        }
    }

    /// Adds the changes that were made through a context while a hook ran: the difference between
    /// `given`, the state that the hook received, and `live`, the state of the run. Changes of the
    /// hook itself, in this state, take precedence. A state that the hook has loaded or created
    /// also gets the prompt of `given`.
    pub(crate) fn adopt(&mut self, given: &Self, live: &Self) {
        if Arc::ptr_eq(&self.todos, &given.todos) {
            self.todos = live.todos.clone();
        }
        if Arc::ptr_eq(&self.files, &given.files) {
            self.files = live.files.clone();
        }
        self.values.adopt(&given.values, &live.values);
        if !self.is_of_run {
            let given_prompt = given.system_prompt.clone();
            let own_prompt = std::mem::replace(&mut self.system_prompt, given_prompt);
            for section in own_prompt.sections() {
                let (id, text) = (section.id.clone(), section.text.clone());
                self.system_prompt.set(id, text, section.stability);
            }
            self.is_of_run = true;
        }
    }

    /// Drops the compaction if the messages that it covers differ from those in `before`. Returns
    /// `true` if it was dropped.
    pub(crate) fn drop_stale_compaction(&mut self, before: &Messages) -> bool {
        let covered_count = self
            .compaction
            .as_ref()
            .map_or(0, |compaction| compaction.through_message);
        let is_stale = self.messages.shared_prefix(before) < covered_count.min(before.len());
        if is_stale {
            self.compaction = None;
        }
        is_stale
    }

    /// Returns the ids of the pending calls.
    pub(crate) fn pending_call_ids(&self) -> Vec<Arc<str>> {
        self.pending
            .iter()
            .map(|call| call.call.id.clone())
            .collect()
    }

    /// Makes the history valid, except for the pending calls. Data stored by position in it is kept
    /// where the messages are the same.
    pub(crate) fn repair(&mut self) -> Repairs {
        let pending_ids = self.pending_call_ids();
        let old_messages = self.messages.clone();
        let repairs = self.messages.repair_keeping(&pending_ids);
        if !repairs.is_empty() {
            self.retain_positions(&old_messages);
        }
        repairs
    }

    pub(crate) fn view(&mut self) -> StateView<'_> {
        StateView::new(
            &self.messages,
            &mut self.todos,
            &mut self.files,
            &mut self.values,
        )
    }
}

impl fmt::Debug for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentState")
            .field("thread_id", &self.thread_id)
            .field("messages", &self.messages.len())
            .field("todos", &self.todos.len())
            .field("files", &self.files.len())
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

/// Returns the list that all states without tasks share.
fn no_todos() -> Arc<Vec<Todo>> {
    static EMPTY: LazyLock<Arc<Vec<Todo>>> = LazyLock::new(Arc::default);
    EMPTY.clone()
}

/// Returns the map that all states without files share.
fn no_files() -> Arc<Files> {
    static EMPTY: LazyLock<Arc<Files>> = LazyLock::new(Arc::default);
    EMPTY.clone()
}

/// Returns `true` if the session belongs to another user than `user_id`.
pub(crate) fn belongs_to_other_user(state: &AgentState, user_id: Option<&Arc<str>>) -> bool {
    match (&state.user_id, user_id) {
        (Some(owner), Some(user)) => owner != user,
        _ => false,
    }
}

fn is_empty_list(todos: &Arc<Vec<Todo>>) -> bool {
    todos.is_empty()
}

fn is_empty_map(files: &Arc<BTreeMap<Arc<str>, Arc<str>>>) -> bool {
    files.is_empty()
}

/// A call that waits for approval. It can be answered later, by this process or another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingCall {
    /// The id that a decision names, unique for each question.
    pub id: Arc<str>,
    /// The session in which the call waits. A fork does not ask about the call, so that the call
    /// cannot run twice.
    pub session_id: Arc<str>,
    /// The name of the agent that asked. `None` in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<str>>,
    /// The id of the template that the agent was made from, if it is one of a registry. `None` in
    /// sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_id: Option<Arc<str>>,
    /// The call with its final arguments.
    pub call: ToolCall,
    /// The question.
    pub question: String,
    /// True if the answer is a text ([`Decision::reply`](crate::Decision::reply)) instead of a
    /// permission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expects_text: bool,
    /// A hash of the tool's name and the arguments. A decision for other arguments is refused.
    pub args_hash: Arc<str>,
    /// The time at which the question expires, in milliseconds since the Unix epoch; `None` for
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// The time at which the call became pending, in microseconds since the Unix epoch. `None` in
    /// sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since_us: Option<u64>,
    /// The texts of hooks and gates for the model, which are added to the call's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// The leading system messages of the input of this call's run, for the run that resumes the
    /// call. `None` if there are none, if they are too long, or in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input_prompt: Option<Arc<str>>,
}

impl PendingCall {
    pub(crate) fn new(
        id: Arc<str>,
        session_id: Arc<str>,
        call: ToolCall,
        question: String,
    ) -> Self {
        let args_hash = args_hash(&call).into();
        Self {
            id,
            session_id,
            agent: None,
            agent_id: None,
            call,
            question,
            expects_text: false,
            args_hash,
            expires_at_ms: None,
            waits_since_us: None,
            context: Vec::new(),
            input_prompt: None,
        }
    }

    /// Returns `true` if the call has not changed since the question.
    pub(crate) fn is_intact(&self) -> bool {
        *self.args_hash == *args_hash(&self.call)
    }

    /// Returns the call as clients of a server receive it: without the system messages.
    #[cfg(feature = "server")]
    pub(crate) fn without_prompt(&self) -> Self {
        let mut call = self.clone();
        call.input_prompt = None;
        call
    }

    /// Returns `true` if a decision can still allow the call.
    #[cfg(feature = "gateway")]
    pub(crate) fn is_open(&self, now_ms: u64) -> bool {
        self.is_intact() && !self.is_expired(now_ms)
    }

    /// Returns `true` if the question has expired at this time.
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|expiry| expiry < now_ms)
    }
}

/// Hashes the name and the arguments of a call. The hash distinguishes a stale decision from a
/// fresh one; it is no defense against an attacker who can write the store.
fn args_hash(call: &ToolCall) -> String {
    let args = call.args.to_string();
    format!("{:016x}", fnv1a([call.name.as_bytes(), args.as_bytes()]))
}
