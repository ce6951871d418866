//! The messages that a log keeps.

use std::sync::Arc;

use crate::sdk::SdkMessage;

use super::super::super::stream::StreamFormat;
use super::super::limits::RunLimits;
use super::super::log::{LastReceived, Log, ReadOutcome};
use super::super::position::Position;
use super::kit::{Messages, log};

fn limits(messages: usize) -> RunLimits {
    RunLimits::default().with_log(messages, usize::MAX)
}

/// The numbers of the messages that a new reader gets, and whether it gets the state first.
fn read(log: &Log) -> (Vec<u64>, bool) {
    let start = log.start(StreamFormat::Sdk, None, LastReceived::Nothing);
    let mut cursor = start.cursor;
    let mut numbers = Vec::new();
    while let ReadOutcome::Message(message, _) = log.next(&mut cursor) {
        numbers.push(message.seq());
    }
    (numbers, start.needs_snapshot)
}

/// Two answers in four pieces each: 0 init, 1 to 4 pieces, 5 answer, 6 to 9 pieces, 10 answer.
fn two_answers() -> Vec<SdkMessage> {
    let mut messages = Messages::new();
    for id in ["msg_1", "msg_2"] {
        messages.pieces(0, id, &["text"]);
        messages.answer(0, id, "text", None);
    }
    messages.0
}

#[test]
fn full_log_removes_pieces_of_completed_answers_first() {
    let messages = two_answers();
    let log = log(&limits(9), &messages[..10]);
    assert_eq!(read(&log), (vec![0, 5, 6, 7, 8, 9], false));
    log.append(messages[10].clone());
    assert_eq!(read(&log), (vec![0, 5, 6, 7, 8, 9, 10], false));
}

/// All of an answer arrives before its readers are polled.
#[test]
fn newest_pieces_stay_for_readers_when_their_answer_is_complete() {
    let messages = two_answers();
    let log = log(&limits(10), &messages[..10]);
    let mut cursor = log
        .start(StreamFormat::Sdk, None, LastReceived::Nothing)
        .cursor;
    for _ in 0..9 {
        assert!(matches!(log.next(&mut cursor), ReadOutcome::Message(..)));
    }
    log.append(messages[10].clone());
    // A new reader gets the whole answer alone.
    assert_eq!(read(&log), (vec![0, 5, 10], false));
    for number in [9, 10] {
        assert!(
            matches!(log.next(&mut cursor), ReadOutcome::Message(next, _) if next.seq() == number)
        );
    }
    // A reader that comes back to such a piece has missed those before it.
    let position = Position::parse("run:9.0");
    let last_received = LastReceived::of(position.as_ref(), "run");
    let start = log.start(StreamFormat::Events, None, last_received);
    assert!(start.needs_snapshot);
}

#[test]
fn full_log_without_such_pieces_removes_the_oldest_messages() {
    let log = log(&limits(3), &two_answers()[..10]);
    assert_eq!(read(&log), (vec![7, 8, 9], true));
}

#[test]
fn log_is_limited_by_bytes_and_keeps_its_newest_message() {
    let mut messages = Messages::new();
    for number in 0..20 {
        messages.answer(0, &format!("msg_{number}"), &"x".repeat(1_000), None);
    }
    let limits = RunLimits::default().with_log(1_000, 5_000);
    let (numbers, has_state) = read(&log(&limits, &messages.0));
    assert!((2..=5).contains(&numbers.len()), "{numbers:?}");
    assert!(has_state);

    let limits = RunLimits::default().with_log(1_000, 10);
    assert_eq!(read(&log(&limits, &messages.0)), (vec![20], true));
}

#[test]
fn reader_is_overtaken_only_if_it_had_not_read_what_was_removed() {
    let messages = two_answers();
    let log = log(&limits(9), &messages[..8]);
    let start = |log: &Log| {
        log.start(StreamFormat::Sdk, None, LastReceived::Nothing)
            .cursor
    };
    let (mut slow, mut fast) = (start(&log), start(&log));
    for _ in 0..2 {
        assert!(matches!(log.next(&mut slow), ReadOutcome::Message(..)));
    }
    for _ in 0..8 {
        assert!(matches!(log.next(&mut fast), ReadOutcome::Message(..)));
    }

    messages[8..10]
        .iter()
        .for_each(|message| log.append(message.clone()));
    assert!(matches!(log.next(&mut slow), ReadOutcome::Lagged));
    assert!(matches!(log.next(&mut fast), ReadOutcome::Message(message, _) if message.seq() == 8));
    // A reader that begins now has missed nothing.
    assert!(
        matches!(log.next(&mut start(&log)), ReadOutcome::Message(message, _) if message.seq() == 0)
    );
}

#[test]
fn readers_share_the_messages_of_the_log() {
    let log = log(&limits(100), &two_answers());
    let mut cursors = [(); 1_000].map(|()| {
        log.start(StreamFormat::AgUi, None, LastReceived::Nothing)
            .cursor
    });
    let first = log.next(&mut cursors[0]);
    let ReadOutcome::Message(first, _) = first else {
        panic!("a message");
    };
    for cursor in &mut cursors[1..] {
        assert!(
            matches!(log.next(cursor), ReadOutcome::Message(next, _) if Arc::ptr_eq(&first, &next))
        );
    }
}

#[test]
fn closed_log_ends_its_readers() {
    let messages = two_answers();
    let log = log(&limits(100), &messages[..1]);
    let mut cursor = log
        .start(StreamFormat::Sdk, None, LastReceived::Nothing)
        .cursor;
    assert!(matches!(log.next(&mut cursor), ReadOutcome::Message(..)));
    assert!(matches!(log.next(&mut cursor), ReadOutcome::Wait));
    assert!(log.finish(|seq| messages[usize::try_from(seq).unwrap()].clone()));
    assert!(!log.finish(|_| messages[0].clone()));
    log.append(messages[2].clone());
    assert!(
        matches!(log.next(&mut cursor), ReadOutcome::Message(message, _) if message.seq() == 1)
    );
    assert!(matches!(log.next(&mut cursor), ReadOutcome::End));
}

#[test]
fn position_with_the_largest_number_of_an_event_skips_the_whole_message() {
    let log = log(&limits(100), &two_answers());
    let position = Position::parse("run:1.18446744073709551615");
    let last_received = LastReceived::of(position.as_ref(), "run");
    let start = log.start(StreamFormat::Events, None, last_received);
    assert_eq!((start.skip, start.needs_snapshot), (usize::MAX, false));
}

#[test]
fn state_in_place_of_removed_messages_has_none_of_subagents() {
    let mut messages = Messages::new();
    for number in 0..4 {
        messages.answer(1, &format!("child_{number}"), "of the child", None);
    }
    messages.answer(0, "msg", "of the agent", None);
    messages.end();
    let start = log(&limits(1), &messages.0).start(StreamFormat::AgUi, None, LastReceived::Nothing);
    assert!(start.needs_snapshot);
    let (mut encoder, mut events) = (start.encoder, Vec::new());
    encoder.snapshot(&mut events);
    let has = |text: &str| events.iter().any(|event| event.data.contains(text));
    assert!(has("of the agent") && !has("of the child"), "{events:?}");
}
