//! Sessions that would need more memory than their store allows.

use std::ops::RangeInclusive;
use std::sync::Arc;

use agentcore::session::Record;
use agentcore::{Error, ErrorKind, Message, ToolCall, ToolResult};
use memchr::memmem;

use super::places::{Held, for_each_local, let_go, said};
use super::sizes::Limited;

/// The size option of the stores here: sessions may take 16 MiB of memory.
const LIMIT: u64 = 16 * 1024 * 1024;

for_each_local!(
    line_of_many_values_is_refused_before_it_is_read,
    session_of_many_messages_is_refused,
    messages_that_were_cut_count_no_more,
    files_that_were_replaced_count_no_more,
    write_that_could_not_be_read_again_is_refused,
    session_that_was_filled_with_values_opens_again,
    session_that_was_filled_opens_at_its_snapshot_and_without,
    damage_without_end_is_refused,
    large_snapshot_of_another_kind_is_not_read,
    list_reads_no_data_of_sessions,
    list_has_no_long_texts,
    long_incomplete_write_is_set_aside,
);

/// A line of a log with a valid checksum.
fn line(seq: usize, kind: &str, data: &str) -> Vec<u8> {
    let body = format!(
        r#""v":1,"seq":{seq},"token":1,"at":1767225600000,"kind":"{kind}","data":{data},"info":{{"messages":1,"created":1}}}}"#
    );
    let crc = crc32fast::hash(body.as_bytes());
    format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes()
}

/// Joins lines into a log. Collecting single bytes would take seconds without optimizations.
fn joined(seqs: RangeInclusive<usize>, line: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    seqs.map(line).collect::<Vec<_>>().concat()
}

