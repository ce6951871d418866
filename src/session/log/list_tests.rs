//! Lists of many sessions, and of sessions that cannot be read.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::session::SessionStore;

use super::log_store::LogStore;
use super::memory_log::{LogStep, MemoryLog};
use super::{Log, LogTail, Repair};

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
