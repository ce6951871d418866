//! The retry policy of failed model calls.

use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// The retry policy of failed model calls: exponential backoff with full jitter, or the server's
/// `retry-after` when there is one.
///
/// ```
/// use std::time::Duration;
///
/// use agentcore::agent::RetryPolicy;
///
/// let patient = RetryPolicy::default()
///     .with_max_retries(10)
///     .with_max_wait(Duration::from_secs(300));
/// assert_eq!(patient.base, Duration::from_millis(500));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The maximum number of retries of a call. If the name of a server cannot be resolved, the
    /// call is retried once at most.
    pub max_retries: u32,
    /// The maximum wait before the first retry; it doubles with each retry.
    pub base: Duration,
    /// The maximum wait between two attempts. If a server asks for more, its error is returned at
    /// once.
    pub max_wait: Duration,
}

impl Default for RetryPolicy {
    /// Three retries, after random waits of at most 0.5, 1 and 2 seconds. A `retry-after` of up to
    /// a minute is obeyed.
    fn default() -> Self {
        Self {
            max_retries: 3,
            base: Duration::from_millis(500),
            max_wait: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// Creates a policy without retries. The providers of this crate still send a request again in
    /// the two cases that the docs of the module `providers` list under "Requests", such as after a
    /// pooled connection broke without a reply.
    pub fn never() -> Self {
        Self {
            max_retries: 0,
            ..Self::default()
        }
    }

    /// Sets the maximum number of retries.
    #[must_use]
    pub fn with_max_retries(mut self, max_retries: u32) -> Self {
        self.max_retries = max_retries;
        self
    }

    /// Sets the maximum wait before the first retry. It doubles with each further retry; the wait
    /// itself is random.
    #[must_use]
    pub fn with_base(mut self, wait: Duration) -> Self {
        self.base = wait;
        self
    }

    /// Sets the maximum wait between two attempts. If a server asks for more, its error is returned
    /// at once.
    #[must_use]
    pub fn with_max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Returns the wait before retry number `retry` (from 1); `None` when there is none.
    pub(crate) fn wait(&self, error: &Error, retry: u32) -> Option<Duration> {
        if retry > self.max_retries || !error.is_retryable() {
            return None;
        }

        // A name that does not exist is unlikely to appear during the retries.
        if error.kind() == ErrorKind::Dns && retry > 1 {
            return None;
        }

        // A `retry-after` of zero is ignored: backoff applies.
        if let Some(retry_after) = error
            .retry_after()
            .filter(|retry_after| !retry_after.is_zero())
        {
            return (retry_after <= self.max_wait).then_some(retry_after);
        }
        let delay = self.base.saturating_mul(1 << (retry - 1).min(20));
        Some(delay.min(self.max_wait).mul_f64(fastrand::f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded_by_exponential_backoff() {
        let policy = RetryPolicy::default();
        let error = Error::new(ErrorKind::Overloaded, "busy");
        for retry in 1..=3 {
            let wait = policy.wait(&error, retry).expect("retryable");
            assert!(wait <= policy.base * (1 << (retry - 1)));
        }
        assert_eq!(policy.wait(&error, 4), None);
    }

    #[test]
    fn name_that_is_not_resolved_is_retried_once() {
        let policy = RetryPolicy::default().with_max_retries(10);
        let error = Error::new(ErrorKind::Dns, "no such host");
        assert!(policy.wait(&error, 1).is_some());
        assert_eq!(policy.wait(&error, 2), None);
    }

    #[test]
    fn too_long_retry_after_is_not_retried() {
        let policy = RetryPolicy::default();
        let short_wait =
            Error::new(ErrorKind::RateLimited, "").with_retry_after(Duration::from_secs(2));
        let long_wait =
            Error::new(ErrorKind::RateLimited, "").with_retry_after(Duration::from_secs(259_200));
        assert_eq!(policy.wait(&short_wait, 1), Some(Duration::from_secs(2)));
        assert_eq!(policy.wait(&long_wait, 1), None);
    }

    #[test]
    fn zero_retry_after_uses_the_backoff() {
        let policy = RetryPolicy::default();
        let zero_wait = Error::new(ErrorKind::Overloaded, "").with_retry_after(Duration::ZERO);
        let wait_times: Vec<_> = (0..20).filter_map(|_| policy.wait(&zero_wait, 3)).collect();
        assert_eq!(wait_times.len(), 20);
        assert!(
            wait_times
                .iter()
                .any(|wait| *wait > Duration::from_millis(100))
        );
    }

    #[test]
    fn permanent_errors_are_not_retried() {
        let policy = RetryPolicy::default();
        for kind in [
            ErrorKind::Auth,
            ErrorKind::QuotaExhausted,
            ErrorKind::InvalidRequest,
        ] {
            assert_eq!(policy.wait(&Error::new(kind, ""), 1), None);
        }
    }
}
