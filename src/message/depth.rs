//! The limit on the nesting of JSON.
//!
//! A stored message holds the JSON of calls, results and providers' blocks a few levels inside its
//! own, and the parser that reads it again stops at 127 levels. Code that walks a value by
//! recursion runs out of stack at some tens of thousands.

use std::sync::Arc;

use serde_json::Value;

/// The maximum nesting depth of arrays and objects in arguments, details and blocks. A value
/// without any has depth 0.
pub(crate) const MAX_JSON_DEPTH: usize = 100;

/// Returns `true` if the value is nested deeper than [`MAX_JSON_DEPTH`].
pub(crate) fn is_too_deep(value: &Value) -> bool {
    exceeds(value, MAX_JSON_DEPTH)
}

/// Returns `true` if the value is nested deeper than `levels`. The recursion ends there, so it is
/// safe for values of any depth.
fn exceeds(value: &Value, levels: usize) -> bool {
    let is_deeper = |inner: &Value| match levels.checked_sub(1) {
        Some(levels) => exceeds(inner, levels),
        None => true,
    };
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(is_deeper),
        Value::Object(members) => levels == 0 || members.values().any(is_deeper),
        _ => false,
    }
}

/// Returns `true` if JSON text is nested deeper than [`MAX_JSON_DEPTH`]. The text need not be
/// valid.
pub(crate) fn is_text_too_deep(json: &str) -> bool {
    is_text_deeper(json.as_bytes(), MAX_JSON_DEPTH)
}

/// Returns `true` if JSON text is nested deeper than `levels`. The text need not be valid.
pub(crate) fn is_text_deeper(json: &[u8], levels: usize) -> bool {
    let opening = memchr::memchr2_iter(b'{', b'[', json);
    if opening.take(levels.saturating_add(1)).count() <= levels {
        return false;
    }

    let mut depth = 0_usize;
    let mut in_string = false;
    let mut is_escaped = false;
    for &byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' if depth == levels => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }

    false
}

/// Drops a value without recursion.
pub(crate) fn dismantle(value: Value) {
    let mut values = vec![value];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(members) => values.extend(members.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// Drops a shared value, without recursion if this is the last owner.
pub(crate) fn dismantle_shared(value: Arc<Value>) {
    if let Some(value) = Arc::into_inner(value) {
        dismantle(value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Null, |inner, level| match level % 2 {
            0 => Value::Array(vec![inner]),
            _ => json!({"a": inner}),
        })
    }

    #[test]
    fn depth_of_values_and_texts_is_equal() {
        for depth in [0, 1, 99, 100, 101, 120] {
            let value = nested(depth);
            assert_eq!(is_too_deep(&value), depth > 100, "{depth}");
            assert_eq!(is_text_too_deep(&value.to_string()), depth > 100, "{depth}");
        }
        let flat = json!({"[[[": "{\\\"".repeat(200), "b": [[], []]}).to_string();
        assert!(!is_text_too_deep(&flat));
        assert!(!is_text_too_deep(&"[]".repeat(500)));
    }

    #[test]
    fn value_of_any_depth_is_measured_and_dropped() {
        let value = (0..1_000_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(is_too_deep(&value));
        dismantle_shared(Arc::new(value));
    }
}
