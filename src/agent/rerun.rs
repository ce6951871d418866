//! Calls that had no result when their run was dropped, once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::message::{Message, ToolCall, ToolResult};
use crate::run::Stop;

use super::drive::Driver;
use super::restore::{MAY_HAVE_RUN, OpenCall};
use super::tidy;
use super::tool_call::Outcome;

impl Driver {
    /// Runs those of the calls again that may have begun and whose tools are idempotent, in their
    /// order. They pass hooks and the permission gate anew. A call that may not run, and one whose
    /// tool may not run twice, gets the result that says it may have run.
    ///
    /// The start of a call that changes nothing is not stored, so it may have begun in any case.
    ///
    /// Nothing is saved before all is done: a run that is dropped in here leaves the calls as
    /// they were, without a result. Returned are the results of all.
    pub(super) async fn rerun(&mut self, open: Vec<OpenCall>) -> Result<Vec<ToolResult>> {
        let mut results = Vec::with_capacity(open.len());
        for open in open {
            let result = self.result_of(&open).await?;
            self.replace_result(&open, &result);
            results.push(result);
        }
        self.count_late(&results);
        Ok(results)
    }

    async fn result_of(&self, open: &OpenCall) -> Result<ToolResult> {
        let Some(tool) = self.cx.tool(&open.call.name) else {
            return Ok(open.answer());
        };
        if !open.started && !tool.side_effect().is_read_only() {
            return Ok(open.answer());
        }
        let again = match tool.is_idempotent() {
            true => self.run_again(&open.call).await?,
            false => None,
        };
        Ok(again.unwrap_or_else(|| ToolResult::failed(&open.call, MAY_HAVE_RUN)))
    }

    async fn run_again(&self, call: &ToolCall) -> Result<Option<ToolResult>> {
        // The reader sees what the run begins with before it sees what it does.
        self.cx.open();
        let halt = AtomicBool::new(false);
        let calls = self.calls(&halt)?;
        let started = AtomicBool::new(false);
        match calls.run(call.clone(), &started).await {
            Some(Outcome::Done(mut result)) if started.load(Ordering::Acquire) => {
                tidy::result(&mut result);
                Ok(Some(result))
            }
            Some(Outcome::Interrupt(_)) => {
                self.cx.shared().request_stop(Stop::Interrupt);
                Ok(None)
            }
            Some(Outcome::Done(_) | Outcome::Parked(_)) | None => Ok(None),
        }
    }

    /// Puts the result in the place of the one the call has for now, unless a hook has taken that
    /// out.
    fn replace_result(&self, open: &OpenCall, result: &ToolResult) {
        let answer = open.answer();
        self.cx.state(|state| {
            let is_answer = |message: &Arc<Message>| message.as_tool_result() == Some(&answer);
            let at = state.messages.as_slice().iter().rposition(is_answer);
            let message = at.and_then(|at| state.messages.get_mut(at));
            if let Some(message) = message {
                *message = Message::Tool(result.clone());
            }
        });
    }
}
