//! Snapshots, over a log in memory.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Todo};
use crate::session::{AgentState, Lease, Record, SessionInfo, SessionStore, StoredSession, busy};
#[cfg(test)]
use crate::testing::conformance;
use crate::util::sync::lock;

use super::log::{Log, Tail};
use super::log_store::{LogStore, session_store_of_log};
use super::scan::{Scan, part_of};
use super::snapshot::Sizes;

/// Logs in memory, which count the bytes that are read of them.
#[derive(Clone, Default)]
struct MemoryLog {
    logs: Arc<Mutex<HashMap<Arc<str>, Vec<u8>>>>,
    held: Arc<Mutex<HashSet<Arc<str>>>>,
    bytes_read: Arc<AtomicUsize>,
    /// True if a write with a snapshot fails.
    refuses_snapshots: bool,
    aside: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The duration of a write.
    delay: Duration,
}

struct Writer(MemoryLog, Arc<str>);

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.0.held).remove(&self.1);
    }
}

impl MemoryLog {
    fn of(bytes: &[u8]) -> Self {
        let log = Self::default();
        lock(&log.logs).insert("a".into(), bytes.to_vec());
        log
    }

    fn bytes(&self) -> Vec<u8> {
        lock(&self.logs)["a"].clone()
    }
}

impl Log for MemoryLog {
    type Writer = Writer;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        Ok(lock(&self.logs).keys().cloned().collect())
    }

    fn read(&self, id: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.tail(id, u64::MAX)?.map(|(bytes, _)| bytes))
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<Tail>> {
        let logs = lock(&self.logs);
        let log = logs.get(id).filter(|log| !log.is_empty());
        Ok(log.map(|log| {
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(log.len());
            self.bytes_read.fetch_add(len, Ordering::Relaxed);
            (log[log.len() - len..].to_vec(), log.len() as u64)
        }))
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer, Tail)> {
        if !lock(&self.held).insert(id.into()) {
            return Err(busy(id));
        }
        let writer = Writer(self.clone(), id.into());
        Ok((writer, self.tail(id, len)?.unwrap_or_default()))
    }

    fn heal(&self, writer: &mut Writer, bytes: Option<&[u8]>, scan: &mut Scan) -> Result<()> {
        let stored_bytes = self.bytes();
        let bytes = bytes.unwrap_or(&stored_bytes);
        let parts = scan.aside().map(|damage| part_of(bytes, damage).to_vec());
        lock(&self.aside).extend(parts);
        if scan.tail.is_some() {
            let end = usize::try_from(scan.end).unwrap();
            lock(&self.logs).insert(writer.1.clone(), bytes[..end].to_vec());
        }
        Ok(())
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
        let is_snapshot = memchr::memmem::find(bytes, b"\"kind\":\"snapshot\"").is_some();
        if self.refuses_snapshots && is_snapshot {
            return Err(Error::new(ErrorKind::Io, "the disk is full"));
        }

        std::thread::sleep(self.delay);
        let mut logs = lock(&self.logs);
        let log = logs.entry(writer.1.clone()).or_default();
        if log.last().is_some_and(|last| *last != b'\n') {
            log.push(b'\n');
        }

        log.extend_from_slice(bytes);
        Ok(log.len() as u64)
    }

    fn remove(&self, id: &str, size: Option<u64>) -> Result<bool> {
        let mut logs = lock(&self.logs);
        let len = logs.get(id).map(|log| log.len() as u64);
        if size.is_some() && size != len {
            return Ok(false);
        }
        Ok(logs.remove(id).is_some_and(|log| !log.is_empty()))
    }
}

#[derive(Clone)]
struct Store(LogStore<MemoryLog>);

session_store_of_log!(Store);

/// Many snapshots, and openings that use them.
const SMALL: Sizes = Sizes {
    end: 300,
    snapshot_after: 1,
};

fn store(log: MemoryLog) -> Store {
    Store(LogStore::with_sizes(log, SMALL))
}

fn said(text: &str) -> Record {
    Record::Message {
        message: Message::human(text).into(),
        input_id: Some(text.into()),
    }
}

/// Drops a lease where its log is closed at once.
fn let_go(lease: Lease) {
    std::thread::spawn(move || drop(lease)).join().unwrap();
}

async fn say(store: &Store, lease: &Lease, text: &str) {
    store.append(lease, vec![said(text)]).await.unwrap();
}

async fn load(store: &Store) -> StoredSession {
    store.load("a").await.unwrap().unwrap()
}

/// The session as text, all but its damage.
fn json(session: &StoredSession) -> String {
    let parts = (&session.state, &session.started, &session.ended);
    serde_json::to_string(&(parts, &session.input_ids, &session.first_text)).unwrap()
}

/// The ranges of the snapshots in a log, with their marks.
fn snapshots(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut offset = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let contains_kind = |kind: &str| memchr::memmem::find(line, kind.as_bytes()).is_some();
        if contains_kind("\"kind\":\"snapshot\"") {
            ranges.push(offset..offset + line.len());
        } else if contains_kind("\"kind\":\"mark\"") {
            ranges.last_mut().unwrap().end = offset + line.len();
        }

        offset += line.len();
    }

    ranges
}

