//! Tests of opening a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::{Record, SessionStore};
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::log_store::LogStore;
use super::memory_log::{Gate, LogStep, MemoryLog, Writer};
use super::open_log::OpenLog;
use super::shared::LogShared;
use super::{Log, LogTail, Repair};

const LINE: &[u8] = b"junk\n";
const LINES: usize = 1_000;

/// A damaged log whose opening waits for the test.
struct Test {
    log: MemoryLog,
    opening: Receiver<std::thread::ThreadId>,
    open: Sender<()>,
    closed: Receiver<()>,
    is_repaired: Arc<AtomicBool>,
    /// Cancelled when half of the log has been read piece by piece.
    cancellation: Cancellation,
    lines_read: Arc<AtomicUsize>,
}

fn damaged() -> Test {
    let (gate, open, opening) = Gate::new();
    let (closes, closed) = channel();
    let is_repaired = Arc::<AtomicBool>::default();
    let lines_read = Arc::<AtomicUsize>::default();
    let cancellation = Cancellation::default();
    let (repaired, lines, cancelled) = (
        is_repaired.clone(),
        lines_read.clone(),
        cancellation.clone(),
    );
    let log = MemoryLog {
        piece_len: LINE.len(),
        ..MemoryLog::of(&LINE.repeat(LINES))
    };

    let log = log.on_step(move |step| {
        match step {
            LogStep::Open => gate.pass(),
            LogStep::Close => drop(closes.send(())),
            LogStep::Repair => repaired.store(true, Ordering::Release),
            LogStep::Piece(_) if lines.fetch_add(1, Ordering::Relaxed) + 1 == LINES / 2 => {
                cancelled.cancel();
            }
            _ => {}
        }
        Ok(())
    });

    Test {
        log,
        opening,
        open,
        closed,
        is_repaired,
        cancellation,
        lines_read,
    }
}

#[tokio::test]
async fn lease_dropped_while_opening_releases_the_session_unread() {
    let test = damaged();
    let store = LogStore::new(test.log);
    let mut leasing = Box::pin(store.lease("a"));
    assert!(futures::poll!(&mut leasing).is_pending());
    test.opening.recv().unwrap();
    drop(leasing);
    test.open.send(()).unwrap();
    test.closed.recv().unwrap();
    assert!(!test.is_repaired.load(Ordering::Acquire));
}

#[test]
fn reading_ends_at_the_line_at_which_it_is_cancelled() {
    let test = damaged();
    test.open.send(()).unwrap();
    let mut shared = LogShared::new(test.log);
    shared.end_len = LINE.len() as u64;
    let error = OpenLog::new(&shared, "a", &test.cancellation).err();
    assert_eq!(error.unwrap().kind(), ErrorKind::SessionBusy);
    assert_eq!(test.lines_read.load(Ordering::Relaxed), LINES / 2);
    test.closed.recv().unwrap();
    assert!(!test.is_repaired.load(Ordering::Acquire));
}

/// A log of which some readings have a flipped bit. `fault` returns the index of its byte for the
/// number of a reading.
struct Misread<F> {
    log: MemoryLog,
    count: AtomicUsize,
    fault: F,
}

impl<F: Fn(usize) -> Option<usize>> Misread<F> {
    fn misread(&self, mut tail: LogTail) -> LogTail {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let index = (self.fault)(number);
        if let Some(byte) = index.and_then(|index| tail.bytes.get_mut(index)) {
            *byte ^= 1;
        }
        tail
    }
}

impl<F: Fn(usize) -> Option<usize> + Send + Sync + 'static> Log for Misread<F> {
    type Writer = Writer;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        self.log.ids()
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        let tail = self.log.tail(id, len)?;
        Ok(tail.map(|tail| self.misread(tail)))
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer, LogTail)> {
        let (writer, tail) = self.log.open(id, len)?;
        Ok((writer, self.misread(tail)))
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
        self.log.append(writer, bytes)
    }

    fn repair(&self, writer: &mut Writer, repair: &Repair<'_>) -> Result<Option<String>> {
        self.log.repair(writer, repair)
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        self.log.remove(id, expected_size)
    }
}

