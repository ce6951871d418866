//! The tool `current_datetime`.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::{self, TimeZone};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, ToolError, near_names};
use crate::util::blocking::blocking;
use crate::util::secret::redacted;
use crate::util::text;
use crate::util::zone::system_zone;

/// The maximum number of zones suggested for an unknown name.
const MAX_SUGGESTIONS: usize = 5;

/// Creates the tool `current_datetime`, which returns the time in UTC and in the system's time
/// zone, or in the IANA `timezone` that the call names.
///
/// The output is `UTC: ..` and `Local: ..` on two lines, in RFC 3339, to the second. With a
/// `timezone` the second line has its name instead of `Local`.
pub fn current_datetime() -> FuncTool {
    current_datetime_by(SystemTime::now)
}

/// Creates [`current_datetime`] with another clock, such as a fixed one in tests.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use agentcore::{Tool, ToolContext, tools};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::BoxError> {
/// let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
/// let tool = tools::current_datetime_by(clock);
/// let args = json!({"timezone": "Asia/Tokyo"});
/// let output = tool.execute(ToolContext::detached(), args).await?;
/// assert_eq!(
///     output.content.text(),
///     "UTC: 2023-11-14T22:13:20Z\nAsia/Tokyo: 2023-11-15T07:13:20+09:00"
/// );
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn current_datetime_by(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> FuncTool {
    let description = "Returns the current date and time in UTC and in the local time zone, or in \
        the one that is asked for.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "timezone": {
                "type": "string",
                "description": "An IANA name such as Europe/Berlin. Defaults to the local zone"
            }
        }
    });

    let clock = Arc::new(clock);
    let body = move |_cx, args| {
        let clock = clock.clone();
        // The file that `TZ` names may be a pipe, or on a disk that does not respond.
        async move { blocking(move || Ok(describe(clock(), args))).await? }
    };

    FuncTool::new("current_datetime", description, parameters, body)
        .side_effect(SideEffect::ReadOnly)
        .idempotent()
}

#[derive(Deserialize)]
struct Input {
    timezone: Option<String>,
}

fn describe(now: SystemTime, args: Value) -> Result<String, BoxError> {
    // A model may omit the arguments.
    let name = match args {
        Value::Null => None,
        args => Input::deserialize(args)?.timezone,
    };

    let name = name
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let (label, zone) = match name {
        None => ("Local", system_zone()),
        Some(name) => (name, zone(name)?),
    };

    // Truncated, not rounded.
    let now = Timestamp::from_second(Timestamp::try_from(now)?.as_second())?;
    let local_time = now.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z");
    Ok(format!("UTC: {now}\n{label}: {local_time}"))
}

fn zone(name: &str) -> Result<TimeZone, ToolError> {
    tz::db().get(name).map_err(|_| {
        let like = suggestions(name);
        let hint = if like.is_empty() {
            "use an IANA name such as Europe/Berlin".to_owned()
        } else {
            format!("did you mean {}?", like.join(", "))
        };
        let name = redacted(name);
        let (excerpt, _) = text::head(&name, 60);
        ToolError::new(format!("there is no time zone {excerpt:?}; {hint}"))
    })
}

/// Returns zones whose names are spelled like `name` or contain it, such as the name of a city.
fn suggestions(name: &str) -> Vec<String> {
    let zones: Vec<String> = tz::db().available().map(|zone| zone.to_string()).collect();
    let names: Vec<&str> = zones.iter().map(String::as_str).collect();
    let mut zone_names = near_names(name, &names);
    if zone_names.is_empty() {
        let normalize = |text: &str| text.to_lowercase().replace([' ', '-'], "_");
        let normalized_name = normalize(name);
        let city = normalized_name
            .rsplit(['/', ','])
            .next()
            .unwrap_or_default();
        let has_it = |zone: &&str| city.len() > 2 && normalize(zone).contains(city);
        zone_names = names.iter().copied().filter(has_it).collect();
        zone_names.sort_by_key(|zone| (zone.len(), *zone));
        zone_names.truncate(MAX_SUGGESTIONS);
    }

    zone_names.into_iter().map(str::to_owned).collect()
}
