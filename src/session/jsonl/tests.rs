//! A disk that fails at the n-th call, for every n.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::message::Message;
use crate::session::{Lease, Record, SessionStore};
use crate::util::sync::lock;

use super::disk::{Disk, System};
use super::file;
use super::store::JsonlStore;

/// The errors of a disk, as Unix numbers them.
const INTERRUPTED: i32 = 4;
const DEFECT: i32 = 5;
const FULL: i32 = 28;

/// The way a call fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// One call fails with this error.
    Once(i32),
    /// A call and every later one fail with this error.
    From(i32),
    /// A write that takes half of the bytes, and every later call but cutting fails.
    Short,
    /// A write that takes half of the bytes and reports so; nothing fails.
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

    /// Returns the number of calls before the failing call; `None` after it.
    fn step(&self) -> Option<usize> {
        let step = |remaining: usize| remaining.checked_sub(1);
        let remaining = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        remaining.ok()
    }

    fn check(&self, is_cut: bool) -> io::Result<()> {
        match (self.step(), self.fault) {
            (Some(1), Fault::Once(code)) | (None | Some(1), Fault::From(code)) => {
                Err(io::Error::from_raw_os_error(code))
            }
            (Some(1), Fault::Torn) => Err(io::ErrorKind::StorageFull.into()),
            (None | Some(1), Fault::Short) if !is_cut => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }
}

impl Disk for Failing {
    fn open(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        self.check(false)?;
        System.open(options, path)
    }

    fn read(&self, file: &mut File, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.check(false)?;
        System.read(file, bytes)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(false)?;
        System.remove(path)
    }

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

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        self.check(true)?;
        System.truncate(file, len)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check(false)?;
        System.sync_folder(folder)
    }
}

/// A disk that records the calls and runs them.
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

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        lock(&self.0).push("cut");
        System.truncate(file, len)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        lock(&self.0).push("sync folder");
        System.sync_folder(folder)
    }
}

#[tokio::test]
async fn write_is_synced_before_it_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Noting::default());
    let store = JsonlStore::on(folder.path(), disk.clone()).unwrap();
    assert_eq!(disk.take(), ["sync folder"]);
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    assert_eq!(disk.take(), ["write", "sync", "sync folder"]);
    write(&store, 2, &lease).await.unwrap();
    assert_eq!(disk.take(), ["write", "sync"]);
    drop(lease);
    let_go(store.lease("s").await.unwrap());
    assert_eq!(disk.take(), [""; 0], "nothing to repair");
    let path = folder.path().join("s.jsonl");
    let torn_log = [&std::fs::read(&path).unwrap()[..], b"torn"].concat();
    std::fs::write(&path, torn_log).unwrap();
    drop(store.lease("s").await.unwrap());
    let calls = disk.take();
    assert_eq!(
        calls,
        ["write", "sync", "sync folder", "cut", "sync"],
        "kept, then cut"
    );

    // The first writer may have been killed before the name was durable.
    let lease = store.lease("s").await.unwrap();
    write(&store, 3, &lease).await.unwrap();
    assert_eq!(disk.take(), ["write", "sync", "sync folder"]);
    drop(lease);
    store.delete("s").await.unwrap();
    assert_eq!(disk.take(), ["sync folder"]);
}

/// Releases the lease before this returns: there is no runtime to do it later.
fn let_go(lease: Lease) {
    std::thread::spawn(move || drop(lease)).join().unwrap();
}

fn said(text: &str) -> Record {
    Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: None,
    }
}

/// A write of two messages: both acknowledged, or neither.
async fn write(store: &JsonlStore, number: usize, lease: &Lease) -> Result<()> {
    let records = ["a", "b"].map(|half| said(&format!("{number}{half}")));
    store.append(lease, records.into()).await
}

async fn texts(store: &JsonlStore, id: &str) -> Vec<String> {
    let session = store.load(id).await.unwrap().unwrap_or_default();
    session
        .state
        .messages
        .iter()
        .map(|message| message.text().into_owned())
        .collect()
}

/// Works on a failing disk, and returns the numbers of the writes that were acknowledged.
async fn work(folder: &Path, disk: Arc<Failing>) -> Result<Vec<usize>> {
    let store = JsonlStore::on(folder, disk)?;
    let mut acknowledged_numbers = Vec::new();
    for round in 0..3 {
        let Ok(lease) = store.lease("s").await else {
            continue;
        };

        for number in 0..3 {
            let number = round * 3 + number;
            if write(&store, number, &lease).await.is_ok() {
                acknowledged_numbers.push(number);
            }

            let stored_texts = texts(&store, "s").await;
            let expected = acknowledged_numbers
                .iter()
                .flat_map(|n| [format!("{n}a"), format!("{n}b")]);
            assert!(
                expected.clone().all(|text| stored_texts.contains(&text)),
                "{acknowledged_numbers:?} {stored_texts:?}"
            );
        }
    }

    Ok(acknowledged_numbers)
}

