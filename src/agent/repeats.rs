//! Noticing a model that runs in circles.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::{ToolCall, ToolResult};

/// At this many equal calls with equal results the model is told.
const WARN: u32 = 3;
/// At this many the run ends.
const STOP: u32 = 5;

/// Counts calls that come back with the same result. A different result starts over; equal calls
/// of one turn count once, for the model saw no result between them.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<u64, Seen>);

#[derive(Debug)]
struct Seen {
    outcome: u64,
    count: u32,
    turn: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    No,
    Warn,
    Stop,
}

impl Repeats {
    pub(super) fn note(&mut self, turn: u32, call: &ToolCall, result: &ToolResult) -> Repeated {
        let outcome = hash(&(result.is_error, result.content.text()));
        let key = hash(&(&call.name, call.args.to_string()));
        let fresh = Seen {
            outcome,
            count: 0,
            turn: 0,
        };
        let seen = self.0.entry(key).or_insert(fresh);
        if seen.turn == turn {
            return Repeated::No;
        }
        seen.turn = turn;
        if seen.outcome != outcome {
            (seen.outcome, seen.count) = (outcome, 0);
        }
        seen.count += 1;
        match seen.count {
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
        let seen: Vec<_> = (1..=5)
            .map(|turn| repeats.note(turn, &call, &result))
            .collect();
        use Repeated::*;
        assert_eq!(seen, [No, No, Warn, No, Stop]);
    }

    #[test]
    fn another_result_starts_over() {
        let mut repeats = Repeats::default();
        let call = ToolCall::new("1", "poll", json!({}));
        for n in 1..20 {
            let result = ToolResult::ok(&call, format!("{n} %"));
            assert_eq!(repeats.note(n, &call, &result), Repeated::No);
        }
    }

    #[test]
    fn equal_calls_of_one_turn_count_once() {
        let mut repeats = Repeats::default();
        let call = ToolCall::new("1", "look", json!({}));
        let result = ToolResult::ok(&call, "nothing");
        for _ in 0..20 {
            assert_eq!(repeats.note(1, &call, &result), Repeated::No);
        }
    }
}
