//! `current_datetime`, with a fixed clock.

use std::time::{Duration, SystemTime};

use agentcore::{Secret, Tool, ToolContext, tools};
use serde_json::{Value, json};

use crate::kit::keys::assert_no_leak;

/// 2024-07-01T12:34:56.789Z
const NOW: Duration = Duration::from_millis(1_719_837_296_789);

async fn call(args: Value) -> Result<String, String> {
    let tool = tools::current_datetime_by(|| SystemTime::UNIX_EPOCH + NOW);
    match tool.execute(ToolContext::detached(), args).await {
        Ok(output) => Ok(output.content.text().into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn time_is_returned_in_utc_and_local_time() {
    for args in [
        json!({}),
        json!(null),
        json!({"timezone": " "}),
        json!({"timezone": null}),
    ] {
        let text = call(args).await.unwrap();
        let (utc, local) = text.split_once('\n').unwrap();
        assert_eq!(utc, "UTC: 2024-07-01T12:34:56Z");
        let local = local.strip_prefix("Local: 2024-0").unwrap();
        // The offset depends on the machine, its format does not.
        assert!(local.contains(":56+") || local.contains(":56-"), "{local}");
        assert_eq!(local.len(), "7-01T12:34:56+00:00".len());
    }
}

#[tokio::test]
async fn time_is_returned_in_the_requested_zone() {
    for (zone, time) in [
        ("UTC", "2024-07-01T12:34:56+00:00"),
        ("Europe/Berlin", "2024-07-01T14:34:56+02:00"),
        ("America/New_York", "2024-07-01T08:34:56-04:00"),
        ("Asia/Kathmandu", "2024-07-01T18:19:56+05:45"),
        ("Pacific/Kiritimati", "2024-07-02T02:34:56+14:00"),
    ] {
        let text = call(json!({"timezone": zone})).await.unwrap();
        assert_eq!(text, format!("UTC: 2024-07-01T12:34:56Z\n{zone}: {time}"));
    }
}

#[tokio::test]
async fn unknown_zone_is_an_error_with_suggestions() {
    for (zone, hint) in [
        ("Europe/Berln", "Europe/Berlin"),
        ("Paris", "Europe/Paris"),
        ("New York", "America/New_York"),
        ("Asia/San Francisco", "use an IANA name"),
        ("../../etc/passwd", "use an IANA name"),
        ("x", "use an IANA name"),
    ] {
        let error = call(json!({"timezone": zone})).await.unwrap_err();
        assert!(error.contains("there is no time zone"), "{error}");
        assert!(error.contains(hint), "{zone}: {error}");
    }

    let error = call(json!({"timezone": "z".repeat(100_000)}))
        .await
        .unwrap_err();
    assert!(error.len() < 200, "{error}");
    assert!(call(json!({"timezone": 3})).await.is_err());
}

#[tokio::test]
async fn error_of_an_unknown_zone_shows_no_part_of_a_key() {
    const KEY: &str = "gwvzkqjxhqzwjyxvqzkwxzqjgkvqzwhxjqvkzbwtpd";
    let _known = Secret::new(KEY);
    for before in (20..60).step_by(4) {
        let zone = format!("{}{KEY}", "z".repeat(before));
        let error = call(json!({"timezone": zone})).await.unwrap_err();
        assert_no_leak(&error, KEY, &format!("{before}"));
    }
}

#[tokio::test]
async fn time_outside_the_calendar_range_is_an_error() {
    let tool = tools::current_datetime_by(|| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000_000)
    });
    let outcome = tool.execute(ToolContext::detached(), json!({})).await;
    assert!(outcome.is_err());
}

#[tokio::test]
async fn time_is_read_on_a_thread_for_blocking_work() {
    let caller = std::thread::current().id();
    let tool = tools::current_datetime_by(move || {
        assert_ne!(std::thread::current().id(), caller);
        SystemTime::UNIX_EPOCH + NOW
    });
    let outcome = tool.execute(ToolContext::detached(), json!({})).await;
    assert!(outcome.is_ok());
}