/// The damaged lines among the records of a log, and after them.
const AMONG: &str = "no record\n";
const BEHIND: &str = "torn";

/// A log of one write with damage in it.
async fn damage(folder: &Path) {
    let store = JsonlStore::open(folder).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 50, &lease).await.unwrap();
    let_go(lease);
    let path = folder.join("s.jsonl");
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, [AMONG, &log, BEHIND].concat()).unwrap();
}

/// The texts that were put aside, without the halves of lines.
fn put_aside(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("s.damaged")).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(line["text"].as_str()?.to_owned())
        })
        .collect()
}

async fn check(fault: Fault, at: usize, is_damaged: bool) -> bool {
    let folder = tempfile::tempdir().unwrap();
    if is_damaged {
        damage(folder.path()).await;
    }

    let disk = Arc::new(Failing::new(fault, at));
    let acknowledged_numbers = work(folder.path(), disk.clone()).await.unwrap_or_default();
    let store = JsonlStore::open(folder.path()).unwrap();
    drop(store.lease("s").await.unwrap());
    if is_damaged {
        let damaged_parts = put_aside(folder.path());
        for part in [AMONG, BEHIND] {
            let count = damaged_parts.iter().filter(|text| *text == part).count();
            assert_eq!(count, 1, "{fault:?} at {at}: {damaged_parts:?}");
        }
    }

    let stored_texts = texts(&store, "s").await;
    let mut numbers = Vec::new();
    for pair in stored_texts.chunks(2) {
        let number = pair[0].strip_suffix('a').unwrap();
        assert_eq!(
            pair.get(1),
            Some(&format!("{number}b")),
            "{fault:?} at {at}: {stored_texts:?}"
        );
        numbers.push(number.parse::<usize>().unwrap());
    }

    if is_damaged {
        assert_eq!(numbers.remove(0), 50, "{fault:?} at {at}: {stored_texts:?}");
    }

    assert!(numbers.is_sorted(), "{fault:?} at {at}: {stored_texts:?}");
    let lost_number = acknowledged_numbers
        .iter()
        .find(|number| !numbers.contains(number));
    assert_eq!(lost_number, None, "{fault:?} at {at}: {stored_texts:?}");
    let lease = store.lease("s").await.unwrap();
    write(&store, 100, &lease).await.unwrap();
    let now = texts(&store, "s").await;
    assert_eq!(now.len(), stored_texts.len() + 2);
    disk.is_over()
}

