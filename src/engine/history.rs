//! The run's history: messages are stored, then added to the state, then emitted.
//!
//! The methods `append_*` store messages and add them to the state. `store_*` and `add_input(s)`
//! emit them as well.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::Result;
use crate::message::{Message, Messages, ToolResult};
use crate::model::ModelResponse;
use crate::run::{RunContext, SteeredMessage};
use crate::sdk::{ApiMessage, AssistantEvent, Envelope, SdkMessage, UserEvent};
use crate::session::{AgentState, MessageInfo, Record};
use crate::util::Pace;

use super::call_ids::CallIds;
use super::config::Limits;
use super::context_size::ContextSize;
use super::emitted_messages::EmittedMessages;
use super::history_size::{HistorySize, InputSize, room_for_results};
use super::restore::calls_without_result;
use super::sanitize;
use super::session_writer::SessionWriter;

/// The history of a run, from the moment its session is leased, loaded and prepared.
pub(super) struct History {
    pub(super) cx: RunContext,
    pub(super) writer: SessionWriter,
    /// True if the session's user, directory or parent changed, which is stored with the next
    /// messages.
    pub(super) has_new_origin: bool,
    /// The size of the next request in tokens.
    pub(super) context_size: ContextSize,
    /// The size in memory in bytes.
    pub(super) byte_size: HistorySize,
    /// The ids of the messages that this run has emitted.
    pub(super) emitted: EmittedMessages,
    /// The ids of all calls in the history.
    pub(super) call_ids: CallIds,
    /// The number of messages in the history before this run.
    pub(super) initial_len: usize,
}

impl History {
    /// Creates the history of a run from the state of `cx`, which is prepared, and measures it.
    pub(super) fn new(cx: RunContext, limits: &Limits, writer: SessionWriter) -> Self {
        let byte_size = HistorySize::new(limits, &cx.shared().tree.histories);
        let messages = cx.state(|state| state.messages.clone());
        let mut history = Self {
            cx,
            writer,
            has_new_origin: false,
            context_size: ContextSize::default(),
            byte_size,
            emitted: EmittedMessages::default(),
            call_ids: CallIds::of(&messages),
            initial_len: messages.len(),
        };
        history.recount();
        history
    }

    /// Stores the whole state of the run.
    pub(super) async fn save(&self) -> Result<()> {
        self.writer.save(&self.cx).await
    }

    /// Stores an input that was checked, then adds it to the history.
    pub(super) async fn append_input(
        &mut self,
        input: Messages,
        input_id: Option<Arc<str>>,
        size: InputSize,
    ) -> Result<()> {
        let records = self.message_records(input.as_slice(), input_id);
        self.writer.append_with_state(&self.cx, records).await?;
        self.cx.state(|state| state.messages.append(input));
        self.byte_size.add_input(size);
        Ok(())
    }

    /// Returns the records of messages; none if the session is not stored.
    fn message_records(
        &mut self,
        messages: &[Arc<Message>],
        mut input_id: Option<Arc<str>>,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        if self.writer.is_storing() {
            records.extend(self.take_origin());
            records.extend(messages.iter().map(|message| Record::Message {
                message: message.clone(),
                input_id: input_id.take(),
            }));
        }
        records
    }

    /// Stores a response, its metadata and the starts of these calls, then adds it to the history.
    async fn append_response(
        &mut self,
        message: Arc<Message>,
        info: MessageInfo,
        starts: &[Arc<str>],
    ) -> Result<()> {
        let info = Arc::new(info);
        let mut records = Vec::new();
        if self.writer.is_storing() {
            records.extend(self.take_origin());
            records.push(Record::Message {
                message: message.clone(),
                input_id: None,
            });
            records.push(Record::MessageInfo { info: info.clone() });
            let starts = starts.iter().cloned();
            records.extend(starts.map(|call_id| Record::ToolStarted { call_id }));
        }
        self.writer.append_with_state(&self.cx, records).await?;
        self.byte_size.add(std::slice::from_ref(&message));
        self.cx.state(|state| {
            state.messages.push(message);
            state.set_last_info(info);
        });
        Ok(())
    }

