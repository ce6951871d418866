//! The reports of servers about reasoning that they left out of a request.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::Secrets;
use super::lenient::Text;
use super::status;

/// A change of the request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Change<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

/// Returns the warning about a list of changes, with their reasons; `None` without a change.
pub(super) fn warning(changes: Option<&RawValue>, secrets: &Secrets) -> Option<String> {
    let changes: Vec<&RawValue> = serde_json::from_str(changes?.get()).unwrap_or_default();
    let objects = changes.iter().filter(|raw| raw.get().starts_with('{'));
    let changes = objects.map(|raw| serde_json::from_str(raw.get()));
    let changes: Vec<Change<'_>> = changes.filter_map(Result::ok).collect();
    if changes.is_empty() {
        return None;
    }

    let reasons: BTreeSet<&str> = changes.iter().map(|change| &*change.reason.0).collect();
    let reasons: Vec<&str> = reasons
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let mut text = "the server left out reasoning of earlier answers".to_owned();
    if !reasons.is_empty() {
        let reasons = status::excerpt(&reasons.join(", "), secrets);
        text = format!("{text} ({reasons})");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn reasons_are_named_once() {
        let change = |reason: &str| json!({"type": "reasoning", "id": "rs_1", "reason": reason});
        let many: Vec<_> = (0..10_000).map(|n| change(["b", "a", ""][n % 3])).collect();
        let long = change(&"x".repeat(100_000));
        for (list, expected) in [
            (json!(null), None),
            (json!([]), None),
            (json!(7), None),
            (json!("prefix_mismatch"), None),
            (json!({"reason": "a"}), None),
            (json!([7, "a", null, [[]]]), None),
            (json!([change("a"), 7, {"reason": ["b"]}]), Some(" (a, b)")),
            (json!([{"type": "reasoning"}]), Some("")),
            (json!(many), Some(" (a, b)")),
        ] {
            let raw = to_raw_value(&list).unwrap();
            let text = warning(Some(&raw), &Secrets::default());
            let start = "the server left out reasoning of earlier answers";
            assert_eq!(text, expected.map(|end| format!("{start}{end}")), "{list}");
        }
        let raw = to_raw_value(&json!([long])).unwrap();
        let text = warning(Some(&raw), &Secrets::default()).unwrap();
        assert!(text.len() < 400, "{}", text.len());
        assert_eq!(warning(None, &Secrets::default()), None);
    }
}
