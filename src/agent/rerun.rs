//! Calls that had started when their run was dropped, once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::message::{Message, ToolCall, ToolResult};
use crate::run::Stop;

use super::drive::Driver;
use super::opening::MAY_HAVE_RUN;
use super::tidy;
use super::tool_call::{Calls, Outcome};

impl Driver {
    /// Runs those of the calls again whose tools are idempotent, in their order. They pass hooks
    /// and the permission gate anew. A call that may not run, and one whose tool may not run
    /// twice, keeps the result that says it may have run.
    ///
    /// Nothing is saved before all is done: a run that is dropped in here leaves the calls as
    /// they were, started and without a result.
    pub(super) async fn rerun(&mut self, interrupted: Vec<ToolCall>) -> Result<()> {
        let mut results = Vec::new();
        for call in interrupted {
            let tool = self.cx.tool(&call.name);
            if !tool.is_some_and(|tool| tool.is_idempotent()) {
                continue;
            }
            let Some(result) = self.run_again(&call).await? else {
                continue;
            };
            if self.replace_result(&call, &result) {
                results.push(result);
            }
        }
        self.show_late(results);
        Ok(())
    }

    async fn run_again(&self, call: &ToolCall) -> Result<Option<ToolResult>> {
        // The reader sees what the run begins with before it sees what it does.
        self.cx.open();
        let halt = AtomicBool::new(false);
        let calls = Calls {
            agent: &self.agent,
            cx: &self.cx,
            keeper: self.keeper()?,
            halt: &halt,
        };
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

    /// Puts the result in the place of the one that says the call may have run; false when a hook
    /// has taken that out.
    fn replace_result(&self, call: &ToolCall, result: &ToolResult) -> bool {
        let unknown = ToolResult::failed(call, MAY_HAVE_RUN);
        self.cx.state(|state| {
            let is_unknown = |message: &Arc<Message>| message.as_tool_result() == Some(&unknown);
            let at = state.messages.as_slice().iter().rposition(is_unknown);
            let message = at.and_then(|at| state.messages.get_mut(at));
            message
                .map(|message| *message = Message::Tool(result.clone()))
                .is_some()
        })
    }
}
