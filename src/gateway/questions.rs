//! The open questions of a gateway.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::run::Responder;
use crate::sdk::PermissionRequest;
use crate::tool::Answer;
use crate::tools::ask::{Choice, Chosen};
use crate::util::sync::lock;
use crate::util::time::now_us;

use super::answers::{chosen_of, permission_answer};
use super::chat_turn::ChatTurn;
use super::message::InboundMessage;
use super::newest_ids::NewestIds;

/// The maximum number of answers whose ids are kept.
const MAX_ANSWERS: usize = 4_096;

/// The questions that wait for a person, by session, the oldest first.
pub(super) struct Questions {
    open: Mutex<HashMap<Arc<str>, VecDeque<Question>>>,
    /// The number of askers so far.
    asker_count: AtomicU64,
    /// The ids of the messages that were taken as answers.
    answers: Mutex<NewestIds>,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            asker_count: AtomicU64::default(),
            answers: Mutex::new(NewestIds::new(MAX_ANSWERS)),
        }
    }
}

struct Question {
    /// The id of its [`Asker`].
    asker_id: u64,
    channel: Arc<str>,
    chat_id: Arc<str>,
    sender_id: Arc<str>,
    /// The input of the turn that asks it.
    input_id: Arc<str>,
    /// The time at which it was asked, in microseconds since the Unix epoch.
    asked_at_us: u64,
    receiver: AnswerReceiver,
}

/// The receiver of an answer.
pub(super) enum AnswerReceiver {
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

impl AnswerReceiver {
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
    /// and session before the message was written. Returns `false` if there is none.
    pub(super) fn answer(&self, message: &InboundMessage) -> bool {
        while let Some(question) = self.take(message) {
            if question.receiver.answer(&message.content) {
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
                // A message that is delivered again while its turn is in progress answers nothing.
                && question.input_id != message.id
                // Nor does one that was written before the question, or at an unknown time.
                && message.published_at_us > Some(question.asked_at_us)
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

    /// Adds an asker without questions: a run or a call.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker {
            questions: self,
            id: self.asker_count.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// A run or a call that asks questions. Dropping it withdraws them.
pub(super) struct Asker<'a> {
    questions: &'a Questions,
    id: u64,
}

impl Asker<'_> {
    /// Returns the number of this asker, unique in its gateway.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Adds a question whose answer a responder receives.
    pub(super) fn add_permission(
        &self,
        turn: &ChatTurn,
        request: &PermissionRequest,
        responder: Responder,
    ) {
        let receiver = AnswerReceiver::Permission {
            responder,
            id: request.id.clone(),
            expects_text: request.expects_text,
            choice: Choice::of_request(request),
        };
        self.add(turn, receiver);
    }

    /// Removes a question that its person has not seen, so that no message is taken as its answer.
    pub(super) fn remove_permission(&self, turn: &ChatTurn, request: &PermissionRequest) {
        let is_of_request = |question: &Question| match &question.receiver {
            AnswerReceiver::Permission { id, .. } => *id == request.id,
            _ => false,
        };
        let mut open = lock(&self.questions.open);
        if let Some(questions) = open.get_mut(&turn.session_key) {
            questions.retain(|question| question.asker_id != self.id || !is_of_request(question));
        }
    }

    /// Adds a question of a turn.
    pub(super) fn add(&self, turn: &ChatTurn, receiver: AnswerReceiver) {
        let question = Question {
            asker_id: self.id,
            channel: turn.channel.clone(),
            chat_id: turn.chat_id.clone(),
            sender_id: turn.sender_id.clone(),
            input_id: turn.input_id.clone(),
            asked_at_us: now_us(),
            receiver,
        };
        let mut open = lock(&self.questions.open);
        let questions = open.entry(turn.session_key.clone()).or_default();
        questions.push_back(question);
    }
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        let mut open = lock(&self.questions.open);
        open.retain(|_, questions| {
            questions.retain(|question| question.asker_id != self.id);
            !questions.is_empty()
        });
    }
}
