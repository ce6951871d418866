//! The storing and emitting of answers, in this order.

use std::sync::Arc;

use futures::FutureExt;
use uuid::Uuid;

use crate::error::Result;
use crate::message::{Message, Part};
use crate::model::ModelResponse;
use crate::run::ExitReason;
use crate::sdk::{ApiMessage, AssistantEvent, SdkMessage};
use crate::session::MessageInfo;

use super::active_run::Driver;
use super::attempt::is_empty;

impl Driver {
    /// Stores an answer, or what there is of one that was `aborted`, then shows it. One behind
    /// another answer joins that; if it was less than a whole one, what is returned is both.
    pub(super) async fn keep(
        &mut self,
        response: Arc<ModelResponse>,
        aborted: bool,
    ) -> Result<Arc<ModelResponse>> {
        let envelope = self.cx.shared().envelope();
        let message = Arc::new(Message::Assistant(response.message()));
        let mut info = MessageInfo::of(&response, envelope.uuid);
        info.aborted = aborted;
        if info.model.is_empty() {
            info.model = self.cx.model().id().into();
        }
        if info.id.is_empty() {
            info.id = format!("msg_{}", envelope.uuid.simple()).into();
        }
        let whole = match self.answer_to_join() {
            None => {
                self.append_answer(message.clone(), info.clone()).await?;
                response.clone()
            }
            Some(known) => self.join(known, &response, info.clone()).boxed().await?,
        };
        self.note_shown(1, envelope.uuid);
        let mut api = ApiMessage::new(info.id, info.model, message).with_usage(response.usage);
        let reason = response.stop_reason.as_ref();
        api.stop_reason = reason.map(|reason| reason.as_str().into());
        api.stop_sequence = response.stop_sequence.clone();
        let mut event = AssistantEvent::new(envelope, api);
        event.request_id = response.request_id.as_deref().map(str::to_owned);
        event.aborted = aborted;
        self.cx
            .shared()
            .push(SdkMessage::Assistant(Box::new(event)));
        Ok(whole)
    }

    /// The facts known of the answer that stands last in the history and asks for nothing; `None`
    /// when there is no such answer.
    fn answer_to_join(&self) -> Option<Option<Arc<MessageInfo>>> {
        self.cx.state(|state| {
            let last = state.messages.len().checked_sub(1)?;
            match state.messages.get(last) {
                Some(Message::Assistant(answer)) if answer.tool_calls().next().is_none() => {
                    Some(state.infos.get(last).cloned())
                }
                _ => None,
            }
        })
    }

    /// Two answers in a row become one message. The paused part belongs to the answer, too.
    async fn join(
        &mut self,
        known: Option<Arc<MessageInfo>>,
        response: &Arc<ModelResponse>,
        mut info: MessageInfo,
    ) -> Result<Arc<ModelResponse>> {
        let was_paused = known.as_ref().is_some_and(|known| known.breaks_off());
        if let Some(known) = known {
            info.usage += known.usage;
        }
        let mut whole = None;
        let state = self.cx.state(|state| {
            let last = state.messages.len() - 1;
            state.inputs.joined(last);
            if let Some(Message::Assistant(answer)) = state.messages.get_mut(last) {
                let parts = response.content.parts().iter().cloned();
                answer.content.parts_mut().extend(parts);
                whole = was_paused.then(|| response.with_content(answer.content.clone()));
            }
            state.inform(Arc::new(info));
            state.clone()
        });
        self.save(&state).await?;
        Ok(whole.map_or_else(|| response.clone(), Arc::new))
    }

    /// The last `count` messages of the history are shown as one message with this id.
    pub(super) fn note_shown(&mut self, count: usize, id: Uuid) {
        let len = self.cx.state(|state| state.messages.len());
        self.shown.note(len, count, id);
    }

    /// Ends a run that was stopped while the model answered.
    pub(super) async fn interrupted_answer(&mut self) -> ExitReason {
        let exit = self.stopped();
        self.note_stop();
        self.keep_partial().await;
        exit
    }

    /// Stores the text of an answer that was cut off, unless the agent discards such.
    pub(super) async fn keep_partial(&mut self) {
        let Some(mut partial) = self.cx.take_partial() else {
            return;
        };
        partial
            .content
            .parts_mut()
            .retain(|part| matches!(part, Part::Text(_)));
        if self.config.request.discard_interrupted || is_empty(&partial) {
            return;
        }
        let partial = Arc::new(partial);
        if let Err(error) = self.keep(partial.clone(), true).await {
            let text = format!("the interrupted answer was not stored: {error}");
            self.cx.warn(text);
        }
        self.last = Some(partial);
    }
}
