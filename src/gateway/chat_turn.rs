//! The turn that a run belongs to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::Session;
use crate::error::ErrorKind;
use crate::prompt::Conversation;
use crate::run::RunOutput;
use crate::tool::ToolContext;

use super::process_options::ProcessOptions;
use super::shared::GatewayShared;
use super::tools::{MESSAGE, sent_text};

/// The session of [`Gateway::process_heartbeat`](super::Gateway::process_heartbeat).
pub(super) const HEARTBEAT: &str = "heartbeat";

/// The answer to a question of an unattended turn.
pub(super) const UNATTENDED: &str = "Questions cannot be answered during a heartbeat.";

/// The turn that a run belongs to, as a value of the run, which its child runs find too.
#[derive(Clone)]
pub(super) struct ChatTurn {
    pub(super) shared: Arc<GatewayShared>,
    /// The session in whose lane the turn is. A turn without history runs in its own session.
    pub(super) session_key: Arc<str>,
    /// The session of the run, if it is deleted after the turn.
    once_id: Option<Arc<str>>,
    pub(super) channel: Arc<str>,
    pub(super) chat_id: Arc<str>,
    pub(super) sender_id: Arc<str>,
    pub(super) input_id: Arc<str>,
    /// The number of tasks that led to the input, each begun because of the previous task.
    pub(super) report_depth: u32,
    sent: Arc<SentMarks>,
}

/// The marks of the messages that a turn has sent.
#[derive(Default)]
struct SentMarks {
    any_chat: AtomicBool,
    own_chat: AtomicBool,
}

impl ChatTurn {
    /// Creates a turn whose run has the session `id`.
    pub(super) fn new(
        shared: &Arc<GatewayShared>,
        options: &ProcessOptions,
        id: &Arc<str>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: shared.clone(),
            session_key: options.session_key.clone(),
            once_id: options.no_history.then(|| id.clone()),
            channel: options.channel.clone(),
            chat_id: options.chat_id.clone(),
            sender_id: options.sender_id.clone(),
            input_id: options.input_id.clone(),
            report_depth: options.report_depth,
            sent: Arc::default(),
        })
    }

    /// Returns a turn of the same chat that has sent no message, for a task that outlives this one.
    pub(super) fn for_task(&self) -> Arc<Self> {
        Arc::new(Self {
            sent: Arc::default(),
            ..self.clone()
        })
    }

    /// Returns the session of the run, if it is deleted after the turn.
    pub(super) fn once_id(&self) -> Option<&Arc<str>> {
        self.once_id.as_ref()
    }

    /// Returns `true` if a message in the chat can answer a question of this turn.
    pub(super) fn is_attended(&self) -> bool {
        *self.session_key != *HEARTBEAT
    }

    /// Returns the turn of the run that made a call, or of a parent run.
    pub(super) fn of_call(cx: &ToolContext) -> Option<Arc<Self>> {
        let turn = cx.asking().value::<Arc<Self>>()?;
        Some(Arc::clone(&*turn))
    }

    pub(super) fn conversation(&self) -> Conversation {
        let conversation = Conversation::new(self.channel.clone(), self.chat_id.clone());
        if self.sender_id.is_empty() {
            conversation
        } else {
            conversation.with_sender(self.sender_id.clone())
        }
    }

    /// Notes that a message was sent to a chat.
    pub(super) fn mark_sent(&self, channel: &str, chat_id: &str) {
        self.sent.any_chat.store(true, Ordering::Release);
        if *self.channel == *channel && *self.chat_id == *chat_id {
            self.sent.own_chat.store(true, Ordering::Release);
        }
    }

    /// Returns `true` if a message was sent to any chat.
    pub(super) fn has_sent_any(&self) -> bool {
        self.sent.any_chat.load(Ordering::Acquire)
    }

    /// Returns `true` if the tool `message` sent a message in this turn, to any chat or, with
    /// `only_own_chat`, to the chat of the turn. If the input was delivered before, the calls of
    /// that time have no marks and are searched for in the history.
    pub(super) fn has_sent(&self, output: &RunOutput, only_own_chat: bool) -> bool {
        let mark = if only_own_chat {
            &self.sent.own_chat
        } else {
            &self.sent.any_chat
        };
        mark.load(Ordering::Acquire) || self.has_sent_in_history(output, only_own_chat)
    }

    fn has_sent_in_history(&self, output: &RunOutput, only_own_chat: bool) -> bool {
        let messages = output.messages.as_slice();
        let Some(start) = output.state.inputs.start_of(&self.input_id) else {
            return false;
        };
        let own_text = sent_text(&self.channel, &self.chat_id);
        let mut results = messages
            .iter()
            .skip(start)
            .filter_map(|message| message.as_tool_result());
        results.any(|result| {
            let is_message = &*result.name == MESSAGE && !result.is_error;
            is_message && (!only_own_chat || result.content.text() == own_text)
        })
    }
}

/// Deletes the session of a turn without history, and the sessions of its subagents. If tasks of
/// the turn are in progress or wait for an answer, the last one to end deletes it.
pub(super) async fn delete_once(shared: &GatewayShared, session: &Session) {
    if shared.has_once_task(session.id()) {
        return;
    }
    match session.delete().await {
        Err(error) if error.kind() == ErrorKind::SessionBusy => {}
        Err(error) => tracing::warn!("session {} could not be deleted: {error}", session.id()),
        Ok(_) => {}
    }
}

impl fmt::Debug for ChatTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTurn")
            .field("session_key", &self.session_key)
            .field("input_id", &self.input_id)
            .finish_non_exhaustive()
    }
}
