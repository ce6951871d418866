//! Driving a run to its end.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::message::Message;
use crate::run::{Responder, RunOutput};
use crate::sdk::{PermissionRequest, SdkMessage, UserEvent};
use crate::tool::Answer;
use crate::util::panic;

use super::chat_turn::{ChatTurn, UNATTENDED};
use super::message::OutboundMessage;
use super::question_text::permission_text;
use super::questions::Asker;
use super::served::ServedRun;
use super::shared::GatewayShared;

impl GatewayShared {
    /// Reads a run to its end. Its questions are asked in the chat of the turn, and the texts that
    /// tools show to the user are sent there if `shows_results`.
    pub(super) async fn drive(
        &self,
        mut run: ServedRun,
        turn: &ChatTurn,
        mut shows_results: bool,
    ) -> Result<RunOutput> {
        let responder = run.responder();
        let asker = self.questions.asker();
        let mut is_interrupted = false;
        loop {
            let message = tokio::select! {
                biased;
                () = self.interrupt.cancelled(), if !is_interrupted => {
                    is_interrupted = true;
                    run.interrupt();
                    continue;
                }
                message = run.next() => message,
            };
            let Some(message) = message else {
                return run.into_output();
            };

            self.observe(&message);
            match message {
                SdkMessage::PermissionRequest(request) => {
                    self.ask(turn, &request, &responder, &asker).await;
                }
                SdkMessage::User(event) if shows_results => {
                    match self.show_results(turn, &event).await {
                        Err(error) if self.may_skip(&error) => {
                            tracing::warn!("results of tools are not shown any more: {error}");
                            shows_results = false;
                        }
                        outcome => outcome?,
                    }
                }
                _ => {}
            }
        }
    }

    /// Calls the observer. Its first panic is logged, and the run continues.
    fn observe(&self, message: &SdkMessage) {
        let Some(observer) = &self.observer else {
            return;
        };
        if let Err(text) = panic::catch(|| observer(message))
            && !self.has_observer_panicked.swap(true, Ordering::Relaxed)
        {
            tracing::error!("the observer of the gateway panicked: {text}");
        }
    }

    /// Asks a question of a run in the chat of its turn. Denies the call in an unattended turn.
    async fn ask(
        &self,
        turn: &ChatTurn,
        request: &PermissionRequest,
        responder: &Responder,
        asker: &Asker<'_>,
    ) {
        if !turn.is_attended() {
            responder.respond(request, Answer::Deny(UNATTENDED.to_owned()));
            return;
        }
        asker.add_permission(turn, request, responder.clone());
        let text = permission_text(request);
        let message = OutboundMessage::new(turn.channel.clone(), turn.chat_id.clone(), text)
            .with_id(request.id.clone());
        let publish = self.publish_outbound(message);
        if let Err(error) = self.publish_in_turn(publish).await {
            tracing::warn!("a question could not be sent: {error}");
            // A call that waited would take the next message of the person as its answer.
            asker.remove_permission(turn, request);
            if self.interrupt.is_cancelled() {
                // The run is interrupted next. The call was not refused.
                return;
            }
            let reason = format!("the question could not be sent: {error}");
            responder.respond(request, Answer::Deny(reason));
        }
    }

    /// Sends the texts that tools show to the user.
    async fn show_results(&self, turn: &ChatTurn, event: &UserEvent) -> Result<()> {
        if event.envelope.parent_tool_use_id.is_some() {
            return Ok(());
        }
        let results = event.messages.iter();
        for result in results.filter_map(|message| Message::as_tool_result(message)) {
            let Some(text) = result.display.as_ref().filter(|_| !result.silent) else {
                continue;
            };
            let suffix = format!("{}:display", result.tool_call_id);
            let message =
                OutboundMessage::new(turn.channel.clone(), turn.chat_id.clone(), text.as_str())
                    .with_id_of_input(&turn.input_id, &suffix);
            let publish = self.publish_outbound(message);
            self.publish_in_turn(publish).await?;
        }
        Ok(())
    }
}
