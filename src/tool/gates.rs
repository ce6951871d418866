//! Several gates that a call must pass, one after the other.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::PathFilter;
use crate::error::{Error, ErrorKind, Result};
use crate::message::is_too_deep;

use super::gate::{GateDecision, GateRequest, PermissionGate};

/// The number of times each gate is asked about one call whose arguments others change.
const MOST_CHANGES: usize = 8;

/// All of several gates: what one denies is denied, what one asks about is asked about.
#[derive(Clone)]
pub(crate) struct Gates(Arc<[Arc<dyn PermissionGate>]>);

impl Gates {
    pub(crate) fn one(gate: Arc<dyn PermissionGate>) -> Self {
        Self([gate].into())
    }

    /// The same gates and, after them, another one.
    pub(crate) fn and(&self, gate: Arc<dyn PermissionGate>) -> Self {
        Self(self.0.iter().cloned().chain([gate]).collect())
    }
}

#[async_trait]
impl PermissionGate for Gates {
    async fn check(&self, request: &GateRequest) -> Result<GateDecision> {
        let mut request = request.clone();
        let mut new_args = None;
        let mut question: Option<GateDecision> = None;
        // What runs is what every gate has seen, or made.
        let mut is_seen = vec![false; self.0.len()];
        for _ in 0..=self.0.len() * MOST_CHANGES {
            let Some(next) = is_seen.iter().position(|is_seen| !is_seen) else {
                return Ok(question.unwrap_or(GateDecision::Allow { args: new_args }));
            };
            match self.0[next].check(&request).await? {
                // Refused where the arguments are replaced. No other gate is shown it.
                GateDecision::Allow { args: Some(args) } if is_too_deep(&args) => {
                    return Ok(GateDecision::Allow { args: Some(args) });
                }
                GateDecision::Allow { args: Some(args) } if args != *request.call.args => {
                    request.call = request.call.with_args(args.clone());
                    new_args = Some(args);
                    question = None;
                    is_seen.fill(false);
                }
                GateDecision::Allow { .. } => {}
                GateDecision::Ask { .. } if new_args.is_some() => {
                    let text = "a gate changed the arguments, and another one asks about them";
                    return Ok(GateDecision::deny(text));
                }
                // The question of a rule says more than one of the mode.
                ask @ GateDecision::Ask { by_rule, .. } => match &question {
                    Some(GateDecision::Ask { by_rule: true, .. }) => {}
                    Some(_) if !by_rule => {}
                    _ => question = Some(ask),
                },
                refused => return Ok(refused),
            }
            is_seen[next] = true;
        }
        let text = "the gates do not stop changing the arguments of this call";
        Err(Error::new(ErrorKind::Other, text))
    }

    async fn grant(&self, request: &GateRequest) -> Result<()> {
        for gate in &*self.0 {
            gate.grant(request).await?;
        }
        Ok(())
    }

    fn explain(&self, request: &GateRequest) -> Option<String> {
        self.0.iter().find_map(|gate| gate.explain(request))
    }

    fn readable(&self, request: &GateRequest) -> PathFilter {
        let filters = self.0.iter().map(|gate| gate.readable(request));
        filters.fold(PathFilter::all(), PathFilter::and)
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gates").field(&self.0.len()).finish()
    }
}
