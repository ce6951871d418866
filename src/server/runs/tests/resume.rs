//! Readers that come back.

use proptest::prelude::*;

use crate::sdk::{ApiStreamEvent, BlockDelta, SdkMessage};

use super::super::super::stream::{Encoder, SseEvent, StreamFormat};
use super::super::limits::RunLimits;
use super::super::log::{LastReceived, Log, ReadOutcome};
use super::super::position::Position;
use super::kit::{FORMATS, Messages, log};

/// The events of a reader until the end of the log, and whether it got the state first.
fn read(log: &Log, format: StreamFormat, last_event_id: Option<&str>) -> (Vec<SseEvent>, bool) {
    let position = last_event_id.and_then(Position::parse);
    let last_received = LastReceived::of(position.as_ref(), "run");
    let start = log.start(format, None, last_received);
    let mut encoder: Encoder = start.encoder;
    for message in &start.received {
        encoder.skip(message);
    }

    let mut events = Vec::new();
    if start.needs_snapshot {
        encoder.snapshot(&mut events);
    }
    let (mut cursor, mut skip) = (start.cursor, start.skip);
    while let ReadOutcome::Message(message, _) = log.next(&mut cursor) {
        let len = events.len();
        encoder.push(&message, &mut events);
        let received = std::mem::take(&mut skip).min(events.len() - len);
        events.drain(len..len + received);
    }
    (events, start.needs_snapshot)
}

/// An act of a random run: the agent and its kind.
type Act = (u8, u8);

/// A stream of answers in pieces and whole, calls, results, subagents and messages of the user.
fn stream(acts: &[Act]) -> Vec<SdkMessage> {
    let mut messages = Messages::new();
    for (number, (agent, kind)) in acts.iter().enumerate() {
        let (id, call) = (format!("msg_{number}"), format!("call_{number}"));
        match kind {
            0 => {
                messages.pieces(*agent, &id, &["one ", "two"]);
                messages.answer(*agent, &id, "one two", None);
            }
            1 => {
                messages.pieces(*agent, &id, &["calling"]);
                messages.answer(*agent, &id, "calling", Some(&call));
                messages.result(*agent, &call);
            }
            2 => messages.answer(*agent, &id, "whole", Some(&call)),
            3 => messages.steer(*agent),
            // A piece of an answer that has not begun.
            5 => {
                let delta = BlockDelta::Text("stray".to_owned());
                messages.piece(
                    *agent,
                    ApiStreamEvent::ContentBlockDelta { index: 0, delta },
                );
            }
            _ => {
                messages.answer(*agent, &id, "calling again", Some(&call));
                messages.result(*agent, &call);
            }
        }
    }
    messages.pieces(0, "msg_last", &["unfinished"]);
    messages.end();
    messages.0
}

fn acts(kinds: u8) -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec((0_u8..3, 0..=kinds), 0..12)
}

