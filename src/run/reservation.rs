//! The reservation of a model call's worst case, before the call is made.

use std::sync::Arc;

use futures::future::{Either, select};

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::budget::Budget;
use super::estimate::Estimate;
use super::poll_clock::PollClock;
use super::stall::HolderId;

/// The worst case of a call, set aside until this is dropped.
pub(crate) struct Reservation {
    budget: Budget,
    /// The entry of the run among the holders of reservations; `None` if nothing is reserved.
    holder: Option<HolderId>,
    usd: f64,
    tokens: u64,
    /// The estimated length of the prompt; `None` without limits.
    pub(crate) input_tokens: Option<u64>,
    /// The limit of the response, when less than the requested length fits.
    pub(crate) max_output_tokens: Option<u32>,
}

/// The outcome of an attempt to reserve.
enum Fit {
    Granted(Reservation),
    Wait,
    Never,
}

impl Budget {
    /// Reserves the worst case of a call. `clock` is the clock of the run that makes the call.
    ///
    /// If it does not fit although a part of the budget is left, waits until other calls of the
    /// tree release their reservations. If there are none, or the runs that have them are not
    /// polled, reserves the rest and limits the length of the response to it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::BudgetExhausted`] if nothing is left for a response.
    pub(crate) async fn reserve(
        &self,
        estimate: Estimate,
        clock: &Arc<PollClock>,
    ) -> Result<Reservation> {
        let holders = &self.tree().reservation_holders;
        let mut stalled = std::pin::pin!(holders.stalled(clock));
        let mut may_wait = true;
        loop {
            let mut notification = std::pin::pin!(self.tree().released.notified());
            notification.as_mut().enable();
            match self.try_reserve(estimate, clock, may_wait) {
                Fit::Granted(reservation) => return Ok(reservation),
                Fit::Wait => {
                    let end = select(notification, stalled.as_mut()).await;
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
        let nodes: Vec<_> = self.self_and_ancestors().collect();
        let mut guards: Vec<_> = nodes.iter().map(|node| lock(&node.amounts)).collect();
        let mut output = max_output;
        for (node, amounts) in nodes.iter().zip(&guards) {
            output = output.min(amounts.max_output_tokens(&node.limits, &estimate, max_output));
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
            amounts.reserve(usd, tokens);
        }

        drop(guards);
        let cap = (output < max_output).then_some(output as u32);
        Fit::Granted(Reservation {
            budget: self.clone(),
            holder: Some(self.tree().reservation_holders.add(clock)),
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
}

/// Returns the reason why a call is refused although a part of the budget is left. `may_wait` is
/// false if runs that are not polled hold the rest.
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

impl Reservation {
    /// Returns `true` if the reservation still fits after other calls have spent.
    pub(crate) fn fits(&self) -> bool {
        let mut nodes = self.budget.self_and_ancestors();
        nodes.all(|node| !lock(&node.amounts).exceeds(&node.limits))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(holder) = self.holder else {
            return;
        };
        self.budget.tree().reservation_holders.remove(holder);
        for node in self.budget.self_and_ancestors() {
            lock(&node.amounts).release(self.usd, self.tokens);
        }
        self.budget.tree().released.notify_waiters();
    }
}
