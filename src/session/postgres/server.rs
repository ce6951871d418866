//! A database that logs are kept in.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

use crate::error::{Error, ErrorKind, Result};
use crate::session::log::{LogTail, Snapshots};
use crate::session::remote::{
    Failure, IdPage, LeaseKey, Outcome, Removal, Server, ServerLog, ServerRepair, ServerTail,
};
use crate::util::text::truncate;

use super::address::Address;
use super::connection::{Connection, Values};
use super::schema::{IDS_AT_ONCE, Statements};

/// The longest id, in bytes: entries of an index are bounded.
const MAX_ID: usize = 1_000;
/// The maximum number of bytes that mark a missing part of a log.
const MAX_HOLE: u64 = 1_024;

/// The maximum number of bytes of a row, so that the end of a log is read without what stands before it.
const ROW: usize = 64 * 1024;
/// The most bytes of ends of logs that an answer is given time for.
const MAX_TAILS: u64 = 1024 * 1024 * 1024;

/// A database that logs are kept in.
pub(super) struct Database {
    address: Address,
    sql: Statements,
    timeout: Duration,
    lease_seconds: f64,
    /// True once the tables have been checked.
    is_prepared: AtomicBool,
}

impl Database {
    pub(super) fn new(
        address: Address,
        prefix: &str,
        timeout: Duration,
        lease_time: Duration,
    ) -> Self {
        Self {
            address,
            sql: Statements::new(prefix, lease_time.max(timeout)),
            timeout,
            lease_seconds: lease_time.as_secs_f64(),
            is_prepared: AtomicBool::new(false),
        }
    }

    /// Rows that begin with `size, at, bytes` as the log they make. A line of zeros replaces
    /// missing rows, so that they are reported as damage.
    fn contents(rows: &[Row], from: Option<u64>) -> Outcome<Option<ServerLog>> {
        let Some(first) = rows.first() else {
            return Ok(None);
        };

        let end = unsigned(column(first, 0)?);
        let mut bytes = Vec::new();
        let mut next = from;
        let fill = |bytes: &mut Vec<u8>, hole: u64| {
            if let Some(zeros) = hole.min(MAX_HOLE).checked_sub(1) {
                bytes.resize(bytes.len() + usize::try_from(zeros).unwrap_or_default(), 0);
                bytes.push(b'\n');
            }
        };

        for row in rows {
            let (Some(offset), Some(part)) = (
                column::<Option<i64>>(row, 1)?.map(unsigned),
                column::<Option<&[u8]>>(row, 2)?,
            ) else {
                continue;
            };

            fill(&mut bytes, offset.saturating_sub(next.unwrap_or(offset)));
            bytes.extend_from_slice(part);
            next = Some(offset + part.len() as u64);
        }

        fill(&mut bytes, end.saturating_sub(next.unwrap_or(0)));
        Ok(Some(ServerLog { bytes, end }))
    }
}

/// A value of a row.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Outcome<T> {
    row.try_get(at).map_err(|error| {
        let text = format!("the tables are not as they were made: {error}");
        Failure::Refused(Error::new(ErrorKind::Corrupt, text))
    })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A text and its type.
macro_rules! text {
    ($value:expr) => {
        ($value as &(dyn ToSql + Sync), Type::TEXT)
    };
}

/// A number and its type.
macro_rules! number {
    ($value:expr) => {
        ($value as &(dyn ToSql + Sync), Type::INT8)
    };
}

impl Server for Database {
    type Connection = Connection;

    fn name(&self) -> &str {
        &self.address.name
    }

    fn damaged_place(&self, _: &str) -> String {
        format!("table {} of {}", self.sql.damaged, self.address.name)
    }

    fn check_id(&self, id: &str) -> Result<()> {
        let reason = if id.contains('\0') {
            "PostgreSQL takes no text with a NUL character".to_owned()
        } else if id.len() > MAX_ID {
            format!("it has {} bytes, {MAX_ID} at most", id.len())
        } else {
            return Ok(());
        };

        let short_id = truncate(id, 60);
        Err(Error::new(
            ErrorKind::InvalidRequest,
            format!("session id {short_id:?} cannot be kept: {reason}"),
        ))
    }

    fn connect(&self) -> Outcome<Connection> {
        let mut connection = Connection::open(&self.address, self.timeout)?;
        if !self.is_prepared.load(Ordering::Acquire) {
            self.sql.prepare(&mut connection, &self.address)?;
            self.is_prepared.store(true, Ordering::Release);
        }
        Ok(connection)
    }

