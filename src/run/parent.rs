//! The call of a parent run, as its child runs use it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::sdk::PermissionRequest;
use crate::tool::{Answer, Asking};

use super::call_clock::{CallClock, PausedClock};
use super::context::RunContext;
use super::parent_call::ParentCall;

/// The call of a parent run, as its child runs use it.
pub(crate) struct Parent {
    run: RunContext,
    clock: Arc<CallClock>,
    call: ParentCall,
}

impl Parent {
    /// Creates the parent of the child runs of a call of `run`.
    pub(crate) fn new(run: RunContext, clock: Arc<CallClock>, tool_use_id: Arc<str>) -> Self {
        let call = ParentCall {
            session_id: run.session_id().clone(),
            run_id: run.run_id().into(),
            tool_use_id,
            depth: run.depth() + 1,
        };
        Self { run, clock, call }
    }

    /// Returns the run that made the call.
    pub(crate) fn run(&self) -> &RunContext {
        &self.run
    }

    pub(crate) fn call(&self) -> &ParentCall {
        &self.call
    }

    /// Asks a child's question; the call's time stands still meanwhile.
    pub(super) fn answer<'a>(
        &'a self,
        mut request: PermissionRequest,
        asking: &'a Asking,
    ) -> BoxFuture<'a, Answer> {
        // Boxed, because the future of `RunContext::answer` contains this one.
        async move {
            let _paused = PausedClock::begin(&self.clock);
            let call_id = &mut request.envelope.parent_tool_use_id;
            call_id.get_or_insert_with(|| self.call.tool_use_id.clone());
            self.run.answer(request, asking).await
        }
        .boxed()
    }
}
