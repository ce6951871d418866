//! The container in which the server runs code.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use crate::message::Part;
use crate::model::{Date, ModelRequest};

use super::CONTAINER;
use super::hosted::own_tools;

/// The beginning of the names of tools and callers that are code.
const CODE: &str = "code_execution";

/// The first version of the tools of the internet that filter their results by code.
const FIRST_WITH_CODE: &str = "20260209";

/// Returns the container of the last answer that had one, if it still exists, for a request with a
/// tool that runs code in it.
pub(super) fn container(request: &ModelRequest) -> Option<String> {
    if !own_tools(request).any(runs_code) {
        return None;
    }

    let parts = request
        .messages
        .iter()
        .rev()
        .flat_map(|message| message.content().parts());
    let blocks = parts.filter_map(|part| match part {
        Part::Opaque(block) => Some(block),
        _ => None,
    });
    let mut containers = blocks.filter(|block| block.provider.as_deref() == Some(CONTAINER));
    let fields: Map<String, Value> = serde_json::from_str(containers.next()?.raw.get()).ok()?;
    let end_time = fields.get("expires_at").and_then(Value::as_str);
    let is_over = end_time
        .and_then(seconds_of)
        .is_some_and(|end| end <= now());
    let id = fields.get("id")?.as_str().filter(|_| !is_over);
    id.map(str::to_owned)
}

/// Returns `true` for a tool that runs code in a container: the tool for code, and tools for the
/// internet that the code may call.
fn runs_code(tool: &Value) -> bool {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind.starts_with(CODE) {
        return true;
    }

    match tool.get("allowed_callers").and_then(Value::as_array) {
        Some(callers) => {
            let mut callers = callers.iter().filter_map(Value::as_str);
            callers.any(|caller| caller.starts_with(CODE))
        }
        None => {
            let version = kind.rsplit('_').next().unwrap_or_default();
            kind.starts_with("web_") && version >= FIRST_WITH_CODE
        }
    }
}

/// Returns the seconds from the Unix epoch to a time such as `2026-11-30T12:00:00.5Z`; `None` for
/// one of another form or zone.
fn seconds_of(time: &str) -> Option<i64> {
    let (date, time) = time.split_once('T')?;
    let time = time.strip_suffix('Z').or(time.strip_suffix("+00:00"))?;
    let time = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    let mut numbers = time.split(':').map(|number| number.parse::<u32>().ok());
    let (hours, minutes, seconds) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if hours > 23 || minutes > 59 || seconds > 60 || numbers.next().is_some() {
        return None;
    }

    let days = Date::new(1970, 1, 1)?.days_until(date.parse().ok()?);
    Some(days * 86_400 + i64::from(hours * 3_600 + minutes * 60 + seconds))
}

fn now() -> i64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read() {
        for (time, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T01:02:03.999Z", Some(951_786_123)),
            ("2026-11-26T00:00:00+00:00", Some(1_795_651_200)),
            ("2026-11-26T00:00:00+01:00", None),
            ("2026-11-26 00:00:00Z", None),
            ("2026-13-26T00:00:00Z", None),
            ("2026-11-26T00:99:00Z", None),
            ("2026-11-26T00:00Z", None),
            ("2026-11-26T00:00:00:00Z", None),
            ("T", None),
            ("", None),
        ] {
            assert_eq!(seconds_of(time), seconds, "{time}");
        }
    }

    #[test]
    fn tools_that_run_code_are_known() {
        let tool = |kind: &str| json!({"type": kind});
        let web_search =
            |callers: &[&str]| json!({"type": "web_search_20260318", "allowed_callers": callers});
        for (tool, expected) in [
            (tool("code_execution_20250825"), true),
            (tool("web_search_20260318"), true),
            (tool("web_fetch_20260209"), true),
            (tool("web_search_20250305"), false),
            (tool("tool_search_tool_bm25_20251119"), false),
            (web_search(&["direct"]), false),
            (web_search(&["direct", "code_execution_20260120"]), true),
            (json!({"type": 7}), false),
            (json!(null), false),
        ] {
            assert_eq!(runs_code(&tool), expected, "{tool}");
        }
    }
}
