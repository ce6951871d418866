//! The logs of sessions, in rows of a database.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Statement};

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{LockFile, file_name};
use crate::session::log::{Each, EachPage, Log, LogTail, Repair, changed_meanwhile, collect_ids};
use crate::util::regular_file::open_regular;

use super::database::{Database, MAX_VALUE};

/// The maximum size of a row in bytes: the end of a log is read without the rows before it.
const MAX_ROW: usize = 64 * 1024;
/// The size in bytes of the damaged parts that are set aside in one transaction.
const DAMAGE_BATCH: usize = 8 * 1024 * 1024;
/// The bytes that a damaged part takes in addition to its own: its description and its row.
const PART_OVERHEAD: usize = 256;
/// The maximum number of rows of damage with one offset that are compared with a part.
const MAX_SAME_OFFSET: usize = 16;
/// The size in bytes from which rows or ids that were read are passed on.
const READ_CHUNK: usize = 1024 * 1024;
/// The maximum size in bytes of a damaged part in one row.
const MAX_DAMAGED_PART: usize = 4 * 1024 * 1024;

/// The rows of a log. No log reaches 2^62: a row from there on is damage, behind which there would
/// be no place for others. A row without bytes is damage as well.
macro_rules! rows_of_log {
    () => {
        "FROM log WHERE session = ?1 AND at < 4611686018427387904 AND length(bytes) > 0"
    };
}

/// The end of a log.
pub(super) const END: &str = concat!(
    "SELECT at + length(bytes) ",
    rows_of_log!(),
    " ORDER BY at DESC LIMIT 1"
);
/// Adds a row. It takes the place of one without bytes, and of no other.
pub(super) const INSERT: &str = "INSERT INTO log (session, at, bytes) VALUES (?1, ?2, ?3)
    ON CONFLICT (session, at) DO UPDATE SET bytes = excluded.bytes WHERE length(bytes) = 0";

/// A row of a log: its position and its length.
type Row = (i64, i64);

/// The number of ids that are read at once.
const IDS_AT_ONCE: usize = 1000;
/// The maximum size in bytes of an id that is listed: one with more cannot be leased, for lack of a
/// file name.
const MAX_ID: usize = 240;

/// A session locked for writing.
pub(super) struct Writer {
    /// Locked until this is dropped.
    _lock: LockFile,
    pub(super) id: String,
    /// The end of the log.
    pub(super) end: i64,
    /// True if the contents of the log are no longer certain.
    pub(super) is_broken: bool,
}

impl Writer {
    /// Refuses a write after a write whose outcome is unknown.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_broken {
            return Ok(());
        }
        let text = format!(
            "session {:?} was not written: the outcome of an earlier write is not known; run \
             the session again, which reads it again",
            self.id
        );
        Err(Error::new(ErrorKind::Io, text))
    }
}

impl Database {
    fn lock(&self, id: &str) -> Result<LockFile> {
        LockFile::take(&self.lock_path(id)?, id, open_regular)
    }

    fn lock_path(&self, id: &str) -> Result<PathBuf> {
        Ok(self.locks().join(file_name(id, ".lock")?))
    }

    /// Changes a log that ends where its writer left it.
    fn change<T>(
        &self,
        writer: &mut Writer,
        what: &str,
        work: impl FnOnce(&Connection, &Writer) -> rusqlite::Result<T>,
    ) -> Result<T> {
        writer.check()?;
        let outcome = self.write(what, |connection| {
            if end(connection, &writer.id)? != writer.end {
                return Ok(None);
            }

            work(connection, writer).map(Some)
        });

        match outcome {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => {
                // Another process has written: file locks do not work on every network file system,
                // or against other programs.
                writer.is_broken = true;
                Err(Error::session_taken_over(&writer.id))
            }
            Err(failure) => {
                writer.is_broken = failure.is_unknown();
                Err(failure.into())
            }
        }
    }

    /// Sets damaged parts aside for inspection. A part is its offset, its description and its
    /// bytes.
    fn set_aside(&self, writer: &mut Writer, parts: &[(i64, String, Vec<u8>)]) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }

        self.change(writer, "repair", |connection, writer| {
            // The row may exist already if a later step of an earlier repair failed.
            let stored_rows = rows_at(connection, &writer.id, parts)?;
            let is_same = "SELECT 1 FROM damaged WHERE rowid = ?1 AND what = ?2 AND bytes = ?3";
            let mut is_same = connection.prepare(is_same)?;
            let mut insert = connection.prepare(
                "INSERT INTO damaged (session, at, what, bytes) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for (offset, what, part) in parts {
                let mut is_stored = false;
                for row in stored_rows.get(offset).into_iter().flatten() {
                    is_stored = is_stored || is_same.exists((row, what, part))?;
                }

                if !is_stored {
                    insert.execute((&writer.id, offset, what, part))?;
                }
            }

            Ok(())
        })
    }
}

