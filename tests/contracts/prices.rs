//! The prices of models, and the lookup of model ids.

use agentcore::model::{Catalog, ModelProfile, Prices};
use agentcore::{ErrorKind, Usage};

fn cost(model: &str, usage: Usage) -> Option<f64> {
    Catalog::builtin().lookup(model)?.cost(&usage)
}

#[track_caller]
fn assert_cost(model: &str, usage: Usage, dollars: f64) {
    let cost = cost(model, usage).expect("a price");
    assert!(
        (cost - dollars).abs() < 1e-9,
        "{model}: {cost} is not {dollars}"
    );
}

#[test]
fn known_models_have_the_listed_price() {
    let cached = Usage::new(1000, 500).with_cache(200, 100);
    assert_cost("claude-sonnet-4-5", cached, 0.010935);
    assert_cost("claude-3-5-haiku", Usage::new(10_000, 5_000), 0.028);
    assert_cost("claude-opus-4-1", Usage::new(1000, 0), 0.015);
    assert_cost("gpt-4o-mini", Usage::new(1_000_000, 0), 0.15);
}

#[test]
fn long_prompt_raises_every_price_of_the_call() {
    let at_the_limit = Usage::new(150_000, 1000).with_cache(50_000, 0);
    assert_cost("claude-sonnet-4-5", at_the_limit, 0.45 + 0.015 + 0.015);
    let above = Usage::new(150_001, 1000).with_cache(50_000, 0);
    assert_cost("claude-sonnet-4-5", above, 0.900_006 + 0.0225 + 0.03);
}

#[test]
fn unknown_model_has_no_price() {
    for model in [
        "",
        "no-such-model",
        ":",
        "/",
        "anthropic:",
        "claude",
        "openai/claude-sonnet-4-5",
    ] {
        assert_eq!(Catalog::builtin().lookup(model), None, "{model:?}");
    }

    assert_eq!(ModelProfile::default().cost(&Usage::new(1, 1)), None);
}

#[test]
fn lookup_strips_one_provider_prefix() {
    let catalog = Catalog::builtin();
    let bare = catalog.lookup("claude-sonnet-4-5");
    assert!(bare.is_some());
    for model in [
        "anthropic/claude-sonnet-4-5",
        "anthropic:claude-sonnet-4-5",
        "Anthropic:Claude-Sonnet-4-5",
    ] {
        assert_eq!(catalog.lookup(model), bare, "{model}");
    }

    assert_eq!(
        catalog.lookup("anthropic/anthropic/claude-sonnet-4-5"),
        None
    );
    assert_eq!(catalog.lookup("xai:grok-4"), catalog.lookup("x-ai/grok-4"));
}

