//! A disk that fails at the n-th call, for every n.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::message::Message;
use crate::state::{Record, SessionStore};
use crate::util::sync::lock;

use super::disk::{Disk, System};
use super::file;
use super::store::JsonlStore;

/// How a call fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// With this error, once.
    Once(io::ErrorKind),
    /// With this error, and every later call as well.
    From(io::ErrorKind),
    /// A write that takes half of the bytes, and every later call but cutting fails.
    Short,
    /// A write that takes half of the bytes and says so; nothing fails.
    Partly,
    /// The call before takes half of the bytes if it is a write; then the disk is full, once.
    Torn,
}

struct Failing {
    fault: Fault,
    left: AtomicUsize,
}

impl Failing {
    fn new(fault: Fault, at: usize) -> Self {
        Self {
            fault,
            left: AtomicUsize::new(at),
        }
    }

    /// How many calls are left before the one that fails; `None` behind it.
    fn step(&self) -> Option<usize> {
        let step = |left: usize| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        left.ok()
    }

    fn check(&self, is_cut: bool) -> io::Result<()> {
        match (self.step(), self.fault) {
            (Some(1), Fault::Once(kind)) => Err(kind.into()),
            (Some(1), Fault::Torn) => Err(io::ErrorKind::StorageFull.into()),
            (None | Some(1), Fault::From(kind)) => Err(kind.into()),
            (None | Some(1), Fault::Short) if !is_cut => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }
}

impl Disk for Failing {
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        let is_half = match self.left.load(Ordering::Relaxed) {
            1 => matches!(self.fault, Fault::Short | Fault::Partly),
            2 => matches!(self.fault, Fault::Torn),
            _ => false,
        };
        if is_half {
            self.step();
            return System.write(file, &bytes[..bytes.len().div_ceil(2)]);
        }
        self.check(false)?;
        System.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.check(false)?;
        System.sync(file)
    }

    fn cut(&self, file: &File, len: u64) -> io::Result<()> {
        self.check(true)?;
        System.cut(file, len)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check(false)?;
        System.sync_folder(folder)
    }
}

/// Notes the calls and does them.
#[derive(Default)]
struct Noting(Mutex<Vec<&'static str>>);

impl Noting {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Disk for Noting {
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).push("write");
        System.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        lock(&self.0).push("sync");
        System.sync(file)
    }

    fn cut(&self, file: &File, len: u64) -> io::Result<()> {
        lock(&self.0).push("cut");
        System.cut(file, len)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        lock(&self.0).push("sync folder");
        System.sync_folder(folder)
    }
}

#[tokio::test]
async fn a_write_is_acknowledged_once_it_is_durable() {
    let held = tempfile::tempdir().unwrap();
    let disk = Arc::new(Noting::default());
    let store = JsonlStore::on(held.path(), disk.clone()).unwrap();
    assert_eq!(disk.take(), ["sync folder"]);
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    assert_eq!(disk.take(), ["write", "sync", "sync folder"]);
    write(&store, 2, &lease).await.unwrap();
    assert_eq!(disk.take(), ["write", "sync"]);
    drop(lease);
    drop(store.lease("s").await.unwrap());
    assert_eq!(disk.take(), [""; 0], "nothing to repair");
    let path = held.path().join("s.jsonl");
    let torn = [&std::fs::read(&path).unwrap()[..], b"torn"].concat();
    std::fs::write(&path, torn).unwrap();
    drop(store.lease("s").await.unwrap());
    let calls = disk.take();
    assert_eq!(
        calls,
        ["sync", "sync folder", "cut", "sync"],
        "kept, then cut"
    );
    store.delete("s").await.unwrap();
    assert_eq!(disk.take(), ["sync folder"]);
}

fn said(text: &str) -> Record {
    Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: None,
    }
}

/// A write of two messages: both acknowledged, or neither.
async fn write(store: &JsonlStore, number: usize, lease: &crate::state::Lease) -> Result<()> {
    let records = ["a", "b"].map(|half| said(&format!("{number}{half}")));
    store.append(lease, records.into()).await
}

async fn texts(store: &JsonlStore, id: &str) -> Vec<String> {
    let found = store.load(id).await.unwrap().unwrap_or_default();
    let messages = found.state.messages.iter();
    messages
        .map(|message| message.text().into_owned())
        .collect()
}

/// Works on a failing disk, and returns the numbers of the writes that were acknowledged.
async fn work(folder: &Path, disk: Arc<Failing>) -> Result<Vec<usize>> {
    let store = JsonlStore::on(folder, disk)?;
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let Ok(lease) = store.lease("s").await else {
            continue;
        };
        for number in 0..3 {
            let number = round * 3 + number;
            if write(&store, number, &lease).await.is_ok() {
                acknowledged.push(number);
            }
            let seen = texts(&store, "s").await;
            let expected = acknowledged
                .iter()
                .flat_map(|n| [format!("{n}a"), format!("{n}b")]);
            assert!(
                expected.clone().all(|text| seen.contains(&text)),
                "{acknowledged:?} {seen:?}"
            );
        }
    }
    Ok(acknowledged)
}

