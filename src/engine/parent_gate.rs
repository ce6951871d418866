//! The permission gate of a child run, which allows no more than its parent's gates.

use async_trait::async_trait;

use crate::backend::{DeniedPath, PathFilter};
use crate::error::Result;
use crate::run::RunContext;
use crate::tool::{AskOrigin, GateRequest, PermissionGate, PermissionMode, ToolDecision, Verdict};

use super::tool_permission::{dont_ask_reason, refusal_by_mode};

/// The gates and the mode of the parent run, and so of all its ancestors, as a gate of the child:
/// delegating a call must not bypass a denial. The grants of the parent's session stay if a
/// new session of the child begins.
pub(super) struct ParentGate(pub(super) RunContext);

impl ParentGate {
    /// Returns the request as the parent run would make it. It has only the memory paths that both
    /// runs have: neither run may write memory that only the other one has without a question.
    fn parent_request(&self, request: &GateRequest) -> GateRequest {
        let mut parent_request = self.0.gate_request(&request.tool, &request.call);
        let is_shared = |path: &&String| request.memory_paths.contains(*path);
        parent_request.memory_paths = parent_request
            .memory_paths
            .iter()
            .filter(is_shared)
            .cloned()
            .collect();
        parent_request
    }
}

#[async_trait]
impl PermissionGate for ParentGate {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        let request = self.parent_request(request);
        if let Some(reason) = refusal_by_mode(request.mode, &request.tool) {
            return Ok(ToolDecision::deny(reason));
        }

        let mut decision = self.0.gates().check(&request).await?;
        let explanation = decision.take_explanation();
        decision.verdict = match decision.verdict {
            Verdict::Ask {
                origin: AskOrigin::Mode,
                ..
            } if self.0.needs_no_mode_question(&request.call.name) => Verdict::Allow,
            Verdict::Ask { question, .. } if request.mode == PermissionMode::DontAsk => {
                Verdict::Deny(dont_ask_reason(&question))
            }
            // The child's own hooks and tools cannot answer a question of the parent's gate.
            Verdict::Ask { question, .. } => Verdict::Ask {
                question,
                origin: AskOrigin::Rule,
            },
            decided => decided,
        };

        Ok(decision.with_explanation(explanation))
    }

    fn readable(&self, request: &GateRequest) -> PathFilter {
        self.0.gates().readable(&self.parent_request(request))
    }

    fn denied_paths(&self, request: &GateRequest) -> Vec<DeniedPath> {
        self.0.gates().denied_paths(&self.parent_request(request))
    }

    fn explain(&self, request: &GateRequest) -> Option<String> {
        self.0.gates().explain(&self.parent_request(request))
    }

    async fn grant(&self, request: &GateRequest) -> Result<()> {
        self.0.gates().grant(&self.parent_request(request)).await
    }
}
