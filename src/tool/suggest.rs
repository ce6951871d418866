//! The known names that an unknown name may mean, and the text for a call of an unknown tool.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of tools up to which the text lists them all.
const FEW: usize = 20;

/// The maximum number of edits by which a name is considered a typo.
const MAX_EDITS: usize = 4;

/// Words that are in so many names that two names with the same one need not be related.
const USUAL: [&str; 12] = [
    "add", "create", "delete", "file", "get", "list", "mcp", "read", "set", "tool", "update",
    "write",
];

/// Names longer than this are not compared: no tool has such a name.
const LONGEST: usize = 96;

/// The number of comparisons of names after which no further name is compared, some tens
/// of milliseconds of work.
const MAX_COMPARISONS: usize = 16_384;

/// The number of comparisons that were made for the unknown names in one response, or in one
/// definition.
#[derive(Debug, Default)]
pub(crate) struct Comparisons(AtomicUsize);

impl Comparisons {
    /// Returns the same names as [`near_names`], or none once [`MAX_COMPARISONS`] were made.
    pub(crate) fn near_names<'a>(&self, name: &str, names: &[&'a str]) -> Vec<&'a str> {
        if self.0.fetch_add(names.len(), Ordering::Relaxed) < MAX_COMPARISONS {
            near_names(name, names)
        } else {
            Vec::new()
        }
    }
}

/// Returns the text for a call of `name` while only `names` can be called.
pub(crate) fn unknown_tool(name: &str, names: &[&str], comparisons: &Comparisons) -> String {
    let excerpt: String = name.chars().take(LONGEST).collect();
    let mut text = format!("unknown tool {excerpt:?}");
    if names.is_empty() {
        text.push_str(". No tools are available");
        return text;
    }

    let suggestions = comparisons.near_names(name, names);
    if !suggestions.is_empty() {
        text.push_str(". Did you mean: ");
        text.push_str(&suggestions.join(", "));
        text.push('?');
    }

    if names.len() <= FEW {
        text.push_str(if suggestions.is_empty() { ". " } else { " " });
        text.push_str("Available tools: ");
        text.push_str(&names.join(", "));
    }

    text
}

