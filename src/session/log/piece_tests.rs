//! Logs that are read piece by piece.

use std::sync::mpsc::channel;

use crate::error::ErrorKind;
use crate::message::Message;
use crate::session::{AgentState, Record, SessionStore, StoredSession};
use crate::util::Cancellation;

use super::fold::LogFold;
use super::line::{LogEntry, MAX_LINE};
use super::line_writer::{self, RecordStamp};
use super::log::{Each, Log};
use super::log_store::LogStore;
use super::memory_log::{LogStep, MemoryLog};
use super::repair::Content;
use super::scan::{Scan, scan, scan_stored};
use super::summary::LogSummary;

/// Creates a log that is read in pieces of this length.
fn in_pieces(bytes: &[u8], piece_len: usize) -> MemoryLog {
    MemoryLog {
        piece_len,
        ..MemoryLog::of(bytes)
    }
}

/// Returns the text of everything that a scan returns.
fn outcome(scan: &Scan) -> String {
    let session = scan.fold.session();
    let state = serde_json::to_string(&session.state).unwrap();
    let reported: Vec<_> = scan.reported().collect();
    let (fold, end, is_open) = (&scan.fold, scan.end, scan.has_open_line);
    format!(
        "{state} {:?} {:?} {:?} {reported:?} {end} {is_open} {} {}",
        session.started, scan.damage, scan.tail, fold.seq, fold.updated,
    )
}

/// Returns the parts that a repair sets aside.
fn parts(scan: &Scan, content: Content<'_>) -> Vec<(u64, Vec<u8>)> {
    let mut parts = Vec::new();
    let repair = scan.repair(content);
    let outcome = repair.for_each_part(|damage, part| {
        parts.push((damage.offset, part.to_vec()));
        Ok(())
    });
    outcome.unwrap();
    assert_eq!(parts.is_empty(), !repair.has_parts());
    parts
}

fn stamp(seq: u64) -> RecordStamp {
    RecordStamp {
        seq,
        token: 1,
        at: 7,
    }
}

/// Returns a log of some writes, the last of them a snapshot.
fn log() -> Vec<u8> {
    let mut bytes = Vec::new();
    let info = |messages| LogSummary {
        messages,
        pending: 0,
        created: 1,
        title: None,
        user_id: None,
        cwd: None,
        parent: None,
        snapshot: None,
    };

    for number in 0..6_u64 {
        let message = Message::human(format!("{number} é")).into();
        let record = Record::Message {
            message,
            input_id: None,
        };

        let entries = vec![LogEntry::Record(record); 1 + number as usize % 2];
        let seq = 1 + number + number / 2;
        let messages = (seq + number % 2) as usize;
        let info = info(messages);
        line_writer::write(&mut bytes, &entries, stamp(seq), Some(&info), MAX_LINE).unwrap();
    }

    let session = Box::new(StoredSession::new(AgentState::new("a")));
    let snapshot = [LogEntry::Snapshot(session)];
    line_writer::write(&mut bytes, &snapshot, stamp(10), None, MAX_LINE).unwrap();
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

        let log = in_pieces(&bytes, rng.usize(1..200));
        let whole_scan = scan("a", &bytes);
        let pieces = scan_stored(&log, &Cancellation::default(), LogFold::new("a"), "a");
        let text = String::from_utf8_lossy(&bytes);
        if let (Ok(whole_scan), Ok(Some(pieces))) = (&whole_scan, &pieces) {
            let read = |each: Each<'_>| log.read("a", each);
            let parts = parts(pieces, Content::Stored(&read));
            assert_eq!(
                parts,
                self::parts(whole_scan, Content::Whole(&bytes)),
                "{round}: {text}"
            );
        }

        let expected = whole_scan
            .map(|scan| outcome(&scan))
            .map_err(|error| error.to_string());
        let pieces = pieces
            .map(|scan| outcome(&scan.unwrap()))
            .map_err(|error| error.to_string());
        assert_eq!(pieces, expected, "{round}: {text}");
    }
}

#[tokio::test]
async fn dropped_load_or_fork_ends_its_reading() {
    let (sender, ended) = channel();
    let log = MemoryLog {
        is_endless: true,
        piece_len: 5,
        ..MemoryLog::of(b"junk\n")
    };

    let log = log.on_step(move |step| {
        if let LogStep::End(Err(error)) = step {
            let _ = sender.send(error.kind());
        }
        Ok(())
    });

    let store = LogStore::new(log);
    store.set_max_session_bytes(u64::MAX);
    let mut loading = Box::pin(store.load("a"));
    assert!(futures::poll!(&mut loading).is_pending());
    drop(loading);
    assert_eq!(ended.recv(), Ok(ErrorKind::SessionBusy));
    let mut forking = Box::pin(store.fork_at("a", "b", 1));
    assert!(futures::poll!(&mut forking).is_pending());
    drop(forking);
    assert_eq!(ended.recv(), Ok(ErrorKind::SessionBusy));
}
