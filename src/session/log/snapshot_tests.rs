//! Snapshots, over a log in memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::message::{Message, Todo, ToolCall, ToolResult};
use crate::model::ModelResponse;
use crate::session::size::SessionSize;
use crate::session::{AgentState, Lease, MessageInfo, Record, SessionStore, StoredSession};
#[cfg(test)]
use crate::testing::conformance;
use crate::util::sync::lock;

use super::line::{LogEntry, read_snapshot};
use super::line_writer::{self, RecordStamp};
use super::log::Snapshots;
use super::log_store::LogStore;
use super::memory_limit::{MemoryLimit, max_snapshot};
use super::memory_log::{LogStep, MemoryLog};
use super::shared::MAX_LOG;

type Store = LogStore<MemoryLog>;

/// The number of bytes of a log's end that are read first: openings use the snapshots.
const SMALL: u64 = 300;

/// Creates a store that writes many snapshots, and opens logs at them.
fn store(log: MemoryLog) -> Store {
    let snapshots = Snapshots::OnAppend { after: 1 };
    LogStore::with_end_len(MemoryLog { snapshots, ..log }, SMALL)
}

fn has_snapshot(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\"kind\":\"snapshot\"").is_some()
}

fn message_record(text: &str) -> Record {
    Record::Message {
        message: Message::human(text).into(),
        input_id: Some(text.into()),
    }
}

#[tokio::test]
async fn session_whose_last_record_is_long_is_loaded_at_its_snapshot() {
    let log = MemoryLog {
        snapshots: Snapshots::OnAppend { after: 64 * 1024 },
        ..MemoryLog::default()
    };
    let store = LogStore::new(log.clone());
    let lease = store.lease("a").await.unwrap();
    let text = |len: usize| message_record(&"x".repeat(len * 1024));
    for record in [text(40), text(40), text(70)] {
        store.append(&lease, vec![record]).await.unwrap();
    }
    release(lease);
    assert!(has_snapshot(&log.bytes()));

    let pieces = Arc::<AtomicUsize>::default();
    let count = pieces.clone();
    let store = LogStore::new(log.on_step(move |step| {
        if let LogStep::Piece(_) = step {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }));
    let session = store.load("a").await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), 3);
    assert_eq!(pieces.load(Ordering::Relaxed), 0);
}

/// Drops a lease where its log is closed at once.
fn release(lease: Lease) {
    std::thread::spawn(move || drop(lease)).join().unwrap();
}

async fn append_message(store: &Store, lease: &Lease, text: &str) {
    store
        .append(lease, vec![message_record(text)])
        .await
        .unwrap();
}

async fn load(store: &Store) -> StoredSession {
    store.load("a").await.unwrap().unwrap()
}

/// Returns the session as text, without its damage.
fn json(session: &StoredSession) -> String {
    let parts = (&session.state, &session.started, &session.ended);
    serde_json::to_string(&(parts, &session.input_ids, &session.first_text)).unwrap()
}

/// Returns the ranges of the snapshots in a log, with their marks. Other long records have marks as
/// well.
fn snapshots(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut offset = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let contains_kind = |kind: &str| memchr::memmem::find(line, kind.as_bytes()).is_some();
        if contains_kind("\"kind\":\"snapshot\"") {
            ranges.push(offset..offset + line.len());
        } else if contains_kind("\"kind\":\"mark\"")
            && let Some(range) = ranges.last_mut()
            && range.end == offset
        {
            range.end = offset + line.len();
        }

        offset += line.len();
    }

    ranges
}

/// Creates a log of at least six messages that ends with a snapshot, and the range of the snapshot.
async fn snapshot_at_the_end() -> (Vec<u8>, Range<usize>) {
    let log = MemoryLog::default();
    let store = store(log.clone());
    let lease = store.lease("a").await.unwrap();
    for number in 0.. {
        append_message(&store, &lease, &format!("{number} {}", "x".repeat(40))).await;
        let bytes = log.bytes();
        let last = snapshots(&bytes).pop().unwrap();
        if number >= 5 && last.end == bytes.len() {
            return (bytes, last);
        }
    }

    unreachable!()
}

