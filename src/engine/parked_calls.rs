//! Calls that waited for approval, now that they are decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{ToolCall, ToolResult};
use crate::run::ExitReason;
use crate::session::PendingCall;
use crate::tool::{Answer, Tool};

use super::active_run::ActiveRun;
use super::decision::{Decisions, now_ms};
use super::refusal::Refusal;
use super::restore::insert_result;
use super::result_context::ResultContext;
use super::sanitize;
use super::tool_batch::cancelled_result;
use super::tool_permission::PermissionCheck;

impl ActiveRun {
    /// Answers the calls that waited for approval. Returns `Some` when the run cannot continue yet.
    ///
    /// Once the run is stopped, calls that are not answered yet stay pending.
    pub(super) async fn resume(&mut self, decisions: &Decisions) -> Result<Option<ExitReason>> {
        let pending = self.cx.state(|state| state.pending.clone());
        decisions.check(&pending, now_ms())?;
        self.check_tools(&pending, decisions)?;
        let mut results = Vec::new();
        let outcome = self.decide(pending, decisions, &mut results).await;
        // Also after an error: these calls have run.
        self.history.show_earlier_results(results);
        let exit = outcome?;
        let has_pending = self.cx.state(|state| !state.pending.is_empty());
        Ok(exit.or(has_pending.then_some(ExitReason::AwaitingApproval)))
    }

    async fn decide(
        &mut self,
        pending: Vec<PendingCall>,
        decisions: &Decisions,
        results: &mut Vec<ToolResult>,
    ) -> Result<Option<ExitReason>> {
        let mut exit = self.check_stop();
        let max_bytes = self.config.limits.max_result_bytes;
        let decisions = decisions.by_id();
        for call in pending {
            let context = ResultContext::new(call.context.clone());
            let decision = decisions.get(&*call.id).filter(|_| exit.is_none());
            let result = match decision.map(|decision| &decision.answer) {
                None | Some(Answer::Unanswered) => None,
                Some(Answer::Deny(message)) => {
                    let refusal = Refusal::denied(&self.cx, &call.call, "user", message);
                    Some(refusal.into_result(&call.call))
                }
                Some(answer) => self.run_approved(&call, answer, &context).await?,
            };

            exit = exit.or_else(|| self.check_stop());
            let Some(mut result) = result else {
                continue;
            };

            context.add_to(&mut result, max_bytes);
            sanitize::result(&mut result);

            // Inserted immediately: the next save drops the record that this call had started, and
            // an answered question must not be asked again.
            let place = self.cx.state(|state| {
                state.pending.retain(|other| other.id != call.id);
                insert_result(&mut state.messages, result.clone())
            });

            if place.is_some_and(|place| place < self.history.new_from) {
                self.history.new_from += 1;
            }

            self.history.count(&result);
            results.push(result);
        }

        let state = self.cx.state(|state| state.clone());
        self.history.save(&state).await?;
        Ok(exit)
    }

    /// Refuses approvals of calls that this agent cannot run: they are for one that can.
    fn check_tools(&self, pending: &[PendingCall], decisions: &Decisions) -> Result<()> {
        let decisions = decisions.by_id();
        for call in pending {
            let answer = decisions.get(&*call.id).map(|decision| &decision.answer);
            if let None | Some(Answer::Deny(_)) = answer {
                continue;
            }

            if let Err(reason) = self.cx.tools().resolve(&call.call.name) {
                let text = format!(
                    "the decision about call {:?} was refused: {reason}; nothing was run",
                    call.id
                );
                return Err(Error::new(ErrorKind::Conflict, text));
            }
        }

        Ok(())
    }

    /// Runs an approved call and returns its result; `None` when it could not begin and stays
    /// pending.
    async fn run_approved(
        &self,
        pending: &PendingCall,
        answer: &Answer,
        context: &ResultContext,
    ) -> Result<Option<ToolResult>> {
        let call = pending.call.clone();
        let tool = match self.cx.tools().resolve(&call.name) {
            Ok(tool) => tool,
            Err(text) => return Ok(Some(ToolResult::failed(&call, text))),
        };

        let check = PermissionCheck {
            config: &self.config,
            cx: &self.cx,
            tool: &tool,
            context,
        };

        let permit = async {
            match answer {
                Answer::Edit(args) => {
                    let call = call.clone().with_args(args.clone());
                    check.permit_edited(call).await
                }
                _ => check.permit_approved(call.clone()).await,
            }
        };

        let call = match self.cx.shared().unless_stopped(permit).await {
            None => return Ok(None),
            Some(Ok(call)) => call,
            Some(Err(refusal)) => {
                refusal.interrupt(&self.cx);
                return Ok(Some(refusal.into_result(&call)));
            }
        };

        if *answer == Answer::AllowForSession {
            check.grant(&call, &pending.question).await;
        }

        // Removed before the call runs, so that a resume after a crash does not run it again.
        let place = self.forget_pending(&pending.id).await?;
        let result = self.run_decided(&tool, &call, context).await;
        if result.is_none() {
            let pending = pending.clone();
            self.cx.state(|state| {
                let place = place.min(state.pending.len());
                state.pending.insert(place, pending);
            });
        }

        Ok(result)
    }

    async fn run_decided(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        context: &ResultContext,
    ) -> Option<ToolResult> {
        let runner = self.call_runner(1);
        let is_started = AtomicBool::new(false);
        let execution = runner.run_permitted(tool, call.clone(), context, &is_started);
        let result = self.cx.shared().unless_stopped(execution).await;
        if is_started.load(Ordering::Acquire) {
            return Some(result.unwrap_or_else(|| cancelled_result(call, true)));
        }

        if let Some(refusal) = result {
            self.cx.warn(format!(
                "{}; the call stays pending",
                refusal.content.text()
            ));
        }

        None
    }

    /// Stored first: a question whose approval could not be used up stays open. Returned is where
    /// among the others it was.
    async fn forget_pending(&self, id: &str) -> Result<usize> {
        let mut state = self.cx.state(|state| state.clone());
        let place = state.pending.iter().position(|call| &*call.id == id);
        state.pending.retain(|call| &*call.id != id);
        self.history.save(&state).await?;
        self.cx.state(|slot| slot.pending = state.pending);
        Ok(place.unwrap_or_default())
    }
}
