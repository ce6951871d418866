//! The encoder of one reader's stream.

use std::sync::Arc;

use crate::error::Result;
use crate::message::Message;
use crate::sdk::{SdkMessage, SystemKind};
use crate::session::{AgentState, PendingCall};
use crate::util::blocking::blocking;
use crate::util::json::json_len;

use super::ag_ui::AgUi;
use super::ai_sdk::AiSdk;
use super::events::Events;
use super::format::StreamFormat;
use super::out::Out;
use super::sdk;
use super::sse::{SseEvent, write_events};
use super::state::StreamState;

/// The size of events in bytes from which they are made on a thread for blocking work.
const LARGE_EVENTS: usize = 1024 * 1024;

/// The text for a reader that was too slow.
pub(crate) const LAGGED: &str = "this reader was too slow, and messages that it did not read were \
                                 removed; connect again to continue";

/// The size of the events about a pending call in addition to the call, in bytes.
const QUESTION: usize = 1024;

/// The options of an [`Encoder`]: the data of a run that its messages do not contain.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EncoderOptions {
    /// The run's id, the prefix of the ids of its events.
    pub run_id: Arc<str>,
    /// The id that an AG-UI client gave to the run. Defaults to the run's id.
    pub client_run_id: Option<Arc<str>>,
    /// The state of the thread before the run.
    pub state: Option<AgentState>,
    /// The input of the run, with the ids that the client gave to its messages.
    pub input: Vec<(Arc<str>, Arc<Message>)>,
}

impl EncoderOptions {
    /// Creates options for the stream of the run `run_id`.
    pub fn new(run_id: impl Into<Arc<str>>) -> Self {
        Self {
            run_id: run_id.into(),
            ..Self::default()
        }
    }

    /// Sets the id that an AG-UI client gave to the run.
    #[must_use]
    pub fn with_client_run_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.client_run_id = Some(id.into());
        self
    }

    /// Sets the state of the thread before the run: the history, tasks and files of snapshots.
    #[must_use]
    pub fn with_state(mut self, state: AgentState) -> Self {
        self.state = Some(state);
        self
    }

    /// Adds a message of the run's input, with the id that the client gave to it. A run does not
    /// emit its input, but snapshots include it.
    #[must_use]
    pub fn with_input(mut self, id: impl Into<Arc<str>>, message: impl Into<Arc<Message>>) -> Self {
        self.input.push((id.into(), message.into()));
        self
    }
}

/// Encodes the messages of one run for one reader.
///
/// The encoding is deterministic: the same messages yield the same events, so a reader that
/// reconnects can continue after the last event that it received.
///
/// ```
/// use agentcore::Agent;
/// use agentcore::server::{Encoder, EncoderOptions, StreamFormat};
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let agent = Agent::builder(ScriptedModel::new().say("Hello!")).build()?;
/// let mut run = agent.run("Hi");
/// let mut encoder = Encoder::new(StreamFormat::Events, EncoderOptions::new("run_1"));
/// let mut events = Vec::new();
/// while let Some(message) = run.next().await {
///     encoder.push(&message, &mut events);
/// }
/// let last = events.last().expect("an event");
/// assert_eq!(last.event.as_deref(), Some("done"));
/// assert!(last.id.starts_with("run_1:"));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    format: StreamFormat,
    state: StreamState,
    events: Events,
    ag_ui: AgUi,
    ai_sdk: AiSdk,
}

impl Encoder {
    /// Creates an encoder for the beginning of a run.
    pub fn new(format: StreamFormat, options: EncoderOptions) -> Self {
        let client_run_id = options.client_run_id.clone();
        Self {
            format,
            ag_ui: AgUi::new(client_run_id.unwrap_or_else(|| options.run_id.clone())),
            ai_sdk: AiSdk::default(),
            events: Events::new(options.run_id.clone()),
            state: StreamState::new(options),
        }
    }

    /// Returns the format.
    pub fn format(&self) -> StreamFormat {
        self.format
    }

    /// Returns an encoder at the same position in the run, in another format and for another
    /// reader.
    pub(crate) fn in_format(&self, format: StreamFormat, client_run_id: Option<Arc<str>>) -> Self {
        let mut encoder = self.clone();
        encoder.format = format;
        encoder.ag_ui.set_run_id(client_run_id);
        encoder
    }

    /// Sets the state of the thread after the run. Call it before the result message is pushed:
    /// only the state has the pending calls.
    pub fn set_state(&mut self, state: &AgentState) {
        self.state.set_final(state);
    }

    /// Appends the events of the run's next message to `out`; many messages have none. Messages
    /// must be pushed in order, each exactly once.
    pub fn push(&mut self, message: &SdkMessage, out: &mut Vec<SseEvent>) {
        let mut out = Out::new(self.state.run_id().clone(), message.seq(), out);
        self.encode(message, &mut out);
    }

    fn encode(&mut self, message: &SdkMessage, out: &mut Out<'_>) {
        match self.format {
            StreamFormat::Events => self.events.push(message, out),
            StreamFormat::Sdk | StreamFormat::Ndjson => sdk::push(message, self.format, out),
            StreamFormat::AgUi => self.ag_ui.push(message, &mut self.state, out),
            StreamFormat::AiSdk => self.ai_sdk.push(message, &mut self.state, out),
        }
    }