#[tokio::test]
async fn store_with_many_snapshots_passes_the_suite() {
    // Times have millisecond resolution, also after the store is reopened.
    let log = || {
        MemoryLog::default().on_step(|step| {
            if let LogStep::Append(_) = step {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        })
    };
    let make_store = || async { store(log()) };
    let reopen = |old: Store| async move { store(old.log().clone()) };
    conformance::session_store(make_store, reopen)
        .await
        .unwrap();
}

#[tokio::test]
async fn opening_reads_only_the_state_of_a_long_log() {
    let bytes_read = Arc::<AtomicUsize>::default();
    let counter = bytes_read.clone();
    let snapshots = Snapshots::OnAppend { after: 64 * 1024 };
    let log = MemoryLog::default().on_step(move |step| {
        if let LogStep::Tail(bytes) | LogStep::Piece(bytes) = step {
            counter.fetch_add(bytes.len(), Ordering::Relaxed);
        }
        Ok(())
    });
    let log = MemoryLog { snapshots, ..log };
    let open = || LogStore::with_end_len(log.clone(), 16 * 1024);
    let store = open();
    let lease = store.lease("a").await.unwrap();
    for number in 0..2_000 {
        let todos = Arc::new(vec![Todo::new("1", "x".repeat(2_000))]);
        let records = vec![Record::Todos { todos }, message_record(&number.to_string())];
        store.append(&lease, records).await.unwrap();
    }

    let old_session = load(&store).await;
    release(lease);
    assert!(log.bytes().len() > 4_000_000);
    let store = open();
    for _ in 0..2 {
        bytes_read.store(0, Ordering::Relaxed);
        assert_eq!(json(&load(&store).await), json(&old_session));
        let bytes = bytes_read.load(Ordering::Relaxed);
        assert!(bytes < 1_000_000, "{bytes}");
    }

    bytes_read.store(0, Ordering::Relaxed);
    let _lease = store.lease("a").await.unwrap();
    let bytes = bytes_read.load(Ordering::Relaxed);
    assert!(bytes < 1_000_000, "{bytes}");
    assert_eq!(json(&load(&store).await), json(&old_session));
    bytes_read.store(0, Ordering::Relaxed);
    assert_eq!(store.list().await.unwrap()[0].messages, 2_000);
    assert!(bytes_read.load(Ordering::Relaxed) <= 16 * 1024);
}

#[tokio::test]
async fn opening_at_a_snapshot_equals_reading_the_whole_log() {
    let log = MemoryLog::default();
    let mut rng = fastrand::Rng::with_seed(8);
    for round in 0..60 {
        let writer = store(log.clone());
        let lease = writer.lease("a").await.unwrap();
        for number in 0..rng.usize(1..6) {
            let text = format!("{round} {number} {}", "x".repeat(rng.usize(..300)));
            match rng.u8(..4) {
                0 => {
                    let mut state = writer.load("a").await.unwrap().unwrap_or_default().state;
                    let len = rng.usize(..=state.messages.len());
                    state.messages = state.messages.iter().take(len).cloned().collect();
                    state.title = rng.bool().then(|| text.as_str().into());
                    writer.save(&lease, &state).await.unwrap();
                }
                1 => {
                    let call_id = text.into();
                    let records = vec![Record::ToolStarted { call_id }];
                    writer.append(&lease, records).await.unwrap();
                }
                _ => append_message(&writer, &lease, &text).await,
            }
        }

        release(lease);
        let reader = LogStore::with_end_len(log.clone(), u64::MAX);
        let full_session = load(&reader).await;
        assert_eq!(json(&load(&store(log.clone())).await), json(&full_session));
        let holder = store(log.clone());
        let lease = holder.lease("a").await.unwrap();
        assert_eq!(
            json(&load(&holder).await),
            json(&full_session),
            "round {round}"
        );
        release(lease);
        assert!(full_session.damage.is_empty());
    }

    assert!(snapshots(&log.bytes()).len() > 3);
}

#[tokio::test]
async fn log_cut_inside_a_snapshot_keeps_all_records() {
    let (bytes, snapshot) = snapshot_at_the_end().await;
    let full_session = load(&store(MemoryLog::of(&bytes))).await;
    // Every byte of its head, and some of the rest.
    let (start, end) = (snapshot.start, snapshot.end);
    let in_part = |cut: &usize| *cut < start + 200 || *cut + 8 > end || cut.is_multiple_of(4);
    for cut in snapshot.clone().filter(in_part) {
        let log = MemoryLog::of(&bytes[..cut]);
        let reader = load(&store(log.clone())).await;
        assert_eq!(json(&reader), json(&full_session), "cut at {cut}");
        let store = store(log.clone());
        let lease = store.lease("a").await.unwrap();
        let stored_session = load(&store).await;
        assert_eq!(json(&stored_session), json(&full_session), "cut at {cut}");
        if cut > snapshot.start + 160 {
            assert!(
                stored_session.damage.is_empty(),
                "cut at {cut}: {:?}",
                stored_session.damage
            );
            assert!(lock(&log.aside).is_empty(), "cut at {cut}");
        }

        append_message(&store, &lease, "next").await;
        release(lease);
        let reopened_session = load(&self::store(log)).await;
        assert_eq!(
            reopened_session.state.messages.len(),
            full_session.state.messages.len() + 1
        );
        assert!(reopened_session.damage.is_empty(), "cut at {cut}");
    }
}

#[tokio::test]
async fn flipped_bit_in_a_snapshot_loses_no_record() {
    let (bytes, snapshot) = snapshot_at_the_end().await;
    let full_session = load(&store(MemoryLog::of(&bytes))).await;
    for offset in snapshot.step_by(3) {
        let mut flipped = bytes.clone();
        flipped[offset] ^= 1 << (offset % 8);
        let log = MemoryLog::of(&flipped);
        assert_eq!(json(&load(&store(log.clone())).await), json(&full_session));
        let store = store(log.clone());
        let lease = store.lease("a").await.unwrap();
        let stored_session = load(&store).await;
        assert_eq!(
            json(&stored_session),
            json(&full_session),
            "flipped at {offset}"
        );
        append_message(&store, &lease, "next").await;
        release(lease);
        let reopened_session = load(&self::store(log)).await;
        let count = full_session.state.messages.len() + 1;
        assert_eq!(
            reopened_session.state.messages.len(),
            count,
            "flipped at {offset}"
        );
    }
}

/// Creates a session of `messages` messages: a call, its result, an answer with its metadata, an
/// input.
fn long_session(messages: usize) -> StoredSession {
    let mut state = AgentState::new("a");
    let mut response = ModelResponse::new("");
    response.id = "msg_01XFDUDYJgAACzvnptvVoYEL".into();
    response.model = "claude-sonnet-4-5".into();
    let info = Arc::new(MessageInfo::of(&response, uuid::Uuid::nil()));
    for number in 0..messages / 4 {
        let args = serde_json::json!({"file_path": "src/lib.rs", "limit": number});
        let call = ToolCall::new(format!("toolu_{number}"), "Read", args);
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(3);
        for message in [
            Message::human(text.as_str()),
            Message::ai_calling("I read it.", [call.clone()]),
            Message::Tool(ToolResult::ok(&call, text.as_str())),
            Message::ai(text.as_str()),
        ] {
            state.messages.push(message);
        }
        state.set_last_info(info.clone());
    }
    StoredSession::new(state)
}

#[test]
fn snapshot_of_a_hundred_thousand_messages_is_written_and_read_by_default() {
    let limit = MemoryLimit::new("a", None, MAX_LOG, "");
    let session = long_session(100_000);
    assert!(SessionSize::of(&session).total() < limit.for_writes().bytes());
    let entries = [LogEntry::Snapshot(Box::new(session))];
    let mut line = Vec::new();
    let max_len = max_snapshot(limit.bytes());
    let stamp = RecordStamp {
        seq: 1,
        token: 1,
        at: 1,
    };
    line_writer::write(&mut line, &entries, stamp, None, max_len).unwrap();
    let fold = read_snapshot("a", &line, limit.bytes()).unwrap();
    assert_eq!(fold.session().state.messages.len(), 100_000);
}

#[tokio::test]
async fn failed_snapshot_does_not_fail_the_append() {
    let log = MemoryLog::default().on_step(|step| match step {
        LogStep::Append(bytes) if has_snapshot(bytes) => {
            Err(Error::new(ErrorKind::Io, "the disk is full"))
        }
        _ => Ok(()),
    });

    let store = store(log.clone());
    let lease = store.lease("a").await.unwrap();
    for number in 0..50 {
        append_message(&store, &lease, &number.to_string()).await;
    }

    release(lease);
    assert!(snapshots(&log.bytes()).is_empty());
    assert_eq!(load(&self::store(log)).await.state.messages.len(), 50);
}

#[tokio::test]
async fn small_session_has_no_snapshot() {
    let log = MemoryLog::default();
    let store = LogStore::new(log.clone());
    let lease = store.lease("a").await.unwrap();
    for number in 0..100 {
        append_message(&store, &lease, &format!("{number} {}", "x".repeat(1_000))).await;
    }
    assert!(memchr::memmem::find(&log.bytes(), b"snapshot").is_none());
    append_message(&store, &lease, &"x".repeat(1_000_000)).await;
    assert_eq!(snapshots(&log.bytes()).len(), 1);
}

/// Creates a store that writes a snapshot on each opening.
fn on_open(log: MemoryLog) -> Store {
    let snapshots = Snapshots::OnOpen { after: 1 };
    LogStore::with_end_len(MemoryLog { snapshots, ..log }, SMALL)
}

#[tokio::test]
async fn opening_writes_the_snapshot_that_is_due() {
    let log = MemoryLog::default();
    for number in 0..20 {
        let store = on_open(log.clone());
        let lease = store.lease("a").await.unwrap();
        let count = snapshots(&lock(&log.logs).get("a").cloned().unwrap_or_default()).len();
        for text in ["x", "y"] {
            append_message(&store, &lease, &format!("{number} {text}")).await;
        }

        assert_eq!(snapshots(&log.bytes()).len(), count, "not by an append");
        release(lease);
        assert_eq!(
            load(&on_open(log.clone())).await.state.messages.len(),
            2 * (number + 1)
        );
    }

    let count = snapshots(&log.bytes()).len();
    assert!(count > 2 && count < 20, "{count}");
}

#[tokio::test]
async fn opening_behind_an_open_line_notes_where_the_snapshot_is() {
    let (bytes, snapshot) = snapshot_at_the_end().await;
    let log = MemoryLog::of(&bytes[..snapshot.start - 1]);
    let messages = load(&store(log.clone())).await.state.messages.len();
    release(on_open(log.clone()).lease("a").await.unwrap());
    let last = snapshots(&log.bytes()).pop().unwrap();
    let bytes = log.bytes();
    assert_eq!(last.end, bytes.len());
    let position = format!("\"snapshot\":[{},", last.start);
    assert!(memchr::memmem::find(&bytes, position.as_bytes()).is_some());
    let session = load(&on_open(log)).await;
    assert_eq!(
        (session.state.messages.len(), session.damage.len()),
        (messages, 0)
    );
}

#[tokio::test]
async fn snapshot_that_is_refused_makes_no_second_opening() {
    let log = MemoryLog::default();
    let writer = store(log.clone());
    let lease = writer.lease("a").await.unwrap();
    // Over a quarter of the least memory limit, which is the limit of a snapshot.
    for number in 0..5 {
        let text = format!("{number} {}", "x".repeat(1 << 20));
        let record = Record::Message {
            message: Message::human(text).into(),
            input_id: None,
        };
        writer.append(&lease, vec![record]).await.unwrap();
    }
    release(lease);

    let count = Arc::new(AtomicUsize::new(0));
    let openings = count.clone();
    let counted = log.clone().on_step(move |step| {
        if let LogStep::Open = step {
            openings.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    });
    let small = on_open(counted);
    small.set_max_session_bytes(32 << 20);
    let former = snapshots(&log.bytes()).len();
    release(small.lease("a").await.unwrap());
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(snapshots(&log.bytes()).len(), former);
}

#[tokio::test]
async fn failed_snapshot_of_an_opening_does_not_fail_the_lease() {
    for is_stored in [false, true] {
        let log = MemoryLog::default();
        let store = on_open(log.clone());
        let lease = store.lease("a").await.unwrap();
        append_message(&store, &lease, "one").await;
        release(lease);
        lock(&log.logs)
            .get_mut("a")
            .unwrap()
            .extend_from_slice(b"junk");

        // Such a writer appends nothing more, since the outcome is unknown.
        let broken = log.clone().on_step(move |step| match step {
            LogStep::Append(bytes) if !is_stored && has_snapshot(bytes) => {
                Err(Error::new(ErrorKind::Io, "no answer"))
            }
            LogStep::Appended(bytes) if is_stored && has_snapshot(bytes) => {
                Err(Error::new(ErrorKind::Io, "no answer"))
            }
            _ => Ok(()),
        });

        let store = on_open(broken);
        let lease = store.lease("a").await.unwrap();
        assert_eq!(load(&store).await.damage.len(), 1, "it is reported");
        append_message(&store, &lease, "two").await;
        release(lease);
        assert_eq!(snapshots(&log.bytes()).len(), usize::from(is_stored));
        let session = load(&on_open(log)).await;
        assert_eq!((session.state.messages.len(), session.damage.len()), (2, 0));
    }
}