    /// Returns the record of the session's user, directory and parent, if one of them has changed
    /// and the record was not taken before.
    fn take_origin(&mut self) -> Option<Record> {
        let is_new = std::mem::take(&mut self.has_new_origin);
        is_new.then(|| self.cx.state(|state| Record::about(state)))
    }

    /// Measures the history. Must be called again after messages were removed or summarized.
    pub(super) fn recount(&mut self) {
        let (messages, compaction) = self
            .cx
            .state(|state| (state.messages.clone(), state.compaction.clone()));
        let counter = &**self.cx.token_counter();
        self.context_size.restart(counter, compaction.as_ref());
        let covered_count = compaction.map_or(0, |compaction| compaction.through_message);
        self.byte_size
            .restart(&messages, covered_count, self.initial_len);
    }

    /// Adds messages that were sent during the run to the history, and emits them. A message that
    /// cannot be sent during a run is skipped with a warning, and one whose id the session already
    /// has is skipped without. One that would take the history over its limit is an error. After an
    /// error, `messages` has the messages after the failed one.
    pub(super) async fn add_inputs(
        &mut self,
        messages: &mut VecDeque<SteeredMessage>,
    ) -> Result<()> {
        let mut pace = Pace::default();
        // Pending calls receive their results later.
        let room = self
            .cx
            .state(|state| room_for_results(calls_without_result(&state.messages)));
        while let Some(steered) = messages.pop_front() {
            let size = steered.size();
            let SteeredMessage { id, message, .. } = steered;
            pace.step(message.content().text_len()).await;
            if !sanitize::is_valid_input(&message) {
                self.warn_of_refused(&message);
                continue;
            }

            let was_sent = |id: &Arc<str>| self.cx.state(|state| state.inputs.contains(id));
            if id.as_ref().is_some_and(was_sent) {
                continue;
            }

            let message = Arc::new(message);
            let size = self.byte_size.check_message(size, room)?;
            self.append_steered(message.clone(), id, size).await?;
            let envelope = self.cx.shared().envelope();
            self.record_emitted(1, envelope.uuid);
            let event = UserEvent::new(envelope, [message]).synthetic();
            self.cx.shared().push(SdkMessage::User(Box::new(event)));
        }

        Ok(())
    }

    /// Emits the warning that a message cannot be sent to the model during the run.
    pub(super) fn warn_of_refused(&self, message: &Message) {
        let role = message.role();
        self.cx.warn(format!(
            "a {role} message was not sent to the model: only user and system messages with content \
             can be sent during a run"
        ));
    }

    /// Stores a message that was sent during the run. A message with an id counts as an input of
    /// the session.
    async fn append_steered(
        &mut self,
        message: Arc<Message>,
        id: Option<Arc<str>>,
        size: InputSize,
    ) -> Result<()> {
        let Some(id) = id else {
            return self
                .append_input(Messages::new().with(message), None, size)
                .await;
        };
        self.cx.state(AgentState::settle_inputs);
        self.append_input(Messages::new().with(message), Some(id.clone()), size)
            .await?;
        self.cx.state(|state| {
            let len = state.messages.len();
            state.inputs.begin(id, len - 1..len);
            state.inputs.drop_oldest();
        });
        Ok(())
    }

    /// Stores a response, then emits it.
    ///
    /// The starts of the calls in `starts` are stored with it. If the history [ends with a
    /// response](Self::ends_with_response), the parts of `response` are appended to that response,
    /// and no start is stored. Returns the response. If it continues a paused or aborted response,
    /// it has the content of both.
    pub(super) async fn store_response(
        &mut self,
        response: Arc<ModelResponse>,
        starts: &[Arc<str>],
    ) -> Result<Arc<ModelResponse>> {
        self.store(response, false, starts).await
    }