    fn ids(&self, connection: &mut Connection, place: Option<&str>) -> Outcome<IdPage> {
        let rows = connection.query(&self.address, &self.sql.ids, &[text!(&place)])?;
        let ids = rows.iter().map(|row| column::<&str>(row, 0).map(Arc::from));
        let ids = ids.collect::<Outcome<Vec<Arc<str>>>>()?;
        let is_last = ids.len() < IDS_AT_ONCE;
        let next = ids.last().filter(|_| !is_last).map(|id| id.to_string());
        Ok(IdPage { ids, next })
    }

    fn read(&self, connection: &mut Connection, id: &str, max: u64) -> Outcome<Option<ServerLog>> {
        let size = |row: &Row| column(row, 0).map_or(0, unsigned) as usize;
        let max = signed(max);
        let values = [text!(&id), number!(&max)];
        let rows = connection.rows(&self.address, &self.sql.read, &values, 0, size)?;
        Self::contents(&rows, Some(0))
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::OnOpen { after: 1024 * 1024 }
    }

    fn tails(
        &self,
        connection: &mut Connection,
        ids: &[Arc<str>],
        len: u64,
    ) -> Outcome<Vec<Result<Option<ServerTail>>>> {
        let wanted_len = signed(len);
        let names: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let values: &Values<'_> = &[(&names, Type::TEXT_ARRAY), number!(&wanted_len)];
        let total_len = len.saturating_mul(ids.len() as u64).min(MAX_TAILS);
        let total_len = usize::try_from(total_len).unwrap_or(usize::MAX);
        let sql = &self.sql.tails;
        let rows = connection.rows(&self.address, sql, values, total_len, |_| total_len)?;
        let mut log_tails = HashMap::new();
        let mut remaining_rows = &rows[..];
        while let Some(first) = remaining_rows.first() {
            let id: &str = column(first, 3)?;
            let is_other = |row: &Row| row.try_get(3).ok() != Some(id);
            let count = remaining_rows
                .iter()
                .position(is_other)
                .unwrap_or(remaining_rows.len());
            let (own_rows, other_rows) = remaining_rows.split_at(count.max(1));
            remaining_rows = other_rows;
            let is_all = len >= unsigned(column(first, 0)?);
            if let Some(ServerLog { bytes, end }) = Self::contents(own_rows, is_all.then_some(0))? {
                // Missing rows are not waited for.
                let size = if is_all { bytes.len() as u64 } else { end };
                let tail = LogTail::new(bytes, size);
                log_tails.insert(id, ServerTail { tail, end });
            }
        }

        let tails = ids.iter().map(|id| Ok(log_tails.remove(&**id)));
        Ok(tails.collect())
    }

    fn claim(&self, connection: &mut Connection, lease: &LeaseKey) -> Outcome<bool> {
        let number = signed(lease.number);
        let values = [
            text!(&&*lease.id),
            text!(&&*lease.owner),
            number!(&number),
            (&self.lease_seconds, Type::FLOAT8),
        ];
        let count = connection.execute(&self.address, &self.sql.claim, &values)?;
        Ok(count > 0)
    }

