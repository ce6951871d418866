//! Dates, and the dates of models.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentcore::ErrorKind;
use agentcore::model::{Catalog, Date, Lifecycle, ModelProfile};

fn date(text: &str) -> Date {
    text.parse().expect(text)
}

fn ends(model: &str) -> Option<String> {
    let dates = Catalog::builtin().lookup(model).expect(model).lifecycle?;
    dates.ends.map(|date| date.to_string())
}

#[test]
fn date_exists_only_on_days_of_the_calendar() {
    for (year, month, last) in [
        (2026, 1, 31),
        (2026, 2, 28),
        (2024, 2, 29),
        (2000, 2, 29),
        (1900, 2, 28),
        (2026, 4, 30),
        (2026, 6, 30),
        (2026, 9, 30),
        (2026, 11, 30),
        (9999, 12, 31),
    ] {
        assert!(Date::new(year, month, last).is_some(), "{year} {month}");
        assert_eq!(Date::new(year, month, last + 1), None, "{year} {month}");
        assert_eq!(Date::new(year, month, 0), None, "{year} {month}");
    }

    for (year, month) in [(0, 1), (10_000, 1), (2026, 0), (2026, 13)] {
        assert_eq!(Date::new(year, month, 1), None, "{year} {month}");
    }
}

#[test]
fn date_counts_days_over_month_ends_and_leap_years() {
    for (from, to, days) in [
        ("2026-11-23", "2026-11-23", 0),
        ("2026-11-23", "2026-11-30", 7),
        ("2026-11-30", "2026-11-23", -7),
        ("2026-11-30", "2026-12-01", 1),
        ("2026-12-31", "2027-01-01", 1),
        ("2026-02-28", "2026-03-01", 1),
        ("2028-02-28", "2028-03-01", 2),
        ("2100-02-28", "2100-03-01", 1),
        ("2026-11-23", "2027-11-23", 365),
        ("2027-11-23", "2028-11-23", 366),
        ("2000-01-01", "2400-01-01", 146_097),
        ("0001-01-01", "9999-12-31", 3_652_058),
    ] {
        assert_eq!(date(from).days_until(date(to)), days, "{from} {to}");
        assert_eq!(date(from) < date(to), days > 0, "{from} {to}");
    }
}

#[test]
fn date_of_a_time_is_the_day_in_utc() {
    let day = Duration::from_secs(86_400);
    let second = Duration::from_secs(1);
    for (time, text) in [
        (UNIX_EPOCH, "1970-01-01"),
        (UNIX_EPOCH - second, "1969-12-31"),
        (UNIX_EPOCH - Duration::from_nanos(1), "1969-12-31"),
        (UNIX_EPOCH - day, "1969-12-31"),
        (UNIX_EPOCH - day - second, "1969-12-30"),
        (UNIX_EPOCH + day - second, "1970-01-01"),
        (UNIX_EPOCH + day, "1970-01-02"),
        (UNIX_EPOCH + day * 11_016, "2000-02-29"),
        (UNIX_EPOCH + day * 11_017, "2000-03-01"),
        (UNIX_EPOCH + day * 20_780, "2026-11-23"),
        (UNIX_EPOCH + day * 20_818, "2026-12-31"),
        (UNIX_EPOCH + day * 3_000_000, "9999-12-31"),
    ] {
        assert_eq!(Date::from(time).to_string(), text);
    }
}

#[test]
fn date_of_a_time_agrees_with_its_number_of_days() {
    let epoch = date("1970-01-01");
    let day = Duration::from_secs(86_400);
    for number in (0..200_000).step_by(37) {
        let after = Date::from(UNIX_EPOCH + day * number);
        assert_eq!(epoch.days_until(after), i64::from(number));
        let before: SystemTime = UNIX_EPOCH - day * number;
        assert_eq!(epoch.days_until(Date::from(before)), -i64::from(number));
    }
}

