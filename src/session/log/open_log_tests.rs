//! Tests of opening a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::error::ErrorKind;
use crate::session::SessionStore;
use crate::util::Cancellation;

use super::log_store::LogStore;
use super::memory_log::{Gate, LogStep, MemoryLog};
use super::open_log::OpenLog;
use super::shared::LogShared;

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
