//! Calls that had no result when their run was dropped, once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::message::{Message, ToolCall, ToolResult};
use crate::run::Stop;

use super::drive::Driver;
use super::opening::{MAY_HAVE_RUN, OpenCall};
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
    /// they were, without a result.
    pub(super) async fn rerun(&mut self, open: Vec<OpenCall>) -> Result<()> {
        let mut results = Vec::new();
        for open in open {
            let Some(tool) = self.cx.tool(&open.call.name) else {
                continue;
            };
            if !open.started && !tool.side_effect().is_read_only() {
                continue;
            }
            let again = match tool.is_idempotent() {
                true => self.run_again(&open.call).await?,
                false => None,
            };
            match again {
                Some(result) => {
                    if self.replace_result(&open, &result) {
                        results.push(result);
                    }
                }
                None => {
                    self.replace_result(&open, &ToolResult::failed(&open.call, MAY_HAVE_RUN));
                }
            }
        }
        self.show_late(results);
        Ok(())
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

    /// Puts the result in the place of the one the call has for now; false when a hook has taken
    /// that out.
    fn replace_result(&self, open: &OpenCall, result: &ToolResult) -> bool {
        let answer = open.answer();
        self.cx.state(|state| {
            let is_answer = |message: &Arc<Message>| message.as_tool_result() == Some(&answer);
            let at = state.messages.as_slice().iter().rposition(is_answer);
            let message = at.and_then(|at| state.messages.get_mut(at));
            message
                .map(|message| *message = Message::Tool(result.clone()))
                .is_some()
        })
    }
}
