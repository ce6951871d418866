//! The table of models, the data that is maintained by hand, and tables in files.

use std::collections::BTreeMap;

use agentcore::ErrorKind;
use agentcore::model::{Catalog, Date, ModelProfile, Prices};
use serde_json::Value;

const MODELS: &str = include_str!("../../data/models.json");
const EXTRA: &str = include_str!("../../data/extra.json");
const README: &str = include_str!("../../data/README.md");
const SOURCE: &str = include_str!("../../data/source.txt");

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

fn prices(model: &str) -> Prices {
    let profile = Catalog::builtin().lookup(model).expect(model);
    profile.prices.expect(model)
}

fn as_of() -> Date {
    Catalog::builtin().as_of().expect("a date")
}

#[test]
fn table_has_the_date_of_the_manual_data() {
    assert_eq!(json(EXTRA)["as_of"], as_of().to_string());
    assert!(
        README.contains(&as_of().to_string()),
        "data/README.md has another date"
    );
    let (package, hash) = SOURCE.split_once(" --hash=sha256:").expect("a hash");
    assert_eq!(hash.trim().len(), 64);
    let (_, version) = package.split_once("==").expect("a version");
    assert!(
        README.contains(version),
        "data/README.md has another version"
    );
}

/// Returns the dates of `extra.json` and of `models.json`, by `provider:model`.
fn dates() -> [BTreeMap<String, Value>; 2] {
    let (mut manual_dates, mut table_dates) = (BTreeMap::new(), BTreeMap::new());
    for (provider, entries) in json(EXTRA)["lifecycle"].as_object().expect("an object") {
        for entry in entries.as_array().expect("a list") {
            for id in entry["ids"].as_array().expect("a list") {
                let mut dates = entry.clone();
                dates.as_object_mut().expect("an object").remove("ids");
                dates.as_object_mut().expect("an object").remove("source");
                let name = format!("{provider}:{}", id.as_str().expect("a text"));
                assert_eq!(
                    manual_dates.insert(name, dates),
                    None,
                    "{id} is listed twice"
                );
            }
        }
    }

    for provider in json(MODELS)["providers"].as_array().expect("a list") {
        let name = provider["id"].as_str().expect("a text");
        for (id, dates) in provider["lifecycle"].as_object().into_iter().flatten() {
            table_dates.insert(format!("{name}:{id}"), dates.clone());
        }
    }
    [manual_dates, table_dates]
}

#[test]
fn table_has_the_lifecycle_of_the_manual_data() {
    let [manual_dates, table_dates] = dates();
    assert!(manual_dates.len() > 50);
    assert_eq!(manual_dates, table_dates);
}

#[test]
fn dates_are_those_of_a_model_of_the_table() {
    let [_, table_dates] = dates();
    for (name, dates) in table_dates {
        let profile = Catalog::builtin().lookup(&name).expect(&name);
        let ends = profile.lifecycle.and_then(|one| one.ends);
        assert_eq!(dates["ends"], ends.expect(&name).to_string(), "{name}");
        let deprecated = profile.lifecycle.and_then(|one| one.deprecated);
        assert!(deprecated.is_none() || deprecated < ends, "{name}");
    }
}

#[test]
fn model_to_use_instead_ends_later_than_60_days_after_the_data() {
    let [_, table_dates] = dates();
    for (name, dates) in table_dates {
        let Some(replacement) = dates["use"].as_str() else {
            continue;
        };
        let (provider, _) = name.split_once(':').expect("a provider");
        let profile = Catalog::builtin().lookup(&format!("{provider}:{replacement}"));
        let lifecycle = profile.expect(replacement).lifecycle;
        let ends = lifecycle.and_then(|one| one.ends);
        assert!(
            ends.is_none_or(|date| as_of().days_until(date) > 60),
            "{name}: {replacement}"
        );
    }
}

