//! Several gates that a call must pass, one after the other.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{DeniedPath, PathFilter};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{dismantle, is_too_deep};
use crate::util::panic;

use super::decision::{ToolDecision, Verdict};
use super::gate::{AllowAll, GateRequest, PermissionGate};

/// The maximum number of times that each gate checks a call while other gates change its arguments.
const MAX_CHANGES: usize = 8;

/// Several gates as one; see [`RunContext::add_gate`](crate::RunContext::add_gate).
#[derive(Clone)]
pub(crate) struct Gates {
    gates: Arc<[Arc<dyn PermissionGate>]>,
    allows_all: bool,
}

impl Gates {
    pub(crate) fn one<G: PermissionGate>(gate: G) -> Self {
        Self {
            allows_all: TypeId::of::<G>() == TypeId::of::<AllowAll>(),
            gates: [Arc::new(gate) as _].into(),
        }
    }

    /// Returns these gates and, after them, `gate`.
    pub(crate) fn and(&self, gate: Arc<dyn PermissionGate>) -> Self {
        Self {
            gates: self.gates.iter().cloned().chain([gate]).collect(),
            allows_all: false,
        }
    }

    /// Returns the number of gates.
    pub(crate) fn count(&self) -> usize {
        self.gates.len()
    }

    /// Removes the grants of a session from the gates after the first `count`. If one of them
    /// panics, the others remove theirs nevertheless.
    pub(crate) fn forget_after(&self, count: usize, session_id: &str) {
        for gate in self.gates.iter().skip(count) {
            if let Err(text) = panic::catch(|| gate.forget(session_id)) {
                tracing::warn!("a gate panicked while it removed the grants of a session: {text}");
            }
        }
    }

    /// Returns `true` if every call is allowed as it is.
    pub(crate) fn allows_all(&self) -> bool {
        self.allows_all
    }
}

#[async_trait]
impl PermissionGate for Gates {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        let mut request = request.clone();
        let mut combined = ToolDecision::proceed();
        let mut contexts = vec![None; self.gates.len()];

        // True for each gate that has checked, or set, the current arguments. The decision is
        // complete once it is true for all gates.
        let mut has_checked = vec![false; self.gates.len()];
        for _ in 0..=self.gates.len() * MAX_CHANGES {
            let Some(next) = has_checked.iter().position(|has_checked| !has_checked) else {
                combined.context = join(contexts);
                return Ok(combined);
            };

            let mut decision = self.gates[next].check(&request).await?;
            let explanation = decision.take_explanation();
            contexts[next] = decision.context;
            if let Verdict::Deny(_) | Verdict::Stop(_) = decision.verdict {
                if let Some(args) = decision.args {
                    dismantle(args);
                }

                let mut denial = ToolDecision::of(decision.verdict);
                denial.context = join(contexts);
                return Ok(denial.with_explanation(explanation));
            }

            match decision.args {
                // The caller refuses these arguments, so no other gate checks them.
                Some(args) if is_too_deep(&args) => {
                    return Ok(ToolDecision::allow().with_args(args));
                }
                Some(args) if args != *request.call.args => {
                    request.call = request.call.with_args(args.clone());
                    combined = ToolDecision::proceed().with_args(args);
                    has_checked.fill(false);
                }
                _ => {}
            }

            if decision.verdict.is_stronger_than(&combined.verdict) {
                combined.verdict = decision.verdict;
                combined = combined.with_explanation(explanation);
            }
            has_checked[next] = true;
        }

        let text = format!(
            "the gates changed the arguments of this call more than {MAX_CHANGES} times each; only \
             one gate should change them"
        );
        Err(Error::new(ErrorKind::Other, text))
    }

    fn denied_paths(&self, request: &GateRequest) -> Vec<DeniedPath> {
        self.gates
            .iter()
            .flat_map(|gate| gate.denied_paths(request))
            .collect()
    }

    fn check_tools(&self, names: &[&str], has_sources: bool) -> Result<()> {
        self.gates
            .iter()
            .try_for_each(|gate| gate.check_tools(names, has_sources))
    }

    async fn grant(&self, request: &GateRequest) -> Result<()> {
        for gate in &*self.gates {
            gate.grant(request).await?;
        }
        Ok(())
    }

    fn forget(&self, session_id: &str) {
        self.forget_after(0, session_id);
    }

    fn explain(&self, request: &GateRequest) -> Option<String> {
        self.gates.iter().find_map(|gate| gate.explain(request))
    }

    fn readable(&self, request: &GateRequest) -> PathFilter {
        self.gates
            .iter()
            .map(|gate| gate.readable(request))
            .fold(PathFilter::all(), PathFilter::and)
    }
}

/// Returns the texts of all gates as one text.
fn join(contexts: Vec<Option<String>>) -> Option<String> {
    contexts
        .into_iter()
        .flatten()
        .reduce(|texts, text| format!("{texts}\n\n{text}"))
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gates").field(&self.gates.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ToolCall;
    use crate::tool::{FuncTool, PermissionMode};

    struct Fixed(ToolDecision);

    #[async_trait]
    impl PermissionGate for Fixed {
        async fn check(&self, _request: &GateRequest) -> Result<ToolDecision> {
            Ok(self.0.clone())
        }
    }

    /// Returns the explanation of the decision of two gates.
    async fn explanation(first: ToolDecision, second: ToolDecision) -> Option<String> {
        let parameters = json!({"type": "object"});
        let tool = FuncTool::new("act", "Acts", parameters, |_cx, _args| async { "done" });
        let request = GateRequest::new(
            ToolCall::new("call", "act", json!({})),
            Arc::new(tool),
            PermissionMode::Default,
            "session".into(),
            Arc::new([]),
        );
        let gates = Gates::one(Fixed(first)).and(Arc::new(Fixed(second)));
        let mut decision = gates.check(&request).await.expect("no gate fails");
        decision.take_explanation()
    }

    #[tokio::test]
    async fn explanation_is_that_of_the_verdict_that_applies() {
        let explained =
            |decision: ToolDecision, text: &str| decision.with_explanation(Some(text.to_owned()));
        let allow = || explained(ToolDecision::allow(), "allowed");
        let ask = || explained(ToolDecision::ask("Run it?"), "asked");
        assert_eq!(explanation(allow(), ask()).await.as_deref(), Some("asked"));
        assert_eq!(explanation(ask(), allow()).await.as_deref(), Some("asked"));
        let unexplained = explanation(allow(), ToolDecision::ask("Run it?")).await;
        assert_eq!(unexplained, None);
    }
}