    /// Replaces the history by the state of a run whose messages are not known, for a snapshot.
    pub(crate) fn replace_state(&mut self, state: AgentState) {
        self.state.replace(state);
    }

    /// Appends the result of a run whose messages are not known, without positions in the run.
    pub(crate) fn finish(&mut self, result: &SdkMessage, out: &mut Vec<SseEvent>) {
        self.encode(result, &mut Out::unnumbered(out));
    }

    /// Records a message that the log has removed, for all readers that begin later.
    pub(crate) fn absorb(&mut self, message: &SdkMessage) {
        self.skip(message);
        self.state.share_history();
    }

    /// Records a message without encoding it, so that later messages can be encoded in any format.
    pub(crate) fn skip(&mut self, message: &SdkMessage) {
        self.events.skip(message);
        self.state.push(message);
    }

    /// Appends the state of the thread at this position, which replaces everything that the reader
    /// has received.
    pub fn snapshot(&mut self, out: &mut Vec<SseEvent>) {
        let mut out = Out::unnumbered(out);
        match self.format {
            StreamFormat::Events => Events::snapshot(&self.state, &mut out),
            StreamFormat::Sdk | StreamFormat::Ndjson => {
                sdk::snapshot(&self.state, self.format, &mut out);
            }
            StreamFormat::AgUi => self.ag_ui.snapshot(&mut self.state, &mut out),
            StreamFormat::AiSdk => self.ai_sdk.snapshot(&mut self.state, &mut out),
        }
    }

    /// Writes the events that `encode` appends, on a thread for blocking work if `len`, their
    /// estimated size, is [`LARGE_EVENTS`] or more. Returns their bytes and `guard`, which is held
    /// until they are written, also if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// The encoder is unchanged if the future is dropped.
    pub(crate) async fn write<G, F>(
        &mut self,
        len: usize,
        guard: G,
        encode: F,
    ) -> Result<(Vec<u8>, G)>
    where
        G: Send + 'static,
        F: FnOnce(&mut Self, &mut Vec<SseEvent>) + Send + 'static,
    {
        let write = |encoder: &mut Self| {
            let mut events = Vec::new();
            encode(encoder, &mut events);
            write_events(events)
        };
        if len < LARGE_EVENTS {
            return Ok((write(self), guard));
        }
        let mut encoder = self.clone();
        let (encoder, bytes, guard) = blocking(move || {
            let bytes = write(&mut encoder);
            Ok((encoder, bytes, guard))
        })
        .await?;
        *self = encoder;
        Ok((bytes, guard))
    }

    /// Estimates the memory of the encoder in bytes, without what other readers share.
    pub(crate) fn index_size(&self) -> usize {
        self.state.index_size()
    }

    /// Estimates the size of a snapshot in bytes.
    pub(crate) fn snapshot_len(&self) -> usize {
        self.state.history().size()
    }

    /// Estimates the memory that a snapshot takes while it is written: the values, their JSON and
    /// the bytes of the event.
    pub(crate) fn snapshot_space(&self) -> usize {
        self.snapshot_len().saturating_mul(3)
    }

