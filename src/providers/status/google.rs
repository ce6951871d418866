//! The details of an error as Google writes them: a list of objects, one for each kind of detail.
//!
//! Format: `google.rpc.ErrorInfo`, `RetryInfo`, `QuotaFailure` and `BadRequest` of
//! `error_details.proto`. They are distinguished by their fields, which differ.

use std::time::Duration;

use serde_json::Value;

/// The maximum delay; a longer one is shortened to it.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of invalid fields in an error's text.
const MAX_FIELDS: usize = 3;

/// The code of a quota that ends with the day. Waiting for less does not help.
pub(super) const QUOTA_PER_DAY: &str = "quota_per_day";

/// The details of an error.
#[derive(Default)]
pub(super) struct Details {
    pub(super) codes: Vec<String>,
    pub(super) retry_after: Option<Duration>,
    /// The invalid fields of the request, each with its mistake.
    pub(super) fields: Vec<String>,
}

impl Details {
    /// Reads `error.details`; a value that is no list has none.
    pub(super) fn of_json(details: Option<&Value>) -> Self {
        let mut out = Self::default();
        for entry in list(details) {
            let reason = entry.get("reason").and_then(Value::as_str);
            out.codes.extend(reason.map(str::to_owned));
            if list(entry.get("violations")).any(is_daily) {
                out.codes.push(QUOTA_PER_DAY.to_owned());
            }

            out.retry_after = out.retry_after.or_else(|| delay(entry.get("retryDelay")?));
            out.fields
                .extend(list(entry.get("fieldViolations")).filter_map(field));
        }

        out.fields.truncate(MAX_FIELDS);
        out
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn is_daily(violation: &Value) -> bool {
    let id = violation.get("quotaId").and_then(Value::as_str);
    id.is_some_and(|id| id.contains("PerDay"))
}

/// Returns the duration in a text such as `30s` or `0.5s`.
fn delay(value: &Value) -> Option<Duration> {
    let seconds = value.as_str()?.strip_suffix('s')?.parse().ok()?;
    let delay = Duration::try_from_secs_f64(seconds).ok()?;
    Some(delay.min(MAX_DELAY))
}

fn field(violation: &Value) -> Option<String> {
    let name = violation.get("field")?.as_str()?;
    Some(match violation.get("description").and_then(Value::as_str) {
        Some(description) => format!("{name}: {description}"),
        None => name.to_owned(),
    })
}
