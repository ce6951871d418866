//! Money, tokens and time, for a run and everything below it.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelCard, Prices};
use crate::usage::Usage;
use crate::util::sync::lock;

use super::exit_reason::ExitReason;
use super::poll_clock::PollClock;
use super::stall::{HolderId, Holders};

/// Limits of a run; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BudgetLimits {
    /// The maximum cost in USD.
    pub(crate) usd: Option<f64>,
    /// The maximum number of tokens, prompts and answers together.
    pub(crate) tokens: Option<u64>,
    /// The maximum duration, after which the run is stopped.
    pub(crate) duration: Option<Duration>,
    /// True if a model whose price is unknown counts as free instead of being refused.
    pub(crate) allow_unpriced: bool,
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

struct Node {
    parent: Option<Budget>,
    limits: BudgetLimits,
    deadline: Option<Instant>,
    amounts: Mutex<Amounts>,
    tree: Arc<Tree>,
}

/// The part that the budgets of a run and of all runs below it share.
struct Tree {
    /// Notified when a reservation is settled.
    settled: Notify,
    /// The limit on concurrent model calls.
    permits: Semaphore,
    /// The runs with a reservation.
    reservation_holders: Holders,
    /// The runs with a permit.
    permit_holders: Holders,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    usd: f64,
    tokens: u64,
    reserved_usd: f64,
    /// Wide enough for any number of reservations: each one returned leaves those of others.
    reserved_tokens: u128,
    /// True if tokens were used whose price is unknown.
    unpriced: bool,
}

/// The worst case of one model call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) input_tokens: u64,
    pub(crate) max_output_tokens: u32,
    /// `None` when it counts as free.
    pub(crate) price: Option<HighestPrice>,
}

/// The highest price of a million tokens: fresh or written to the cache for any time, in prompts of
/// any length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HighestPrice {
    input: f64,
    output: f64,
}

impl HighestPrice {
    /// The highest price of the models; `None` if no price is known. A price that is negative or
    /// not a number counts as unknown.
    pub(crate) fn of(cards: &[ModelCard]) -> Option<Self> {
        let prices = cards.iter().filter_map(|card| card.profile.prices);
        let prices = prices.filter(Prices::are_sound);
        prices.map(Self::from).reduce(|a, b| Self {
            input: a.input.max(b.input),
            output: a.output.max(b.output),
        })
    }
}

impl From<Prices> for HighestPrice {
    fn from(prices: Prices) -> Self {
        let writes = prices.cache_write.max(prices.cache_write_long);
        let input = prices.input.max(writes);
        let output = prices.output;
        match prices.long {
            Some(long) => {
                let writes = long.cache_write.max(long.cache_write_long);
                Self {
                    input: input.max(long.input).max(writes),
                    output: output.max(long.output),
                }
            }
            None => Self { input, output },
        }
    }
}

impl Estimate {
    fn usd(&self, output: u64) -> f64 {
        self.price.map_or(0.0, |price| {
            (self.input_tokens as f64 * price.input + output as f64 * price.output) / 1e6
        })
    }

    fn tokens(&self, output: u64) -> u64 {
        self.input_tokens.saturating_add(output)
    }
}

