//! Questions in chats.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::run::Responder;
use crate::sdk::PermissionRequest;
use crate::tool::{Answer, Asking};
use crate::tools::ask::{Choice, Chosen, Interactor};
use crate::util::sync::lock;

use super::answers::{chosen_of, permission_answer};
use super::message::{InboundMessage, OutboundMessage};
use super::newest_ids::NewestIds;
use super::turn::{Turn, UNATTENDED};

/// The number of answers whose ids are kept.
const MAX_ANSWERS: usize = 4_096;

/// The questions that wait for a person, by session, the oldest first.
pub(super) struct Questions {
    open: Mutex<HashMap<Arc<str>, VecDeque<Question>>>,
    count: AtomicU64,
    /// The ids of the messages that were taken as answers.
    answers: Mutex<NewestIds>,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            count: AtomicU64::default(),
            answers: Mutex::new(NewestIds::new(MAX_ANSWERS)),
        }
    }
}

struct Question {
    /// The run or the call that asks it.
    asker: u64,
    channel: Arc<str>,
    chat_id: Arc<str>,
    sender_id: Arc<str>,
    /// The input of the turn that asks it.
    input_id: Arc<str>,
    target: Target,
}

/// The receiver of an answer.
enum Target {
    Permission {
        responder: Responder,
        id: Arc<str>,
        expects_text: bool,
        choice: Option<Choice>,
    },
    Choice {
        choice: Choice,
        sender: oneshot::Sender<Chosen>,
    },
    Text(oneshot::Sender<String>),
}

impl Target {
    /// Answers the question. Returns `false` if it is no longer asked.
    fn answer(self, text: &str) -> bool {
        match self {
            Self::Permission {
                responder,
                id,
                expects_text,
                choice,
            } => {
                let answer = if let Some(choice) = choice {
                    chosen_of(&choice, text).into()
                } else if expects_text {
                    Answer::reply(text)
                } else {
                    permission_answer(text)
                };
                responder.respond(id, answer)
            }
            Self::Choice { choice, sender } => sender.send(chosen_of(&choice, text)).is_ok(),
            Self::Text(sender) => sender.send(text.to_owned()).is_ok(),
        }
    }
}

impl Questions {
    /// Returns `true` if a message of this id was taken as an answer.
    pub(super) fn has_taken(&self, message_id: &str) -> bool {
        lock(&self.answers).contains(message_id)
    }

    /// Takes a message as the answer to the oldest question that its sender was asked in its chat
    /// and session. Returns `false` if there is none.
    pub(super) fn answer(&self, message: &InboundMessage) -> bool {
        while let Some(question) = self.take(message) {
            if question.target.answer(&message.content) {
                lock(&self.answers).add(&message.id);
                return true;
            }
        }
        false
    }

    /// Takes the oldest question that the sender of a message was asked in its chat and session.
    fn take(&self, message: &InboundMessage) -> Option<Question> {
        let is_asked = |question: &Question| {
            question.channel == message.channel
                && question.chat_id == message.chat_id
                && question.sender_id == message.sender_id
                // One that is delivered again while its turn is in progress answers nothing.
                && question.input_id != message.id
        };
        let mut open = lock(&self.open);
        let questions = open.get_mut(&message.session_key)?;
        let index = questions.iter().position(is_asked)?;
        let question = questions.remove(index);
        if questions.is_empty() {
            open.remove(&message.session_key);
        }
        question
    }

    /// Begins the questions of a run or a call.
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            questions: self,
            asker: self.count.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// The questions of a run or a call, which are withdrawn when it is dropped.
pub(super) struct Asked<'a> {
    questions: &'a Questions,
    asker: u64,
}

impl Asked<'_> {
    /// Adds a question that a responder answers.
    pub(super) fn permission(
        &self,
        turn: &Turn,
        request: &PermissionRequest,
        responder: Responder,
    ) {
        let target = Target::Permission {
            responder,
            id: request.id.clone(),
            expects_text: request.expects_text,
            choice: Choice::of_request(request),
        };
        self.add(turn, target);
    }

    fn add(&self, turn: &Turn, target: Target) {
        let question = Question {
            asker: self.asker,
            channel: turn.channel.clone(),
            chat_id: turn.chat_id.clone(),
            sender_id: turn.sender_id.clone(),
            input_id: turn.input_id.clone(),
            target,
        };
        let mut open = lock(&self.questions.open);
        let questions = open.entry(turn.session_key.clone()).or_default();
        questions.push_back(question);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut open = lock(&self.questions.open);
        open.retain(|_, questions| {
            questions.retain(|question| question.asker != self.asker);
            !questions.is_empty()
        });
    }
}

/// The text of a question about a call.
pub(super) fn permission_text(request: &PermissionRequest) -> String {
    let question = &request.question;
    if let Some(choice) = Choice::of_request(request) {
        choice_text(&choice)
    } else if request.expects_text {
        question.clone()
    } else {
        format!("{question}\n\nReply yes, always, no, or no with a reason.")
    }
}

fn choice_text(choice: &Choice) -> String {
    let mut text = choice.question.clone();
    for (index, option) in choice.options.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!("\n{number}. {}", option.label));
        if !option.description.is_empty() {
            text.push_str(&format!(" - {}", option.description));
        }
    }
    text.push_str(if choice.text.is_some() {
        "\n\nReply with a number, or in your own words."
    } else {
        "\n\nReply with a number."
    });
    text
}

/// Asks in the chat of the turn that a question comes from.
pub(super) struct ChatInteractor;

impl ChatInteractor {
    /// Asks, and waits for the answer.
    async fn answer<T>(
        asking: &Asking,
        text: String,
        target: impl FnOnce(oneshot::Sender<T>) -> Target,
    ) -> Result<T> {
        let turn = asking.value::<Arc<Turn>>().ok_or_else(|| {
            let text = "the run belongs to no conversation of a gateway";
            Error::new(ErrorKind::Config, text)
        })?;
        if !turn.is_attended() {
            return Err(Error::new(ErrorKind::InvalidRequest, UNATTENDED));
        }
        let shared = &turn.shared;
        let (sender, receiver) = oneshot::channel();
        let asked = shared.questions.asked();
        asked.add(&turn, target(sender));
        let id = format!("{}:{}:{}", turn.input_id, asking.call_id, asked.asker);
        let message = OutboundMessage::new(turn.channel.clone(), turn.chat_id.clone(), text)
            .with_derived_id(id);
        shared.bus.publish_outbound(message).await?;

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
        let target = |sender| Target::Choice {
            choice: choice.clone(),
            sender,
        };
        Self::answer(asking, choice_text(choice), target).await
    }

    async fn ask(&self, asking: &Asking, question: &str) -> Result<String> {
        Self::answer(asking, question.to_owned(), Target::Text).await
    }
}