#[test]
fn models_of_the_builtin_catalog_are_sorted_and_have_their_dates() {
    let models = Catalog::builtin().models();
    assert!(models.len() > 250);
    assert!(models.is_sorted_by(|a, b| a.id < b.id));
    let find = |id: &str| models.iter().find(|card| &*card.id == id).expect(id);
    let sonnet = find("anthropic:claude-sonnet-4-5");
    assert_eq!(Some(sonnet.profile), Catalog::builtin().lookup(&sonnet.id));
    assert!(sonnet.profile.lifecycle.is_some());
    assert_eq!(find("anthropic:claude-sonnet-5").profile.lifecycle, None);
}

#[test]
fn models_of_a_merged_catalog_are_those_that_take_precedence() {
    let table = |input: u32| {
        let text = format!(
            r#"{{"providers": [{{"id": "Maker", "models": [
                {{"id": "One-{input}", "prices": {{"input": {input}, "output": 1}}}},
                {{"id": "both", "prices": {{"input": {input}, "output": 1}}}}]}}]}}"#
        );
        Catalog::from_json(&text).expect("a table")
    };
    let mut catalog = table(1);
    catalog.merge(table(2));
    catalog.insert("Mine", ModelProfile::default());
    let models = catalog.models();
    let rows = models.iter().map(|card| {
        let input = card.profile.prices.map(|prices| prices.input);
        (&*card.id, input)
    });
    let expected = [
        ("maker:both", Some(2.0)),
        ("maker:one-1", Some(1.0)),
        ("maker:one-2", Some(2.0)),
        ("mine", None),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert!(Catalog::new().models().is_empty());
}

#[test]
fn models_of_a_table_have_the_profile_that_was_inserted_for_them() {
    let mut catalog = Catalog::builtin().clone();
    let bare = ModelProfile::default().with_context_window(1_000);
    let whole = ModelProfile::default().with_context_window(2_000);
    catalog.insert("Claude-Sonnet-5", bare);
    catalog.insert("claude-opus-4-5", bare);
    catalog.insert("anthropic:claude-opus-4-5", whole);
    let models = catalog.models();
    for (id, profile) in [
        ("anthropic:claude-sonnet-5", bare),
        ("anthropic:claude-opus-4-5", whole),
    ] {
        let card = models.iter().find(|card| &*card.id == id).expect(id);
        assert_eq!(card.profile, profile, "{id}");
        assert_eq!(catalog.lookup(id), Some(profile));
    }

    let dated = catalog.lookup("claude-sonnet-5-20250929").expect("a model");
    assert_eq!(dated.context_window, 1_000_000);
}

#[test]
fn table_in_a_file_is_read_and_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("models.json");
    let text = r#"{"as_of": "2027-01-01", "providers": [{"id": "anthropic", "models": [
        {"id": "claude-sonnet-5", "context_window": 7}]}]}"#;
    std::fs::write(&path, text).expect("it writes");
    let newer = Catalog::from_file(&path).expect("a table");
    assert_eq!(newer.as_of(), Date::new(2027, 1, 1));

    let mut catalog = Catalog::builtin().clone();
    catalog.merge(newer.clone());
    let window = |catalog: &Catalog| {
        catalog
            .lookup("claude-sonnet-5")
            .map(|one| one.context_window)
    };
    assert_eq!(window(&catalog), Some(7));
    let mut reversed = newer;
    reversed.merge(Catalog::builtin().clone());
    assert_eq!(window(&reversed), Some(1_000_000));
}

#[test]
fn table_file_that_cannot_be_read_is_a_config_error_with_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.json");
    let malformed = folder.path().join("malformed.json");
    std::fs::write(&malformed, r#"{"providers": 1}"#).expect("it writes");
    for (path, start) in [
        (
            &missing,
            format!("cannot read the model table {}: ", missing.display()),
        ),
        (
            &malformed,
            format!("{}: model table: ", malformed.display()),
        ),
    ] {
        let error = Catalog::from_file(path).expect_err("no table");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn table_file_that_is_a_pipe_is_refused_without_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(status.expect("mkfifo").success());
    let error = Catalog::from_file(&path).expect_err("no table");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("it is not a regular file; name"),
        "{error}"
    );
}