impl Log for Database {
    type Writer = Writer;

    // A conflict of a write concerns the whole database: it was replaced while it was open.
    fn concerns_one_log(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Corrupt
    }

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        collect_ids(self)
    }

    // One query a page, so that others can use the reader in between.
    fn for_each_page(&self, each: EachPage<'_>) -> Result<()> {
        let mut place = Some(String::new());
        while let Some(after) = place {
            let (ids, next) = self.read("list", |connection| next_ids(connection, &after))?;
            each(ids)?;
            place = next;
        }
        Ok(())
    }

    fn for_each_page_with(&self, prefix: &str, each: EachPage<'_>) -> Result<()> {
        let mut place = Some(prefix.to_owned());
        while let Some(after) = place.filter(|id| id.starts_with(prefix)) {
            let (ids, next) = self.read("list", |connection| next_ids(connection, &after))?;
            each(ids)?;
            place = next;
        }
        Ok(())
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        let tail = self.read("read", |connection| tail(connection, id, len))?;
        Ok(Some(tail).filter(|tail| !tail.bytes.is_empty()))
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer, LogTail)> {
        let lock = self.lock(id)?;
        let (tail, end) = self.read("read", |connection| {
            Ok((tail(connection, id, len)?, end(connection, id)?))
        })?;

        let writer = Writer {
            _lock: lock,
            id: id.to_owned(),
            end,
            is_broken: false,
        };

        Ok((writer, tail))
    }

    fn is_open(&self, id: &str) -> Result<bool> {
        LockFile::is_locked(&self.lock_path(id)?, open_regular)
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
        writer.end = self.change(writer, "write", |connection, writer| {
            insert_rows(&mut connection.prepare(INSERT)?, writer, bytes)
        })?;

        Ok(writer.end.unsigned_abs())
    }

    fn append_all(&self, appends: &mut [(&mut Writer, &[u8])]) -> Vec<Result<u64>> {
        self.append_group(appends)
    }

    fn appends_together(&self) -> bool {
        true
    }

    fn repair(&self, writer: &mut Writer, repair: &Repair<'_>) -> Result<Option<String>> {
        let mut parts = Vec::new();
        let mut size = 0;
        repair.for_each_part(|damage, part| {
            // A part where records are missing has no bytes.
            let mut offset = i64::try_from(damage.offset).unwrap_or(i64::MAX);
            let (first, others) = part.split_at(part.len().min(MAX_DAMAGED_PART));
            for piece in std::iter::once(first).chain(others.chunks(MAX_DAMAGED_PART)) {
                parts.push((offset, damage.to_string(), piece.to_vec()));
                offset = offset.saturating_add(len(piece));
                size += piece.len() + PART_OVERHEAD;
                if size >= DAMAGE_BATCH {
                    size = 0;
                    self.set_aside(writer, &std::mem::take(&mut parts))?;
                }
            }
            Ok(())
        })?;

        self.set_aside(writer, &parts)?;
        if let Some(end) = repair.truncate_to() {
            writer.end = self.change(writer, "repair", |connection, writer| {
                truncate(connection, &writer.id, end)
            })?;
        }

        Ok(Some(format!(
            "the table `damaged` of {}",
            self.path().display()
        )))
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        let _lock = self.lock(id)?;
        if expected_size.is_some() && self.tail(id, 1)?.map(|tail| tail.size) != expected_size {
            return Ok(false);
        }
        let removed = self.write("remove a session of", |connection| {
            let rows = connection.execute("DELETE FROM log WHERE session = ?1", [id])?;
            connection.execute("DELETE FROM damaged WHERE session = ?1", [id])?;
            Ok(rows > 0)
        });
        Ok(removed?)
    }

    // One query a piece, so that others can use the reader in between.
    fn read(&self, id: &str, each: Each<'_>) -> Result<bool> {
        let mut last_row = None;
        let mut exists = false;
        loop {
            let piece = self.read("read", |connection| {
                // One transaction: others write meanwhile.
                let transaction = connection.unchecked_transaction()?;
                if let Some(row) = last_row
                    && !has_row(&transaction, id, row)?
                {
                    return Ok(None);
                }
                next_rows(&transaction, id, last_row).map(Some)
            })?;
            let Some((bytes, row)) = piece else {
                return Err(changed_meanwhile(id));
            };

            if !bytes.is_empty() {
                exists = true;
                each(&bytes)?;
            }
            if bytes.len() < READ_CHUNK {
                return Ok(exists);
            }
            last_row = row;
        }
    }

    fn place(&self, _: &str) -> Option<String> {
        Some(self.path().display().to_string())
    }
}