#[test]
fn lookup_ignores_dates_at_the_end_of_a_model_id() {
    let catalog = Catalog::builtin();
    for (dated, bare) in [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-opus-5-20260801", "claude-opus-5"),
        ("claude-opus-5@20260801", "claude-opus-5"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-6-sol-2026-11-01", "gpt-6-sol"),
        ("gpt-6-sol-latest", "gpt-6-sol"),
    ] {
        assert!(catalog.lookup(bare).is_some(), "{bare}");
        assert_eq!(catalog.lookup(dated), catalog.lookup(bare), "{dated}");
    }

    assert_eq!(catalog.lookup("é-20250929"), None);

    // This dated model has a price of its own.
    assert_ne!(
        catalog.lookup("gpt-4o-2024-05-13"),
        catalog.lookup("gpt-4o")
    );
}

#[test]
fn lookup_prefers_the_longest_prefix() {
    let catalog = Catalog::builtin();
    let nano = catalog.lookup("gpt-5-nano").and_then(|one| one.prices);
    let five = catalog.lookup("gpt-5").and_then(|one| one.prices);
    assert!(nano.map(|one| one.input) < five.map(|one| one.input));
    assert_eq!(
        catalog
            .lookup("gemini-2.0-flash-lite")
            .and_then(|one| one.prices)
            .map(|one| one.input),
        Some(0.075)
    );
}

#[test]
fn models_of_local_servers_have_no_price() {
    let catalog = Catalog::builtin();
    for model in [
        "ollama:deepseek-r1:8b",
        "deepseek-r1:8b",
        "ollama:gpt-oss-120b",
        "llama3.1:8b",
    ] {
        assert_eq!(catalog.lookup(model), None, "{model}");
    }
}

#[test]
fn models_hosted_by_another_provider_need_its_prefix() {
    let catalog = Catalog::builtin();
    assert!(catalog.lookup("groq:llama-3.3-70b-versatile").is_some());
    assert!(catalog.lookup("groq/openai/gpt-oss-120b").is_some());
    assert_eq!(catalog.lookup("llama-3.3-70b-versatile"), None);
}

#[test]
fn lookup_returns_limits_with_prices() {
    let profile = Catalog::builtin()
        .lookup("claude-haiku-4-5")
        .expect("it is in the table");
    assert_eq!(
        (profile.context_window, profile.max_output_tokens),
        (200_000, 64_000)
    );
    assert!(profile.images && profile.prompt_cache);
    let text_only = Catalog::builtin()
        .lookup("gpt-oss-20b")
        .expect("it is in the table");
    assert!(!text_only.images);
    assert_eq!(text_only.max_output_tokens, 8_192);
}

#[test]
fn added_models_take_precedence_over_the_builtin_table() {
    let mut catalog = Catalog::builtin().clone();
    let mine = ModelProfile::default().with_prices(Prices::new(1.0, 2.0));
    catalog.extend([("claude-sonnet-4-5", mine), ("ollama:qwen3:8b", mine)]);
    assert_eq!(catalog.lookup("anthropic:claude-sonnet-4-5"), Some(mine));
    assert_eq!(catalog.lookup("Ollama:Qwen3:8B"), Some(mine));
    assert_ne!(Catalog::builtin().lookup("claude-sonnet-4-5"), Some(mine));
}

#[test]
fn merged_table_replaces_its_own_models_only() {
    let newer = Catalog::from_json(
        r#"{"providers":[{"id":"anthropic","models":[
            {"id":"claude-sonnet-4-5","prices":{"input":1,"output":2}},
            {"id":"claude-next","match":[{"prefix":"Claude-Next"}],"context_window":5,
             "prices":{"input":1,"output":2,"cache_read":0.5,"long":{"over":10,"input":3,"output":4}}}
        ]}]}"#,
    )
    .expect("a table");
    let mut catalog = Catalog::builtin().clone();
    catalog.merge(newer);
    let find = |model| catalog.lookup(model).expect("a profile");
    assert_eq!(
        find("claude-sonnet-4-5").prices,
        Some(Prices::new(1.0, 2.0))
    );
    assert_eq!(
        Some(find("claude-opus-4-1")),
        Catalog::builtin().lookup("claude-opus-4-1")
    );
    let next = find("anthropic:claude-next-20270101");
    let expected = Prices::new(1.0, 2.0)
        .with_cache(0.5, 1.0)
        .with_long(10, Prices::new(3.0, 4.0));
    assert_eq!((next.context_window, next.prices), (5, Some(expected)));
    assert!(next.prompt_cache);
}

#[test]
fn malformed_model_table_is_a_config_error() {
    for text in [
        "",
        "[]",
        r#"{"providers":[{"id":"x","models":[{"id":"y","prices":{"input":1}}]}]}"#,
    ] {
        let error = Catalog::from_json(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(error.to_string().starts_with("model table: "), "{error}");
    }
}

#[test]
fn prices_json_round_trips() {
    let prices = Prices::new(1.0, 2.0)
        .with_cache(0.5, 1.25)
        .with_long(10, Prices::new(3.0, 4.0));
    let json = serde_json::to_string(&prices).expect("they write");
    assert_eq!(
        serde_json::from_str::<Prices>(&json).expect("they read"),
        prices
    );
}

#[test]
fn usage_totals_saturate() {
    let all = Usage::new(u64::MAX, u64::MAX).with_cache(u64::MAX, 1);
    assert_eq!(all.context_tokens(), u64::MAX);
    assert_eq!(all.total_tokens(), u64::MAX);
}

#[test]
fn long_writes_cost_their_own_price() {
    let mut usage = Usage::new(0, 0).with_cache(0, 1_000_000);
    usage.cache_write_long_tokens = 400_000;
    let prices = Prices::new(3.0, 15.0)
        .with_cache(0.3, 3.75)
        .with_long_cache(6.0);
    assert!((prices.cost(&usage) - (0.6 * 3.75 + 0.4 * 6.0)).abs() < 1e-9);
    assert_cost("claude-sonnet-5", usage, 0.6 * 2.5 + 0.4 * 4.0);
}

#[test]
fn more_long_writes_than_writes_cost_as_many_as_writes() {
    let mut usage = Usage::new(0, 0).with_cache(0, 100);
    usage.cache_write_long_tokens = u64::MAX;
    let prices = Prices::new(3.0, 15.0)
        .with_cache(0.3, 3.75)
        .with_long_cache(6.0);
    assert!((prices.cost(&usage) - 100.0 * 6.0 / 1e6).abs() < 1e-12);
}
