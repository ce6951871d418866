//! Limits of reading a log, and its cancellation.

use super::*;
use crate::message::Message;
use crate::session::log::line_writer::{self, RecordStamp};
use crate::session::log::memory_limit::MemoryLimit;
use crate::session::{AgentState, Record, StoredSession};

fn message_entry() -> LogEntry {
    LogEntry::Record(Record::Message {
        message: Message::human("x").into(),
        input_id: None,
    })
}

#[test]
fn cancelled_scan_does_not_apply_a_long_write() {
    for hole in [None, Some(0), Some(2_500), Some(5_000)] {
        let cancellation = Cancellation::default();
        let mut scanner = Scanner::new(&cancellation, LogFold::new("a"), "a");
        scanner.open = vec![message_entry(); 5_000];
        scanner.hole = hole;
        cancellation.cancel();
        let error = scanner.commit(1, Some(5_000)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionBusy);
        let messages = &scanner.scan.fold.session().state.messages;
        assert!(messages.is_empty(), "{hole:?}: {}", messages.len());
    }
}

/// Returns a fold with the smallest limit, and that limit in bytes.
fn limited_fold() -> (LogFold, usize) {
    let limit = MemoryLimit::new("a", None, 0, "max");
    let max_bytes = limit.bytes();
    (LogFold::new("a").limited(limit), max_bytes)
}

#[test]
fn damaged_parts_of_a_log_take_at_most_its_memory() {
    let cancellation = Cancellation::default();
    let (fold, max_bytes) = limited_fold();
    let mut scanner = Scanner::new(&cancellation, fold, "a");
    let max_count = max_bytes / DAMAGE_REPORT;
    scanner.push(&b"x\n\n".repeat(max_count)).unwrap();
    assert_eq!(scanner.scan.damage.len(), max_count);
    let error = scanner.push(b"x\n\n").unwrap_err();
    assert!(error.text().contains("bytes of memory"), "{error}");
}

#[test]
fn records_of_an_open_write_take_at_most_the_memory_of_the_log() {
    let answers = Record::Answered {
        ids: vec!["1".into(); 1_000],
    };
    let truncated = Record::Truncated { messages: 0 };
    for (record, count) in [(answers, 20), (truncated, 50_000)] {
        let cancellation = Cancellation::default();
        let (fold, max_bytes) = limited_fold();
        let mut scanner = Scanner::new(&cancellation, fold, "a");
        scanner.open_bytes = max_bytes - 1024 * 1024;
        let mut line = Vec::new();
        let mut push = |seq| {
            let stamp = RecordStamp {
                seq,
                token: 1,
                at: 1,
            };
            line.clear();
            let entry = [LogEntry::Record(record.clone())];
            line_writer::write(&mut line, &entry, stamp, None, MAX_LINE)?;
            scanner.push(&line)
        };
        let error = (1..=count).find_map(|seq| push(seq).err()).unwrap();
        assert!(error.text().contains("bytes of memory"), "{error}");
    }
}

/// Returns the outcome of reading a line in short pieces, where the session leaves room for 1 MiB.
fn read_in_pieces(entry: LogEntry) -> Result<Scan> {
    let cancellation = Cancellation::default();
    let (fold, max_bytes) = limited_fold();
    let mut scanner = Scanner::new(&cancellation, fold, "a");
    scanner.open_bytes = max_bytes - 1024 * 1024;
    let stamp = RecordStamp {
        seq: 1,
        token: 1,
        at: 1,
    };
    let mut line = Vec::new();
    line_writer::write(&mut line, &[entry], stamp, None, MAX_LINE)?;
    // The beginning of the line, which shows its kind, is in two of them.
    for piece in line.chunks(100) {
        scanner.push(piece)?;
    }
    assert_eq!(scanner.seq, 1);
    scanner.finish()
}

#[test]
fn snapshot_is_read_past_without_room_in_the_memory_of_its_session() {
    let snapshot = |len: usize| {
        let mut state = AgentState::new("a");
        state.messages = "x".repeat(len).into();
        LogEntry::Snapshot(Box::new(StoredSession::new(state)))
    };
    let scan = read_in_pieces(snapshot(2 * 1024 * 1024)).unwrap();
    assert!(scan.damage.is_empty(), "{:?}", scan.damage);

    let message = LogEntry::Record(Record::Message {
        message: Message::human("x".repeat(2 * 1024 * 1024)).into(),
        input_id: None,
    });
    // No session has a snapshot of this length.
    for entry in [message, snapshot(6 * 1024 * 1024)] {
        let error = read_in_pieces(entry).unwrap_err();
        assert!(error.text().contains("bytes of memory"), "{error}");
    }
}

/// Returns the number of records that are read in `count` damaged lines, each of which has one
/// after 900 beginnings of others.
fn records_in_damaged_lines(count: u64) -> u64 {
    let cancellation = Cancellation::default();
    let mut scanner = Scanner::new(&cancellation, LogFold::new("a"), "a");
    let junk = [LINE_PREFIX, &[b'x'; 300]].concat().repeat(900);
    for seq in 1..=count {
        let mut line = junk.clone();
        let stamp = RecordStamp {
            seq,
            token: 1,
            at: 1,
        };
        line_writer::write(&mut line, &[message_entry()], stamp, None, MAX_LINE).unwrap();
        scanner.push(&line).unwrap();
    }
    scanner.open.len() as u64
}

#[test]
fn damaged_lines_of_a_log_are_searched_within_one_limit() {
    assert_eq!(records_in_damaged_lines(1), 1);
    assert!(records_in_damaged_lines(5) < 5);
}