async fn check_at_any_call(faults: &[Fault]) {
    for &fault in faults {
        for is_damaged in [false, true] {
            let mut call_number = 1;
            while !check(fault, call_number, is_damaged).await {
                call_number += 1;
                assert!(call_number < 200, "{fault:?} never ends");
            }

            assert!(
                call_number > 10,
                "{fault:?} came to {call_number} calls only"
            );
        }
    }
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_at_any_call_that_fails_once() {
    check_at_any_call(&[FULL, DEFECT, INTERRUPTED].map(Fault::Once)).await;
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_if_all_calls_fail_from_any_on() {
    check_at_any_call(&[FULL, DEFECT].map(Fault::From)).await;
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_at_any_incomplete_call() {
    check_at_any_call(&[Fault::Short, Fault::Partly, Fault::Torn]).await;
}

#[tokio::test]
async fn failed_removal_is_completed_by_the_next() {
    let mut call_number = 1;
    loop {
        let folder = tempfile::tempdir().unwrap();
        damage(folder.path()).await;
        let store = JsonlStore::open(folder.path()).unwrap();
        let_go(store.lease("s").await.unwrap());
        let disk = Arc::new(Failing::new(Fault::Once(DEFECT), call_number));
        let removed = match JsonlStore::on(folder.path(), disk.clone()) {
            Ok(store) => store.delete("s").await,
            Err(error) => Err(error),
        };

        let is_over = disk.is_over();
        assert_eq!(removed.is_err(), !is_over, "{call_number}");
        let store = JsonlStore::open(folder.path()).unwrap();
        store.delete("s").await.unwrap();
        assert!(store.load("s").await.unwrap().is_none());
        let file_count = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(file_count, 0, "{call_number}");
        if is_over {
            break;
        }

        call_number += 1;
    }

    assert!(call_number > 4, "{call_number}");
}

#[tokio::test]
async fn partial_line_in_the_damaged_file_loses_no_other() {
    let folder = tempfile::tempdir().unwrap();
    damage(folder.path()).await;
    let half_line = r#"{"offset":3,"what":"a cra"#;
    std::fs::write(folder.path().join("s.damaged"), half_line).unwrap();
    let store = JsonlStore::open(folder.path()).unwrap();
    drop(store.lease("s").await.unwrap());
    assert_eq!(put_aside(folder.path()), [AMONG, BEHIND]);
}

/// A disk on which the log is written from outside while its damaged parts are put aside.
struct Meddling(std::path::PathBuf);

impl Disk for Meddling {
    fn sync(&self, file: &File) -> io::Result<()> {
        let mut log = OpenOptions::new().append(true).open(&self.0)?;
        io::Write::write_all(&mut log, b" by somebody else")?;
        System.sync(file)
    }
}

#[tokio::test]
async fn tail_written_by_another_writer_is_not_truncated() {
    let folder = tempfile::tempdir().unwrap();
    damage(folder.path()).await;
    let path = folder.path().join("s.jsonl");
    let store = JsonlStore::on(folder.path(), Arc::new(Meddling(path.clone()))).unwrap();
    let lease_error = store.lease("s").await.unwrap_err();
    assert_eq!(lease_error.kind(), crate::error::ErrorKind::Conflict);
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(log.ends_with("torn by somebody else"), "{log}");
}

#[tokio::test]
async fn full_disk_is_an_error_and_the_next_write_may_succeed() {
    let folder = tempfile::tempdir().unwrap();
    // Opening syncs the parent folder, leasing is open and read; the first write is write, sync,
    // sync of the folder.
    let disk = Arc::new(Failing::new(Fault::Once(FULL), 7));
    let store = JsonlStore::on(folder.path(), disk).unwrap();
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
async fn partial_write_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::new(Fault::Torn, 8));
    let store = JsonlStore::on(folder.path(), disk).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let old_bytes = std::fs::read(folder.path().join("s.jsonl")).unwrap();
    write(&store, 2, &lease).await.unwrap_err();
    let new_bytes = std::fs::read(folder.path().join("s.jsonl")).unwrap();
    assert_eq!(old_bytes, new_bytes);
    write(&store, 3, &lease).await.unwrap();
    drop(lease);
    let _lease = store.lease("s").await.unwrap();
    let session = store.load("s").await.unwrap().unwrap();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    assert_eq!(texts(&store, "s").await, ["1a", "1b", "3a", "3b"]);
}

#[tokio::test]
async fn log_is_reopened_before_writes_after_a_failed_sync() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::new(Fault::Once(DEFECT), 8));
    let store = JsonlStore::on(folder.path(), disk).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    write(&store, 2, &lease).await.unwrap_err();
    let error = write(&store, 3, &lease).await.unwrap_err();
    assert!(error.text().contains("run the session again"), "{error}");
    drop(lease);
    let lease = store.lease("s").await.unwrap();
    write(&store, 4, &lease).await.unwrap();
    assert_eq!(texts(&store, "s").await, ["1a", "1b", "4a", "4b"]);
}

#[tokio::test]
async fn damage_that_cannot_be_set_aside_is_kept_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(folder.path()).unwrap();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let_go(lease);
    let path = folder.path().join("s.jsonl");
    let content = [&std::fs::read(&path).unwrap()[..], b"torn"].concat();
    std::fs::write(&path, &content).unwrap();

    // Open and read the log twice, then open the sidecar; write, sync, sync the folder, and, with
    // nothing left to write, cut the tail.
    for at in [2, 3, 4, 5, 6, 7, 8, 9, 9] {
        let disk = Arc::new(Failing::new(Fault::Once(FULL), at));
        let store = JsonlStore::on(folder.path(), disk).unwrap();
        store.lease("s").await.unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), content, "{at}");
    }

    drop(store.lease("s").await.unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), content[..content.len() - 4]);
}

#[tokio::test]
async fn file_changed_since_it_was_examined_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(folder.path()).unwrap();
    let lease = store.lease("a").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let_go(lease);
    let path = folder.path().join("a.jsonl");
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(!file::remove(&System, &path, "a", Some(size - 1)).unwrap());
    assert_eq!(texts(&store, "a").await, ["1a", "1b"]);
    assert!(file::remove(&System, &path, "a", Some(size)).unwrap());
    assert!(!path.exists());
}