/// Returns the length as a signed number of SQLite, which no stored value exceeds.
fn len(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

/// Returns the numbers of the rows of damage that begin where one of these parts does. Reads the
/// rows of the session once, for their index has no offset.
fn rows_at(
    connection: &Connection,
    id: &str,
    parts: &[(i64, String, Vec<u8>)],
) -> rusqlite::Result<HashMap<i64, Vec<i64>>> {
    let mut rows_at: HashMap<_, _> = parts.iter().map(|part| (part.0, Vec::new())).collect();
    let mut rows = connection
        .prepare("SELECT at, rowid FROM damaged WHERE session = ?1 ORDER BY rowid DESC")?;
    let mut rows = rows.query([id])?;
    while let Some(row) = rows.next()? {
        let numbers = rows_at.get_mut(&row.get::<_, i64>(0)?);
        if let Some(numbers) = numbers.filter(|numbers| numbers.len() < MAX_SAME_OFFSET) {
            numbers.push(row.get(1)?);
        }
    }
    Ok(rows_at)
}

/// Returns the end of a log; 0 if there is no log.
fn end(connection: &Connection, id: &str) -> rusqlite::Result<i64> {
    read_end(&mut connection.prepare(END)?, id)
}

/// Returns the end of a log by the statement [`END`]; 0 if there is no log.
pub(super) fn read_end(statement: &mut Statement<'_>, id: &str) -> rusqlite::Result<i64> {
    let end = statement.query_row([id], |row| row.get(0));
    Ok(end.optional()?.unwrap_or(0))
}

/// Adds the rows of an append by the statement [`INSERT`]. Returns the end of the log behind them.
pub(super) fn insert_rows(
    statement: &mut Statement<'_>,
    writer: &Writer,
    bytes: &[u8],
) -> rusqlite::Result<i64> {
    let mut end = writer.end;
    for row in bytes.chunks(MAX_ROW) {
        if statement.execute((&writer.id, end, row))? != 1 {
            // Another row is there, although the log ends before it.
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        end = end.saturating_add(len(row));
    }

    Ok(end)
}

/// Returns ids after `after`, and the last id read if there may be more.
///
/// Goes from id to id in the index instead of over all rows.
fn next_ids(
    connection: &Connection,
    after: &str,
) -> rusqlite::Result<(Vec<Arc<str>>, Option<String>)> {
    let mut rows = connection.prepare(
        "WITH RECURSIVE ids (id) AS (
             SELECT min(session) FROM log WHERE session > ?1
             UNION ALL
             SELECT (SELECT min(session) FROM log WHERE session > id)
             FROM ids WHERE id IS NOT NULL
         )
         SELECT id FROM ids WHERE id IS NOT NULL",
    )?;
    let mut rows = rows.query([after])?;
    let mut ids = Vec::new();
    let mut count = 0;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str()?;
        if id.len() <= MAX_ID {
            ids.push(Arc::from(id));
        }
        count += 1;
        bytes += id.len();
        if count >= IDS_AT_ONCE || bytes >= READ_CHUNK {
            return Ok((ids, Some(id.to_owned())));
        }
    }
    Ok((ids, None))
}

/// Returns `true` if a log has this row, with its length.
fn has_row(connection: &Connection, id: &str, (at, len): Row) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM log WHERE session = ?1 AND at = ?2 AND length(bytes) = ?3";
    let mut statement = connection.prepare(sql)?;
    statement.exists((id, at, len))
}

