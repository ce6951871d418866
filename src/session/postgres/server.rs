//! A PostgreSQL database as a server of logs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Error, ErrorKind, Result};
use crate::session::log::Snapshots;
use crate::session::remote::{
    DamagedPiece, Failure, IdPage, JoinedLog, LeaseKey, Outcome, PIECE, Removal, Server,
    ServerPiece, ServerRepair, ServerTail,
};
use crate::util::text::truncate;

use super::address::Address;
use super::connection::{Connection, Values};
use super::rows::{column, part_of_log, rows_of, signed, tail_of, unsigned};
use super::schema::{IDS_AT_ONCE, Statements};

/// The maximum length of an id in bytes, which entries of an index limit.
const MAX_ID: usize = 1_000;
/// The distance by which the rows of a rewritten log are moved, so that they do not
/// collide with the rows that they replace.
const SHIFT: i64 = 1 << 62;

/// A PostgreSQL database as a server of logs.
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
            "PostgreSQL stores no text with a NUL character; use another id".to_owned()
        } else if id.len() > MAX_ID {
            format!("it has {} bytes; use at most {MAX_ID}", id.len())
        } else {
            return Ok(());
        };

        let short_id = truncate(id, 60);
        Err(Error::new(
            ErrorKind::InvalidRequest,
            format!("session id {short_id:?} cannot be stored: {reason}"),
        ))
    }

    fn connect(&self) -> Outcome<Connection> {
        let mut connection = Connection::open(&self.address, self.timeout)?;
        if !self.is_prepared.load(Ordering::Acquire) {
            self.sql
                .prepare(&mut connection, &self.address, self.timeout)?;
            self.is_prepared.store(true, Ordering::Release);
        }
        Ok(connection)
    }

    fn is_usable(&self, connection: &Connection) -> bool {
        !connection.is_broken()
    }

    fn ids(&self, connection: &mut Connection, place: Option<&str>) -> Outcome<IdPage> {
        let rows = connection.query(&self.address, &self.sql.ids, &[text!(&place)])?;
        let ids = rows
            .iter()
            .map(|row| column::<&str>(row, 0).map(Arc::from))
            .collect::<Outcome<Vec<Arc<str>>>>()?;
        // Each page has the ids after the last one of the page before it.
        if let Some(id) = ids.iter().find(|id| Some(&***id) == place) {
            let name = &self.address.name;
            let id = truncate(id, 60);
            let text = format!("{name} returned session {id:?} in two pages of its list");
            return Err(Failure::Refused(Error::new(ErrorKind::Protocol, text)));
        }

        let is_last = ids.len() < IDS_AT_ONCE;
        let next = ids.last().filter(|_| !is_last).map(|id| id.to_string());
        Ok(IdPage { ids, next })
    }

    fn place_after(&self, prefix: &str) -> Option<String> {
        Some(prefix.to_owned())
    }

    fn read(
        &self,
        connection: &mut Connection,
        id: &str,
        from: u64,
        len: u64,
    ) -> Outcome<Option<ServerPiece>> {
        let first = signed(from);
        let count = signed(len);
        let values = [text!(&id), number!(&first), number!(&count)];
        let rows = connection.parts(&self.address, &self.sql.read, &values, len)?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };

        let end = unsigned(column(row, 0)?);
        let mut parts = Vec::new();
        for row in &rows {
            let part = part_of_log(row)?;
            parts.extend(part.map(|(offset, bytes)| (offset, bytes.to_vec())));
        }

        Ok(Some(ServerPiece { parts, end }))
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
        let log_bytes = len.saturating_mul(ids.len() as u64);
        let rows = connection.parts(&self.address, &self.sql.tails, values, log_bytes)?;
        let mut log_tails = HashMap::new();
        let mut remaining_rows = &rows[..];
        while let Some(first) = remaining_rows.first() {
            // The position of the log's id in `ids`, from 1.
            let number: i32 = column(first, 3)?;
            let is_other = |row: &Row| row.try_get(3).ok() != Some(number);
            let count = remaining_rows
                .iter()
                .position(is_other)
                .unwrap_or(remaining_rows.len());
            let (own_rows, other_rows) = remaining_rows.split_at(count.max(1));
            remaining_rows = other_rows;
            log_tails.insert(number, tail_of(own_rows, len)?);
        }

        let tails = (1..)
            .zip(ids)
            .map(|(number, _)| Ok(log_tails.remove(&number)));
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

    fn is_claimed(&self, connection: &mut Connection, id: &str, owner: &str) -> Outcome<bool> {
        let values = [text!(&id), text!(&owner)];
        let rows = connection.query(&self.address, &self.sql.claimed, &values)?;
        Ok(!rows.is_empty())
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
        let (offsets, rows) = rows_of(bytes, signed(end));
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
            (&offsets, Type::INT8_ARRAY),
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
        let rows = connection.query_with(&self.address, sql, &values, size)?;
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
    /// Repairs a log inside a transaction.
    fn repair_within(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        repair: &ServerRepair<'_>,
    ) -> Outcome<bool> {
        // Locks the log.
        if !self.resize(connection, lease, end, end)? {
            return Ok(false);
        }

        self.set_aside(connection, &lease.id, repair.damaged)?;
        match repair.cut {
            None => Ok(true),
            Some(len) => {
                self.rewrite(connection, &lease.id, end, len)?;
                self.resize(connection, lease, end, len)
            }
        }
    }

    /// Sets damaged parts aside, except parts that are stored already.
    fn set_aside(
        &self,
        connection: &mut Connection,
        id: &str,
        parts: &[DamagedPiece],
    ) -> Outcome<()> {
        if parts.is_empty() {
            return Ok(());
        }

        let offsets: Vec<i64> = parts.iter().map(|part| signed(part.at)).collect();
        let descriptions: Vec<&str> = parts.iter().map(|part| &*part.what).collect();
        let bytes: Vec<&[u8]> = parts.iter().map(|part| &part.bytes[..]).collect();
        let size = bytes.iter().map(|bytes| bytes.len()).sum();
        let values = [
            text!(&id),
            (&offsets as &(dyn ToSql + Sync), Type::INT8_ARRAY),
            (&descriptions, Type::TEXT_ARRAY),
            (&bytes, Type::BYTEA_ARRAY),
        ];
        connection.write(&self.address, &self.sql.set_aside, &values, size)?;
        Ok(())
    }

    /// Sets the size of a log that ends at `end`. Returns `false` if it has another size or lease.
    fn resize(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        end: u64,
        new_end: u64,
    ) -> Outcome<bool> {
        let [number, end, new_end] = [lease.number, end, new_end].map(signed);
        let values = [
            text!(&&*lease.id),
            text!(&&*lease.owner),
            number!(&number),
            number!(&end),
            number!(&new_end),
        ];
        let count = connection.execute(&self.address, &self.sql.resize, &values)?;
        Ok(count > 0)
    }

    /// Writes the first `len` bytes of a log that ends at `end` in the place of all, piece by
    /// piece. Rows that are missing are replaced as when the log is read.
    fn rewrite(&self, connection: &mut Connection, id: &str, end: u64, len: u64) -> Outcome<()> {
        let mut joined_log = JoinedLog::new(Some(0));
        let mut offset = 0;
        let mut stored_len = 0;
        while stored_len < len && offset < end {
            let piece = self.read(connection, id, offset, PIECE)?;
            let requested = offset..end.min(offset + PIECE);
            for (offset, part) in piece.iter().flat_map(|piece| &piece.parts) {
                joined_log.add(*offset, part, &requested);
            }

            offset += PIECE;
            if offset >= end {
                joined_log.end(end);
            }

            let mut bytes = joined_log.take();
            bytes.truncate(usize::try_from(len - stored_len).unwrap_or(usize::MAX));
            let (offsets, rows) = rows_of(&bytes, signed(stored_len) - SHIFT);
            let values = [
                text!(&id),
                (&offsets as &(dyn ToSql + Sync), Type::INT8_ARRAY),
                (&rows, Type::BYTEA_ARRAY),
            ];
            connection.write(&self.address, &self.sql.add, &values, bytes.len())?;
            stored_len += bytes.len() as u64;
        }

        connection.execute(&self.address, &self.sql.clear, &[text!(&id)])?;
        let values = [text!(&id), number!(&SHIFT)];
        connection.execute(&self.address, &self.sql.shift, &values)?;
        Ok(())
    }

    /// Removes a log that this store has leased.
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

    /// Returns `true` if an earlier attempt, whose answer was lost, has truncated the log.
    fn is_resized(
        &self,
        connection: &mut Connection,
        lease: &LeaseKey,
        new_end: Option<u64>,
    ) -> Outcome<bool> {
        let Some(new_end) = new_end else {
            return Ok(false);
        };

        let number = signed(lease.number);
        let end = signed(new_end);
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
