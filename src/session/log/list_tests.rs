//! Lists of many sessions, and of sessions that cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::session::{Record, SessionStore};
use crate::util::sync::lock;

use super::log_store::LogStore;
use super::memory_log::{LogStep, MemoryLog};
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
    let store = unreadable(ErrorKind::Corrupt);
    let list = store.list().await.unwrap();
    assert!(list.len() == 1 && list.iter().all(|info| info.problem.is_some()));
    assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 0);
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

#[tokio::test]
async fn list_reads_a_long_last_line_at_most_four_times() {
    let long_text = "x".repeat(5 * 1024 * 1024);
    let mut start = vec![b'x'; 70 * 1024 * 1024];
    start.push(b'\n');
    let (store, [tails, pieces]) = counting_store(&start, &["Hi", &long_text], 0, b"").await;
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
