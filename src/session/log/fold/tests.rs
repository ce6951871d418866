//! Records that are applied to a session, and those that are missing.

use serde_json::json;

use super::*;
use crate::message::ToolCall;
use crate::session::size::of_pending;
use crate::session::stored::EXAMINED;

fn message_entry(text: &str) -> LogEntry {
    let message = Message::human(text).into();
    LogEntry::Record(Record::Message {
        message,
        input_id: None,
    })
}

fn cut(messages: usize) -> LogEntry {
    LogEntry::Record(Record::Truncated { messages })
}

fn len(fold: &LogFold) -> usize {
    fold.session().state.messages.len()
}

#[test]
fn cuts_count_the_messages_that_were_lost_before() {
    let mut fold = LogFold::new("a");

    // By number: 0, then 1 to 4 and 5 to 6 lost, then 7, then 8 to 9 lost, then 10.
    for entry in [
        message_entry("0"),
        cut(5),
        cut(7),
        message_entry("7"),
        cut(10),
        message_entry("10"),
    ] {
        fold.apply(entry);
    }

    for (messages, expected) in [(11, 3), (10, 2), (9, 2), (7, 1), (6, 1), (3, 1), (1, 1)] {
        fold.apply(cut(messages));
        assert_eq!(len(&fold), expected, "{messages}");
        assert_eq!(fold.has_loss(), messages > 1, "{messages}");
    }
}

fn pending_call(number: usize) -> PendingCall {
    let call = ToolCall::new("c", "t", json!({}));
    PendingCall::new(number.to_string().into(), "a".into(), call, String::new())
}

fn answered(number: usize) -> LogEntry {
    let ids = vec![number.to_string().into()];
    LogEntry::Record(Record::Answered { ids })
}

#[test]
fn answers_of_a_log_examine_few_calls_each() {
    const COUNT: usize = 2_000;
    let mut fold = LogFold::new("a");
    let calls = (0..COUNT).map(pending_call).collect();
    fold.replay(LogEntry::Record(Record::Pending { calls }));
    EXAMINED.set(0);
    (0..COUNT).for_each(|_| fold.replay(answered(COUNT)));
    (1..COUNT)
        .rev()
        .for_each(|number| fold.replay(answered(number)));
    fold.remove_answered();
    assert_eq!(fold.session().state.pending, [pending_call(0)]);
    assert_eq!(fold.memory(), of_pending(&pending_call(0)));
    assert!(EXAMINED.get() < 10 * COUNT, "{}", EXAMINED.get());
}

fn file(path: &str, content: Option<&str>) -> LogEntry {
    LogEntry::Record(Record::File {
        path: path.into(),
        content: content.map(Into::into),
    })
}

#[test]
fn captured_files_are_not_copied() {
    let mut fold = LogFold::new("a").capture_at(0);
    for path in ["changed", "removed", "same"] {
        fold.apply(file(path, Some("old")));
    }
    let files = Arc::as_ptr(&fold.session.state.files);
    for _ in 0..3 {
        fold.apply(message_entry("x"));
        fold.apply(file("removed", None));
        fold.apply(file("changed", Some("new")));
        fold.apply(file("added", Some("new")));
        assert_eq!(Arc::as_ptr(&fold.session.state.files), files);
        fold.apply(file("added", None));
        fold.apply(file("changed", Some("old")));
        fold.apply(file("removed", Some("old")));
        fold.apply(cut(0));
    }
    fold.apply(message_entry("x"));
    fold.apply(file("removed", None));
    fold.apply(file("changed", Some("new")));
    fold.apply(file("added", Some("new")));
    let (_, captured) = fold.into_captured();
    let captured: Vec<_> = captured
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let expected = ["changed", "removed", "same"].map(|path| (path, "old"));
    assert_eq!(captured, expected);
}

/// This would take minutes if each call was compared with each id.
#[test]
fn summary_after_many_answers_counts_the_other_calls() {
    const COUNT: usize = 150_000;
    let mut fold = LogFold::new("a");
    let calls = (0..COUNT).map(pending_call).collect();
    fold.apply(LogEntry::Record(Record::Pending { calls }));
    let ids = (1..COUNT).rev().map(|number| number.to_string().into());
    let ids = ids.collect();
    let entry = LogEntry::Record(Record::Answered { ids });
    assert_eq!(fold.summary_after(&[entry], 1).pending, 1);
}

/// This would take minutes if each cut examined all losses.
#[test]
fn many_losses_are_read() {
    const COUNT: usize = 150_000;
    let mut fold = LogFold::new("a");
    for number in 1..=COUNT {
        fold.apply(message_entry("x"));
        fold.apply(cut(number * 2));
    }

    assert_eq!(len(&fold), COUNT);
    fold.apply(cut(COUNT));
    assert_eq!(len(&fold), COUNT / 2);
}

/// This would take minutes if each cut examined all losses.
#[test]
fn many_losses_in_one_place_are_read() {
    const COUNT: usize = 300_000;
    let mut fold = LogFold::new("a");
    for number in 1..=COUNT {
        fold.apply(cut(number));
    }

    assert_eq!(fold.lost.len(), 1);
    fold.apply(message_entry("x"));
    fold.apply(cut(COUNT + 1));
    assert_eq!(len(&fold), 1);
    fold.apply(cut(COUNT));
    assert_eq!(len(&fold), 0);
}
