//! Noticing a model that runs in circles.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::{ToolCall, ToolResult};

/// At this many equal calls with equal results the model is told.
const WARN: u32 = 3;
/// At this many the run ends.
const STOP: u32 = 5;

/// Counts turns that bring nothing new: the same calls with the same results as before. A turn
/// in which any call or any result is new is progress, and the counts start over.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    seen: HashSet<Outcome>,
    counts: HashMap<Outcome, u32>,
}

/// A call and its result, hashed.
type Outcome = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    No,
    Warn,
    Stop,
}

impl Repeats {
    /// Notes the calls of one turn; says of each whether it repeats. Equal calls of one turn count
    /// once, for the model saw no result between them.
    pub(super) fn note(&mut self, results: &[(ToolCall, ToolResult)]) -> Vec<Repeated> {
        let outcomes: Vec<_> = results.iter().map(outcome).collect();
        let mut progress = false;
        for outcome in &outcomes {
            progress |= self.seen.insert(*outcome);
        }
        if progress {
            self.counts.clear();
        }
        let distinct: HashSet<_> = outcomes.iter().copied().collect();
        for outcome in distinct {
            *self.counts.entry(outcome).or_default() += 1;
        }
        let repeated = |outcome| match self.counts[outcome] {
            STOP.. => Repeated::Stop,
            WARN => Repeated::Warn,
            _ => Repeated::No,
        };
        outcomes.iter().map(repeated).collect()
    }
}

/// The arguments count as the model wrote them, if it did: equal texts are the rule, and no text
/// has to be made.
fn outcome((call, result): &(ToolCall, ToolResult)) -> Outcome {
    let call = match &call.raw_args {
        Some(raw) => hash(&(&call.name, raw)),
        None => hash(&(&call.name, call.args.to_string())),
    };
    (call, hash(&(result.is_error, result.content.text())))
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

    fn turn(repeats: &mut Repeats, calls: &[(&str, &str)]) -> Vec<Repeated> {
        let results: Vec<_> = calls
            .iter()
            .map(|(name, text)| {
                let call = ToolCall::new("1", *name, json!({"a": 1}));
                let result = ToolResult::ok(&call, *text);
                (call, result)
            })
            .collect();
        repeats.note(&results)
    }

    #[test]
    fn equal_calls_with_equal_results_are_counted() {
        let mut repeats = Repeats::default();
        let seen: Vec<_> = (0..5)
            .flat_map(|_| turn(&mut repeats, &[("look", "nothing")]))
            .collect();
        use Repeated::*;
        assert_eq!(seen, [No, No, Warn, No, Stop]);
    }

    #[test]
    fn equal_calls_of_one_turn_count_once() {
        let mut repeats = Repeats::default();
        let seen = turn(&mut repeats, &[("look", "nothing"); 6]);
        assert!(seen.iter().all(|one| *one == Repeated::No), "{seen:?}");
    }

    #[test]
    fn going_round_in_a_larger_circle_is_noticed_too() {
        let mut repeats = Repeats::default();
        let mut last = Vec::new();
        for _ in 0..5 {
            turn(&mut repeats, &[("look", "nothing")]);
            last = turn(&mut repeats, &[("listen", "silence")]);
        }
        assert_eq!(last, [Repeated::Stop]);
    }

    #[test]
    fn anything_new_starts_over() {
        let mut repeats = Repeats::default();
        for n in 0..20 {
            let percent = format!("{n} %");
            assert_eq!(turn(&mut repeats, &[("poll", &percent)]), [Repeated::No]);
            assert_eq!(turn(&mut repeats, &[("check", "fine")]), [Repeated::No]);
        }
    }
}