    /// Stores a partial response, of a run that was stopped or of an attempt that exceeded a limit,
    /// then emits it.
    pub(super) async fn store_partial_response(
        &mut self,
        response: Arc<ModelResponse>,
    ) -> Result<()> {
        self.store(response, true, &[]).await.map(drop)
    }

    /// Stores a response, complete or aborted, then emits it.
    async fn store(
        &mut self,
        response: Arc<ModelResponse>,
        is_aborted: bool,
        starts: &[Arc<str>],
    ) -> Result<Arc<ModelResponse>> {
        let envelope = self.cx.shared().envelope();
        let message = Arc::new(Message::Assistant(response.message()));
        let mut info = self.response_info(&response, envelope.uuid);
        info.aborted = is_aborted;
        let full_response = if self.ends_with_response() {
            self.join(&response, info.clone()).boxed().await?
        } else {
            self.append_response(message.clone(), info.clone(), starts)
                .await?;
            response.clone()
        };

        self.record_emitted(1, envelope.uuid);
        self.emit_response(envelope, message, info, &response);
        Ok(full_response)
    }

    /// Returns the metadata of a response. If the provider sent no model or no id, the run's model
    /// and an id made of `uuid` replace them.
    fn response_info(&self, response: &ModelResponse, uuid: Uuid) -> MessageInfo {
        let mut info = MessageInfo::of(response, uuid);
        if info.model.is_empty() {
            info.model = self.cx.model().id().into();
        }

        if info.id.is_empty() {
            info.id = format!("msg_{}", uuid.simple()).into();
        }

        info
    }

    fn emit_response(
        &self,
        envelope: Envelope,
        message: Arc<Message>,
        info: MessageInfo,
        response: &ModelResponse,
    ) {
        let mut api = ApiMessage::new(info.id, info.model, message).with_usage(response.usage);
        let reason = response.stop_reason.as_ref();
        api.stop_reason = reason.map(|reason| reason.as_str().into());
        api.stop_sequence = response.stop_sequence.clone();
        let mut event = AssistantEvent::new(envelope, api);
        event.request_id = response.request_id.as_deref().map(str::to_owned);
        event.aborted = info.aborted;
        self.cx
            .shared()
            .push(SdkMessage::Assistant(Box::new(event)));
    }

    /// Returns `true` if the last message of the history is a response without calls, which the
    /// next response joins.
    pub(super) fn ends_with_response(&self) -> bool {
        self.cx.state(|state| match state.messages.last() {
            Some(Message::Assistant(message)) => message.tool_calls().next().is_none(),
            _ => false,
        })
    }

    /// Appends the parts of `response` to the last message of the history, so that two responses in
    /// a row are one message, then stores the whole state. Returns `response`; if the earlier
    /// response was paused or aborted, with the content of both.
    async fn join(
        &mut self,
        response: &Arc<ModelResponse>,
        mut info: MessageInfo,
    ) -> Result<Arc<ModelResponse>> {
        self.byte_size.add_parts(response.content.parts());
        let last_info = self.cx.state(|state| {
            let last = state.messages.len().checked_sub(1)?;
            state.infos.get(last).cloned()
        });
        let was_incomplete = last_info
            .as_ref()
            .is_some_and(|last_info| last_info.is_incomplete());
        if let Some(last_info) = last_info {
            info.usage += last_info.usage;
        }

        let mut full_response = None;
        self.cx.state(|state| {
            let last = state.messages.len() - 1;
            state.inputs.end_inputs_at(last);
            if let Some(Message::Assistant(message)) = state.messages.get_mut(last) {
                let parts = response.content.parts().iter().cloned();
                message.content.parts_mut().extend(parts);
                full_response =
                    was_incomplete.then(|| response.with_content(message.content.clone()));
            }

            state.set_last_info(Arc::new(info));
        });

        self.save().await?;
        Ok(full_response.map_or_else(|| response.clone(), Arc::new))
    }