/// Appends messages to a session, and closes its log.
async fn write<L: Log>(store: &LogStore<L>, texts: &[&str]) -> Result<()> {
    let lease = store.lease("a").await?;
    for text in texts {
        let record = Record::Message {
            message: Message::human(*text).into(),
            input_id: None,
        };
        store.append(&lease, vec![record]).await?;
    }

    // Outside the runtime, the log is closed at once.
    std::thread::spawn(move || drop(lease)).join().unwrap();
    Ok(())
}

/// Creates a log of three messages. Returns it with the indexes of the second and the third.
async fn log_of_three() -> (MemoryLog, [usize; 2]) {
    let log = MemoryLog::default();
    let store = LogStore::new(log.clone());
    write(&store, &["one", "two", "three"]).await.unwrap();
    let bytes = log.bytes();
    let index = |text: &str| memchr::memmem::find(&bytes, text.as_bytes()).unwrap();
    let indexes = [index("two"), index("three")];
    (log, indexes)
}

/// Appends a message to a log of which some readings have a flipped bit, and whose last `end_len`
/// bytes are read first.
async fn write_misread<F>(log: &MemoryLog, end_len: u64, fault: F) -> Result<()>
where
    F: Fn(usize) -> Option<usize> + Send + Sync + 'static,
{
    let misread = Misread {
        log: log.clone(),
        count: AtomicUsize::new(0),
        fault,
    };
    write(&LogStore::with_end_len(misread, end_len), &["four"]).await
}

async fn texts(log: &MemoryLog) -> Vec<String> {
    let store = LogStore::new(log.clone());
    let session = store.load("a").await.unwrap().unwrap();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let messages = session.state.messages.iter();
    messages
        .map(|message| message.text().into_owned())
        .collect()
}

#[tokio::test]
async fn bit_that_flips_in_one_reading_sets_nothing_aside() {
    for end_len in [16, 64 * 1024] {
        for reading in 0..4 {
            let (log, [second, _]) = log_of_three().await;
            let fault = move |number| (number == reading).then_some(second);
            write_misread(&log, end_len, fault).await.unwrap();
            let expected = ["one", "two", "three", "four"];
            assert_eq!(texts(&log).await, expected, "{end_len}, {reading}");
            assert!(lock(&log.aside).is_empty());
        }
    }
}

#[tokio::test]
async fn bit_that_flips_in_one_reading_of_a_damaged_log_sets_no_more_aside() {
    for reading in 0..3 {
        let (log, [second, third]) = log_of_three().await;
        lock(&log.logs).get_mut("a").unwrap()[second] ^= 1;
        let fault = move |number| (number == reading).then_some(third);
        write_misread(&log, 64 * 1024, fault).await.unwrap();
        assert_eq!(texts(&log).await, ["one", "three", "four"], "{reading}");
        assert_eq!(lock(&log.aside).len(), 1);
    }
}

#[tokio::test]
async fn log_that_is_read_differently_each_time_is_not_opened() {
    let (log, indexes) = log_of_three().await;
    let bytes = log.bytes();
    let fault = move |number| Some(indexes[number % 2]);
    let outcome = write_misread(&log, 64 * 1024, fault).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(log.bytes(), bytes);
    assert!(lock(&log.aside).is_empty());
}

#[tokio::test]
async fn damaged_log_that_another_program_changes_meanwhile_is_a_conflict() {
    let log = MemoryLog::of(LINE);
    let logs = log.logs.clone();
    let log = log.on_step(move |step| {
        if let LogStep::Tail(_) = step
            && let Some(bytes) = lock(&logs).get_mut("a")
        {
            bytes.extend_from_slice(LINE);
        }
        Ok(())
    });
    let aside = log.aside.clone();
    let error = LogStore::new(log).lease("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(lock(&aside).is_empty());
}
