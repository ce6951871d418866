//! The permission gate of a child run, which allows no more than its parent's gates.

use async_trait::async_trait;

use crate::backend::PathFilter;
use crate::error::Result;
use crate::run::RunContext;
use crate::tool::{GateDecision, GateRequest, PermissionGate, PermissionMode};

use super::tool_permission::{NOT_PLANNED, gate_request, is_planned, not_asked};

/// The gates and the mode of the parent run, and so of all its ancestors, as a gate of the child:
/// delegating a call must not bypass a denial.
pub(super) struct Above(pub(super) RunContext);

impl Above {
    /// The same call as one of the run above.
    fn lift(&self, request: &GateRequest) -> GateRequest {
        gate_request(&self.0, &request.tool, &request.call)
    }
}

#[async_trait]
impl PermissionGate for Above {
    async fn check(&self, request: &GateRequest) -> Result<GateDecision> {
        let request = self.lift(request);
        if !is_planned(request.mode, &request.tool) {
            return Ok(GateDecision::deny(NOT_PLANNED));
        }
        let decision = self.0.gates().check(&request).await?;
        Ok(match decision {
            GateDecision::Ask { by_rule: false, .. } if self.0.is_allowed(&request.call.name) => {
                GateDecision::allow()
            }
            GateDecision::Ask { question, .. } if request.mode == PermissionMode::DontAsk => {
                GateDecision::deny(not_asked(&question))
            }
            // What the child's own hooks and tools allow answers no question from above.
            GateDecision::Ask { question, .. } => GateDecision::Ask {
                question,
                by_rule: true,
            },
            decided => decided,
        })
    }

    fn readable(&self, request: &GateRequest) -> PathFilter {
        self.0.gates().readable(&self.lift(request))
    }

    fn explain(&self, request: &GateRequest) -> Option<String> {
        self.0.gates().explain(&self.lift(request))
    }

    async fn grant(&self, request: &GateRequest) -> Result<()> {
        self.0.gates().grant(&self.lift(request)).await
    }
}
