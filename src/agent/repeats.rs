//! Noticing a model that runs in circles.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::{ToolCall, ToolResult};

/// At this many equal calls with equal results the model is told.
const WARN: u32 = 3;
/// At this many the run ends.
const STOP: u32 = 5;

/// Counts calls that come back with the same result. A different result starts over.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<u64, (u64, u32)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    No,
    Warn,
    Stop,
}

impl Repeats {
    pub(super) fn note(&mut self, call: &ToolCall, result: &ToolResult) -> Repeated {
        let outcome = hash(&(result.is_error, result.content.text()));
        let key = hash(&(&call.name, call.args.to_string()));
        let (last, count) = self.0.entry(key).or_insert((outcome, 0));
        if *last != outcome {
            (*last, *count) = (outcome, 0);
        }
        *count += 1;
        match *count {
            STOP.. => Repeated::Stop,
            WARN => Repeated::Warn,
            _ => Repeated::No,
        }
    }
}

/// What the model reads the third time.
pub(super) const WARNING: &str = "Note: this is the third time the same call gave the same result. \
     Repeating it will not help; try something else or say what is missing.";

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_calls_with_equal_results_are_counted() {
        let mut repeats = Repeats::default();
        let call = ToolCall::new("1", "look", json!({"a": 1}));
        let result = ToolResult::ok(&call, "nothing");
        let seen: Vec<_> = (0..5).map(|_| repeats.note(&call, &result)).collect();
        use Repeated::*;
        assert_eq!(seen, [No, No, Warn, No, Stop]);
    }

    #[test]
    fn another_result_starts_over() {
        let mut repeats = Repeats::default();
        let call = ToolCall::new("1", "poll", json!({}));
        for n in 0..20 {
            let result = ToolResult::ok(&call, format!("{n} %"));
            assert_eq!(repeats.note(&call, &result), Repeated::No);
        }
    }
}
