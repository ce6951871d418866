//! The models that texts of this repository name.

use agentcore::model::Catalog;

use super::assert_none;
use super::tree::{File, files, sources};

/// The most days of six months.
const SIX_MONTHS: i64 = 184;

/// Returns the lines of a file that may name models as examples: the doc comments of a source, and
/// all lines of any other file.
fn shown_text(file: &File) -> Vec<(usize, &str)> {
    let is_source = file.path.starts_with("src/");
    let is_shown = |line: &str| {
        let line = line.trim_start();
        !is_source || line.starts_with("///") || line.starts_with("//!")
    };
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| is_shown(line))
        .map(|(index, line)| (index + 1, line))
        .collect()
}

/// Returns the words of a line that have the form of a model id, without the provider.
fn model_names(line: &str) -> impl Iterator<Item = &str> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let words = line.split(move |c| !is_of_a_name(c));
    words
        .map(|word| word.trim_matches(['-', '.']))
        .filter(|word| {
            let is_o_series = || {
                let mut chars = word.chars();
                chars.next() == Some('o') && chars.next().is_some_and(|c| c.is_ascii_digit())
            };
            let starts = ["claude-", "gpt-", "chatgpt-", "gemini-"];
            starts.iter().any(|start| word.starts_with(start)) || is_o_series()
        })
}

/// Returns `true` if the model ends within six months after the date of the data.
fn ends_soon(name: &str) -> bool {
    let catalog = Catalog::builtin();
    let dates = catalog.lookup(name).and_then(|profile| profile.lifecycle);
    let ends = dates.and_then(|dates| dates.ends);
    let as_of = catalog.as_of().unwrap();
    ends.is_some_and(|ends| as_of.days_until(ends) <= SIX_MONTHS)
}

#[test]
fn models_that_end_within_six_months_are_not_named() {
    let places = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs",
        "examples",
    ];
    let mut texts = files(&places, &["rs", "md", "json", "yaml", "toml"]);
    texts.extend(sources());
    let mut violations = Vec::new();
    for file in &texts {
        for (line, text) in shown_text(file) {
            for name in model_names(text).filter(|name| ends_soon(name)) {
                violations.push(format!("{}:{line}: {name}", file.path));
            }
        }
    }

    assert_none(
        &violations,
        "name models that last longer than six months after the date of data/models.json:",
    );
}

#[test]
fn names_of_models_are_found_in_a_line() {
    let line =
        r#"/// `anthropic:claude-sonnet-4-5`, OpenAi::new("gpt-4o-mini"), o3. and oh gpt, GPT-4o."#;
    let names: Vec<_> = model_names(line).collect();
    assert_eq!(names, ["claude-sonnet-4-5", "gpt-4o-mini", "o3"]);
    assert!(names.iter().all(|name| ends_soon(name)));
    assert!(!ends_soon("claude-sonnet-5") && !ends_soon("gpt-unknown"));
}
