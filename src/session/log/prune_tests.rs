//! The removal of old sessions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::session::{Record, SessionStore};
use crate::util::sync::lock;

use super::line::{COMMA, LINE_PREFIX, hex};
use super::list::TAIL;
use super::log_store::LogStore;
use super::memory_log::{Gate, LogStep, MemoryLog};
use super::queue::Queue;

fn said(text: &str) -> Record {
    let message = Message::human(text).into();
    Record::Message {
        message,
        input_id: None,
    }
}

async fn append(store: &LogStore<MemoryLog>, id: &str) {
    let lease = store.lease(id).await.unwrap();
    store.append(&lease, vec![said("Hi")]).await.unwrap();
}

#[tokio::test]
async fn prune_reads_no_log_in_the_turn_of_the_writers() {
    let writers = Arc::<OnceLock<Queue>>::default();
    let [pieces, pieces_in_turn] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let (queue, all, in_turn) = (writers.clone(), pieces.clone(), pieces_in_turn.clone());
    let log = MemoryLog {
        appends_together: true,
        ..MemoryLog::default()
    };
    let log = log.on_step(move |step| {
        if let LogStep::Piece(_) = step {
            all.fetch_add(1, Ordering::Relaxed);
            // The time from which on a write waits is set while a job of the queue runs.
            let is_turn = queue
                .get()
                .is_some_and(|queue| queue.take_queued_at().is_some());
            in_turn.fetch_add(usize::from(is_turn), Ordering::Relaxed);
        }
        Ok(())
    });
    let store = LogStore::new(log);
    let _ = writers.set(store.shared().queues.writers.clone().unwrap());
    append(&store, "a").await;
    assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(store.load("a").await.unwrap().is_none());
    assert!(pieces.load(Ordering::Relaxed) > 0);
    assert_eq!(pieces_in_turn.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn dropped_prune_ends_with_the_piece_that_is_read() {
    let (gate, permits, arrivals) = Gate::new();
    let (end_sender, ends) = channel();
    let is_pruned = Arc::<AtomicBool>::default();
    let is_gated = is_pruned.clone();
    let log = MemoryLog {
        piece_len: 10,
        ..MemoryLog::default()
    };
    let log = log.on_step(move |step| {
        match step {
            LogStep::Piece(_) if is_gated.load(Ordering::Relaxed) => gate.pass(),
            LogStep::End(outcome) => drop(end_sender.send(outcome.is_ok())),
            _ => {}
        }
        Ok(())
    });
    let store = LogStore::new(log);
    append(&store, "a").await;
    is_pruned.store(true, Ordering::Relaxed);
    let mut prune = Box::pin(store.prune(Duration::ZERO));
    while arrivals.try_recv().is_err() {
        assert!(futures::poll!(&mut prune).is_pending());
        tokio::task::yield_now().await;
    }
    drop(prune);
    drop(permits);
    assert!(!ends.recv().unwrap(), "the log was read to its end");
    is_pruned.store(false, Ordering::Relaxed);
    assert!(store.load("a").await.unwrap().is_some());
}

#[tokio::test]
async fn prune_continues_after_a_log_that_another_process_changes_while_it_is_read() {
    let was_read = Arc::<AtomicBool>::default();
    let is_later = was_read.clone();
    let log = MemoryLog::default().on_step(move |step| match step {
        LogStep::Piece(_) if !is_later.swap(true, Ordering::Relaxed) => {
            Err(Error::new(ErrorKind::Conflict, "it was removed"))
        }
        _ => Ok(()),
    });
    let store = LogStore::new(log);
    for id in ["a", "b", "c"] {
        append(&store, id).await;
    }
    // A session whose lease is still being released is left out.
    let mut removed_count = 0;
    while removed_count < 2 {
        removed_count += store.prune(Duration::ZERO).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(was_read.load(Ordering::Relaxed));
}

/// Returns the lines of a log as if they had been written in 1970.
fn long_ago(log: &[u8]) -> Vec<u8> {
    let mut old_log = Vec::new();
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        let fields = str::from_utf8(&line[COMMA + 1..]).unwrap();
        let (start, time) = fields.split_once("\"at\":").unwrap();
        let end = time.trim_start_matches(|c: char| c.is_ascii_digit());
        let fields = format!("{start}\"at\":1{end}");
        let checksum = hex(crc32fast::hash(fields.trim_end().as_bytes()));
        old_log.extend([LINE_PREFIX, &checksum, b"\",", fields.as_bytes()].concat());
    }
    old_log
}

/// Returns a store, its log, and the count of the steps that are `counted` and happen in a turn of
/// the writers.
fn store_with_count(
    counted: fn(&LogStep<'_>) -> bool,
) -> (LogStore<MemoryLog>, MemoryLog, Arc<AtomicUsize>) {
    let writers = Arc::<OnceLock<Queue>>::default();
    let count = Arc::<AtomicUsize>::default();
    let (queue, count_in_turn) = (writers.clone(), count.clone());
    let log = MemoryLog {
        appends_together: true,
        ..MemoryLog::default()
    };
    let log = log.on_step(move |step| {
        let is_turn = queue
            .get()
            .is_some_and(|queue| counted(&step) && queue.take_queued_at().is_some());
        count_in_turn.fetch_add(usize::from(is_turn), Ordering::Relaxed);
        Ok(())
    });
    let store = LogStore::new(log.clone());
    let _is_first = writers.set(store.shared().queues.writers.clone().unwrap());
    (store, log, count)
}

#[tokio::test]
async fn prune_reads_an_unreadable_last_line_in_no_turn_of_the_writers() {
    let (store, log, pieces_in_turn) = store_with_count(|step| matches!(step, LogStep::Piece(_)));
    let text = "x".repeat(100_000);
    for text in [&text[..], "end"] {
        let lease = store.lease("a").await.unwrap();
        store.append(&lease, vec![said(text)]).await.unwrap();
    }
    for log in lock(&log.logs).values_mut() {
        *log = long_ago(log);
        log.extend_from_slice(b"junk\n");
    }
    let hour = Duration::from_secs(60 * 60);
    assert_eq!(store.prune(hour).await.unwrap(), 1);
    assert_eq!(pieces_in_turn.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn prune_reads_a_long_torn_write_in_no_turn_of_the_writers() {
    let (store, log, long_reads_in_turn) = store_with_count(|step| match step {
        LogStep::Tail(bytes) => bytes.len() as u64 > TAIL,
        LogStep::Piece(_) => true,
        _ => false,
    });
    let sound_log = MemoryLog::default();
    let other_store = LogStore::new(sound_log.clone());
    let lease = other_store.lease("a").await.unwrap();
    let record = said(&"x".repeat(3 << 20));
    other_store.append(&lease, vec![record]).await.unwrap();
    drop(lease);

    let mut bytes = sound_log.bytes();
    bytes.extend_from_within(..3 << 19);
    lock(&log.logs).insert("a".into(), bytes);
    assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(long_reads_in_turn.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn new_session_is_opened_outside_the_turn_of_the_writers() {
    let (store, _log, opened_in_turn) = store_with_count(|step| matches!(step, LogStep::Open));
    append(&store, "a").await;
    store.fork("a", "b").await.unwrap();
    assert_eq!(opened_in_turn.load(Ordering::Relaxed), 0);
    let error = store.fork("a", "b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let copy = store.load("b").await.unwrap().unwrap();
    assert_eq!(copy.state.messages.len(), 1);
    drop(store.lease("b").await.unwrap());
}

#[tokio::test]
async fn session_that_is_written_while_prune_looks_at_it_stays() {
    let (gate, permits, arrivals) = Gate::new();
    let is_gated = Arc::<AtomicBool>::default();
    let gates_next = is_gated.clone();
    let log = MemoryLog::default().on_step(move |step| {
        if let LogStep::Tail(_) = step
            && gates_next.swap(false, Ordering::Relaxed)
        {
            gate.pass();
        }
        Ok(())
    });
    let logs = log.logs.clone();
    let store = LogStore::new(log);
    append(&store, "a").await;
    for log in lock(&logs).values_mut() {
        *log = long_ago(log);
    }

    let hour = Duration::from_secs(60 * 60);
    is_gated.store(true, Ordering::Relaxed);
    let mut prune = Box::pin(store.prune(hour));
    while arrivals.try_recv().is_err() {
        assert!(futures::poll!(&mut prune).is_pending());
        tokio::task::yield_now().await;
    }
    append(&store, "a").await;
    drop(permits);
    assert_eq!(prune.await.unwrap(), 0);
    assert!(store.load("a").await.unwrap().is_some());
}
