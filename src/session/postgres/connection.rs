//! A connection to a database, used from threads for blocking work.

use std::error::Error as _;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Outcome, timeout_for};

use super::address::Address;
use super::hosts::first;

/// The parameters of a statement.
pub(super) type Values<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// A connection and the runtime that drives it while an answer is awaited.
pub(super) struct Connection {
    runtime: Option<Runtime>,
    client: Client,
    timeout: Duration,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which is not allowed on an async thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connection {
    pub(super) fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Refused(error.into()))?;
        let (client, driver) = first(&address.config, timeout, |config, share| {
            #[cfg(feature = "tls")]
            let connecting = config.connect(super::tls::Tls);
            #[cfg(not(feature = "tls"))]
            let connecting = config.connect(tokio_postgres::NoTls);
            wait(&runtime, share, address, connecting)
        })?;

        runtime.spawn(async move {
            // The client's calls report the driver's errors.
            let _ = driver.await;
        });

        Ok(Self {
            runtime: Some(runtime),
            client,
            timeout,
        })
    }

    /// Runs a statement and returns the number of rows it wrote.
    pub(super) fn execute(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
    ) -> Outcome<u64> {
        self.write(address, sql, values, 0)
    }

    /// Like `execute`, with values of about this many bytes.
    pub(super) fn write(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
        size: usize,
    ) -> Outcome<u64> {
        self.wait(address, size, self.client.execute_typed(sql, values))
    }

    /// Statements without values.
    pub(super) fn batch(&mut self, address: &Address, sql: &str) -> Outcome<()> {
        self.wait(address, 0, self.client.batch_execute(sql))
    }

    /// The rows of a statement. The time limit is for each.
    pub(super) fn query(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
    ) -> Outcome<Vec<Row>> {
        self.rows(address, sql, values, 0, |_| 0)
    }

    /// Like `query`, with values of about this many bytes, and rows of the total size that `told`
    /// reads from the first.
    pub(super) fn rows(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
        size: usize,
        told: impl Fn(&Row) -> usize,
    ) -> Outcome<Vec<Row>> {
        let values = values.iter().map(|(value, kind)| (*value, kind.clone()));
        let rows = self.wait(address, size, self.client.query_typed_raw(sql, values))?;
        let mut rows = pin!(rows);
        let mut output = Vec::new();
        let mut size = size;
        while let Some(row) = self.wait(address, size, rows.try_next())? {
            if output.is_empty() {
                size = told(&row);
            }

            output.push(row);
        }

        Ok(output)
    }

    /// The rows of a statement without values; `None` when its table has not been made.
    pub(super) fn query_if_made(
        &mut self,
        address: &Address,
        sql: &str,
    ) -> Outcome<Option<Vec<Row>>> {
        let query_future = async {
            match self.client.query_typed(sql, &[]).await {
                Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
                outcome => outcome.map(Some),
            }
        };
        self.wait(address, 0, query_future)
    }

    fn wait<T>(
        &self,
        address: &Address,
        size: usize,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Outcome<T> {
        match &self.runtime {
            Some(runtime) => wait(runtime, timeout_for(self.timeout, size), address, answer),
            None => unreachable!("it is taken when the connection is dropped"),
        }
    }
}

fn wait<T>(
    runtime: &Runtime,
    longest: Duration,
    address: &Address,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Outcome<T> {
    match runtime.block_on(async { timeout(longest, answer).await }) {
        Ok(outcome) => outcome.map_err(|error| failure(address, &error)),
        Err(_) => Err(Failure::Lost(Error::new(
            ErrorKind::Timeout,
            format!("nothing came for {longest:?}"),
        ))),
    }
}

/// Classifies an error for the next attempt.
fn failure(address: &Address, error: &tokio_postgres::Error) -> Failure {
    let make_error = |kind| Error::new(kind, address.scrub(&describe(error)));
    if let Some(code) = error.code() {
        return refused(code, make_error);
    }

    #[cfg(feature = "tls")]
    if cause::<super::tls::Distrust>(error).is_some() {
        return Failure::Refused(make_error(ErrorKind::Tls));
    }

    let text = error.to_string();
    match cause::<io::Error>(error) {
        // The password is missing, or the server could not prove that it has it.
        _ if ["invalid configuration", "authentication error"].contains(&&*text) => {
            Failure::Refused(make_error(ErrorKind::Auth))
        }
        _ if error.is_closed() => Failure::Lost(make_error(ErrorKind::Connect)),
        Some(cause) if cause.kind() == io::ErrorKind::TimedOut => {
            Failure::Lost(make_error(ErrorKind::Timeout))
        }
        Some(_) => Failure::Lost(make_error(ErrorKind::Connect)),
        None if text.contains("TLS") => Failure::Refused(make_error(ErrorKind::Tls)),
        None => Failure::Refused(make_error(ErrorKind::Protocol)),
    }
}

/// Classifies an error of the server. Its classes and codes are those of the SQL standard and
/// PostgreSQL's own.
fn refused(code: &SqlState, told: impl Fn(ErrorKind) -> Error) -> Failure {
    match code.code() {
        // The server is starting, stopping or full, a transaction was idle for too long, or this is
        // a standby that will be promoted.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53300" | "25006" => {
            Failure::Lost(told(ErrorKind::Connect))
        }
        // A serialization failure or a deadlock of two transactions.
        "40001" | "40P01" => Failure::Lost(told(ErrorKind::Server)),
        "28000" | "28P01" => Failure::Refused(told(ErrorKind::Auth)),
        "42501" => Failure::Refused(told(ErrorKind::PermissionDenied)),
        // The text has characters that the database's encoding does not support.
        "22021" | "22P05" => Failure::Refused(told(ErrorKind::InvalidRequest)),
        "3D000" | "3F000" => Failure::Refused(told(ErrorKind::Config)),
        other if other.starts_with("08") => Failure::Lost(told(ErrorKind::Connect)),
        _ => Failure::Refused(told(ErrorKind::Io)),
    }
}

fn cause<T: std::error::Error + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(source_error) = error.downcast_ref() {
            return Some(source_error);
        }
        next = error.source();
    }
    None
}

fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} ({})", answer.message(), answer.code().code());
    }

    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }

        next = error.source();
    }

    text
}