#[test]
fn date_is_read_and_written_in_one_form() {
    for text in ["0001-01-01", "2026-11-30", "9999-12-31"] {
        assert_eq!(date(text).to_string(), text);
        let json = format!("\"{text}\"");
        assert_eq!(serde_json::to_string(&date(text)).expect("it writes"), json);
        assert_eq!(serde_json::from_str::<Date>(&json).ok(), Some(date(text)));
    }

    for text in [
        "",
        "2026-1-01",
        "2026-11-3",
        "2026-11-31",
        "2026/11/30",
        "+026-11-30",
        "2026-11-30 ",
        "2026-1é-3",
        "20261130",
    ] {
        let error = text.parse::<Date>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        let expected = format!("{text:?} is not a date of the calendar; write it as YYYY-MM-DD");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn lookup_returns_the_dates_of_a_model() {
    for (model, day) in [
        ("claude-sonnet-4-5", Some("2026-11-30")),
        ("anthropic:claude-sonnet-4-5", Some("2026-11-30")),
        ("anthropic/Claude-Sonnet-4-5@20250929", Some("2026-11-30")),
        ("claude-3-7-sonnet-latest", Some("2026-02-19")),
        ("claude-opus-4-20250514", Some("2026-06-15")),
        ("claude-sonnet-5", None),
        ("claude-haiku-4-5", None),
        ("gpt-5-mini-2025-08-07", Some("2026-12-11")),
        ("gpt-4o", Some("2027-01-14")),
        ("gpt-4o-2024-11-20", Some("2027-01-14")),
        ("gpt-4o-2024-05-13", Some("2026-10-23")),
        ("gpt-5.2", None),
        ("gpt-5.2-chat-latest", Some("2026-08-10")),
        ("gpt-5.4-mini", None),
        ("gemini:gemini-2.5-pro", Some("2026-12-01")),
        ("groq:llama-3.3-70b-versatile", None),
        ("cerebras:llama-3.3-70b", Some("2026-02-16")),
    ] {
        assert_eq!(ends(model).as_deref(), day, "{model}");
    }

    let profile = Catalog::builtin()
        .lookup("claude-opus-4-0")
        .expect("a profile");
    let dates = profile.lifecycle.expect("dates");
    assert_eq!(dates.deprecated, Some(date("2026-04-14")));
}

#[test]
fn inserted_model_has_its_own_dates() {
    let mut catalog = Catalog::builtin().clone();
    catalog.insert("claude-sonnet-4-5", ModelProfile::default());
    let dates = Lifecycle::default().with_ends(date("2040-01-01"));
    let mine = ModelProfile::default().with_lifecycle(dates.with_deprecated(date("2039-01-01")));
    catalog.insert("mine", mine);
    let lifecycle = |model| catalog.lookup(model).expect("a profile").lifecycle;
    assert_eq!(lifecycle("anthropic:claude-sonnet-4-5"), None);
    assert_eq!(lifecycle("mine"), mine.lifecycle);
}

#[test]
fn dates_of_a_merged_table_replace_those_of_the_one_below() {
    let newer = Catalog::from_json(
        r#"{"as_of": "2027-02-01", "providers": [{"id": "anthropic", "lifecycle": {
            "Claude-Sonnet-5": {"deprecated": "2027-01-31", "ends": "2027-12-31", "use": "claude-next"},
            "claude-sonnet-4-5": {"ends": "2027-06-30"}
        }}]}"#,
    )
    .expect("a table");
    let mut catalog = Catalog::builtin().clone();
    assert!(catalog.as_of() < newer.as_of());
    catalog.merge(newer);
    assert_eq!(catalog.as_of(), Some(date("2027-02-01")));
    let dates = |model| catalog.lookup(model).expect("a profile").lifecycle;
    let expected = Lifecycle::default()
        .with_deprecated(date("2027-01-31"))
        .with_ends(date("2027-12-31"));
    assert_eq!(dates("claude-sonnet-5"), Some(expected));
    let expected = Lifecycle::default().with_ends(date("2027-06-30"));
    assert_eq!(dates("claude-sonnet-4-5-20250929"), Some(expected));
    let builtin = Catalog::builtin()
        .lookup("claude-opus-4-1")
        .expect("a profile");
    assert_eq!(dates("claude-opus-4-1"), builtin.lifecycle);

    let older = Catalog::from_json(r#"{"as_of": "2020-01-01", "providers": []}"#);
    catalog.merge(older.expect("a table"));
    assert_eq!(catalog.as_of(), Some(date("2027-02-01")));
    assert_eq!(Catalog::new().as_of(), None);
}

#[test]
fn malformed_date_of_a_table_is_a_config_error_that_quotes_it() {
    for text in [
        r#"{"as_of": "2026-02-30", "providers": []}"#,
        r#"{"providers": [{"id": "x", "lifecycle": {"y": {"ends": "2026-02-30"}}}]}"#,
    ] {
        let error = Catalog::from_json(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(
            error.to_string().contains("\"2026-02-30\" is not a date"),
            "{error}"
        );
    }
}
