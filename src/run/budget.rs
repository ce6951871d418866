//! The budget of a run and of all runs below it: money, tokens, time, subagents, and the permits
//! for concurrent model calls.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::usage::Usage;
use crate::util::sync::lock;

use super::estimate::Estimate;
use super::exit_reason::ExitReason;
use super::poll_clock::PollClock;
use super::stall::{HolderId, Holders};

/// The description of the end of a run by its time limit.
pub(crate) const TIME_LIMIT_REACHED: &str = "the run reached its time limit or a parent run's \
     (max_duration); raise it, or continue the session";

/// Limits of a run; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BudgetLimits {
    /// The maximum cost in USD.
    pub(crate) usd: Option<f64>,
    /// The maximum number of tokens, prompts and responses together.
    pub(crate) tokens: Option<u64>,
    /// The maximum duration, after which the run is stopped.
    pub(crate) duration: Option<Duration>,
    /// True if a model whose price is unknown counts as free instead of being refused.
    pub(crate) allow_unpriced: bool,
    /// The maximum number of runs that begin below the run.
    pub(crate) subagents: u32,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self {
            usd: None,
            tokens: None,
            duration: None,
            allow_unpriced: false,
            subagents: 100,
        }
    }
}

impl BudgetLimits {
    /// Checks that the maximum cost is a number of at least 0.
    pub(crate) fn check(&self) -> Result<()> {
        match self.usd {
            Some(usd) if !usd.is_finite() || usd < 0.0 => Err(Error::new(
                ErrorKind::Config,
                format!("max_budget_usd is {usd}; it must be an amount of at least 0"),
            )),
            _ => Ok(()),
        }
    }

    /// Returns `true` if the price of every model must be known.
    pub(crate) fn needs_prices(&self) -> bool {
        self.usd.is_some() && !self.allow_unpriced
    }
}

/// A run's budget. A child run also spends from the budget of its parent, so it can never spend
/// more than the parent has left. Clones share the budget.
#[derive(Clone)]
pub struct Budget(Arc<Node>);

pub(super) struct Node {
    parent: Option<Budget>,
    pub(super) limits: BudgetLimits,
    deadline: Option<Instant>,
    pub(super) amounts: Mutex<Amounts>,
    tree: Arc<Tree>,
}

/// The part that the budgets of a run and of all its child runs share.
pub(super) struct Tree {
    /// Notified when a reservation is released.
    pub(super) released: Notify,
    /// The limit on concurrent model calls.
    permits: Semaphore,
    /// The runs with a reservation.
    pub(super) reservation_holders: Holders,
    /// The runs with a permit.
    permit_holders: Holders,
}

/// The amounts that a run and its child runs have spent, and those reserved for calls in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amounts {
    /// The amount spent in USD.
    usd: f64,
    /// The number of tokens used.
    tokens: u64,
    reserved_usd: f64,
    /// A `u128`, so that the sum never saturates: releasing one reservation must not release a part
    /// of another.
    reserved_tokens: u128,
    /// True if tokens were used whose price is unknown.
    is_unpriced: bool,
    /// The number of runs that began below.
    subagents: u32,
}

impl Budget {
    /// Creates the budget of a child run of `parent`. Without a parent, `parallel_calls` limits the
    /// concurrent model calls of the run and of all its child runs.
    pub(crate) fn new(limits: BudgetLimits, parallel_calls: usize, parent: Option<&Self>) -> Self {
        let new_tree = || {
            Arc::new(Tree {
                released: Notify::new(),
                permits: Semaphore::new(parallel_calls.min(Semaphore::MAX_PERMITS)),
                reservation_holders: Holders::default(),
                permit_holders: Holders::default(),
            })
        };

        Self(Arc::new(Node {
            tree: parent.map_or_else(new_tree, |parent| parent.0.tree.clone()),
            parent: parent.cloned(),
            limits,
            // A deadline beyond the range of `Instant` is no deadline.
            deadline: limits
                .duration
                .and_then(|duration| Instant::now().checked_add(duration)),
            amounts: Mutex::default(),
        }))
    }

    /// Returns the amount spent in USD, children included; `None` when a price was unknown.
    pub(crate) fn spent_usd(&self) -> Option<f64> {
        let amounts = lock(&self.0.amounts);
        (!amounts.is_unpriced).then_some(amounts.usd)
    }

    /// Returns the number of tokens used, children included.
    pub fn spent_tokens(&self) -> u64 {
        lock(&self.0.amounts).tokens
    }

    /// Returns the remaining amount in USD, here and in every budget above; `None` without a limit.
    /// Amounts that are reserved for calls in progress are not subtracted.
    pub fn remaining_usd(&self) -> Option<f64> {
        self.self_and_ancestors()
            .filter_map(|node| {
                let amounts = lock(&node.amounts);
                Some((node.limits.usd? - amounts.usd).max(0.0))
            })
            .reduce(f64::min)
    }