fn message(content: &str) -> String {
    format!(r#"{{"message":{{"role":"user","content":{content}}}}}"#)
}

fn limited<P: Limited>() -> Held<P> {
    let held = Held::<P>::new();
    held.store.limit(LIMIT);
    held
}

fn check<P: Limited>(error: &Error, name: &str) {
    assert_eq!(error.kind(), ErrorKind::Io, "{name}: {error}");
    for part in ["memory", "16777216", P::OPTION, "\"a\"", "session"] {
        assert!(error.text().contains(part), "{name}, {part}: {error}");
    }
}

/// Checks that the store refuses the log of session `a` in every method and leaves it unchanged.
async fn is_refused<P: Limited>(held: &Held<P>, log: &[u8], name: &str) {
    held.store.put("a", log);
    held.say("b", &["small"]).await;
    for error in [
        held.store.load("a").await.unwrap_err(),
        held.store.lease("a").await.unwrap_err(),
        held.store.fork_at("a", "c", 1).await.unwrap_err(),
        held.store.export("a").await.unwrap_err(),
    ] {
        check::<P>(&error, name);
    }

    assert!(held.store.log("a") == log, "{name}");
    assert!(held.store.aside("a").is_empty(), "{name}");
    assert_eq!(held.texts("b").await, ["small"]);
    held.store.delete("b").await.unwrap();
}

async fn line_of_many_values_is_refused_before_it_is_read<P: Limited>() {
    let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    let held = limited::<P>();
    for (name, content, opens_at) in [
        ("zeros", list("0", 500_000), 0),
        ("lists", list("[0]", 110_000), 0),
        ("objects", list(r#"{"a":{}}"#, 23_000), 0),
        ("texts", list(r#""a""#, 300_000), 0),
    ] {
        let data = format!(
            r#"{{"message":{{"role":"tool","tool_call_id":"c","name":"t","content":"","details":{content}}}}}"#
        );
        let log = [line(1, "started", r#""c""#), line(2, "message", &data)].concat();
        is_refused(&held, &log, name).await;
        held.store.limit(256 * 1024 * 1024);
        let session = held.store.load("a").await.unwrap().unwrap();
        assert_eq!(session.state.messages.len(), opens_at + 1, "{name}");
        held.store.limit(LIMIT);
    }

    let quoted = format!("{{\\\"a\\\":{}}}", list("{}", 30_000));
    let calls = format!(
        r#"{{"message":{{"role":"assistant","content":"","tool_calls":[{{"arguments":"{quoted}"}}]}}}}"#
    );
    let text = "x".repeat(5_000_000);
    let part = message(&format!(r#"[{{"type":"text","text":"{text}"}}]"#));
    let todo = r#"{"id":"1","title":"","status":"done"}"#;
    for (name, kind, data) in [
        ("arguments", "message", calls),
        ("text", "message", part),
        ("tasks", "todos", list(todo, 20_000)),
        (
            "parts",
            "message",
            message(&list(r#"{"type":"a"}"#, 20_000)),
        ),
    ] {
        is_refused(&held, &line(1, kind, &data), name).await;
    }
}

async fn session_of_many_messages_is_refused<P: Limited>() {
    let held = limited::<P>();
    let text = message(&format!("\"{}\"", "x".repeat(500_000)));
    let log = joined(1..=30, |seq| line(seq, "message", &text));
    assert!(
        log.len() < usize::try_from(LIMIT).unwrap(),
        "the file is smaller than the limit"
    );
    held.store.put("a", &log);
    held.store.load("a").await.unwrap();
    let log = joined(1..=33, |seq| line(seq, "message", &text));
    held.store.limit(LIMIT + LIMIT / 4);
    is_refused(&held, &log, "messages").await;

    // The records of one write, of which only the last one has the info.
    let part = |seq: usize| {
        let line = String::from_utf8(line(seq, "message", &text)).unwrap();
        let body = line.split_once(',').unwrap().1.trim_end();
        let body = body.replace(r#","info":{"messages":1,"created":1}"#, "");
        let crc = crc32fast::hash(body.as_bytes());
        format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes()
    };
    let log = joined(1..=33, part);
    is_refused(&held, &log, "one write").await;
}

async fn messages_that_were_cut_count_no_more<P: Limited>() {
    let held = limited::<P>();
    held.store.limit(LIMIT + LIMIT / 4);
    let text = message(&format!("\"{}\"", "x".repeat(1_150_000)));
    let log = joined(1..=20, |seq| match seq % 6 {
        0 => line(seq, "keep", "0"),
        _ => line(seq, "message", &text),
    });
    assert!(log.len() > usize::try_from(LIMIT).unwrap());
    held.store.put("a", &log);
    assert_eq!(held.texts("a").await.len(), 2);
}

async fn files_that_were_replaced_count_no_more<P: Limited>() {
    let held = limited::<P>();
    held.store.limit(LIMIT + LIMIT / 4);
    let content = "x".repeat(1_000_000);
    let data = format!(r#"{{"path":"a","content":"{content}"}}"#);
    let mut log = joined(1..=19, |seq| line(seq, "file", &data));
    log.extend(line(20, "message", &message("\"Hi\"")));
    assert!(log.len() > usize::try_from(LIMIT).unwrap());
    held.store.put("a", &log);
    assert_eq!(held.texts("a").await, ["Hi"]);
}

fn detailed(objects: usize) -> Record {
    let call = ToolCall::new("c", "t", serde_json::json!({}));
    let mut result = ToolResult::ok(&call, "");
    result.details = Some(vec![serde_json::json!({"a": 0}); objects].into());
    Record::Message {
        message: Arc::new(Message::Tool(result)),
        input_id: None,
    }
}

async fn write_that_could_not_be_read_again_is_refused<P: Limited>() {
    let mut held = limited::<P>();
    held.say("a", &["one"]).await;
    let log = held.store.log("a");
    let lease = held.store.lease("a").await.unwrap();
    let error = held
        .store
        .append(&lease, vec![said("two"), detailed(30_000)])
        .await
        .unwrap_err();
    check_write::<P>(&error);
    assert_eq!(held.store.log("a"), log, "no part of the write is stored");
    held.store
        .append(&lease, vec![said("three")])
        .await
        .unwrap();
    let_go(lease);
    held.reopen();
    held.store.limit(LIMIT);
    assert_eq!(held.texts("a").await, ["one", "three"]);
}

fn check_write<P: Limited>(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    for part in ["the write was refused", "memory", P::OPTION, "\"a\""] {
        assert!(error.text().contains(part), "{part}: {error}");
    }
}

/// Appends such records until one is refused. Returns the number of stored records, and the error.
async fn fill<P: Limited>(held: &Held<P>, record: impl Fn() -> Record) -> (usize, Error) {
    let lease = held.store.lease("a").await.unwrap();
    let mut stored = 0;
    let error = loop {
        match held.store.append(&lease, vec![record()]).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    let_go(lease);
    (stored, error)
}

async fn session_that_was_filled_with_values_opens_again<P: Limited>() {
    let mut held = limited::<P>();
    let (stored, error) = fill(&held, || detailed(2_000)).await;
    check_write::<P>(&error);
    assert!((5..15).contains(&stored), "{stored}");
    held.reopen();
    held.store.limit(LIMIT);
    let session = held.store.load("a").await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), stored);
    drop(held.store.lease("a").await.unwrap());
}

async fn session_that_was_filled_opens_at_its_snapshot_and_without<P: Limited>() {
    let mut held = limited::<P>();
    let text = "x".repeat(700_000);
    let (stored, error) = fill(&held, || said(&text)).await;
    assert!(stored > 5, "{stored}: {error}");
    let lease = held.store.lease("a").await.unwrap();

    // Records that make the session smaller are always accepted.
    let truncation = Record::Truncated {
        messages: stored - 1,
    };
    held.store.append(&lease, vec![truncation]).await.unwrap();
    held.store.append(&lease, vec![said("end")]).await.unwrap();
    let_go(lease);
    held.reopen();
    held.store.limit(LIMIT);
    assert_eq!(held.texts("a").await.len(), stored);
    let log = held.store.log("a");
    let mut without = log.clone();
    let snapshots = b"\"kind\":\"snapshot\"";
    let at = memmem::rfind(&log, snapshots).expect("a snapshot");
    without[at + snapshots.len() - 2] ^= 1;
    held.store.put("a", &without);
    let session = held.store.load("a").await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), stored);
    assert_eq!(session.damage.len(), 1, "{:?}", session.damage);
    drop(held.store.lease("a").await.unwrap());
}

async fn damage_without_end_is_refused<P: Limited>() {
    let held = limited::<P>();
    let stale = line(1, "keep", "0");
    let mut log = line(2, "message", &message("\"Hi\""));
    for _ in 0..33_000 {
        log.extend_from_slice(&stale);
        log.extend_from_slice(b"x\n");
    }
    log.extend(line(3, "message", &message("\"Hi\"")));
    is_refused(&held, &log, "damage").await;
}

async fn large_snapshot_of_another_kind_is_not_read<P: Limited>() {
    let held = limited::<P>();
    let details = format!("[{}]", vec![r#"{"a":0}"#; 40_000].join(","));
    let message = format!(r#"{{"role":"tool","content":"","details":{details}}}"#);

    // If the store took this record for a snapshot, it would estimate its memory by its messages.
    let fake = r#""x":{"kind":"snapshot","data":{}},"#;
    let line = String::from_utf8(line(1, "ended", &message)).unwrap();
    let body = line.split_once(',').unwrap().1.trim_end().replacen(
        r#""kind":"#,
        &format!(r#"{fake}"kind":"#),
        1,
    );
    let crc = crc32fast::hash(body.as_bytes());
    let log = format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes();
    is_refused(&held, &log, "a record in disguise").await;
}

async fn list_reads_no_data_of_sessions<P: Limited>() {
    let held = limited::<P>();
    let details = format!("[{}]", vec![r#"{"a":0}"#; 40_000].join(","));
    let message = format!(r#"{{"role":"tool","content":"","details":{details}}}"#);
    held.store.put("a", &line(1, "ended", &message));
    held.say("b", &["small"]).await;
    let list = held.store.list().await.unwrap();
    assert_eq!(list.len(), 2);
    assert!(
        list.iter()
            .all(|info| info.problem.is_none() && info.messages == 1)
    );
}

async fn list_has_no_long_texts<P: Limited>() {
    let held = limited::<P>();
    let text = "x".repeat(1_000_000);
    let body = format!(
        r#""v":1,"seq":1,"token":1,"at":1,"kind":"started","data":"c","info":{{"messages":1,"created":1,"title":"{text}","user_id":"{text}","cwd":"{text}"}}}}"#
    );
    let crc = crc32fast::hash(body.as_bytes());
    let log = format!("{{\"crc\":\"{crc:08x}\",{body}\n");
    held.store.put("a", log.as_bytes());
    let list = held.store.list().await.unwrap();
    let info = &list[0];
    assert!((500..=4_096).contains(&info.title.as_ref().unwrap().len()));
    assert_eq!((&info.user_id, &info.cwd, info.messages), (&None, &None, 1));
}

async fn long_incomplete_write_is_set_aside<P: Limited>() {
    let held = limited::<P>();
    held.store.limit(256 * 1024 * 1024);
    held.say("a", &["one"]).await;
    let start = held.store.log("a");
    let text = "x".repeat(9_000_000);
    let line = |seq: u64| {
        let body = format!(
            r#""v":1,"seq":{seq},"token":1,"at":1,"kind":"input","x":"{text}","data":"i"}}"#
        );
        let crc = crc32fast::hash(body.as_bytes());
        format!("{{\"crc\":\"{crc:08x}\",{body}\n")
    };
    let tail: String = (2..5).map(line).collect();
    held.store.put("a", &[&start, tail.as_bytes()].concat());
    held.say("a", &["two"]).await;
    assert_eq!(held.texts("a").await, ["one", "two"]);
    let mut offset = start.len();
    let mut bytes = Vec::new();
    for (part_offset, part) in held.store.aside("a") {
        assert_eq!(part_offset, offset as u64);
        offset += part.len();
        bytes.extend(part);
    }
    assert!(bytes == tail.as_bytes());
}