    /// Estimates the size in bytes of the parts of the thread that the events of a message may
    /// have, in addition to the message. `pending_len` is the size of the calls that are pending
    /// after the run, as JSON.
    pub(crate) fn state_len(&self, message: &SdkMessage, pending_len: usize) -> usize {
        let is_ag_ui = self.format == StreamFormat::AgUi;
        if !is_ag_ui && self.format != StreamFormat::AiSdk {
            return 0;
        }
        let history = self.state.history();
        match message {
            // An AG-UI client may get a snapshot with these.
            SdkMessage::Assistant(_) if is_ag_ui => self.snapshot_len(),
            SdkMessage::Result(_) if is_ag_ui => {
                self.snapshot_len() + history.state_len() + pending_len
            }
            SdkMessage::Result(_) => pending_len,
            SdkMessage::System(event) => match &event.kind {
                SystemKind::StreamRestart { .. } if is_ag_ui => self.snapshot_len(),
                SystemKind::Init(_) if is_ag_ui => history.state_len(),
                SystemKind::StateChanged { .. } => history.state_len(),
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Appends the end of the stream for a reader that was too slow. The run continues without it.
    pub fn lagged(&mut self, out: &mut Vec<SseEvent>) {
        self.leave(LAGGED, out);
    }

    /// Appends the end of the stream for a reader that cannot continue. The run continues without
    /// it.
    pub(crate) fn leave(&mut self, text: &str, out: &mut Vec<SseEvent>) {
        match self.format {
            StreamFormat::Events => Events::lagged(text, &mut Out::unnumbered(out)),
            StreamFormat::Sdk | StreamFormat::Ndjson => {
                sdk::lagged(&self.state, text, self.format, &mut Out::unnumbered(out));
            }
            StreamFormat::AgUi | StreamFormat::AiSdk => self.fail(text, "lagged", out),
        }
    }

    /// Appends an error that ends the stream, for a run that cannot start or a reader that cannot
    /// continue. `code` identifies the error for programs in the formats `events` (`reason`) and
    /// `ag-ui` (`code`); the other formats have only the text.
    pub fn fail(&mut self, text: &str, code: &str, out: &mut Vec<SseEvent>) {
        let mut out = Out::unnumbered(out);
        match self.format {
            StreamFormat::Events => Events::fail(text, code, &mut out),
            StreamFormat::Sdk | StreamFormat::Ndjson => {
                sdk::fail(&self.state, text, self.format, &mut out);
            }
            StreamFormat::AgUi => self.ag_ui.fail(text, code, &mut out),
            StreamFormat::AiSdk => AiSdk::fail(text, &mut out),
        }
    }
}

/// Estimates the size in bytes of the events that ask about pending calls.
pub(crate) fn pending_len(pending: &[PendingCall]) -> usize {
    json_len(&pending).saturating_add(pending.len().saturating_mul(QUESTION))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt;
    use serde_json::{Value, json};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::message::{Messages, Part, ToolCall};

    /// A message of the run as JSON.
    fn message(fields: &Value) -> SdkMessage {
        let mut message = json!({"session_id": "s", "seq": 0});
        for (key, value) in fields.as_object().unwrap() {
            message[key] = value.clone();
        }
        serde_json::from_str(&message.to_string()).unwrap()
    }

    #[test]
    fn events_with_the_state_have_at_most_the_estimated_size() {
        // The bytes of events without the state, far less than those of the state.
        const EVENTS: usize = 4 * 1024;
        let mut state = AgentState::new("s");
        let paths = (0..1_000).map(|number| format!("/files/\u{1}\u{2}\u{3}{number:04}"));
        state.files = Arc::new(paths.map(|path| (path.into(), "".into())).collect());
        let mut end = state.clone();
        for number in 0..100 {
            let args = json!({"text": "\u{1}".repeat(200)});
            let call = ToolCall::new(format!("call_{number}"), "act", args);
            let id = format!("ask_{number}").into();
            let pending = PendingCall::new(id, "s".into(), call, "May it run?".to_owned());
            end.pending.push(pending);
        }
        let messages = [
            json!({"type": "system", "subtype": "init"}),
            json!({"type": "system", "subtype": "state_changed", "files": ["/files/b"]}),
            json!({"type": "result", "subtype": "success", "terminal_reason": "tool_deferred"}),
        ];
        for format in [StreamFormat::AgUi, StreamFormat::AiSdk] {
            let options = EncoderOptions::new("run").with_state(state.clone());
            let mut encoder = Encoder::new(format, options);
            for message in messages.each_ref().map(message) {
                let pending_len = pending_len(&end.pending);
                let len = json_len(&message) + encoder.state_len(&message, pending_len);
                let mut events = Vec::new();
                encoder.set_state(&end);
                encoder.push(&message, &mut events);
                let bytes = write_events(events).len();
                assert!(
                    bytes <= len + EVENTS,
                    "{format:?} {message:?}: {bytes} {len}"
                );
            }
        }
    }

    #[test]
    fn progress_of_a_call_that_waits_for_an_answer_is_no_output() {
        let progress = |data: &Value| {
            message(
                &json!({"type": "tool_progress", "tool_use_id": "call_1", "tool_name": "ask",
                "data": data}),
            )
        };
        let call = ToolCall::new("call_1", "ask", json!({}));
        let mut state = AgentState::new("s");
        state.messages = Messages::from("Go").with(Message::ai([Part::ToolCall(call)]));
        for format in [StreamFormat::AgUi, StreamFormat::AiSdk] {
            let options = EncoderOptions::new("run").with_state(state.clone());
            let mut encoder = Encoder::new(format, options);
            let mut events = Vec::new();
            encoder.push(
                &message(&json!({"type": "system", "subtype": "init"})),
                &mut events,
            );
            let start = progress(&json!({"state": "started", "args": {}}));
            encoder.push(&start, &mut events);
            let event_count = events.len();
            encoder.push(&progress(&json!({"state": "waiting"})), &mut events);
            assert_eq!(events.len(), event_count, "{format:?}");
            encoder.push(&progress(&json!({"percent": 50})), &mut events);
            assert!(events.len() > event_count, "{format:?}");
        }
    }

    #[tokio::test]
    async fn guard_of_long_events_is_held_until_they_are_written() {
        let mut encoder = Encoder::new(StreamFormat::Events, EncoderOptions::new("run"));
        let guard = Arc::new(());
        let (sender, receiver) = mpsc::channel::<()>();
        let encode = move |_: &mut Encoder, _: &mut Vec<SseEvent>| receiver.recv().unwrap();
        let mut write = Box::pin(encoder.write(LARGE_EVENTS, guard.clone(), encode));
        assert!((&mut write).now_or_never().is_none());
        drop(write);
        assert_eq!(Arc::strong_count(&guard), 2);
        sender.send(()).unwrap();
        let is_free = async {
            while Arc::strong_count(&guard) > 1 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), is_free).await.unwrap();
    }
}
