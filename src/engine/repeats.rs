//! The detection of a model that repeats its calls.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem::discriminant;

use crate::message::{Content, Media, MediaSource, Part, ToolCall, ToolResult};
use crate::util::hash::SeededState;

/// The number of equal calls with equal results at which the model is warned.
const WARN: u32 = 3;
/// The number of equal calls with equal results at which the run ends.
pub(super) const STOP: u32 = 5;
/// The warning that the model reads when a call has returned the same result [`WARN`] times.
pub(super) const WARNING: &str = "Note: this is the third time the same call gave the same result. \
     Repeating it will not help; try something else or report what is missing.";

/// Counts how often each call returned the same result.
///
/// A turn with a call or result that is new in the run counts as progress. The count of a call
/// starts over if the call was absent from a turn and there was progress since its last turn. While
/// the call occurs in every turn, progress of other calls does not reset its count.
#[derive(Debug, Default)]
pub(super) struct RepeatDetector {
    /// The counts of all calls so far, by the hash of a call with its result.
    counts: BTreeMap<u64, RepeatCount>,
    turn: u32,
    /// The last turn with progress.
    progress_turn: u32,
}

/// The count of a call with its result.
#[derive(Clone, Copy, Debug, Default)]
struct RepeatCount {
    /// The last turn in which the call returned the result.
    last_turn: u32,
    /// The number of turns in which it did, since the count started over.
    count: u32,
}

/// The consequence of the count of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    No,
    Warn,
    Stop,
}

impl RepeatDetector {
    /// Records the calls of one turn, and returns the consequence for each. Equal calls of one turn
    /// count once, because the model received no result between them.
    pub(super) fn record(&mut self, results: &[(ToolCall, ToolResult)]) -> Vec<Repeated> {
        self.turn += 1;
        let outcomes: Vec<_> = results.iter().map(outcome_hash).collect();
        if outcomes
            .iter()
            .any(|outcome| !self.counts.contains_key(outcome))
        {
            self.progress_turn = self.turn;
        }

        outcomes
            .into_iter()
            .map(|outcome| self.count(outcome))
            .collect()
    }

    fn count(&mut self, outcome: u64) -> Repeated {
        let entry = self.counts.entry(outcome).or_default();
        if entry.last_turn + 1 < self.turn && entry.last_turn < self.progress_turn {
            entry.count = 0;
        }

        if entry.last_turn < self.turn {
            entry.count += 1;
        }

        entry.last_turn = self.turn;
        match entry.count {
            STOP.. => Repeated::Stop,
            WARN => Repeated::Warn,
            _ => Repeated::No,
        }
    }
}

/// Hashes a call with its result. The arguments count as the text that the model wrote, if there is
/// one: repeated calls nearly always have the same text, and nothing has to be serialized.
fn outcome_hash((call, result): &(ToolCall, ToolResult)) -> u64 {
    let mut hasher = SeededState::default().build_hasher();
    call.name.hash(&mut hasher);
    match &call.raw_args {
        Some(raw) => raw.hash(&mut hasher),
        None => call.args.to_string().hash(&mut hasher),
    }
    result.is_error.hash(&mut hasher);
    hash_content(&result.content, &mut hasher);
    hasher.finish()
}

/// Hashes the parts of a result in order. Citations are not hashed: they belong to a text.
fn hash_content(content: &Content, hasher: &mut impl Hasher) {
    for part in content.parts() {
        discriminant(part).hash(hasher);
        match part {
            Part::Text(text) => text.hash(hasher),
            Part::Image(media) | Part::Document(media) | Part::Audio(media) => {
                hash_media(media, hasher);
            }
            Part::Thinking(block) | Part::Opaque(block) => block.raw.get().hash(hasher),
            Part::ToolCall(_) | Part::Annotations(_) => {}
        }
    }
}

