//! Lists of many sessions, and of sessions that cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures::future::join_all;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::session::{Record, SessionStore};
use crate::util::sync::lock;

use super::line::{COMMA, LINE_PREFIX, hex};
use super::list::TAIL;
use super::listings::MAX_LISTINGS;
use super::log_store::LogStore;
use super::memory_log::{Gate, LogStep, MemoryLog};
use super::queue::{Queue, Queues};
use super::{Log, LogTail, Repair, Snapshots};

/// Logs whose ends cannot be read.
fn unreadable(kind: ErrorKind) -> LogStore<MemoryLog> {
    let log = MemoryLog::of(b"junk\n").on_step(move |step| match step {
        LogStep::Tail(_) => Err(Error::new(kind, "not now")),
        _ => Ok(()),
    });
    LogStore::new(log)
}

#[tokio::test]
async fn list_of_an_unreachable_store_is_an_error() {
    for kind in [ErrorKind::Io, ErrorKind::Connect, ErrorKind::Timeout] {
        let store = unreadable(kind);
        assert_eq!(store.list().await.unwrap_err().kind(), kind);
        let pruned = store.prune(Duration::ZERO).await;
        assert_eq!(pruned.unwrap_err().kind(), kind);
    }
    for kind in [ErrorKind::Corrupt, ErrorKind::Conflict] {
        let store = unreadable(kind);
        let list = store.list().await.unwrap();
        assert!(list.len() == 1 && list.iter().all(|info| info.problem.is_some()));
        assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn session_over_the_limit_or_of_a_newer_version_is_listed_with_a_problem() {
    let log = MemoryLog::default();
    let store = LogStore::new(log.clone());
    let record = Record::Message {
        message: Message::human("Hi").into(),
        input_id: None,
    };
    let lease = store.lease("a").await.unwrap();
    store.append(&lease, vec![record]).await.unwrap();
    drop(lease);
    let list = store.list().await.unwrap();
    assert_eq!((list[0].messages, &list[0].problem), (1, &None));

    store.set_max_session_bytes(100);
    let list = store.list().await.unwrap();
    let problem = list[0].problem.as_deref().unwrap_or_default();
    assert!(
        problem.contains("more than the 100 that are read"),
        "{problem}"
    );
    assert_eq!(list[0].messages, 1);

    store.set_max_session_bytes(1 << 20);
    let bytes = log.bytes();
    let fields = str::from_utf8(&bytes[COMMA + 1..]).unwrap();
    let fields = fields.replacen("\"v\":1", "\"v\":2", 1);
    let checksum = hex(crc32fast::hash(fields.trim_end().as_bytes()));
    let line = [LINE_PREFIX, &checksum, b"\",", fields.as_bytes()].concat();
    lock(&log.logs).get_mut("a").unwrap().extend(line);
    let list = store.list().await.unwrap();
    let problem = list[0].problem.as_deref().unwrap_or_default();
    assert!(problem.contains("version 2"), "{problem}");
}

/// Logs whose list has no end. Each of its pages, which have `page_len` ids, is reported.
struct Endless {
    page_sender: Sender<()>,
    page_len: usize,
}

impl Log for Endless {
    type Writer = ();

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        Err(Error::new(ErrorKind::Io, "they have no end"))
    }

    fn for_each_page(&self, each: &mut dyn FnMut(Vec<Arc<str>>) -> Result<()>) -> Result<()> {
        for number in 0_u64.. {
            let _ = self.page_sender.send(());
            each(vec![number.to_string().into(); self.page_len])?;
        }
        Ok(())
    }

    fn tail(&self, _: &str, _: u64) -> Result<Option<LogTail>> {
        Ok(None)
    }

    fn open(&self, id: &str, _: u64) -> Result<((), LogTail)> {
        Err(Error::session_busy(id))
    }

    fn append(&self, (): &mut (), _: &[u8]) -> Result<u64> {
        Ok(0)
    }

    fn repair(&self, (): &mut (), _: &Repair<'_>) -> Result<Option<String>> {
        Ok(None)
    }

    fn remove(&self, _: &str, _: Option<u64>) -> Result<bool> {
        Ok(false)
    }
}

/// Waits until no more pages are reported: the store, and with it the sender, is dropped.
fn drain(pages: &Receiver<()>) {
    while pages.recv().is_ok() {}
}

#[tokio::test]
async fn dropped_list_ends_at_the_next_page() {
    for (page_len, prunes) in [(1, false), (1, true), (0, false), (0, true)] {
        let (page_sender, pages) = channel();
        let store = LogStore::new(Endless {
            page_sender,
            page_len,
        });
        let mut call = Box::pin(async {
            if prunes {
                store.prune(Duration::ZERO).await.map(drop)
            } else {
                store.list().await.map(drop)
            }
        });
        assert!(futures::poll!(&mut call).is_pending());
        pages.recv().unwrap();
        drop(call);
        drop(store);
        drain(&pages);
    }
}

/// Creates a store with one session of the texts, whose log has `start` before its records and
/// `end` in the place of its last `cut` bytes. Returns it, and the number of bytes that are read
/// of ends and of whole logs.
async fn counting_store(
    start: &[u8],
    texts: &[&str],
    cut: usize,
    end: &[u8],
) -> (LogStore<MemoryLog>, [Arc<AtomicUsize>; 2]) {
    let log = MemoryLog {
        snapshots: Snapshots::Never,
        ..MemoryLog::default()
    };
    let store = LogStore::new(log.clone());
    let lease = store.lease("a").await.unwrap();
    for text in texts {
        let message = Message::human(*text).into();
        let record = Record::Message {
            message,
            input_id: None,
        };
        store.append(&lease, vec![record]).await.unwrap();
    }
    drop(lease);
    drop(store);

    if let Some(bytes) = lock(&log.logs).get_mut("a") {
        bytes.truncate(bytes.len() - cut);
        bytes.extend_from_slice(end);
        bytes.splice(..0, start.iter().copied());
    }
    let counts = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let [tails, pieces] = counts.clone();
    let log = log.on_step(move |step| {
        match step {
            LogStep::Tail(bytes) => tails.fetch_add(bytes.len(), Ordering::Relaxed),
            LogStep::Piece(bytes) => pieces.fetch_add(bytes.len(), Ordering::Relaxed),
            _ => 0,
        };
        Ok(())
    });
    (LogStore::new(log), counts)
}

/// Returns a log without the mark at its end, whose description the record before it has instead,
/// as in logs of earlier versions.
fn without_mark(log: &[u8]) -> Vec<u8> {
    let lines: Vec<_> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let [earlier @ .., record, mark] = &lines[..] else {
        panic!("the log has no mark");
    };
    let mark = str::from_utf8(mark).unwrap();
    assert!(mark.contains(r#""kind":"mark""#), "{mark}");
    let (_, info) = mark.split_once(r#","info":"#).unwrap();
    let record = str::from_utf8(&record[COMMA + 1..]).unwrap();
    let record = record.strip_suffix("}\n").unwrap();
    let fields = format!(r#"{record},"info":{}"#, info.trim_end());
    let checksum = hex(crc32fast::hash(fields.as_bytes()));
    let line = [LINE_PREFIX, &checksum, b"\",", fields.as_bytes(), b"\n"].concat();
    [earlier.concat(), line].concat()
}

#[tokio::test]
async fn list_reads_only_the_end_of_a_log_whose_last_record_is_long() {
    let long_text = "x".repeat(1024 * 1024);
    let (store, [tails, pieces]) = counting_store(b"", &["Hi", &long_text], 0, b"").await;
    let list = store.list().await.unwrap();
    assert_eq!((list[0].messages, list[0].problem.as_deref()), (2, None));
    assert_eq!(tails.load(Ordering::Relaxed) as u64, TAIL);
    assert_eq!(pieces.load(Ordering::Relaxed), 0);

    let lease = store.lease("a").await.unwrap();
    let message = Message::human("More").into();
    let input_id = None;
    let records = vec![Record::Message { message, input_id }];
    store.append(&lease, records).await.unwrap();
    drop(lease);
    let stored_session = store.load("a").await.unwrap().unwrap();
    assert_eq!(stored_session.state.messages.len(), 3);
    assert!(stored_session.damage.is_empty());
}

#[tokio::test]
async fn list_reads_an_unreadable_last_line_once() {
    let long_text = "x".repeat(100_000);
    let texts = [&long_text[..], "end"];
    let (store, [tails, pieces]) = counting_store(b"", &texts, 0, b"junk\n").await;
    let mut reads = Vec::new();
    for end in [&b""[..], b"", b"more\n", b""] {
        if let Some(log) = lock(&store.log().logs).get_mut("a") {
            log.extend_from_slice(end);
        }
        tails.store(0, Ordering::Relaxed);
        pieces.store(0, Ordering::Relaxed);
        let list = store.list().await.unwrap();
        assert_eq!((list[0].messages, list[0].problem.as_deref()), (2, None));
        reads.push(pieces.load(Ordering::Relaxed) > 0);
    }
    assert_eq!(reads, [true, false, true, false]);
}

#[tokio::test]
async fn concurrent_lists_take_turns_at_a_long_log_and_read_it_once() {
    const LISTS: usize = MAX_LISTINGS;
    let [reading, most_reading, pieces] = [(); 3].map(|()| Arc::<AtomicUsize>::default());
    let (count, most, piece_count) = (reading, most_reading.clone(), pieces.clone());
    // The first long read waits until all lists have read what they may read without a turn.
    let (gate, permits, _arrivals) = Gate::new();
    let was_gated = AtomicBool::new(false);
    let log = MemoryLog::of(&vec![0; 3 << 20]).on_step(move |step| {
        match step {
            LogStep::Tail(bytes) if bytes.len() == 1 << 20 => permits.send(()).unwrap(),
            LogStep::Tail(bytes) if bytes.len() > 1 << 20 => {
                most.fetch_max(count.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                if !was_gated.swap(true, Ordering::Relaxed) {
                    (0..LISTS).for_each(|_| gate.pass());
                }
                count.fetch_sub(1, Ordering::Relaxed);
            }
            LogStep::Piece(_) => {
                piece_count.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    });
    let store = LogStore::new(log);
    for list in join_all((0..LISTS).map(|_| store.list())).await {
        assert!(list.unwrap().is_empty(), "no write of it is complete");
    }
    assert_eq!(most_reading.load(Ordering::Relaxed), 1);
    assert_eq!(pieces.load(Ordering::Relaxed), 1);
}

#[test]
fn lists_that_wait_for_others_take_no_thread() {
    let (gate, permits, arrivals) = Gate::new();
    let log = MemoryLog::of(b"junk\n").on_step(move |step| {
        if let LogStep::Tail(_) = step {
            gate.pass();
        }
        Ok(())
    });
    let store = LogStore::new(log);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.max_blocking_threads(MAX_LISTINGS + 1).build();
    runtime.unwrap().block_on(async {
        let mut lists = Vec::from_iter((0..2 * MAX_LISTINGS).map(|_| store.list()));
        for list in &mut lists {
            assert!(futures::poll!(list).is_pending());
        }
        for _ in 0..MAX_LISTINGS {
            arrivals.recv().unwrap();
        }

        let mut other_work = tokio::task::spawn_blocking(|| ());
        while futures::poll!(&mut other_work).is_pending() {
            assert!(arrivals.try_recv().is_err(), "a list took the last thread");
            tokio::task::yield_now().await;
        }
        drop(permits);
        for list in join_all(lists).await {
            assert_eq!(list.unwrap().len(), 1);
        }
    });
}

#[tokio::test]
async fn list_that_is_not_polled_delays_no_other() {
    let (gate, permits, arrivals) = Gate::new();
    let log = MemoryLog::of(b"junk\n").on_step(move |step| {
        if let LogStep::Tail(_) = step {
            gate.pass();
        }
        Ok(())
    });
    let store = LogStore::new(log);
    let mut lists = Vec::from_iter((0..2 * MAX_LISTINGS).map(|_| store.list()));
    for list in &mut lists {
        assert!(futures::poll!(list).is_pending());
    }
    for _ in 0..MAX_LISTINGS {
        arrivals.recv().unwrap();
    }
    let _unpolled = lists.split_off(MAX_LISTINGS);
    drop(permits);
    for list in join_all(lists).await {
        assert_eq!(list.unwrap().len(), 1);
    }
    let other_list = tokio::time::timeout(Duration::from_secs(60), store.list());
    assert_eq!(other_list.await.unwrap().unwrap().len(), 1);
}

/// Checks that a session loads while `work` waits for the end of a log.
async fn check_load_during<F>(work: impl FnOnce(LogStore<MemoryLog>) -> F)
where
    F: Future<Output = Result<()>>,
{
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
    let queues = Queues {
        readers: Some(Queue::default()),
        listers: Some(Queue::default()),
        writers: None,
    };
    let store = LogStore::named(log, "an option", queues);
    write_about(&store, "a", None).await;
    write_about(&store, "a:sub:b:1", Some("a")).await;

    is_gated.store(true, Ordering::Relaxed);
    let mut work = Box::pin(work(store.clone()));
    while arrivals.try_recv().is_err() {
        assert!(futures::poll!(&mut work).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(store.load("a").await.unwrap().is_some());
    assert!(futures::poll!(&mut work).is_pending());
    drop(permits);
    work.await.unwrap();
}

#[tokio::test]
async fn load_does_not_wait_for_work_that_reads_many_logs_or_one_twice() {
    check_load_during(|store| async move { store.list().await.map(drop) }).await;
    check_load_during(|store| async move { store.children("a").await.map(drop) }).await;
    check_load_during(|store| async move { store.fork_at("a", "b", 0).await }).await;
}

/// Writes a session, with `parent` that of a subagent.
async fn write_about(store: &LogStore<MemoryLog>, id: &str, parent: Option<&str>) {
    let lease = store.lease(id).await.unwrap();
    let about = Record::About {
        user_id: None,
        title: None,
        cwd: None,
        parent: parent.map(Arc::from),
    };
    store.append(&lease, vec![about]).await.unwrap();
}

#[tokio::test]
async fn children_are_found_without_reading_other_sessions() {
    let tails = Arc::<AtomicUsize>::default();
    let count = tails.clone();
    let log = MemoryLog::default();
    let store = LogStore::new(log.clone());
    for (id, parent) in [
        ("p", None),
        ("p:sub:a:1:sub:b:2", Some("p:sub:a:1")),
        ("p:sub:a:1", Some("p")),
        // Another user's session, and a session of another parent.
        ("p:sub:x", None),
        ("p:sub:y", Some("q")),
        ("q", None),
        ("q:sub:a:1", Some("q")),
    ] {
        write_about(&store, id, parent).await;
    }
    let store = LogStore::new(log.on_step(move |step| {
        if let LogStep::Tail(_) = step {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }));
    let children = store.children("p").await.unwrap();
    let ids: Vec<_> = children.iter().map(|id| &**id).collect();
    assert_eq!(ids, ["p:sub:a:1", "p:sub:a:1:sub:b:2"]);
    assert_eq!(tails.load(Ordering::Relaxed), 4);
    assert!(store.children("none").await.unwrap().is_empty());
}

#[tokio::test]
async fn list_reads_a_long_last_line_at_most_four_times() {
    let long_text = "x".repeat(5 * 1024 * 1024);
    let mut start = vec![b'x'; 70 * 1024 * 1024];
    start.push(b'\n');
    let (store, [tails, pieces]) = counting_store(&start, &["Hi", &long_text], 0, b"").await;
    let log = without_mark(&store.log().bytes());
    lock(&store.log().logs).insert("a".into(), log);
    let list = store.list().await.unwrap();
    assert_eq!((list[0].messages, list[0].problem.as_deref()), (2, None));
    let bytes = tails.load(Ordering::Relaxed);
    assert!(bytes < 4 * long_text.len(), "{bytes}");
    assert_eq!(pieces.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn list_reads_only_the_end_of_a_log_whose_last_write_is_torn() {
    let long_text = "x".repeat(1024 * 1024);
    let texts = [&long_text[..], &long_text[..], "end"];
    for (cut, end, messages) in [(0, &b"{\"crc\":\"0"[..], 3), (5, b"", 2), (1, b"", 3)] {
        let (store, [tails, pieces]) = counting_store(b"", &texts, cut, end).await;
        let list = store.list().await.unwrap();
        let info = (list[0].messages, list[0].problem.as_deref());
        assert_eq!(info, (messages, None));
        let bytes = tails.load(Ordering::Relaxed);
        assert!(bytes < 6 * long_text.len(), "{cut}: {bytes}");
        assert_eq!(pieces.load(Ordering::Relaxed), 0, "{cut}");
    }
}