#[test]
fn table_file_longer_than_16_mib_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("models.json");
    let table = r#"{"providers": []}"#;
    let spaces = 16 * 1024 * 1024 - table.len();
    for (spaces, is_read) in [(spaces, true), (spaces + 1, false)] {
        std::fs::write(&path, format!("{table}{}", " ".repeat(spaces))).expect("it writes");
        match Catalog::from_file(&path) {
            Ok(_) => assert!(is_read),
            Err(error) => {
                assert!(
                    error
                        .to_string()
                        .ends_with("it is longer than 16777216 bytes"),
                    "{error}"
                );
                assert!(!is_read);
            }
        }
    }
}

#[test]
fn long_cache_writes_of_claude_cost_twice_the_input() {
    for card in Catalog::builtin().models() {
        if !card.id.starts_with("anthropic:") {
            continue;
        }
        let prices = card.profile.prices.expect("prices");
        let name = &card.id;
        assert!(
            (prices.cache_write_long - 2.0 * prices.input).abs() < 1e-9,
            "{name}"
        );
        let long = prices
            .long
            .map(|long| (long.cache_write_long, 2.0 * long.input));
        assert!(
            long.is_none_or(|(write, twice)| (write - twice).abs() < 1e-9),
            "{name}"
        );
    }
    assert_eq!(
        prices("claude-haiku-5-5")
            .long
            .expect("prices")
            .cache_write_long,
        1.0
    );
}

#[test]
fn long_cache_writes_of_openai_cost_two_and_a_half_times_the_input() {
    for (model, write, long) in [
        ("gpt-6-luna", 0.25, 0.5),
        ("gpt-6-astra", 25.0, 50.0),
        ("gpt-5.6-sol", 10.0, 20.0),
        // The table has no prices for its long cache writes and its long requests.
        ("gpt-6-cyber", 50.0, 0.0),
    ] {
        let prices = prices(model);
        assert_eq!(prices.cache_write_long, write, "{model}");
        let long_write = prices.long.map_or(0.0, |long| long.cache_write_long);
        assert_eq!(long_write, long, "{model}");
    }
}

#[test]
fn long_cache_write_without_a_price_costs_the_highest_known_multiple() {
    assert_eq!(Prices::new(3.0, 15.0).cache_write_long, 3.0);
    assert_eq!(
        Prices::new(3.0, 15.0).with_cache(0.3, 3.0).cache_write_long,
        3.0
    );
    let written = Prices::new(3.0, 15.0).with_cache(0.3, 3.75);
    assert_eq!(written.cache_write_long, 7.5);
    assert_eq!(written.with_long_cache(6.0).cache_write_long, 6.0);
    assert_eq!(
        Prices::new(3.0, 15.0).with_cache(0.3, 9.0).cache_write_long,
        9.0
    );
    let long = written.with_long(
        10,
        Prices::new(6.0, 1.0)
            .with_cache(1.0, 7.5)
            .with_long_cache(12.0),
    );
    assert_eq!(long.long.expect("prices").cache_write_long, 12.0);
}

#[test]
fn output_limits_are_those_of_the_makers() {
    for (model, limit) in [
        ("claude-haiku-4-5", 64_000),
        ("claude-haiku-5-5", 128_000),
        ("claude-sonnet-5", 128_000),
        ("gpt-5-pro", 272_000),
        ("gpt-6-luna", 128_000),
        ("gemini-3.8-flash", 65_536),
        ("gemini-4-argon", 1_048_576),
    ] {
        let profile = Catalog::builtin().lookup(model).expect(model);
        assert_eq!(profile.max_output_tokens, limit, "{model}");
    }
}