async fn check(fault: Fault, at: usize) -> bool {
    let held = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::new(fault, at));
    let acknowledged = work(held.path(), disk.clone()).await.unwrap_or_default();
    let store = JsonlStore::open(held.path()).unwrap();
    drop(store.lease("s").await.unwrap());
    let found = texts(&store, "s").await;
    let mut numbers = Vec::new();
    for pair in found.chunks(2) {
        let number = pair[0].strip_suffix('a').unwrap();
        assert_eq!(
            pair.get(1),
            Some(&format!("{number}b")),
            "{fault:?} at {at}: {found:?}"
        );
        numbers.push(number.parse::<usize>().unwrap());
    }
    assert!(numbers.is_sorted(), "{fault:?} at {at}: {found:?}");
    let lost = acknowledged.iter().find(|number| !numbers.contains(number));
    assert_eq!(lost, None, "{fault:?} at {at}: {found:?}");
    // The disk works again, and so does the session.
    let lease = store.lease("s").await.unwrap();
    write(&store, 100, &lease).await.unwrap();
    let now = texts(&store, "s").await;
    assert_eq!(now.len(), found.len() + 2);
    disk.is_over()
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_whichever_call_fails() {
    for fault in [
        Fault::Once(io::ErrorKind::StorageFull),
        Fault::Once(io::ErrorKind::Other),
        Fault::Once(io::ErrorKind::Interrupted),
        Fault::From(io::ErrorKind::StorageFull),
        Fault::Short,
        Fault::Partly,
        Fault::Torn,
    ] {
        let mut at = 1;
        while !check(fault, at).await {
            at += 1;
            assert!(at < 200, "{fault:?} never ends");
        }
        assert!(at > 10, "{fault:?} came to {at} calls only");
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_the_next_write_may_fit() {
    let held = tempfile::tempdir().unwrap();
    // Opening syncs the parent folder; the first write is write, sync, sync of the folder.
    let disk = Arc::new(Failing::new(Fault::Once(io::ErrorKind::StorageFull), 5));
    let store = JsonlStore::on(held.path(), disk).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let error = write(&store, 2, &lease).await.unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Io);
    assert!(error.text().contains("s.jsonl"), "{error}");
    assert_eq!(texts(&store, "s").await, ["1a", "1b"]);
    write(&store, 3, &lease).await.unwrap();
    assert_eq!(texts(&store, "s").await, ["1a", "1b", "3a", "3b"]);
}

#[tokio::test]
async fn half_a_write_is_taken_back() {
    let held = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::new(Fault::Torn, 6));
    let store = JsonlStore::on(held.path(), disk).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let before = std::fs::read(held.path().join("s.jsonl")).unwrap();
    write(&store, 2, &lease).await.unwrap_err();
    let after = std::fs::read(held.path().join("s.jsonl")).unwrap();
    assert_eq!(before, after);
    write(&store, 3, &lease).await.unwrap();
    drop(lease);
    let _lease = store.lease("s").await.unwrap();
    let found = store.load("s").await.unwrap().unwrap();
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    assert_eq!(texts(&store, "s").await, ["1a", "1b", "3a", "3b"]);
}

#[tokio::test]
async fn a_disk_that_did_not_sync_is_not_written_before_it_is_read_again() {
    let held = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::new(Fault::Once(io::ErrorKind::Other), 6));
    let store = JsonlStore::on(held.path(), disk).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    write(&store, 2, &lease).await.unwrap_err();
    let refused = write(&store, 3, &lease).await.unwrap_err();
    assert!(
        refused.text().contains("run the session again"),
        "{refused}"
    );
    drop(lease);
    let lease = store.lease("s").await.unwrap();
    write(&store, 4, &lease).await.unwrap();
    assert_eq!(texts(&store, "s").await, ["1a", "1b", "4a", "4b"]);
}

#[tokio::test]
async fn damage_that_cannot_be_put_aside_is_left_where_it_is() {
    let held = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(held.path()).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    drop(lease);
    let path = held.path().join("s.jsonl");
    let content = [&std::fs::read(&path).unwrap()[..], b"torn"].concat();
    std::fs::write(&path, &content).unwrap();
    // The first call behind opening is the sync of the sidecar, the third cuts the tail.
    for at in 2..5 {
        let disk = Arc::new(Failing::new(Fault::Once(io::ErrorKind::StorageFull), at));
        let store = JsonlStore::on(held.path(), disk).unwrap();
        store.lease("s").await.unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), content, "{at}");
    }
    drop(store.lease("s").await.unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), content[..content.len() - 4]);
}

#[tokio::test]
async fn a_file_that_was_written_since_it_was_looked_at_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(folder.path()).unwrap();
    let lease = store.lease("a").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    drop(lease);
    let path = folder.path().join("a.jsonl");
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(!file::remove(&path, "a", Some(size - 1)).unwrap());
    assert_eq!(texts(&store, "a").await, ["1a", "1b"]);
    assert!(file::remove(&path, "a", Some(size)).unwrap());
    assert!(!path.exists());
}