impl Budget {
    /// Creates the budget of a run below `parent`. Without a parent, `parallel_calls` limits the
    /// concurrent model calls of the run and of all runs below it.
    pub(crate) fn new(limits: BudgetLimits, parallel_calls: usize, parent: Option<&Self>) -> Self {
        let new_tree = || {
            Arc::new(Tree {
                settled: Notify::new(),
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

    /// The amount spent in USD, children included; `None` when a price was unknown.
    pub(crate) fn spent_usd(&self) -> Option<f64> {
        let amounts = lock(&self.0.amounts);
        (!amounts.unpriced).then_some(amounts.usd)
    }

    /// The tokens used, children included.
    pub fn spent_tokens(&self) -> u64 {
        lock(&self.0.amounts).tokens
    }

    /// The remaining amount in USD, here and in every budget above; `None` without a limit.
    pub fn remaining_usd(&self) -> Option<f64> {
        self.chain()
            .filter_map(|node| {
                let amounts = lock(&node.amounts);
                Some((node.limits.usd? - amounts.usd).max(0.0))
            })
            .reduce(f64::min)
    }

    /// The remaining tokens, here and in every budget above; `None` without a limit.
    pub fn remaining_tokens(&self) -> Option<u64> {
        self.chain()
            .filter_map(|node| {
                let amounts = lock(&node.amounts);
                Some(node.limits.tokens?.saturating_sub(amounts.tokens))
            })
            .min()
    }

    /// The earliest deadline, here or in any budget above.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.chain().filter_map(|node| node.deadline).min()
    }

    /// The exit reason and its description, if a limit was reached.
    pub(crate) fn exhausted(&self) -> Option<(ExitReason, String)> {
        if self
            .deadline()
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            let text = "the time limit of the run is reached".to_owned();
            return Some((ExitReason::MaxDuration, text));
        }

        if self.remaining_usd().is_some_and(|usd| usd <= 0.0) {
            let spent = self.spent_usd().unwrap_or_default();
            let text = format!("the budget is used up: {spent:.6} USD spent");
            return Some((ExitReason::MaxBudget, text));
        }

        if self.remaining_tokens() == Some(0) {
            let spent = self.spent_tokens();
            let text = format!("the token budget is used up: {spent} tokens spent");
            return Some((ExitReason::MaxBudget, text));
        }

        None
    }

    /// Reserves the worst case of a call. `clock` is that of the run that makes the call.
    ///
    /// If it does not fit although a part of the budget is left, waits until other calls of the
    /// tree are settled. If there are none, or the runs that make them are not polled, reserves
    /// what is left and limits the length of the answer to it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BudgetExhausted`] if nothing is left for an answer.
    pub(crate) async fn reserve(
        &self,
        estimate: Estimate,
        clock: &Arc<PollClock>,
    ) -> Result<Reservation> {
        let holders = &self.0.tree.reservation_holders;
        let mut stalled = std::pin::pin!(holders.stalled(clock));
        let mut may_wait = true;
        loop {
            let mut settled = std::pin::pin!(self.0.tree.settled.notified());
            settled.as_mut().enable();
            match self.try_reserve(estimate, clock, may_wait) {
                Fit::Granted(reservation) => return Ok(reservation),
                Fit::Wait => {
                    let end = select(settled, stalled.as_mut()).await;
                    may_wait = matches!(end, Either::Left(_));
                }
                Fit::Never => {
                    let reason = match self.exhausted() {
                        Some((_, text)) => text,
                        None => uncovered(may_wait),
                    };

                    return Err(Error::new(ErrorKind::BudgetExhausted, reason).attributed());
                }
            }
        }
    }

    fn try_reserve(&self, estimate: Estimate, clock: &Arc<PollClock>, may_wait: bool) -> Fit {
        let max_output = u64::from(estimate.max_output_tokens);

        // Budgets are always locked from the leaf to the root.
        let nodes: Vec<_> = self.chain().collect();
        let mut guards: Vec<_> = nodes.iter().map(|node| lock(&node.amounts)).collect();
        let mut output = max_output;
        for (node, amounts) in nodes.iter().zip(&guards) {
            output = output.min(amounts.room(&node.limits, &estimate, max_output));
        }

        if output < max_output {
            if may_wait && guards.iter().any(|amounts| amounts.has_reserved()) {
                return Fit::Wait;
            }

            if output == 0 {
                return Fit::Never;
            }
        }

        let usd = estimate.usd(output);
        let tokens = estimate.tokens(output);
        for amounts in &mut guards {
            amounts.reserved_usd += usd;
            amounts.reserved_tokens = amounts.reserved_tokens.saturating_add(tokens.into());
        }

        drop(guards);
        let cap = (output < max_output).then_some(output as u32);
        Fit::Granted(Reservation {
            budget: self.clone(),
            holder: Some(self.0.tree.reservation_holders.add(clock)),
            usd,
            tokens,
            input_tokens: Some(estimate.input_tokens),
            max_output_tokens: cap,
        })
    }

    /// Returns an empty reservation, for a tree without limits.
    pub(crate) fn unlimited(&self) -> Reservation {
        Reservation {
            budget: self.clone(),
            holder: None,
            usd: 0.0,
            tokens: 0,
            input_tokens: None,
            max_output_tokens: None,
        }
    }

    /// Returns `true` if money or tokens are limited, here or above.
    pub(crate) fn is_limited(&self) -> bool {
        self.chain()
            .any(|node| node.limits.usd.is_some() || node.limits.tokens.is_some())
    }

    /// Returns `true` if money is limited here or in any budget above, so that prices must be
    /// known.
    pub(crate) fn needs_prices(&self) -> bool {
        self.chain().any(|node| node.limits.needs_prices())
    }

    /// Records usage and cost.
    pub(crate) fn spend(&self, usage: Usage, cost: Option<f64>) {
        for node in self.chain() {
            let mut amounts = lock(&node.amounts);
            amounts.usd += cost.unwrap_or_default();
            amounts.tokens = amounts.tokens.saturating_add(usage.total_tokens());
            amounts.unpriced |= cost.is_none();
        }
    }

    /// Waits for a permit for a model call of the run with this clock. Does not wait for permits
    /// that are held by runs that are not polled.
    pub(crate) async fn permit(&self, clock: &Arc<PollClock>) -> CallPermit<'_> {
        let tree = &*self.0.tree;
        let acquired = std::pin::pin!(tree.permits.acquire());
        let stalled = std::pin::pin!(tree.permit_holders.stalled(clock));
        let permit = match select(acquired, stalled).await {
            // The semaphore is never closed.
            Either::Left((permit, _)) => permit.ok(),
            Either::Right(_) => None,
        };

        CallPermit {
            holders: &tree.permit_holders,
            holder: tree.permit_holders.add(clock),
            _permit: permit,
        }
    }

    fn chain(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&*self.0), |node| node.parent.as_ref().map(|up| &*up.0))
    }
}