    /// Returns the remaining tokens, here and in every budget above; `None` without a limit. Tokens
    /// that are reserved for calls in progress are not subtracted.
    pub fn remaining_tokens(&self) -> Option<u64> {
        self.self_and_ancestors()
            .filter_map(|node| {
                let amounts = lock(&node.amounts);
                Some(node.limits.tokens?.saturating_sub(amounts.tokens))
            })
            .min()
    }

    /// Returns the earliest deadline, here or in any budget above.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.self_and_ancestors()
            .filter_map(|node| node.deadline)
            .min()
    }

    /// Returns the exit reason and its description, if a limit was reached.
    pub(crate) fn exhausted(&self) -> Option<(ExitReason, String)> {
        if self
            .deadline()
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            let text = TIME_LIMIT_REACHED.to_owned();
            return Some((ExitReason::MaxDuration, text));
        }

        let mut nodes = self.self_and_ancestors();
        let used_up = nodes.find_map(|node| Some((node, node.used_up_usd()?)));
        if let Some((node, (spent, limit))) = used_up {
            let run_phrase = self.run_phrase(node);
            let text = format!(
                "the budget {run_phrase}is used up (max_budget_usd): {spent:.6} of {limit} USD \
                 spent; raise it"
            );
            return Some((ExitReason::MaxBudget, text));
        }

        let mut nodes = self.self_and_ancestors();
        let used_up = nodes.find_map(|node| Some((node, node.used_up_tokens()?)));
        let (node, (spent, limit)) = used_up?;
        let run_phrase = self.run_phrase(node);
        let text = format!(
            "the token budget {run_phrase}is used up (max_total_tokens): {spent} of {limit} \
             tokens spent; raise it"
        );
        Some((ExitReason::MaxBudget, text))
    }

    /// Returns the words that name the run of a node; empty for the run of this budget.
    fn run_phrase(&self, node: &Node) -> &'static str {
        if std::ptr::eq(node, &*self.0) {
            ""
        } else {
            "of a parent run "
        }
    }

    /// Returns `true` if money or tokens are limited, here or above.
    pub(crate) fn is_limited(&self) -> bool {
        self.self_and_ancestors()
            .any(|node| node.limits.usd.is_some() || node.limits.tokens.is_some())
    }

    /// Returns `true` if the price of every model must be known, because of this budget or of one
    /// above.
    pub(crate) fn needs_prices(&self) -> bool {
        self.self_and_ancestors()
            .any(|node| node.limits.needs_prices())
    }

    /// Records usage and cost.
    pub(crate) fn spend(&self, usage: Usage, cost: Option<f64>) {
        for node in self.self_and_ancestors() {
            let mut amounts = lock(&node.amounts);
            amounts.usd += cost.unwrap_or_default();
            amounts.tokens = amounts.tokens.saturating_add(usage.total_tokens());
            amounts.is_unpriced |= cost.is_none();
        }
    }

    /// Counts the run of this budget as a subagent of all its ancestors.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if a parent run may start no more runs.
    pub(crate) fn count_subagent(&self) -> Result<()> {
        // Budgets are always locked from the leaf to the root.
        let nodes: Vec<_> = self.self_and_ancestors().skip(1).collect();
        let mut guards: Vec<_> = nodes.iter().map(|node| lock(&node.amounts)).collect();
        for (node, amounts) in nodes.iter().zip(&guards) {
            let limit = node.limits.subagents;
            if amounts.subagents >= limit {
                let text = format!(
                    "a parent run has started its {limit} subagents; raise its max_subagents"
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
        }

        for amounts in &mut guards {
            amounts.subagents += 1;
        }
        Ok(())
    }

    /// Waits for a permit for a model call of the run with this clock. If the runs that hold the
    /// permits are not polled, the call does not wait longer and is made without one.
    pub(crate) async fn permit(&self, clock: &Arc<PollClock>) -> CallPermit<'_> {
        let tree = &*self.0.tree;
        // This overtakes no task: a permit that is released goes to the first one that waits.
        let permit = match tree.permits.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => tree.wait_for_permit(clock).boxed().await,
        };
        CallPermit {
            holders: &tree.permit_holders,
            holder: tree.permit_holders.add(clock),
            _permit: permit,
        }
    }

    /// Returns the part that is shared with all budgets of the tree.
    pub(super) fn tree(&self) -> &Tree {
        &self.0.tree
    }

    /// Returns this budget and its ancestors, up to the root.
    pub(super) fn self_and_ancestors(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&*self.0), |node| node.parent.as_ref().map(|up| &*up.0))
    }
}

impl Node {
    /// Returns the amount spent in USD and its limit, if nothing is left of it.
    fn used_up_usd(&self) -> Option<(f64, f64)> {
        let limit = self.limits.usd?;
        let spent = lock(&self.amounts).usd;
        // If the amount is not a number, nothing is left.
        let remaining = (limit - spent).max(0.0);
        (remaining <= 0.0).then_some((spent, limit))
    }