fn hash_media(media: &Media, hasher: &mut impl Hasher) {
    media.media_type.hash(hasher);
    media.name.hash(hasher);
    discriminant(&media.source).hash(hasher);
    match &media.source {
        MediaSource::Base64(text) | MediaSource::Url(text) => text.hash(hasher),
        MediaSource::File { provider, id } => (provider, id).hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(repeats: &mut RepeatDetector, calls: &[(&str, &str)]) -> Vec<Repeated> {
        let results: Vec<_> = calls
            .iter()
            .map(|(name, text)| {
                let call = ToolCall::new("1", *name, json!({"a": 1}));
                let result = ToolResult::ok(&call, *text);
                (call, result)
            })
            .collect();
        repeats.record(&results)
    }

    #[test]
    fn equal_calls_with_equal_results_are_counted() {
        let mut repeats = RepeatDetector::default();
        let verdicts: Vec<_> = (0..5)
            .flat_map(|_| turn(&mut repeats, &[("look", "nothing")]))
            .collect();
        use Repeated::*;
        assert_eq!(verdicts, [No, No, Warn, No, Stop]);
    }

    #[test]
    fn equal_calls_of_one_turn_count_once() {
        let mut repeats = RepeatDetector::default();
        let verdicts = turn(&mut repeats, &[("look", "nothing"); 6]);
        assert!(
            verdicts.iter().all(|one| *one == Repeated::No),
            "{verdicts:?}"
        );
    }

    #[test]
    fn repeated_sequence_of_calls_is_detected() {
        let mut repeats = RepeatDetector::default();
        let mut last = Vec::new();
        for _ in 0..5 {
            turn(&mut repeats, &[("look", "nothing")]);
            last = turn(&mut repeats, &[("listen", "silence")]);
        }
        assert_eq!(last, [Repeated::Stop]);
    }

    #[test]
    fn call_that_repeats_among_calls_that_vary_is_detected() {
        let mut repeats = RepeatDetector::default();
        let verdicts: Vec<_> = (0..5)
            .map(|n| {
                let time = format!("12:00:0{n}");
                turn(&mut repeats, &[("look", "nothing"), ("clock", &time)])
            })
            .collect();
        use Repeated::*;
        let expected = [No, No, Warn, No, Stop].map(|verdict| [verdict, No]);
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn progress_in_a_turn_without_the_call_resets_the_count() {
        let mut repeats = RepeatDetector::default();
        for n in 0..20 {
            let text = format!("edit {n}");
            assert_eq!(turn(&mut repeats, &[("edit", &text)]), [Repeated::No]);
            let checks = [("format", ""), ("check", "1 error")];
            assert_eq!(turn(&mut repeats, &checks), [Repeated::No; 2]);
        }
    }

    #[test]
    fn results_with_different_media_differ() {
        let shoot = |repeats: &mut RepeatDetector, image: u8| {
            let call = ToolCall::new("1", "screenshot", json!({}));
            let media = Media::bytes("image/png", &[image]);
            let content = Content::from([Part::text("Taken."), Part::Image(media)]);
            let result = ToolResult::ok(&call, content);
            repeats.record(&[(call, result)])
        };

        let mut repeats = RepeatDetector::default();
        for image in 0..20 {
            assert_eq!(shoot(&mut repeats, image), [Repeated::No]);
        }
        let verdicts: Vec<_> = (0..4).flat_map(|_| shoot(&mut repeats, 19)).collect();
        use Repeated::*;
        assert_eq!(verdicts, [No, Warn, No, Stop], "the same image");
    }

    #[test]
    fn new_result_resets_the_count() {
        let mut repeats = RepeatDetector::default();
        for n in 0..20 {
            let percent = format!("{n} %");
            assert_eq!(turn(&mut repeats, &[("poll", &percent)]), [Repeated::No]);
            assert_eq!(turn(&mut repeats, &[("check", "fine")]), [Repeated::No]);
        }
    }
}
