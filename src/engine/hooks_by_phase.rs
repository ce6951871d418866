//! The hooks of an agent, sorted by phase.

use std::sync::Arc;

use crate::hook::{Hook, Phases};

/// The hooks, sorted by phase once, so that an unused phase costs nothing.
pub(crate) struct Hooks {
    pub(crate) all: Vec<Arc<dyn Hook>>,
    pub(crate) before_agent: Vec<Arc<dyn Hook>>,
    pub(crate) modify_request: Vec<Arc<dyn Hook>>,
    pub(crate) wrap_model_call: Arc<[Arc<dyn Hook>]>,
    pub(crate) pre_tool_use: Vec<Arc<dyn Hook>>,
    pub(crate) wrap_tool_call: Arc<[Arc<dyn Hook>]>,
    pub(crate) post_tool_use: Vec<Arc<dyn Hook>>,
    pub(crate) before_stop: Vec<Arc<dyn Hook>>,
    pub(crate) after_agent: Vec<Arc<dyn Hook>>,
}

impl Hooks {
    pub(crate) fn new(all: Vec<Arc<dyn Hook>>) -> Self {
        let hooks_of = |phase: Phases| -> Vec<Arc<dyn Hook>> {
            let takes_part = |hook: &&Arc<dyn Hook>| hook.phases().contains(phase);
            all.iter().filter(takes_part).cloned().collect()
        };

        Self {
            before_agent: hooks_of(Phases::BEFORE_AGENT),
            modify_request: hooks_of(Phases::MODIFY_REQUEST),
            wrap_model_call: hooks_of(Phases::WRAP_MODEL_CALL).into(),
            pre_tool_use: hooks_of(Phases::PRE_TOOL_USE),
            wrap_tool_call: hooks_of(Phases::WRAP_TOOL_CALL).into(),
            post_tool_use: hooks_of(Phases::POST_TOOL_USE),
            before_stop: hooks_of(Phases::BEFORE_STOP),
            after_agent: hooks_of(Phases::AFTER_AGENT),
            all,
        }
    }

    /// Returns the number of hooks that wrap a model call or a tool call, the larger of the two.
    pub(crate) fn most_wrapping(&self) -> usize {
        self.wrap_model_call.len().max(self.wrap_tool_call.len())
    }
}
