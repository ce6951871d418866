//! Estimates of requests, corrected by what the provider reported.

use crate::run::RunContext;

/// A report below one part in this many of the estimate leaves out what was cached.
const LEAST: u64 = 2;
/// The maximum factor for an estimate of new messages: the contents that raised the report (a long
/// document, for example) are not among them.
const MOST: f64 = 2.0;

/// The last request of a run that a provider reported on: how many tokens it was estimated to have,
/// and how many it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    estimated: u64,
    reported: u64,
}

impl Measure {
    /// Returns the run's measure; the default before the first report.
    pub(super) fn of(cx: &RunContext) -> Self {
        cx.value::<Self>().map(|known| *known).unwrap_or_default()
    }

    /// Stores a report for later requests.
    pub(super) fn note(cx: &RunContext, estimated: u64, reported: u64) {
        if reported > 0 && reported >= estimated / LEAST {
            cx.set_value(Self {
                estimated,
                reported,
            });
        }
    }

    /// Returns the number of tokens of a request by its estimate: what was reported for the last
    /// one, and the estimate of what is new, raised when estimates were too low before. A request
    /// shorter than the last one counts in proportion.
    pub(super) fn tokens(self, estimated: u64) -> u64 {
        if self.estimated == 0 {
            return estimated;
        }
        let rate = self.reported as f64 / self.estimated as f64;
        match estimated.checked_sub(self.estimated) {
            Some(added) => self
                .reported
                .saturating_add((added as f64 * rate.clamp(1.0, MOST)).ceil() as u64),
            None => (estimated as f64 * rate).ceil() as u64,
        }
    }
}