/// The cases of each property: each reads many streams.
fn cases() -> u32 {
    let cases = std::env::var("AGENTCORE_PROPERTY_CASES").ok();
    cases.map_or(24, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn stream_that_is_cut_and_resumed_has_each_event_once(acts in acts(5)) {
        let messages = stream(&acts);
        let log = log(&RunLimits::default(), &messages);
        for format in FORMATS {
            let (events, has_state) = read(&log, format, None);
            prop_assert!(!has_state);
            for (index, event) in events.iter().enumerate().filter(|(_, event)| !event.id.is_empty()) {
                let (rest, has_state) = read(&log, format, Some(&event.id));
                prop_assert!(!has_state);
                prop_assert_eq!(&rest, &events[index + 1..], "{} after {}", format, event.id);
            }
        }
    }

    /// Answers whose pieces were removed come whole; their texts are there once.
    #[test]
    fn stream_that_is_resumed_from_a_full_log_has_each_text_once_or_the_state(
        acts in acts(4),
        size in 1_usize..40,
    ) {
        let messages = stream(&acts);
        let all = log(&RunLimits::default(), &messages);
        let full = log(&RunLimits::default().with_log(size, usize::MAX), &messages);
        for format in FORMATS {
            let (events, _) = read(&all, format, None);
            for (index, event) in events.iter().enumerate().filter(|(_, event)| !event.id.is_empty()) {
                let (rest, has_state) = read(&full, format, Some(&event.id));
                if has_state {
                    prop_assert!(rest[0].id.is_empty());
                    prop_assert_eq!(rest.last(), events.last());
                    continue;
                }
                let resumed = texts(&events[..=index], format) + &texts(&rest, format);
                prop_assert_eq!(resumed, texts(&events, format), "{} after {}", format, event.id);
            }
        }
    }
}

/// A full log has removed pieces of one agent, between which are messages of another.
#[test]
fn stream_of_agents_that_answer_at_once_has_each_text_once_or_the_state() {
    let mut messages = Messages::new();
    for number in 0..2 {
        messages.answers_at_once([0, 1], &format!("first_{number}"));
        messages.answers_at_once([2, 1], &format!("second_{number}"));
    }
    messages.end();
    let all = log(&RunLimits::default(), &messages.0);
    let sorted = |text: String| {
        let mut chars: Vec<_> = text.chars().collect();
        chars.sort_unstable();
        chars
    };
    for size in (1..messages.0.len()).step_by(2) {
        let full = log(
            &RunLimits::default().with_log(size, usize::MAX),
            &messages.0,
        );
        for format in FORMATS {
            let (events, _) = read(&all, format, None);
            for (index, event) in events.iter().enumerate() {
                let (rest, has_state) = read(&full, format, Some(&event.id));
                if event.id.is_empty() || has_state {
                    continue;
                }
                // A whole answer comes after the pieces of the other agent.
                let resumed = texts(&events[..=index], format) + &texts(&rest, format);
                let expected = texts(&events, format);
                let place = format!("{format} after {} of {size}", event.id);
                assert_eq!(sorted(resumed), sorted(expected), "{place}");
            }
        }
    }
}

/// The texts and results of events, one after the other; of whole messages, their ids.
fn texts(events: &[SseEvent], format: StreamFormat) -> String {
    let text = |event: &SseEvent| {
        let Ok(json) = serde_json::from_str::<serde_json::Value>(&event.data) else {
            return String::new();
        };
        let text = match format {
            StreamFormat::Events => &json["data"]["delta"],
            StreamFormat::Sdk | StreamFormat::Ndjson if json["type"] == "stream_event" => {
                return String::new();
            }
            StreamFormat::Sdk | StreamFormat::Ndjson => &json["uuid"],
            _ if json.get("delta").is_some() => &json["delta"],
            _ => &json["toolCallId"],
        };
        let is_start = json["type"] == "TOOL_CALL_START" || json["type"] == "tool-input-start";
        match text.as_str() {
            Some(text) if json.get("toolCallId").is_none() || is_start => text.to_owned(),
            _ => String::new(),
        }
    };
    events.iter().map(text).collect()
}

#[test]
fn unknown_position_gets_the_state_and_all_of_the_log() {
    let messages = stream(&[(0, 0)]);
    let log = log(&RunLimits::default(), &messages);
    for format in FORMATS {
        let (all, _) = read(&log, format, None);
        for id in ["other:3", "run:900"] {
            let (events, has_state) = read(&log, format, Some(id));
            assert!(has_state);
            let rest: Vec<_> = events.iter().filter(|event| !event.id.is_empty()).collect();
            assert_eq!(
                rest.last(),
                all.iter().rfind(|event| !event.id.is_empty()).as_ref()
            );
            assert!(rest.len() < events.len(), "{format}: {events:?}");
        }
    }
}

#[test]
fn snapshot_of_ag_ui_has_the_messages_and_begins_the_run() {
    let messages = stream(&[(0, 1), (0, 0)]);
    let limits = RunLimits::default().with_log(3, usize::MAX);
    let (events, has_state) = read(&log(&limits, &messages), StreamFormat::AgUi, None);
    assert!(has_state);
    let kinds: Vec<String> = events
        .iter()
        .map(|event| serde_json::from_str::<serde_json::Value>(&event.data).unwrap())
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "MESSAGES_SNAPSHOT",
            "STEP_STARTED",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ]
    );
    assert!(events[2].data.contains("\"one two\""), "{}", events[2].data);
}
