//! Estimates of requests, corrected by what the provider reported.

use crate::run::RunContext;

/// A report below the estimate divided by this number is ignored, because it does not include the
/// cached tokens.
const MIN_REPORT_DIVISOR: u64 = 2;
/// The maximum factor for an estimate of new messages: the contents that raised the report (a long
/// document, for example) are not among them.
const MAX_RATE: f64 = 2.0;

/// The last request of a run that a provider reported on: how many tokens it was estimated to have,
/// and how many it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    estimated: u64,
    reported: u64,
}

impl Measure {
    /// Returns the last report of the run, or the default before the first report.
    pub(super) fn of(cx: &RunContext) -> Self {
        cx.value::<Self>()
            .map(|measure| *measure)
            .unwrap_or_default()
    }

    /// Stores a report for later requests.
    pub(super) fn note(cx: &RunContext, estimated: u64, reported: u64) {
        if reported > 0 && reported >= estimated / MIN_REPORT_DIVISOR {
            cx.set_value(Self {
                estimated,
                reported,
            });
        }
    }

    /// Returns the corrected number of tokens of a request. It is the number that was reported for
    /// the last request, plus the estimate of the new messages, raised if the last estimate was too
    /// low. A request shorter than the last one counts in proportion.
    pub(super) fn tokens(self, estimated: u64) -> u64 {
        if self.estimated == 0 {
            return estimated;
        }
        let rate = self.reported as f64 / self.estimated as f64;
        match estimated.checked_sub(self.estimated) {
            Some(added) => self
                .reported
                .saturating_add((added as f64 * rate.clamp(1.0, MAX_RATE)).ceil() as u64),
            None => (estimated as f64 * rate).ceil() as u64,
        }
    }
}
