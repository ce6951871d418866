//! Tables of models, and the names that are looked up in them.

use agentcore::model::{Catalog, Date};
use fastrand::Rng;
use serde_json::{Value, json};

use super::fuzz;
use super::texts::JSON;

const WORDS: [&str; 16] = [
    "",
    "a",
    "A",
    "a-b",
    "é",
    "漢字-20250929",
    "claude-x",
    "claude-x-20250929",
    "claude-x@20250929",
    "claude-x-2025-09-29",
    "-dddddddd",
    "x-latest",
    "a:b",
    "a/b/c",
    "İ",
    "ß-2025-09-29",
];

const DATES: [&str; 8] = [
    "2026-11-30",
    "0001-01-01",
    "9999-12-31",
    "2026-02-29",
    "0000-00-00",
    "99999-1-1",
    "-026-11-30",
    "２０２６-11",
];

fn word(rng: &mut Rng) -> &'static str {
    WORDS[rng.usize(..WORDS.len())]
}

/// Returns a date, usually one that exists.
fn date(rng: &mut Rng) -> &'static str {
    let last = if rng.u8(..20) == 0 { DATES.len() } else { 3 };
    DATES[rng.usize(..last)]
}

fn table(rng: &mut Rng) -> Value {
    let pattern = |rng: &mut Rng| {
        let kind = ["exact", "prefix", "suffix", "contains"][rng.usize(..4)];
        json!({ kind: word(rng) })
    };
    let model = |rng: &mut Rng| {
        let patterns: Vec<_> = (0..rng.usize(..3)).map(|_| pattern(rng)).collect();
        let price = |rng: &mut Rng| [0.0, 1.5, -1.0, 1e308][rng.usize(..4)];
        let prices = json!({"input": price(rng), "output": price(rng), "cache_write": price(rng)});
        json!({"id": word(rng), "match": patterns, "prices": prices})
    };
    let provider = |rng: &mut Rng| {
        let models: Vec<_> = (0..rng.usize(..4)).map(|_| model(rng)).collect();
        let dates = json!({ word(rng): {"ends": date(rng), "use": word(rng)} });
        let host = rng.bool();
        json!({"id": word(rng), "aliases": [word(rng)], "host": host, "lifecycle": dates, "models": models})
    };
    let providers: Vec<_> = (0..rng.usize(..4)).map(|_| provider(rng)).collect();
    json!({"as_of": date(rng), "providers": providers})
}

#[test]
fn tables_of_models_are_read_and_searched_without_panic() {
    fuzz("table of models", |rng| {
        let text = match rng.u8(..4) {
            0 => JSON.text(rng, 16 * 1024),
            _ => table(rng).to_string(),
        };

        std::hint::black_box(text.parse::<Date>().is_ok());
        if let Ok(newer) = Catalog::from_json(&text) {
            let mut catalog = Catalog::builtin().clone();
            catalog.merge(newer);
            std::hint::black_box((catalog.models().len(), catalog.as_of()));
            for _ in 0..20 {
                let separator = [":", "/", "-", "@"][rng.usize(..4)];
                let name = format!("{}{separator}{}", word(rng), word(rng));
                std::hint::black_box(catalog.lookup(&name));
            }
        }
        text.len()
    });
}