/// A log of six messages that ends with a snapshot, and where that is.
async fn snapshot_at_the_end() -> (Vec<u8>, Range<usize>) {
    let log = MemoryLog::default();
    let store = store(log.clone());
    let lease = store.lease("a").await.unwrap();
    for number in 0.. {
        say(&store, &lease, &format!("{number} {}", "x".repeat(40))).await;
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
    let log = || MemoryLog {
        delay: Duration::from_millis(2),
        ..MemoryLog::default()
    };
    let make_store = || async { store(log()) };
    let reopen = |old: Store| async move { store(old.0.log().clone()) };
    conformance::session_store(make_store, reopen)
        .await
        .unwrap();
}

#[tokio::test]
async fn opening_reads_only_the_state_of_a_long_log() {
    let log = MemoryLog::default();
    let sizes = Sizes {
        end: 16 * 1024,
        snapshot_after: 64 * 1024,
    };

    let store = Store(LogStore::with_sizes(log.clone(), sizes));
    let lease = store.lease("a").await.unwrap();
    for number in 0..2_000 {
        let todos = Arc::new(vec![Todo::new("1", "x".repeat(2_000))]);
        let records = vec![Record::Todos { todos }, said(&number.to_string())];
        store.append(&lease, records).await.unwrap();
    }

    let old_session = load(&store).await;
    let_go(lease);
    assert!(log.bytes().len() > 4_000_000);
    let store = Store(LogStore::with_sizes(log.clone(), sizes));
    for _ in 0..2 {
        log.bytes_read.store(0, Ordering::Relaxed);
        assert_eq!(json(&load(&store).await), json(&old_session));
        let bytes = log.bytes_read.load(Ordering::Relaxed);
        assert!(bytes < 1_000_000, "{bytes}");
    }

    log.bytes_read.store(0, Ordering::Relaxed);
    let _lease = store.lease("a").await.unwrap();
    let bytes = log.bytes_read.load(Ordering::Relaxed);
    assert!(bytes < 1_000_000, "{bytes}");
    assert_eq!(json(&load(&store).await), json(&old_session));
    log.bytes_read.store(0, Ordering::Relaxed);
    assert_eq!(store.list().await.unwrap()[0].messages, 2_000);
    assert!(log.bytes_read.load(Ordering::Relaxed) <= 16 * 1024);
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
                _ => say(&writer, &lease, &text).await,
            }
        }

        let_go(lease);
        let sizes = Sizes {
            end: u64::MAX,
            ..SMALL
        };

        let full_session = load(&Store(LogStore::with_sizes(log.clone(), sizes))).await;
        assert_eq!(json(&load(&store(log.clone())).await), json(&full_session));
        let holder = store(log.clone());
        let lease = holder.lease("a").await.unwrap();
        assert_eq!(
            json(&load(&holder).await),
            json(&full_session),
            "round {round}"
        );
        let_go(lease);
        assert!(full_session.damage.is_empty());
    }

    assert!(snapshots(&log.bytes()).len() > 3);
}

#[tokio::test]
async fn log_cut_inside_a_snapshot_keeps_all_records() {
    let (bytes, snapshot) = snapshot_at_the_end().await;
    let full_session = load(&store(MemoryLog::of(&bytes))).await;
    for cut in snapshot.clone() {
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

        say(&store, &lease, "next").await;
        let_go(lease);
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
        say(&store, &lease, "next").await;
        let_go(lease);
        let reopened_session = load(&self::store(log)).await;
        let count = full_session.state.messages.len() + 1;
        assert_eq!(
            reopened_session.state.messages.len(),
            count,
            "flipped at {offset}"
        );
    }
}

#[tokio::test]
async fn failed_snapshot_does_not_fail_the_append() {
    let log = MemoryLog {
        refuses_snapshots: true,
        ..MemoryLog::default()
    };

    let store = store(log.clone());
    let lease = store.lease("a").await.unwrap();
    for number in 0..50 {
        say(&store, &lease, &number.to_string()).await;
    }

    let_go(lease);
    assert!(snapshots(&log.bytes()).is_empty());
    assert_eq!(load(&self::store(log)).await.state.messages.len(), 50);
}

#[tokio::test]
async fn small_session_has_no_snapshot() {
    let log = MemoryLog::default();
    let store = Store(LogStore::new(log.clone()));
    let lease = store.lease("a").await.unwrap();
    for number in 0..100 {
        say(&store, &lease, &format!("{number} {}", "x".repeat(1_000))).await;
    }
    assert!(memchr::memmem::find(&log.bytes(), b"snapshot").is_none());
    say(&store, &lease, &"x".repeat(1_000_000)).await;
    assert_eq!(snapshots(&log.bytes()).len(), 1);
}
