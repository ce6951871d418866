//! What the model reads when it calls a tool that is not there.

/// With no more tools than this the text lists them all.
const FEW: usize = 20;

/// Names longer than this are not compared: no tool has such a name.
const LONGEST: usize = 96;

/// The text for a call of `name` while only `names` can be called.
pub(crate) fn unknown_tool(name: &str, names: &[&str]) -> String {
    let shown: String = name.chars().take(LONGEST).collect();
    let mut text = format!("unknown tool {shown:?}");
    if names.is_empty() {
        text.push_str(". No tools are available");
        return text;
    }
    let near = near_names(name, names);
    if !near.is_empty() {
        text.push_str(". Did you mean: ");
        text.push_str(&near.join(", "));
        text.push('?');
    }
    if names.len() <= FEW {
        text.push_str(if near.is_empty() { ". " } else { " " });
        text.push_str("Available tools: ");
        text.push_str(&names.join(", "));
    }
    text
}

/// Up to three of `names` that `name` may have meant, the likeliest first.
pub(crate) fn near_names<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let wanted = plain(name);
    let mut scored: Vec<(usize, &str)> = names
        .iter()
        .filter_map(|candidate| Some((distance(&wanted, &plain(candidate))?, *candidate)))
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Letters and digits in lower case: models mix `read_file`, `ReadFile` and `read-file`.
fn plain(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// How far two names are apart, or `None` when they have nothing to do with each other.
fn distance(a: &[char], b: &[char]) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.is_empty() {
        return None;
    }
    let edits = edit_distance(short, long);
    if edits <= long.len().div_ceil(3).min(4) && edits < short.len() {
        return Some(edits);
    }
    let contained = short.len() >= 3 && long.windows(short.len()).any(|window| window == short);
    // Behind every typo, for a shared word is the weaker hint.
    contained.then_some(8 + long.len() - short.len())
}

/// Levenshtein distance, with a swap of neighbours as one edit.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [&str; 6] = ["Bash", "Edit", "Glob", "Read", "Write", "web_search"];

    #[test]
    fn a_typo_a_case_and_a_spelling_find_the_tool() {
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
    fn a_stranger_finds_nothing() {
        for called in ["", "___", "launch_rocket", "\u{1f680}", &"x".repeat(500)] {
            assert!(near_names(called, &TOOLS).is_empty(), "{called}");
        }
    }

    #[test]
    fn at_most_three_are_named() {
        let names = ["read_a", "read_b", "read_c", "read_d"];
        assert_eq!(near_names("read_", &names).len(), 3);
    }

    #[test]
    fn the_text_quotes_the_name_and_stays_short() {
        assert_eq!(
            unknown_tool("bsh", &["Bash", "Read"]),
            r#"unknown tool "bsh". Did you mean: Bash? Available tools: Bash, Read"#
        );
        assert_eq!(
            unknown_tool("rocket", &["Bash"]),
            r#"unknown tool "rocket". Available tools: Bash"#
        );
        assert!(unknown_tool(&"x".repeat(9_000), &["Bash"]).len() < 200);
        let many: Vec<String> = (0..40).map(|i| format!("tool_number_{i:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(unknown_tool("rocket", &many), r#"unknown tool "rocket""#);
    }
}
