//! The rows of a log.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{Error, ErrorKind};
use crate::session::log::LogTail;
use crate::session::remote::{Failure, JoinedLog, Outcome, ServerTail};

/// The maximum number of bytes of a row. Rows are small, so that reading the end of a log reads few
/// bytes before it.
pub(super) const ROW: usize = 64 * 1024;

/// Returns the offset and the bytes of a row that begins with `size, at, bytes`; `None` if it has
/// no part of a log.
pub(super) fn part_of_log(row: &Row) -> Outcome<Option<(u64, &[u8])>> {
    let offset = column::<Option<i64>>(row, 1)?.map(unsigned);
    let bytes = column::<Option<&[u8]>>(row, 2)?;
    Ok(offset.zip(bytes))
}

/// Returns a value of a row.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Outcome<T> {
    row.try_get(at).map_err(|error| {
        let text = format!("the tables are not as they were made: {error}");
        Failure::Refused(Error::new(ErrorKind::Corrupt, text))
    })
}

/// Returns the end of a log of these rows, which have at least its last `len` bytes.
pub(super) fn tail_of(rows: &[Row], len: u64) -> Outcome<ServerTail> {
    let end = match rows.first() {
        Some(row) => unsigned(column(row, 0)?),
        None => 0,
    };
    let is_all = len >= end;
    let requested = end.saturating_sub(len)..end;
    let mut joined_log = JoinedLog::new(is_all.then_some(0));
    for row in rows {
        if let Some((offset, bytes)) = part_of_log(row)? {
            joined_log.add(offset, bytes, &requested);
        }
    }

    joined_log.end(end);
    let bytes = joined_log.take();
    // Missing rows are not waited for.
    let size = if is_all { bytes.len() as u64 } else { end };
    let tail = LogTail::new(bytes, size);
    Ok(ServerTail { tail, end })
}

/// Divides bytes into rows. Returns the offsets of the rows, beginning at `first`, and the rows.
pub(super) fn rows_of(bytes: &[u8], first: i64) -> (Vec<i64>, Vec<&[u8]>) {
    let rows: Vec<_> = bytes.chunks(ROW).collect();
    let offsets = (0..rows.len()).map(|row| first.saturating_add((row * ROW) as i64));
    (offsets.collect(), rows)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