/// Returns up to three of `names` that `name` may be a misspelling of, the likeliest first.
pub(crate) fn near_names<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    if name.len() > LONGEST {
        return Vec::new();
    }

    let plain_name = plain(name);
    let wanted_words = words(name);
    let mut ranked: Vec<(usize, &str)> = names
        .iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .filter_map(|candidate| {
            let distance = typo_distance(&plain_name, &plain(candidate))
                .or_else(|| word_distance(&wanted_words, &words(candidate)))?;
            Some((distance, *candidate))
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Returns letters and digits in lower case: models mix `read_file`, `ReadFile` and `read-file`.
fn plain(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the words of a name, in lower case: models mix `read_file`, `ReadFile` and `read-file`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for c in name.chars() {
        let is_start = (c.is_uppercase() && !previous.is_uppercase())
            || c.is_numeric() != previous.is_numeric()
            || !c.is_alphanumeric();
        if is_start {
            words.push(String::new());
        }

        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }

        previous = c;
    }

    words.retain(|word| !word.is_empty());
    words
}

/// Returns the number of edits that turn one name into the other, or `None` when there are too many
/// for a typo.
fn typo_distance(a: &[char], b: &[char]) -> Option<usize> {
    let (shorter, longer) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let edits = edit_distance(shorter, longer)?;
    let is_typo = edits <= longer.len().div_ceil(3) && edits < shorter.len();
    is_typo.then_some(edits)
}

/// Returns the distance of two names by their words, or `None` if they are not related. Names are
/// related if most words are in both, if one has all words of the other, or if one is a single word
/// that is, begins or ends a word of the other. The distance is greater than that of any typo,
/// because a word in both is the weaker hint.
fn word_distance(a: &[String], b: &[String]) -> Option<usize> {
    let (shorter, longer) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let shared_words: Vec<_> = shorter
        .iter()
        .filter(|word| longer.contains(word))
        .collect();
    let is_significant = |word: &&String| word.len() >= 3 && !USUAL.contains(&word.as_str());
    let is_majority = 2 * shared_words.len() > longer.len();
    let is_part = || match shorter {
        [word] => longer.iter().any(|other| is_part_of(word, other)),
        _ => !shorter.is_empty() && shared_words.len() == shorter.len(),
    };

    let is_near = if shared_words.iter().any(is_significant) {
        is_majority || is_part()
    } else {
        shorter.len() == 1 && is_part()
    };

    is_near.then_some(2 * MAX_EDITS + longer.len() - shared_words.len())
}

/// Returns `true` if the word is long enough to be a hint and is the other, its beginning or its
/// end.
fn is_part_of(word: &str, other: &str) -> bool {
    let (shorter, longer) = if word.len() <= other.len() {
        (word, other)
    } else {
        (other, word)
    };
    let is_in = longer.starts_with(shorter) || longer.ends_with(shorter);
    is_in && shorter.len() >= 4 && !USUAL.contains(&shorter)
}

/// Returns the Levenshtein distance, where a swap of two neighbors counts as one edit; `None` if it
/// is greater than `MAX_EDITS`. `a` must not be longer than `b`.
///
/// A path of so few edits stays within `MAX_EDITS` of the diagonal, so only these cells of the
/// matrix are computed.
fn edit_distance(a: &[char], b: &[char]) -> Option<usize> {
    const TOO_MANY: usize = MAX_EDITS + 1;
    if b.len() - a.len() > MAX_EDITS {
        return None;
    }

    let mut previous_row = vec![TOO_MANY; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).map(|edits| edits.min(TOO_MANY)).collect();
    let mut row = previous_row.clone();
    for (i, x) in a.iter().enumerate() {
        let band = i.saturating_sub(MAX_EDITS)..b.len().min(i + MAX_EDITS + 1);
        row.fill(TOO_MANY);
        if band.start == 0 {
            row[0] = (i + 1).min(TOO_MANY);
        }

        for j in band {
            let y = b[j];
            let mut cost = (last[j] + usize::from(*x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(previous_row[j - 1] + 1);
            }

            row[j + 1] = cost.min(TOO_MANY);
        }

        if row.iter().all(|cost| *cost == TOO_MANY) {
            return None;
        }
        std::mem::swap(&mut previous_row, &mut last);
        std::mem::swap(&mut last, &mut row);
    }

    let edits = last[b.len()];
    (edits <= MAX_EDITS).then_some(edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 6] = ["Bash", "Edit", "Glob", "Read", "Write", "web_search"];

    #[test]
    fn typos_case_and_separators_find_the_tool() {
        for (called, meant) in [
            ("bash", "Bash"),
            ("Raed", "Read"),
            ("WebSearch", "web_search"),
            ("web-serach", "web_search"),
            ("search", "web_search"),
        ] {
            assert_eq!(near_names(called, &TOOLS).first(), Some(&meant), "{called}");
        }
    }

    #[test]
    fn unrelated_name_finds_no_tool() {
        for called in ["", "___", "launch_rocket", "\u{1f680}", &"x".repeat(500)] {
            assert!(near_names(called, &TOOLS).is_empty(), "{called}");
        }
    }

    #[test]
    fn name_with_most_words_in_common_finds_the_tool() {
        let tools = [
            "core_market_clock",
            "core_weather",
            "market_open_orders",
            "Bash",
        ];
        assert_eq!(
            near_names("mobius_market_clock", &tools),
            ["core_market_clock"]
        );
        for called in ["MobiusMarketClock", "market-clock", "core.market.clock"] {
            assert_eq!(
                near_names(called, &tools).first(),
                Some(&"core_market_clock"),
                "{called}"
            );
        }
    }

    #[test]
    fn shared_letters_or_a_common_verb_find_no_tool() {
        for (called, tool) in [
            ("art", "start_task"),
            ("rig", "trigger"),
            ("run", "prune_index"),
            ("get_price", "get_weather"),
            ("read_file", "write_mail"),
            ("list_orders", "list_branches"),
        ] {
            assert!(near_names(called, &[tool]).is_empty(), "{called}");
        }

        let long_name = "market_".repeat(2_000);
        assert!(near_names("market", &[&long_name]).is_empty());
    }

    #[test]
    fn at_most_three_names_are_suggested() {
        let names = ["read_a", "read_b", "read_c", "read_d"];
        assert_eq!(near_names("read_", &names).len(), 3);
    }

    /// The distance by its definition.
    fn full_distance(a: &[char], b: &[char]) -> usize {
        let ([a_start @ .., x], [b_start @ .., y]) = (a, b) else {
            return a.len().max(b.len());
        };
        let mut cost = (full_distance(a_start, b_start) + usize::from(x != y))
            .min(full_distance(a_start, b) + 1)
            .min(full_distance(a, b_start) + 1);
        if let ([a_rest @ .., before_x], [b_rest @ .., before_y]) = (a_start, b_start)
            && x == before_y
            && before_x == y
        {
            cost = cost.min(full_distance(a_rest, b_rest) + 1);
        }
        cost
    }

    #[test]
    fn distance_up_to_the_maximum_is_that_of_the_definition() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut name = || -> Vec<char> {
                let len = rng.usize(..8);
                (0..len).map(|_| rng.char('a'..='c')).collect()
            };
            let (a, b) = (name(), name());
            let (a, b) = if a.len() <= b.len() { (a, b) } else { (b, a) };
            let full = full_distance(&a, &b);
            let expected = (full <= MAX_EDITS).then_some(full);
            assert_eq!(edit_distance(&a, &b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn unknown_tool_text_quotes_the_name_and_is_bounded() {
        let unknown_tool =
            |name: &str, names: &[&str]| unknown_tool(name, names, &Comparisons::default());
        assert_eq!(
            unknown_tool("bsh", &["Bash", "Read"]),
            r#"unknown tool "bsh". Did you mean: Bash? Available tools: Bash, Read"#
        );
        assert_eq!(
            unknown_tool("rocket", &["Bash"]),
            r#"unknown tool "rocket". Available tools: Bash"#
        );
        assert!(unknown_tool(&"x".repeat(9_000), &["Bash"]).len() < 200);
        let names: Vec<String> = (0..40).map(|i| format!("tool_number_{i:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(unknown_tool("rocket", &names), r#"unknown tool "rocket""#);
    }

    #[test]
    fn names_that_come_after_many_comparisons_are_not_compared() {
        let names: Vec<String> = (0..5_000).map(|i| format!("tool_{i:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let comparisons = Comparisons::default();
        let texts = (0..1_000).map(|_| unknown_tool("tol_0001", &names, &comparisons));
        let hints = texts.filter(|text| text.contains("Did you mean: tool_0001"));
        assert_eq!(hints.count(), 4);
    }
}
