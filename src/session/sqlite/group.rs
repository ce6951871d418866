//! The appends of several sessions in one transaction.

use std::time::Instant;

use rusqlite::{Connection, Statement};

use crate::error::{Error, Result};
use crate::session::log::Log as _;

use super::database::Database;
use super::failure::{FailedWrite, database_error};
use super::log::{END, INSERT, Writer, insert_rows, read_end};

/// The outcome of an append within a transaction.
enum Appended {
    /// The end of the log behind it.
    Done(i64),
    /// The log does not end where its writer left it.
    TakenOver,
    /// The writer must not be used.
    Refused(Error),
    Failed(rusqlite::Error),
}

/// The statements of the appends of a transaction.
struct Statements<'c> {
    connection: &'c Connection,
    savepoint: Statement<'c>,
    end: Statement<'c>,
    insert: Statement<'c>,
    undo: Statement<'c>,
    release: Statement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            connection,
            savepoint: connection.prepare("SAVEPOINT append")?,
            end: connection.prepare(END)?,
            insert: connection.prepare(INSERT)?,
            undo: connection.prepare("ROLLBACK TO append")?,
            release: connection.prepare("RELEASE append")?,
        })
    }

    /// Makes one append, which is undone if it fails.
    ///
    /// # Errors
    ///
    /// Returns an error if the transaction cannot continue.
    fn append(&mut self, writer: &Writer, bytes: &[u8]) -> rusqlite::Result<Appended> {
        self.savepoint.execute(())?;
        let appended = match read_end(&mut self.end, &writer.id) {
            Ok(end) if end != writer.end => Ok(Appended::TakenOver),
            Ok(_) => insert_rows(&mut self.insert, writer, bytes).map(Appended::Done),
            Err(error) => Err(error),
        };

        let appended = match appended {
            Ok(appended) => appended,
            // Some errors end the transaction.
            Err(error) if self.connection.is_autocommit() => return Err(error),
            Err(error) => {
                self.undo.execute(())?;
                Appended::Failed(error)
            }
        };
        self.release.execute(())?;
        Ok(appended)
    }
}

impl Database {
    /// Appends to several logs in one transaction, each within a savepoint of its own.
    ///
    /// SQLite may undo the whole transaction because of one append, for example if the disk has no
    /// room for it. Each append is then repeated in a transaction of its own. Together, these
    /// transactions wait no longer for another program than a single one would.
    pub(super) fn append_group(&self, appends: &mut [(&mut Writer, &[u8])]) -> Vec<Result<u64>> {
        let queued_at = self.writers.take_queued_at().unwrap_or_else(Instant::now);
        let alone = |(writer, bytes): &mut (&mut Writer, &[u8])| {
            self.writers.set_queued_at(queued_at);
            self.append(writer, bytes)
        };
        if appends.len() < 2 {
            return appends.iter_mut().map(alone).collect();
        }

        self.writers.set_queued_at(queued_at);
        let outcome = self.write("write", |connection| {
            let mut statements = Statements::prepare(connection)?;
            let appends = appends.iter();
            let outcomes = appends.map(|(writer, bytes)| match writer.check() {
                Ok(()) => {
                    // The limit of steps applies to each append alone.
                    self.writer_steps.begin();
                    statements.append(writer, bytes)
                }
                Err(error) => Ok(Appended::Refused(error)),
            });
            outcomes.collect::<rusqlite::Result<Vec<_>>>()
        });

        match outcome {
            Ok(outcomes) => appends
                .iter_mut()
                .zip(outcomes)
                .map(|((writer, _), appended)| self.apply_outcome(writer, appended))
                .collect(),
            Err(FailedWrite::Undone(_)) => appends.iter_mut().map(alone).collect(),
            Err(failure) => fail_all(appends, &failure),
        }
    }

    /// Updates the writer of an append whose transaction was committed. Returns the end of its log.
    fn apply_outcome(&self, writer: &mut Writer, appended: Appended) -> Result<u64> {
        match appended {
            Appended::Done(end) => {
                writer.end = end;
                Ok(end.unsigned_abs())
            }
            Appended::TakenOver => {
                writer.is_broken = true;
                Err(Error::session_taken_over(&writer.id))
            }
            Appended::Refused(error) => Err(error),
            Appended::Failed(error) => Err(database_error("write", self.path(), error)),
        }
    }
}

/// Returns the error of a transaction for each of its appends.
fn fail_all(appends: &mut [(&mut Writer, &[u8])], failure: &FailedWrite) -> Vec<Result<u64>> {
    let error = failure.error();
    appends
        .iter_mut()
        .map(|(writer, _)| {
            writer.check()?;
            writer.is_broken = failure.is_unknown();
            Err(Error::new(error.kind(), error.text()))
        })
        .collect()
}