    /// Stores results in the order of their calls, then emits them as one user message.
    pub(super) async fn store_results(&mut self, results: Vec<ToolResult>) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }

        let program_data = tool_use_results(results.iter());
        let messages: Vec<_> = results
            .into_iter()
            .map(|mut result| {
                sanitize::result(&mut result);
                Arc::new(Message::Tool(result))
            })
            .collect();
        let records = self.message_records(&messages, None);
        let outcome = self.writer.append_with_state(&self.cx, records).await;

        // Also after an error: the tools have run, so the state saved at the run's end must have
        // their results.
        let new_messages = messages.iter().cloned();
        self.cx.state(|state| state.messages.extend(new_messages));
        outcome?;
        self.byte_size.add(&messages);
        let count = messages.len();
        let id = self.emit_results(messages, program_data);
        self.record_emitted(count, id);
        Ok(())
    }

    /// Emits results as one user message and returns the id of that message.
    fn emit_results(&self, messages: Vec<Arc<Message>>, program_data: Option<Value>) -> Uuid {
        let envelope = self.cx.shared().envelope();
        let id = envelope.uuid;
        let mut event = UserEvent::new(envelope, messages);
        event.tool_use_result = program_data;
        self.cx.shared().push(SdkMessage::User(Box::new(event)));
        id
    }

    /// Emits a response of an earlier run, which is in the history already, under its `uuid` there.
    /// `response` has no usage, because the earlier run has emitted it.
    pub(super) fn emit_earlier_response(
        &self,
        message: Arc<Message>,
        info: Option<&Arc<MessageInfo>>,
        response: &ModelResponse,
    ) {
        let mut envelope = self.cx.shared().envelope();
        let info = match info {
            Some(info) => MessageInfo::clone(info),
            None => self.response_info(response, envelope.uuid),
        };
        if !info.uuid.is_nil() {
            envelope.uuid = info.uuid;
        }
        self.emit_response(envelope, message, info, response);
    }

    /// Emits results of an earlier run's calls, which are in the history already.
    pub(super) fn emit_earlier_results(&mut self, results: Vec<ToolResult>) {
        if results.is_empty() {
            return;
        }
        let program_data = tool_use_results(results.iter());
        let messages = results.into_iter().map(Message::Tool).map(Arc::new);
        self.emit_results(messages.collect(), program_data);
    }

    /// Adds the size of a result that was inserted into the history.
    pub(super) fn count_result(&mut self, result: &ToolResult) {
        self.byte_size
            .add(&[Arc::new(Message::Tool(result.clone()))]);
    }

    /// Records that the last `count` messages of the history were emitted as one message with this
    /// id.
    fn record_emitted(&mut self, count: usize, id: Uuid) {
        let len = self.cx.state(|state| state.messages.len());
        self.emitted.record(len, count, id);
    }
}

/// Returns the `tool_use_result` of a user message: the fields of the results that the model does
/// not receive. Returns `None` if there are none.
fn tool_use_results<'a>(results: impl ExactSizeIterator<Item = &'a ToolResult>) -> Option<Value> {
    let count = results.len();
    let entries: Vec<Value> = results
        .filter_map(|result| {
            let mut entry = Map::new();
            let mut set_field = |key: &str, value: Value| entry.insert(key.into(), value);
            if let Some(details) = &result.details {
                set_field("details", details.clone());
            }

            if let Some(display) = &result.display {
                set_field("display", display.as_str().into());
            }

            if result.silent {
                set_field("silent", true.into());
            }

            if result.is_async {
                set_field("is_async", true.into());
            }

            if entry.is_empty() {
                return None;
            }

            entry.insert("tool_use_id".into(), Value::from(&*result.tool_call_id));
            Some(Value::Object(entry))
        })
        .collect();
    match entries.len() {
        0 => None,
        1 if count == 1 => entries.into_iter().next(),
        _ => Some(Value::Array(entries)),
    }
}
