//! Pending calls that are decided now.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, ToolCall, ToolResult};
use crate::run::{ExitReason, RunContext, Stop};
use crate::session::{PendingCall, Record};
use crate::tool::{Answer, Comparisons, Verdict};
use crate::util::Pace;
use crate::util::time::now_ms;

use super::active_run::ActiveRun;
use super::call_starts::CallStart;
use super::decision::Decisions;
use super::refusal::Refusal;
use super::restore::insert_results;
use super::result_context::ResultContext;
use super::result_limits::limit_result;
use super::sanitize;
use super::tool_call::CallOutcome;
use super::tool_permission::{PermissionCheck, reply_result};

impl ActiveRun {
    /// Ends the pending calls that have a decision. Returns the exit reason if the run ends here,
    /// for example because other calls are still pending.
    ///
    /// If the run is stopped, the calls that have no result by then stay pending.
    pub(super) async fn resume(&mut self, decisions: &Decisions) -> Result<Option<ExitReason>> {
        let pending = self.cx.state(|state| state.pending.clone());
        decisions.check(&pending, now_ms())?;
        self.check_tools(&pending, decisions)?;
        let mut decided_calls = DecidedCalls::new(&self.cx);
        let decide_result = self.decide(pending, decisions, &mut decided_calls).await;
        // Also after an error: these calls have run.
        self.history.initial_len += decided_calls.join_history(self.history.initial_len);
        let decide_result = match decide_result {
            Ok(exit) => self.history.save().await.map(|()| exit),
            Err(error) => Err(error),
        };

        self.history
            .emit_earlier_results(std::mem::take(&mut decided_calls.results));
        let exit = decide_result?;
        let has_pending = self.cx.state(|state| !state.pending.is_empty());
        Ok(exit.or(has_pending.then_some(ExitReason::AwaitingApproval)))
    }

    /// Refuses, answers or runs each call that has a decision, in order. Calls without a decision
    /// stay pending, and so do all calls after a reason to end the run, which is returned.
    async fn decide(
        &mut self,
        pending: Vec<PendingCall>,
        decisions: &Decisions,
        decided_calls: &mut DecidedCalls,
    ) -> Result<Option<ExitReason>> {
        let mut exit = self.check_stop();
        let decisions = decisions.by_id();
        let mut pace = Pace::default();
        for call in pending {
            // Each result leaves less room for the next, because they share the history.
            let max_bytes = self.history.byte_size.max_result_bytes(1);
            let context = ResultContext::new(call.context.clone());
            let decision = decisions.get(&*call.id).filter(|_| exit.is_none());
            let result = match decision.map(|decision| &decision.answer) {
                None | Some(Answer::Unanswered) => None,
                Some(Answer::Deny(message)) => {
                    let refusal = Refusal::denied(&self.cx, &call.call, "user", message);
                    Some(refusal.into_result(&call.call))
                }
                Some(Answer::Reply { text, picked }) => {
                    let mut result = reply_result(&call.call, text.clone(), picked);
                    limit_result(&mut result, &call.call, max_bytes);
                    Some(result)
                }
                Some(answer) => {
                    self.run_approved(&call, answer, &context, decided_calls)
                        .await?
                }
            };

            exit = exit.or_else(|| self.check_stop());
            let Some(mut result) = result else {
                continue;
            };

            context.add_to(&mut result, max_bytes);
            sanitize::result(&mut result);
            decided_calls.add(call.id, result.clone());
            self.history.count_result(&result);
            pace.step(0).await;
        }

        Ok(exit)
    }

    /// Refuses approvals of calls whose tool this agent does not have: the agent that asked has to
    /// resume them.
    fn check_tools(&self, pending: &[PendingCall], decisions: &Decisions) -> Result<()> {
        let decisions = decisions.by_id();
        let tools = self.cx.tools();
        for call in pending {
            let answer = decisions.get(&*call.id).map(|decision| &decision.answer);
            if let None | Some(Answer::Deny(_) | Answer::Reply { .. }) = answer {
                continue;
            }

            if let Err(reason) = tools.resolve(&call.call.name, &Comparisons::default()) {
                let text = format!(
                    "the decision about call {:?} was refused: {reason}; nothing was run",
                    call.id
                );
                return Err(Error::new(ErrorKind::Conflict, text));
            }
        }

        Ok(())
    }

    /// Runs an approved call and returns its result. Returns `None` if the call stays pending,
    /// because it could not begin or because its tool asked another question.
    async fn run_approved(
        &self,
        pending: &PendingCall,
        answer: &Answer,
        context: &ResultContext,
        decided_calls: &mut DecidedCalls,
    ) -> Result<Option<ToolResult>> {
        let call = pending.call.clone();
        let tool = match self.cx.tools().resolve(&call.name, &Comparisons::default()) {
            Ok(tool) => tool,
            Err(text) => return Ok(Some(ToolResult::failed(&call, text))),
        };

        let check = PermissionCheck {
            config: &self.config,
            cx: &self.cx,
            tool: &tool,
            context,
        };

        let permit = permit_decided(&check, pending, answer);
        let call = match self.cx.shared().unless_stopped(permit).await {
            None => return Ok(None),
            Some(Ok(call)) => call,
            Some(Err(refusal)) => {
                refusal.interrupt(&self.cx);
                return Ok(Some(refusal.into_result(&call)));
            }
        };

        context.approve(pending.question.clone());

        // Stored before the call runs, so that a resume after a crash does not run it again. If
        // that fails, the call stays pending.
        let records = decided_calls.take_unstored(&pending.id);
        let writer = &self.history.writer;
        writer.append_with_state(&self.cx, records).await?;
        decided_calls.ids.insert(pending.id.clone());
        match self.run_decided(&check, &call).await {
            CallOutcome::Done(result) => Ok(Some(result)),
            CallOutcome::Pending(new_call) => {
                self.replace_pending(&pending.id, new_call);
                Ok(None)
            }
            CallOutcome::NotBegun => {
                decided_calls.ids.remove(&pending.id);
                Ok(None)
            }
        }
    }

