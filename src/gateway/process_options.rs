//! The options of one turn.

use std::sync::Arc;

use crate::message::Part;
use crate::session::PendingCall;
use crate::util::time::{now_ms, now_us};

use super::message::InboundMessage;

/// The reply to an input whose run ended without a text, unless another is set.
pub const DEFAULT_RESPONSE: &str = "I've completed processing but have no response to give.";

/// The input of one turn, with its chat and its settings.
///
/// ```
/// use agentcore::gateway::ProcessOptions;
///
/// let options = ProcessOptions::new("telegram:123", "telegram", "123", "hi").without_history();
/// assert!(options.no_history && !options.enable_summary && !options.send_response);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessOptions {
    /// The session.
    pub session_key: Arc<str>,
    /// The channel that the turn belongs to.
    pub channel: Arc<str>,
    /// The chat in the channel.
    pub chat_id: Arc<str>,
    /// The person who wrote the input; empty if there is none.
    pub sender_id: Arc<str>,
    /// The id of the input, with which it is processed once. Empty for none.
    pub input_id: Arc<str>,
    /// The text of the input.
    pub user_message: Arc<str>,
    /// Images and documents of the input.
    pub media: Vec<Part>,
    /// The reply if the run ends without a text. Defaults to [`DEFAULT_RESPONSE`].
    pub default_response: String,
    /// True if a long history is summarized after the turn. Defaults to `false`.
    pub enable_summary: bool,
    /// True if the reply, and the texts that tools show to the user, are sent to the chat. Defaults
    /// to `false`.
    pub send_response: bool,
    /// True if the turn runs in its own session, `KEY:once:UUID`. The session is deleted after the
    /// turn and the tasks of [`spawn`](super::spawn) that it began have ended, including tasks that
    /// wait for an answer. A turn or a task that is dropped leaves it. Defaults to `false`.
    pub no_history: bool,
    /// The number of tasks in the chain that led to the input, each begun because of the previous
    /// task's result; 0 if the input is no result of a task. A result is no answer to a question.
    pub(super) report_depth: u32,
    /// The time at which the input was written, in microseconds since the Unix epoch; `None` if it
    /// is not known.
    pub(super) written_at_us: Option<u64>,
}

impl ProcessOptions {
    /// Creates the options of a turn with this text as its input.
    pub fn new(
        session_key: impl Into<Arc<str>>,
        channel: impl Into<Arc<str>>,
        chat_id: impl Into<Arc<str>>,
        user_message: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            session_key: session_key.into(),
            channel: channel.into(),
            chat_id: chat_id.into(),
            sender_id: Arc::default(),
            input_id: Arc::default(),
            user_message: user_message.into(),
            media: Vec::new(),
            default_response: DEFAULT_RESPONSE.to_owned(),
            enable_summary: false,
            send_response: false,
            no_history: false,
            report_depth: 0,
            written_at_us: None,
        }
    }

    /// Creates the options of the turn that a message begins.
    pub(super) fn of_message(message: &InboundMessage) -> Self {
        Self {
            sender_id: message.sender_id.clone(),
            input_id: message.id.clone(),
            media: message.media.clone(),
            enable_summary: true,
            // The clock of the channel may be fast.
            written_at_us: message.published_at_us.map(|time| time.min(now_us())),
            ..Self::new(
                message.session_key.clone(),
                message.channel.clone(),
                message.chat_id.clone(),
                message.content.clone(),
            )
        }
    }

    /// Returns `true` if the input can be the answer to a question: it was written after the run of
    /// the question had ended, and the question has not expired. If one of the times is unknown, it
    /// is no answer.
    pub(super) fn can_answer(&self, call: &PendingCall) -> bool {
        let is_later = match (self.written_at_us, call.waits_since_us) {
            (Some(written_at), Some(waits_since)) => written_at > waits_since,
            _ => false,
        };
        is_later && call.is_open(now_ms())
    }

    /// Sets the person who wrote the input.
    #[must_use]
    pub fn with_sender(mut self, id: impl Into<Arc<str>>) -> Self {
        self.sender_id = id.into();
        self
    }

    /// Sets the id of the input.
    #[must_use]
    pub fn with_input_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.input_id = id.into();
        self
    }

    /// Sets the reply of a run that ends without a text.
    #[must_use]
    pub fn with_default_response(mut self, text: impl Into<String>) -> Self {
        self.default_response = text.into();
        self
    }

    /// Enables summaries.
    #[must_use]
    pub fn with_summary(mut self) -> Self {
        self.enable_summary = true;
        self
    }

    /// Sends the reply to the chat.
    #[must_use]
    pub fn with_response_sent(mut self) -> Self {
        self.send_response = true;
        self
    }

    /// Runs the turn without the history of the session.
    #[must_use]
    pub fn without_history(mut self) -> Self {
        self.no_history = true;
        self
    }
}