/// Returns the rows of a log after a row, or from its beginning, and the last one of them. At the
/// end of the log, they have fewer bytes than [`READ_CHUNK`].
fn next_rows(
    connection: &Connection,
    id: &str,
    after: Option<Row>,
) -> rusqlite::Result<(Vec<u8>, Option<Row>)> {
    let sql = concat!(
        "SELECT at, bytes ",
        rows_of_log!(),
        " AND at > ?2 ORDER BY at"
    );
    let after = after.map_or(i64::MIN, |(at, _)| at);
    let mut rows = connection.prepare(sql)?;
    let mut rows = rows.query((id, after))?;
    let mut bytes = Vec::new();
    let mut last_row = None;
    while bytes.len() < READ_CHUNK {
        let Some(row) = rows.next()? else { break };
        let part = row.get_ref(1)?.as_blob()?;
        last_row = Some((row.get(0)?, len(part)));
        bytes.extend_from_slice(part);
    }
    Ok((bytes, last_row))
}

/// Returns the last rows of a log that have at least `min_bytes` together, or all rows.
fn tail(connection: &Connection, id: &str, min_bytes: u64) -> rusqlite::Result<LogTail> {
    // One transaction: others write meanwhile.
    let transaction = connection.unchecked_transaction()?;
    let sql = concat!(
        "SELECT at, length(bytes) ",
        rows_of_log!(),
        " ORDER BY at DESC"
    );
    let mut rows = transaction.prepare(sql)?;
    let mut rows = rows.query([id])?;
    let mut places: Option<(i64, i64)> = None;
    let mut byte_count = 0_u64;
    let is_all = loop {
        if byte_count >= min_bytes {
            break false;
        }

        let Some(row) = rows.next()? else {
            break true;
        };

        let at: i64 = row.get(0)?;
        let len: i64 = row.get(1)?;
        if len > i64::from(MAX_VALUE) {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG);
            return Err(rusqlite::Error::SqliteFailure(code, None));
        }
        let (_, end) = places.unwrap_or((at, at.saturating_add(len)));
        places = Some((at, end));
        byte_count = byte_count.saturating_add(len.unsigned_abs());
    };

    let Some((start, end)) = places else {
        return Ok(LogTail::default());
    };

    // If rows are missing, the end is larger than what there is to read.
    let size = if is_all {
        byte_count
    } else {
        end.unsigned_abs()
    };
    let bytes = rows_from(&transaction, id, start, byte_count)?;
    Ok(LogTail::new(bytes, size))
}

/// Returns the rows of a log from position `start` on, which have `len` bytes together.
fn rows_from(connection: &Connection, id: &str, start: i64, len: u64) -> rusqlite::Result<Vec<u8>> {
    let sql = concat!("SELECT bytes ", rows_of_log!(), " AND at >= ?2 ORDER BY at");
    let mut rows = connection.prepare(sql)?;
    let mut rows = rows.query((id, start))?;
    let mut bytes = Vec::new();
    while let Some(row) = rows.next()? {
        let part = row.get_ref(0)?.as_blob()?;
        if bytes.is_empty() {
            // After the first row was read: the length that SQLite reports may be wrong.
            bytes.reserve_exact(usize::try_from(len).unwrap_or(0));
        }
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

/// Truncates a log to its first `len` bytes, and returns its end. Only existing bytes are counted:
/// rows may be missing.
fn truncate(connection: &Connection, id: &str, len: u64) -> rusqlite::Result<i64> {
    let mut remaining = i64::try_from(len).unwrap_or(i64::MAX);
    // The place of the last row that stays, and the bytes of it that do.
    let mut last_row: Option<(i64, i64)> = None;
    let sql = concat!("SELECT at, length(bytes) ", rows_of_log!(), " ORDER BY at");
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([id])?;
    while remaining > 0 {
        let Some(row) = rows.next()? else { break };
        let (at, len): (i64, i64) = (row.get(0)?, row.get(1)?);
        let kept_len = len.min(remaining);
        last_row = Some((at, kept_len));
        remaining -= kept_len;
    }

    drop(rows);
    let Some((at, kept_len)) = last_row else {
        connection.execute("DELETE FROM log WHERE session = ?1", [id])?;
        return Ok(0);
    };

    let sql = "DELETE FROM log WHERE session = ?1 AND at > ?2";
    connection.execute(sql, (id, at))?;
    let sql = "UPDATE log SET bytes = substr(bytes, 1, ?3)
               WHERE session = ?1 AND at = ?2 AND length(bytes) > ?3";
    connection.execute(sql, (id, at, kept_len))?;
    Ok(at.saturating_add(kept_len))
}
