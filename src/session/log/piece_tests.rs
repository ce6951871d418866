//! Logs that are read piece by piece.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::{AgentState, Record, StoredSession, busy};
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::fold::LogFold;
use super::line::{self, Entry, LogSummary};
use super::log::{Each, Log, Tail};
use super::log_store::LogStore;
use super::scan::{Scan, scan, scan_stored};

/// A log that is read in pieces of this length.
struct Pieces(Vec<u8>, usize);

/// A log without an end, of which reading reports how it ended.
struct Endless(Mutex<Sender<ErrorKind>>);

macro_rules! unwritten {
    () => {
        type Writer = ();

        fn ids(&self) -> Result<Vec<Arc<str>>> {
            Ok(Vec::new())
        }

        fn read(&self, _: &str) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn open(&self, id: &str, _: u64) -> Result<((), Tail)> {
            Err(busy(id))
        }

        fn heal(&self, (): &mut (), _: Option<&[u8]>, _: &mut Scan) -> Result<()> {
            Ok(())
        }

        fn append(&self, (): &mut (), _: &[u8]) -> Result<u64> {
            Ok(0)
        }

        fn remove(&self, _: &str, _: Option<u64>) -> Result<bool> {
            Ok(false)
        }
    };
}

impl Log for Pieces {
    unwritten!();

    fn tail(&self, _: &str, _: u64) -> Result<Option<Tail>> {
        Ok(None)
    }

    fn stream(&self, _: &str, each: Each<'_>) -> Result<bool> {
        self.0.chunks(self.1).try_for_each(each)?;
        Ok(true)
    }
}

impl Log for Endless {
    unwritten!();

    fn tail(&self, _: &str, _: u64) -> Result<Option<Tail>> {
        Ok(Some((b"junk\n".to_vec(), u64::MAX)))
    }

    fn stream(&self, _: &str, each: Each<'_>) -> Result<bool> {
        loop {
            if let Err(error) = each(b"junk\n") {
                let _ = lock(&self.0).send(error.kind());
                return Err(error);
            }
        }
    }
}

/// All that is known after a scan.
fn outcome(scan: &Scan) -> String {
    let session = scan.fold.session();
    let state = serde_json::to_string(&session.state).unwrap();
    let reported: Vec<_> = scan.kept().collect();
    let (fold, end, is_open) = (&scan.fold, scan.end, scan.has_open_line);
    format!(
        "{state} {:?} {:?} {:?} {reported:?} {end} {is_open} {} {} {:?}",
        session.started, scan.damage, scan.tail, fold.seq, fold.at, scan.len,
    )
}

/// A log of some writes, the last of them a snapshot.
fn log() -> Vec<u8> {
    let mut bytes = Vec::new();
    let info = |messages| LogSummary {
        messages,
        created: 1,
        title: None,
        user_id: None,
        cwd: None,
        snapshot: None,
    };

    for number in 0..6_u64 {
        let message = Message::human(format!("{number} é")).into();
        let record = Record::Message {
            message,
            input_id: None,
        };

        let entries = vec![Entry::Record(record); 1 + number as usize % 2];
        let seq = 1 + number + number / 2;
        let messages = (seq + number % 2) as usize;
        bytes.extend(line::write(&entries, seq, 1, 7, Some(&info(messages))).unwrap());
    }

    let session = Box::new(StoredSession::new(AgentState::new("a")));
    let snapshot = [Entry::Snapshot(session)];
    bytes.extend(line::write(&snapshot, 10, 1, 7, None).unwrap());
    bytes
}

#[test]
fn pieces_of_any_length_give_what_the_whole_gives() {
    let sound_log = log();
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..3_000 {
        let mut bytes = sound_log.clone();
        for _ in 0..rng.usize(..4) {
            let at = rng.usize(..bytes.len());
            match rng.u8(..6) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] ^= 1 << rng.u8(..8),
                2 => drop(bytes.splice(at..at, b"\n \r\n\n".iter().copied())),
                3 => drop(bytes.splice(at..at, *b"  ")),
                4 => bytes.extend_from_slice(b"\n \n"),
                _ => {
                    let end = bytes.len().min(at + rng.usize(..300));
                    let part = bytes[at..end].to_vec();
                    let to = rng.usize(..bytes.len());
                    bytes.splice(to..to, part);
                }
            }
        }

        let expected = scan("a", &bytes).map(|scan| outcome(&scan));
        let expected = expected.map_err(|error| error.to_string());
        let log = Pieces(bytes, rng.usize(1..200));
        let pieces = scan_stored(&log, &Cancellation::default(), LogFold::new("a"), "a");
        let pieces = pieces.map(|scan| outcome(&scan.unwrap()));
        let pieces = pieces.map_err(|error| error.to_string());
        let bytes = String::from_utf8_lossy(&log.0);
        assert_eq!(pieces, expected, "{round}: {bytes}");
    }
}

#[tokio::test]
async fn reading_ends_when_nobody_waits_for_it() {
    let (sender, ended): (_, Receiver<ErrorKind>) = channel();
    let store = LogStore::new(Endless(Mutex::new(sender)));
    let mut loading = Box::pin(store.load("a"));
    assert!(futures::poll!(&mut loading).is_pending());
    drop(loading);
    assert_eq!(ended.recv(), Ok(ErrorKind::SessionBusy));
    let mut forking = Box::pin(store.fork_at("a", "b", 1));
    assert!(futures::poll!(&mut forking).is_pending());
    drop(forking);
    assert_eq!(ended.recv(), Ok(ErrorKind::SessionBusy));
}
