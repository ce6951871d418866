//! The interactor of a gateway, which asks in chats.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::tool::Asking;
use crate::tools::ask::{Choice, Chosen, Interactor};

use super::chat_turn::{ChatTurn, UNATTENDED};
use super::message::OutboundMessage;
use super::question_text::choice_text;
use super::questions::AnswerReceiver;

/// An interactor that asks in the chat of the turn.
pub(super) struct ChatInteractor;

impl ChatInteractor {
    /// Sends the text of a question to the chat, and waits for the answer. `receive` creates the
    /// receiver that passes the answer on to a sender.
    async fn send_and_wait<T>(
        asking: &Asking,
        text: String,
        receive: impl FnOnce(oneshot::Sender<T>) -> AnswerReceiver,
    ) -> Result<T> {
        let turn = asking.value::<Arc<ChatTurn>>().ok_or_else(|| {
            let text = "the run belongs to no conversation of a gateway";
            Error::new(ErrorKind::Config, text)
        })?;
        if !turn.is_attended() {
            return Err(Error::new(ErrorKind::InvalidRequest, UNATTENDED));
        }
        let shared = &turn.shared;
        let (sender, receiver) = oneshot::channel();
        let asker = shared.questions.asker();
        asker.add(&turn, receive(sender));
        let id = format!("{}:{}:{}", turn.input_id, asking.call_id, asker.id());
        let message = OutboundMessage::new(turn.channel.clone(), turn.chat_id.clone(), text)
            .with_derived_id(id);
        let publish = shared.publish_outbound(message);
        shared.publish_in_turn(publish).await?;

        let limit = shared.ask_timeout;
        match timeout(limit, receiver).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => {
                let text = format!("there was no answer within {} s", limit.as_secs());
                Err(Error::new(ErrorKind::Timeout, text))
            }
        }
    }
}

#[async_trait]
impl Interactor for ChatInteractor {
    async fn choose(&self, asking: &Asking, choice: &Choice) -> Result<Chosen> {
        let receive = |sender| AnswerReceiver::Choice {
            choice: choice.clone(),
            sender,
        };
        Self::send_and_wait(asking, choice_text(choice), receive).await
    }

    async fn ask(&self, asking: &Asking, question: &str) -> Result<String> {
        Self::send_and_wait(asking, question.to_owned(), AnswerReceiver::Text).await
    }
}
