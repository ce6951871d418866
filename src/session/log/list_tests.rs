//! Lists of many sessions, and of those that cannot be read.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::session::SessionStore;

use super::log_store::LogStore;
use super::memory_log::{MemoryLog, Step};
use super::{Log, LogTail, Repair};

/// Logs whose ends cannot be read.
fn unreadable(kind: ErrorKind) -> LogStore<MemoryLog> {
    let log = MemoryLog::of(b"junk\n").on_step(move |step| match step {
        Step::Tail(_) => Err(Error::new(kind, "not now")),
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

/// Logs without end, of which each id is reported.
struct Endless {
    id_sender: Sender<()>,
}

impl Log for Endless {
    type Writer = ();

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        Err(Error::new(ErrorKind::Io, "they have no end"))
    }

    fn for_each_id(&self, each: &mut dyn FnMut(Arc<str>) -> Result<()>) -> Result<()> {
        for number in 0_u64.. {
            let _ = self.id_sender.send(());
            each(number.to_string().into())?;
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

/// Waits until no id is reported any more: the store and with it the sender are gone.
fn drain(ids: &Receiver<()>) {
    while ids.recv().is_ok() {}
}

#[tokio::test]
async fn dropped_list_ends_at_the_next_id() {
    for prunes in [false, true] {
        let (id_sender, ids) = channel();
        let store = LogStore::new(Endless { id_sender });
        let mut call = Box::pin(async {
            if prunes {
                store.prune(Duration::ZERO).await.map(drop)
            } else {
                store.list().await.map(drop)
            }
        });
        assert!(futures::poll!(&mut call).is_pending());
        ids.recv().unwrap();
        drop(call);
        drop(store);
        drain(&ids);
    }
}