/// The reason why a call is refused although a part of the budget is left. `may_wait` is false if
/// runs that are not polled hold the rest.
fn uncovered(may_wait: bool) -> String {
    let text = "the remaining budget does not cover the next model call";
    if may_wait {
        text.to_owned()
    } else {
        format!(
            "{text}; the rest is reserved by runs that are not polled: poll child runs together, or \
             each one to its end"
        )
    }
}

impl Amounts {
    /// The number of output tokens that fit, at most `full`.
    fn room(&self, limits: &BudgetLimits, estimate: &Estimate, full: u64) -> u64 {
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

    /// The sum of the used and the reserved tokens.
    fn all_tokens(&self) -> u64 {
        let total = self.reserved_tokens.saturating_add(self.tokens.into());
        u64::try_from(total).unwrap_or(u64::MAX)
    }

    fn has_reserved(&self) -> bool {
        self.reserved_tokens > 0
    }
}

enum Fit {
    Granted(Reservation),
    Wait,
    Never,
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

/// A call's worst case, set aside until it is settled or dropped.
pub(crate) struct Reservation {
    budget: Budget,
    /// `None` for an empty one.
    holder: Option<HolderId>,
    usd: f64,
    tokens: u64,
    /// The estimated length of the prompt; `None` without limits.
    pub(crate) input_tokens: Option<u64>,
    /// The limit of the answer, when less than the requested length fits.
    pub(crate) max_output_tokens: Option<u32>,
}

impl Reservation {
    /// Returns `true` if the reservation still fits after other calls have spent.
    pub(crate) fn fits(&self) -> bool {
        self.budget.chain().all(|node| {
            let amounts = lock(&node.amounts);
            let usd = amounts.usd + amounts.reserved_usd;
            let tokens = amounts.all_tokens();
            let is_over = node.limits.usd.is_some_and(|limit| usd > limit)
                || node.limits.tokens.is_some_and(|limit| tokens > limit);
            !is_over
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(holder) = self.holder else {
            return;
        };
        self.budget.0.tree.reservation_holders.remove(holder);
        for node in self.budget.chain() {
            let mut amounts = lock(&node.amounts);
            amounts.reserved_usd = (amounts.reserved_usd - self.usd).max(0.0);
            amounts.reserved_tokens = amounts.reserved_tokens.saturating_sub(self.tokens.into());
        }
        self.budget.0.tree.settled.notify_waiters();
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
