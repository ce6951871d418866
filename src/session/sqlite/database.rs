//! A database of sessions that this process has open.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, MAIN_DB, OpenFlags, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::file_error;
use crate::session::log::Queue;
use crate::util::folder::{make_folder, sync_folder};
use crate::util::sync::lock;

use super::failure::{FailedWrite, database_error, is_undone};
use super::file;
use super::schema;
use super::side_files;
use super::steps::Steps;

/// The time that a write waits for other writers.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of a value, in bytes. Rows of logs and pieces of damage are smaller.
pub(super) const MAX_VALUE: i32 = 8 * 1024 * 1024;

/// A database file with two connections, so that a long read does not delay writers.
pub(super) struct Database {
    path: PathBuf,
    /// The folder of the files that are locked while a session is leased.
    locks: PathBuf,
    /// The identity of the file when it was opened.
    identity: (u64, u64),
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    reader_steps: Steps,
    pub(super) writer_steps: Steps,
    /// The version of the tables' definitions that were found to be right.
    schema_version: AtomicI64,
    /// The queue in which writers wait.
    pub(super) writers: Queue,
    busy_timeout: Duration,
}

impl Database {
    /// Opens the database, and creates it if it does not exist, readable by its owner only. A write
    /// waits at most `busy_timeout` for others, including its time in the queue `writers`.
    pub(super) fn open(path: &Path, busy_timeout: Duration, writers: Queue) -> Result<Self> {
        let path = file::resolve_path(path)?;
        let is_there = file::exists(&path)?;
        if is_there {
            // Checked before the folder of locks is created next to it.
            file::check_identity(&path)?;
        }

        let locks = file::with_suffix(&path, "-locks");
        let locks = make_folder(&locks, sync_folder)
            .map_err(|error| file_error("make the folder of", &locks, error))?;
        if !is_there {
            file::create(&path, &locks)?;
            file::check_identity(&path)?;
        }

        side_files::check(&path)?;
        let identity = identity(&path)?;
        let make_connection = || connect(&path, busy_timeout);
        let (reader, reader_steps) = make_connection()?;
        let (writer, writer_steps) = make_connection()?;
        if writer.is_readonly(MAIN_DB).unwrap_or(false) {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "session database {} is read-only; give this user the right to write it",
                    path.display()
                ),
            ));
        }

        let database = Self {
            locks,
            identity,
            reader: Mutex::new(reader),
            writer: Mutex::new(writer),
            reader_steps,
            writer_steps,
            schema_version: AtomicI64::new(-1),
            writers,
            busy_timeout,
            path,
        };

        database.check_schema(&lock(&database.reader), &database.reader_steps)?;
        Ok(database)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn locks(&self) -> &Path {
        &self.locks
    }

    /// Runs a query. `what` names it in errors.
    pub(super) fn read<T>(
        &self,
        what: &str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let reader = lock(&self.reader);
        self.reader_steps.begin();
        self.check_schema(&reader, &self.reader_steps)?;
        work(&reader).map_err(|error| database_error(what, &self.path, error))
    }

    /// Checks the tables if their definitions have changed since the last check.
    fn check_schema(&self, connection: &Connection, steps: &Steps) -> Result<()> {
        let version: i64 = connection
            .pragma_query_value(None, "schema_version", |row| row.get(0))
            .map_err(|error| database_error("open", &self.path, error))?;
        if self.schema_version.load(Ordering::Relaxed) != version {
            schema::load(connection, steps, &self.path)?;
            schema::check(connection, &self.path)?;
            self.schema_version.store(version, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs `work` in one transaction, whose changes become durable together or not at all. `what`
    /// names the work in errors.
    pub(super) fn write<T>(
        &self,
        what: &str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, FailedWrite> {
        // SQLite would continue to write to a file that was removed.
        if identity(&self.path).map_err(FailedWrite::NotBegun)? != self.identity {
            return Err(FailedWrite::NotBegun(Error::new(
                ErrorKind::Conflict,
                format!(
                    "session database {} was replaced while it was open; nothing was written, \
                     open the store again",
                    self.path.display()
                ),
            )));
        }

        let mut connection = lock(&self.writer);
        let make_error = |error| database_error(what, &self.path, error);

        // The time that was spent waiting in this process counts toward `busy_timeout`.
        let time_left = self
            .busy_timeout
            .saturating_sub(self.writers.take_waiting_time());
        self.writer_steps.begin();
        let outcome = connection
            .busy_timeout(time_left)
            .and_then(|()| connection.transaction_with_behavior(TransactionBehavior::Immediate));
        let transaction = outcome.map_err(|error| FailedWrite::NotBegun(make_error(error)))?;
        self.check_schema(&transaction, &self.writer_steps)
            .map_err(FailedWrite::NotBegun)?;
        let output = work(&transaction).map_err(|error| FailedWrite::Undone(make_error(error)))?;
        match transaction.commit() {
            Ok(()) => Ok(output),
            Err(error) if is_undone(&error) => Err(FailedWrite::Undone(make_error(error))),
            Err(error) => Err(FailedWrite::Unknown(make_error(error))),
        }
    }

    /// Bounds the steps of each call in tests.
    #[cfg(test)]
    pub(super) fn set_max_steps(&mut self, max: u64) {
        self.reader_steps.set_max(max);
        self.writer_steps.set_max(max);
    }

    /// Returns the connection for writing, to inject faults in tests.
    #[cfg(test)]
    pub(super) fn writer(&self) -> std::sync::MutexGuard<'_, Connection> {
        lock(&self.writer)
    }
}

fn identity(path: &Path) -> Result<(u64, u64)> {
    let metadata = fs::metadata(path).map_err(|error| file_error("look at", path, error))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Connects to a file that may come from an untrusted source: nothing in its schema is run, little
/// of it is parsed, and no value is larger than the values that this crate writes.
fn connect(path: &Path, busy_timeout: Duration) -> Result<(Connection, Steps)> {
    let make_error = |error| database_error("open", path, error);
    let (connection, steps) = open_bounded(path, busy_timeout).map_err(make_error)?;
    schema::load(&connection, &steps, path)?;
    configure(&connection).map_err(make_error)?;
    Ok((connection, steps))
}

fn open_bounded(path: &Path, busy_timeout: Duration) -> rusqlite::Result<(Connection, Steps)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    let steps = Steps::bound(&mut connection)?;
    for (limit, max) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, schema::MAX_SQL),
        (Limit::SQLITE_LIMIT_COLUMN, schema::MAX_COLUMNS),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, schema::MAX_DEPTH),
    ] {
        connection.set_limit(limit, max)?;
    }
    for (option, is_on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(option, is_on)?;
    }
    connection.busy_timeout(busy_timeout)?;
    Ok((connection, steps))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    // The mode is stored in the file, where another tool may have changed it.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit returns after it is on the disk; Apple's systems need `fullfsync` for that.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)
}