    /// Returns the number of tokens used and its limit, if nothing is left of it.
    fn used_up_tokens(&self) -> Option<(u64, u64)> {
        let limit = self.limits.tokens?;
        let spent = lock(&self.amounts).tokens;
        (spent >= limit).then_some((spent, limit))
    }
}

impl Tree {
    /// Waits for a permit. Returns `None` if the runs that hold the permits are not polled.
    async fn wait_for_permit(&self, clock: &PollClock) -> Option<SemaphorePermit<'_>> {
        let acquired = std::pin::pin!(self.permits.acquire());
        let stalled = std::pin::pin!(self.permit_holders.stalled(clock));
        match select(acquired, stalled).await {
            // The semaphore is never closed.
            Either::Left((permit, _)) => permit.ok(),
            Either::Right(_) => None,
        }
    }
}

impl Amounts {
    /// Returns the number of output tokens, at most `full`, with which a call of this estimate
    /// stays within the limits.
    pub(super) fn max_output_tokens(
        &self,
        limits: &BudgetLimits,
        estimate: &Estimate,
        full: u64,
    ) -> u64 {
        let mut output = full;
        if let Some(limit) = limits.tokens {
            let remaining = limit.saturating_sub(self.all_tokens());
            output = output.min(remaining.saturating_sub(estimate.input_tokens));
        }

        if let (Some(limit), Some(price)) = (limits.usd, estimate.price) {
            let remaining = limit - self.usd - self.reserved_usd - estimate.usd(0);
            if remaining <= 0.0 {
                return 0;
            }

            if price.output > 0.0 {
                output = output.min((remaining / price.output * 1e6) as u64);
            }
        }

        output
    }

    /// Returns the sum of the used and the reserved tokens.
    fn all_tokens(&self) -> u64 {
        let total = self.reserved_tokens.saturating_add(self.tokens.into());
        u64::try_from(total).unwrap_or(u64::MAX)
    }

    pub(super) fn has_reserved(&self) -> bool {
        self.reserved_tokens > 0
    }

    pub(super) fn reserve(&mut self, usd: f64, tokens: u64) {
        self.reserved_usd += usd;
        self.reserved_tokens = self.reserved_tokens.saturating_add(tokens.into());
    }

    /// Takes back what [`reserve`](Self::reserve) added.
    pub(super) fn release(&mut self, usd: f64, tokens: u64) {
        self.reserved_usd = (self.reserved_usd - usd).max(0.0);
        self.reserved_tokens = self.reserved_tokens.saturating_sub(tokens.into());
    }

    /// Returns `true` if what is used and reserved is over a limit.
    pub(super) fn exceeds(&self, limits: &BudgetLimits) -> bool {
        let usd = self.usd + self.reserved_usd;
        let tokens = self.all_tokens();
        limits.usd.is_some_and(|limit| usd > limit)
            || limits.tokens.is_some_and(|limit| tokens > limit)
    }
}

/// A permit for one model call, given back when it is dropped.
pub(crate) struct CallPermit<'a> {
    holders: &'a Holders,
    holder: HolderId,
    /// `None` if the runs that hold the permits are not polled.
    _permit: Option<SemaphorePermit<'a>>,
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        self.holders.remove(self.holder);
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limits", &self.0.limits)
            .field("spent_usd", &self.spent_usd())
            .field("spent_tokens", &self.spent_tokens())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spends 100 tokens and 0.75 USD in a run with these limits and in its child run without
    /// limits. Returns the texts about the end of the two runs.
    fn texts(limits: BudgetLimits) -> (String, String) {
        let parent = Budget::new(limits, 1, None);
        let child = Budget::new(BudgetLimits::default(), 1, Some(&parent));
        parent.spend(Usage::new(60, 10), Some(0.5));
        assert!(child.exhausted().is_none());
        child.spend(Usage::new(20, 10), Some(0.25));
        let text = |budget: &Budget| budget.exhausted().expect("nothing is left").1;
        (text(&parent), text(&child))
    }

    #[test]
    fn child_run_that_its_parents_budget_stops_reports_the_parents_amount() {
        let (parent_text, child_text) = texts(BudgetLimits {
            usd: Some(0.75),
            ..BudgetLimits::default()
        });
        assert_eq!(
            parent_text,
            "the budget is used up (max_budget_usd): 0.750000 of 0.75 USD spent; raise it"
        );
        assert_eq!(
            child_text,
            "the budget of a parent run is used up (max_budget_usd): 0.750000 of 0.75 USD spent; \
             raise it"
        );

        let (parent_text, child_text) = texts(BudgetLimits {
            tokens: Some(100),
            ..BudgetLimits::default()
        });
        assert_eq!(
            parent_text,
            "the token budget is used up (max_total_tokens): 100 of 100 tokens spent; raise it"
        );
        assert_eq!(
            child_text,
            "the token budget of a parent run is used up (max_total_tokens): 100 of 100 tokens \
             spent; raise it"
        );
    }
}