    /// Runs an approved call. Its outcome is `NotBegun` if it could not begin.
    async fn run_decided(&self, check: &PermissionCheck<'_>, call: &ToolCall) -> CallOutcome {
        let runner = self.call_runner(1);
        let start = CallStart::default();
        let execution = runner.run_permitted(check, call, &start);
        let outcome = self.cx.shared().unless_stopped(execution).await;
        if runner.halt.is_interrupted() {
            self.cx.shared().request_stop(Stop::Interrupt);
        }

        if start.has_begun() {
            return outcome
                .unwrap_or_else(|| CallOutcome::Done(runner.cancelled_result(call, true)));
        }

        if let Some(CallOutcome::Done(refusal)) = outcome {
            self.cx.warn(format!(
                "{}; the call stays pending",
                refusal.content.text()
            ));
        }

        CallOutcome::NotBegun
    }

    /// Replaces the pending call `id` by `new_call`, which has another question.
    fn replace_pending(&self, id: &str, mut new_call: PendingCall) {
        self.cx.state(|state| {
            let mut pending = state.pending.iter_mut();
            if let Some(call) = pending.find(|call| *call.id == *id) {
                new_call.input_prompt = call.input_prompt.take();
                *call = new_call;
            }
        });
    }
}

/// Checks an approved call. Grants calls like it for the session, if the answer allows them.
async fn permit_decided(
    check: &PermissionCheck<'_>,
    pending: &PendingCall,
    answer: &Answer,
) -> Result<ToolCall, Refusal> {
    let call = pending.call.clone();
    if let Answer::Edit(args) = answer {
        return check.permit_edited(call.with_args(args.clone())).await;
    }

    let call = check.permit_approved(call, Verdict::Continue).await?;
    if *answer == Answer::AllowForSession {
        check.grant(&call, &pending.question).await;
    }
    Ok(call)
}

/// The pending calls that were decided. Their results are inserted into the history together,
/// because each insertion moves the messages after it.
///
/// If `DecidedCalls` is dropped, for example by a panic, the results are inserted as well, because
/// the calls have run.
struct DecidedCalls {
    cx: RunContext,
    /// The ids of the calls.
    ids: HashSet<Arc<str>>,
    results: Vec<ToolResult>,
    /// The ids of the calls whose decisions are not stored yet.
    unstored_ids: Vec<Arc<str>>,
    /// The number of results that are stored.
    stored_count: usize,
    has_joined: bool,
}

impl DecidedCalls {
    fn new(cx: &RunContext) -> Self {
        Self {
            cx: cx.clone(),
            ids: HashSet::new(),
            results: Vec::new(),
            unstored_ids: Vec::new(),
            stored_count: 0,
            has_joined: false,
        }
    }

    fn add(&mut self, id: Arc<str>, result: ToolResult) {
        self.results.push(result);
        if self.ids.insert(id.clone()) {
            self.unstored_ids.push(id);
        }
    }

    /// Takes the records of the decisions that are not stored yet, and of the approval of call
    /// `id`.
    fn take_unstored(&mut self, id: &Arc<str>) -> Vec<Record> {
        let mut ids = std::mem::take(&mut self.unstored_ids);
        ids.push(id.clone());
        let results = self.results[self.stored_count..].iter().cloned();
        let result_records = results.map(|result| Record::ToolEnded {
            result: Arc::new(Message::Tool(result)),
        });
        self.stored_count = self.results.len();
        std::iter::once(Record::Answered { ids })
            .chain(result_records)
            .collect()
    }

    /// Adds the results to the history and removes the calls from the pending ones. Returns the
    /// number of results that were inserted among the first `len` messages.
    fn join_history(&mut self, len: usize) -> usize {
        if std::mem::replace(&mut self.has_joined, true) {
            return 0;
        }

        self.cx.state(|state| {
            let history = state.messages.as_slice();
            let last = len
                .checked_sub(1)
                .and_then(|last| history.get(last).cloned());
            state.pending.retain(|call| !self.ids.contains(&call.id));
            insert_results(state, self.results.clone());
            let is_last = |message: &Arc<Message>| {
                last.as_ref().is_some_and(|last| Arc::ptr_eq(last, message))
            };
            let place = state.messages.as_slice().iter().rposition(is_last);
            place.map_or(0, |place| place + 1 - len)
        })
    }
}

impl Drop for DecidedCalls {
    fn drop(&mut self) {
        self.join_history(0);
    }
}
