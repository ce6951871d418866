//! The answers to a run's questions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::oneshot;

use crate::tool::Answer;
use crate::util::sync::lock;

use super::shared::RunShared;

/// The questions that are open. Only responders own it: when the last is dropped, every sender is
/// dropped and every question resolves to [`Answer::Unanswered`].
#[derive(Default)]
pub(crate) struct OpenQuestions(Mutex<HashMap<Arc<str>, oneshot::Sender<Answer>>>);

impl OpenQuestions {
    pub(crate) fn open(&self, id: Arc<str>) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.0).insert(id, sender);
        receiver
    }

    /// Removes a question that no longer has a waiting asker.
    pub(crate) fn close(&self, id: &str) {
        lock(&self.0).remove(id);
    }
}

/// Closes a question when its asker stops waiting, for any reason.
pub(crate) struct QuestionGuard {
    pub(crate) questions: Weak<OpenQuestions>,
    pub(crate) id: Arc<str>,
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        if let Some(questions) = self.questions.upgrade() {
            questions.close(&self.id);
        }
    }
}

/// Answers the questions of a run.
///
/// While one is alive, a call that needs permission sends a
/// [`PermissionRequest`](crate::sdk::PermissionRequest) and waits; when the last is dropped, open
/// questions count as unanswered. Clones answer the same questions. If you do not drop the
/// responder and do not answer, the run waits; drop it, or set
/// [`AgentBuilder::ask_timeout`](crate::AgentBuilder::ask_timeout).
///
/// ```
/// use agentcore::{Agent, Answer, SdkMessage};
///
/// # async fn example(agent: Agent) {
/// let mut run = agent.run("Tidy up");
/// let responder = run.responder();
/// while let Some(message) = run.next().await {
///     if let SdkMessage::PermissionRequest(request) = message {
///         responder.respond(&request, Answer::Deny("not today".into()));
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
#[must_use = "dropping the last responder leaves every question unanswered"]
pub struct Responder(Arc<OpenQuestions>);

impl Responder {
    pub(crate) fn of(shared: &RunShared) -> Self {
        Self::of_slot(&mut lock(&shared.questions))
    }

    /// Returns a responder of the questions of `slot`, or of new ones, which are put there.
    pub(crate) fn of_slot(slot: &mut Weak<OpenQuestions>) -> Self {
        let questions = slot.upgrade().unwrap_or_else(|| {
            let questions = Arc::<OpenQuestions>::default();
            *slot = Arc::downgrade(&questions);
            questions
        });
        Self(questions)
    }

    /// Answers a question. `id` is the [`PermissionRequest`](crate::sdk::PermissionRequest), boxed
    /// or not, or its id. Returns `false` if the question is no longer open, because it was
    /// answered or timed out, or its run has ended.
    pub fn respond(&self, id: impl AsRef<str>, answer: Answer) -> bool {
        lock(&self.0.0)
            .remove(id.as_ref())
            .is_some_and(|sender| sender.send(answer).is_ok())
    }

    /// Returns `true` if a question waits for its answer.
    #[cfg(feature = "server")]
    pub(crate) fn has_questions(&self) -> bool {
        !lock(&self.0.0).is_empty()
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("open", &lock(&self.0.0).len())
            .finish_non_exhaustive()
    }
}