    fn renew(&self, connection: &mut Connection, leases: &[LeaseKey]) -> Outcome<()> {
        let Some(first) = leases.first() else {
            return Ok(());
        };

        let ids: Vec<&str> = leases.iter().map(|lease| &*lease.id).collect();
        let numbers: Vec<i64> = leases.iter().map(|lease| signed(lease.number)).collect();
        let values: &Values<'_> = &[
            (&ids, Type::TEXT_ARRAY),
            (&numbers, Type::INT8_ARRAY),
            text!(&&*first.owner),
            (&self.lease_seconds, Type::FLOAT8),
        ];
        connection.execute(&self.address, &self.sql.renew, values)?;
        Ok(())
    }

    fn release(&self, connection: &mut Connection, lease: &LeaseKey) -> Outcome<()> {
        let number = signed(lease.number);
        let values = [text!(&&*lease.id), text!(&&*lease.owner), number!(&number)];
        for sql in &self.sql.release {
            connection.execute(&self.address, sql, &values)?;
        }
        Ok(())
    }

    fn append(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        bytes: &[u8],
    ) -> Outcome<bool> {
        let number = signed(lease.number);
        let len = signed(bytes.len() as u64);
        let rows: Vec<&[u8]> = bytes.chunks(ROW).collect();
        let places = (0..rows.len()).map(|row| signed(end.saturating_add((row * ROW) as u64)));
        let places: Vec<i64> = places.collect();
        let end = signed(end);
        let id = &*lease.id;
        let owner = &*lease.owner;
        let mut values = vec![
            text!(&id),
            text!(&owner),
            number!(&number),
            number!(&end),
            number!(&len),
            (&self.lease_seconds as &(dyn ToSql + Sync), Type::FLOAT8),
            (&places, Type::INT8_ARRAY),
            (&rows, Type::BYTEA_ARRAY),
        ];
        let size = bytes.len();
        if connection.write(&self.address, &self.sql.append, &values, size)? > 0 {
            return Ok(true);
        }

        // The reply to an identical earlier write may have been lost.
        values.truncate(5);
        values.push((&bytes, Type::BYTEA));
        let sql = &self.sql.is_appended;
        let rows = connection.rows(&self.address, sql, &values, size, |_| 0)?;
        Ok(!rows.is_empty())
    }

    fn repair(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        repair: &ServerRepair<'_>,
    ) -> Outcome<bool> {
        let repaired = connection
            .batch(&self.address, &self.sql.begin)
            .and_then(|()| self.repair_within(connection, lease, end, repair));
        match repaired {
            Ok(true) => connection.batch(&self.address, "commit").map(|()| true),
            Ok(false) => {
                connection.batch(&self.address, "rollback")?;
                self.is_resized(connection, lease, repair.cut)
            }
            Err(Failure::Refused(error)) => {
                connection.batch(&self.address, "rollback")?;
                Err(Failure::Refused(error))
            }
            lost => lost,
        }
    }

    fn remove(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        size: Option<u64>,
    ) -> Outcome<Removal> {
        // Leased first, because the statement that removes would not see a write in progress.
        if !self.claim(connection, lease)? {
            return Ok(Removal::Busy);
        }
        let removed = self.remove_leased(connection, lease, size);
        if !matches!(removed, Ok(Removal::Done) | Err(Failure::Lost(_))) {
            self.release(connection, lease)?;
        }
        removed
    }
}

impl Database {
    fn repair_within(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        repair: &ServerRepair<'_>,
    ) -> Outcome<bool> {
        let number = signed(lease.number);
        let new_end = signed(repair.cut.map_or(end, |cut| cut.len() as u64));
        let end = signed(end);
        let id = &&*lease.id;
        let values = [
            text!(id),
            text!(&&*lease.owner),
            number!(&number),
            number!(&end),
            number!(&new_end),
        ];
        if connection.execute(&self.address, &self.sql.resize, &values)? == 0 {
            return Ok(false);
        }

        for part in repair.damaged {
            let offset = signed(part.at);
            let values = [
                text!(id),
                number!(&offset),
                text!(&part.what),
                (&part.bytes as &(dyn ToSql + Sync), Type::BYTEA),
            ];
            let size = part.bytes.len();
            connection.write(&self.address, &self.sql.keep, &values, size)?;
        }

        if let Some(cut_bytes) = repair.cut {
            connection.execute(&self.address, &self.sql.clear, &[text!(id)])?;
            if !cut_bytes.is_empty() {
                let values = [text!(id), (&cut_bytes as &(dyn ToSql + Sync), Type::BYTEA)];
                connection.write(&self.address, &self.sql.rewrite, &values, cut_bytes.len())?;
            }
        }

        Ok(true)
    }

    /// Removes what was just leased.
    fn remove_leased(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        size: Option<u64>,
    ) -> Outcome<Removal> {
        if let Some(expected_size) = size {
            let rows = connection.query(&self.address, &self.sql.size, &[text!(&&*lease.id)])?;
            let size = rows.first().map_or(Ok(0), |row| column(row, 0))?;
            if size != 0 && size != signed(expected_size) {
                return Ok(Removal::Changed);
            }
        }

        let number = signed(lease.number);
        let values = [text!(&&*lease.id), text!(&&*lease.owner), number!(&number)];
        let removed_rows = connection.query(&self.address, &self.sql.remove, &values)?;
        if removed_rows.is_empty() {
            // Another owner took the lease in between.
            return Ok(Removal::Busy);
        }

        Ok(Removal::Done)
    }

    /// Returns `true` if the log was cut, and the answer lost.
    fn is_resized(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        cut_bytes: Option<&[u8]>,
    ) -> Outcome<bool> {
        let Some(cut_bytes) = cut_bytes else {
            return Ok(false);
        };

        let number = signed(lease.number);
        let end = signed(cut_bytes.len() as u64);
        let values = [
            text!(&&*lease.id),
            text!(&&*lease.owner),
            number!(&number),
            number!(&end),
        ];
        let rows = connection.query(&self.address, &self.sql.is_resized, &values)?;
        Ok(!rows.is_empty())
    }
}
