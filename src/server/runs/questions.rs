//! The questions of a run, and their answers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::run::Responder;
use crate::sdk::SdkMessage;
use crate::tool::Answer;
use crate::util::sync::lock;

/// The outcome of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerOutcome {
    /// The answer was the first, and the run continues with it.
    Answered,
    /// The question was answered already, or its call is stored for a later decision.
    Closed,
    /// There is no such question.
    Unknown,
}

/// The questions of one run, and the responder that answers them while the run waits.
pub(super) struct Questions {
    /// `None` if calls are stored for a later decision: at once, or since [`close`](Self::close).
    responder: Mutex<Option<Responder>>,
    /// The ids of all questions of the run, also of those that are answered.
    ids: Mutex<HashSet<Arc<str>>>,
}

impl Questions {
    pub(super) fn new(responder: Option<Responder>) -> Self {
        Self {
            responder: Mutex::new(responder),
            ids: Mutex::default(),
        }
    }

    /// Records a question.
    pub(super) fn record(&self, message: &SdkMessage) {
        if let SdkMessage::PermissionRequest(request) = message {
            lock(&self.ids).insert(request.id.clone());
        }
    }

    /// Returns `true` if the run has asked the question `id`.
    pub(super) fn has(&self, id: &str) -> bool {
        lock(&self.ids).contains(id)
    }

    /// Answers the question `id`, which the run has asked.
    pub(super) fn answer(&self, id: &str, answer: Answer) -> AnswerOutcome {
        let responder = lock(&self.responder);
        match &*responder {
            Some(responder) if responder.respond(id, answer) => AnswerOutcome::Answered,
            _ => AnswerOutcome::Closed,
        }
    }

    /// Returns `true` if the run waits for an answer.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.responder)
            .as_ref()
            .is_some_and(Responder::has_questions)
    }

    /// Stops accepting answers: the calls of open and later questions are stored for a later
    /// decision.
    pub(super) fn close(&self) {
        // Dropped outside the lock: it wakes the run.
        let responder = lock(&self.responder).take();
        drop(responder);
    }
}
