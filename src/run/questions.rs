//! Asking a run's questions.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::{Either, select};
use serde_json::Value;

use crate::message::ToolCall;
use crate::sdk::{PermissionRequest, SdkMessage};
use crate::tool::{Answer, AnswerForm, Asking, Confirmer};
use crate::util::panic;
use crate::util::sync::lock;

use super::context::RunContext;
use super::responder::QuestionGuard;

impl RunContext {
    /// Asks a question: the confirmer first, then the holder of a responder.
    pub(crate) async fn ask(&self, call: &ToolCall, question: String, form: AnswerForm) -> Answer {
        self.emit_init();
        let number = self.0.question_count.fetch_add(1, Ordering::Relaxed);
        let id: Arc<str> = format!("ask_{}_{number}", self.run_id()).into();
        let args: Arc<Value> = call.args.clone();
        let mut request = PermissionRequest::new(
            self.shared().envelope(),
            id.clone(),
            call.id.clone(),
            call.name.clone(),
            args,
            question,
        );
        request.expects_text = form != AnswerForm::Permission;
        if let AnswerForm::Choice(choices) = form {
            request.choices = Some(Box::new(choices));
        }
        self.answer(request, &self.asking(&call.id)).await
    }

    /// Returns the origin of the questions of a call.
    pub(crate) fn asking(&self, call_id: &Arc<str>) -> Asking {
        let mut asking = Asking::new(self.session_id().clone(), call_id.clone());
        for run in std::iter::successors(Some(self), |run| run.parent_run()) {
            let (user_id, values) =
                run.state(|state| (state.user_id.clone(), state.values.clone()));
            asking.user_id = asking.user_id.or(user_id);
            asking = asking.with_values(values);
        }
        asking
    }

    /// Returns the answer to a question of this run or of one below it, within this run's time for
    /// it.
    pub(crate) async fn answer(&self, request: PermissionRequest, asking: &Asking) -> Answer {
        let answer = self.unbounded_answer(request, asking);
        match self.0.settings.ask_timeout {
            None => answer.await,
            Some(limit) => tokio::time::timeout(limit, answer)
                .await
                .unwrap_or(Answer::Unanswered),
        }
    }

    async fn unbounded_answer(&self, request: PermissionRequest, asking: &Asking) -> Answer {
        if let Some(confirmer) = &self.0.settings.confirmer {
            match confirm(&**confirmer, &request, asking).await {
                Answer::Unanswered => {}
                answer => return answer,
            }
        }

        // Held weakly: only responders keep the questions open.
        let questions = lock(&self.shared().questions).clone();
        let receiver = questions
            .upgrade()
            .map(|questions| questions.open(request.id.clone()));
        let _guard = QuestionGuard {
            questions,
            id: request.id.clone(),
        };

        match (receiver, &self.0.parent) {
            (Some(receiver), _) => {
                self.shared()
                    .push(SdkMessage::PermissionRequest(Box::new(request)));
                // A run that has ended has no reader, although a responder may be left.
                let run_end = pin!(self.shared().ended());
                match select(receiver, run_end).await {
                    Either::Left((answer, _)) => answer.unwrap_or(Answer::Unanswered),
                    Either::Right(_) => Answer::Unanswered,
                }
            }
            (None, Some(parent)) => parent.answer(request, asking).await,
            (None, None) => Answer::Unanswered,
        }
    }
}

/// Asks a confirmer. A confirmer that panics counts as a denial.
async fn confirm(
    confirmer: &dyn Confirmer,
    request: &PermissionRequest,
    asking: &Asking,
) -> Answer {
    panic::catch_async(confirmer.confirm(request, asking))
        .await
        .unwrap_or_else(|text| Answer::Deny(format!("the confirmer panicked: {text}")))
}
