//! A connection to a database, used from threads for blocking work.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Row, SimpleQueryMessage};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Outcome, timeout_for};

use super::address::Address;
use super::bounded::{Bounded, Problem, ProblemSlot};
use super::failure::{Fault, client_failure, refused_answer};
use super::hosts::connect_first;
use super::socket::Socket;

/// The maximum size of the rows of an answer in bytes, in addition to parts of logs.
const MAX_ROWS: u64 = 4 * 1024 * 1024;
/// The maximum bytes of rows for each requested byte of a log: short rows have more overhead.
const BYTES_PER_LOG_BYTE: u64 = 4;
/// The memory of a row in bytes, without its values.
const ROW_OVERHEAD: u64 = 256;

/// The parameters of a statement.
pub(super) type Values<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// A connection and the runtime that drives it while an answer is awaited.
pub(super) struct Connection {
    /// `None` once the connection is closed, because rows of an answer were left unread.
    runtime: Option<Runtime>,
    client: Client,
    timeout: Duration,
    problem: ProblemSlot,
}

/// The rows of an answer.
enum Rows {
    Read(Vec<Row>),
    /// They have more bytes than this limit.
    TooMany(u64),
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl Connection {
    /// Returns `true` after an answer that was not read to its end.
    pub(super) fn is_broken(&self) -> bool {
        self.runtime.is_none()
    }

    fn close(&mut self) {
        // Dropping a runtime blocks, which is not allowed on an async thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Connects to the first host of the address that accepts writes, within `timeout`.
    pub(super) fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Refused(error.into()))?;
        let problem = ProblemSlot::default();
        let client = connect_first(&address.config, timeout, |config, share| {
            let connecting = connect(config, problem.clone());
            wait(&runtime, share, address, &problem, connecting)
        })?;

        Ok(Self {
            runtime: Some(runtime),
            client,
            timeout,
            problem,
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

    /// Runs a statement like [`execute`](Self::execute). Its values have about `size` bytes, which
    /// extend the timeout.
    pub(super) fn write(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
        size: usize,
    ) -> Outcome<u64> {
        self.wait(address, size, self.client.execute_typed(sql, values))
    }

    /// Runs statements without values.
    pub(super) fn batch(&mut self, address: &Address, sql: &str) -> Outcome<()> {
        self.wait(address, 0, self.client.batch_execute(sql))
    }

    /// Runs a statement and returns its rows.
    pub(super) fn query(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
    ) -> Outcome<Vec<Row>> {
        self.query_with(address, sql, values, 0)
    }

    /// Runs a statement like [`query`](Self::query). Its values have about `size` bytes, which
    /// extend the timeout.
    pub(super) fn query_with(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
        size: usize,
    ) -> Outcome<Vec<Row>> {
        let reading = rows(&self.client, sql, values, MAX_ROWS);
        let answer = self.wait(address, size, reading)?;
        self.check(address, answer)
    }

    /// Runs a statement that requests at most `log_bytes` of logs, and returns its rows.
    pub(super) fn parts(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
        log_bytes: u64,
    ) -> Outcome<Vec<Row>> {
        let max_bytes = log_bytes
            .saturating_mul(BYTES_PER_LOG_BYTE)
            .saturating_add(MAX_ROWS);
        let size = usize::try_from(log_bytes).unwrap_or(usize::MAX);
        let reading = rows(&self.client, sql, values, max_bytes);
        let answer = self.wait(address, size, reading)?;
        self.check(address, answer)
    }

    /// Runs a statement without values and returns its rows, or `None` if its table does not exist.
    pub(super) fn query_if_exists(
        &mut self,
        address: &Address,
        sql: &str,
    ) -> Outcome<Option<Vec<Row>>> {
        let query_future = async {
            match rows(&self.client, sql, &[], MAX_ROWS).await {
                Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
                outcome => outcome.map(Some),
            }
        };
        let answer = self.wait(address, 0, query_future)?;
        answer.map(|answer| self.check(address, answer)).transpose()
    }

    /// Returns the rows. Closes the connection if some were not read.
    fn check(&mut self, address: &Address, answer: Rows) -> Outcome<Vec<Row>> {
        match answer {
            Rows::Read(rows) => Ok(rows),
            Rows::TooMany(max_bytes) => {
                self.close();
                let problem = format!("answered with rows of more than {max_bytes} bytes");
                Err(refused_answer(address, &problem))
            }
        }
    }

    fn wait<T>(
        &self,
        address: &Address,
        size: usize,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Outcome<T> {
        let Some(runtime) = &self.runtime else {
            let text = "an earlier answer on this connection was not read";
            return Err(Failure::Lost(Error::new(ErrorKind::Connect, text)));
        };

        let limit = timeout_for(self.timeout, size);
        wait(runtime, limit, address, &self.problem, answer)
    }
}

/// Returns the rows of a statement, unless they have more than `max_bytes`.
async fn rows(
    client: &Client,
    sql: &str,
    values: &Values<'_>,
    max_bytes: u64,
) -> Result<Rows, tokio_postgres::Error> {
    let values = values.iter().map(|(value, kind)| (*value, kind.clone()));
    let rows = client.query_typed_raw(sql, values).await?;
    let mut rows = pin!(rows);
    let mut output = Vec::new();
    let mut received = 0_u64;
    while let Some(row) = rows.try_next().await? {
        received = received.saturating_add(row.raw_size_bytes() as u64 + ROW_OVERHEAD);
        if received > max_bytes {
            return Ok(Rows::TooMany(max_bytes));
        }
        output.push(row);
    }

    Ok(Rows::Read(output))
}

/// Connects to the only host of a configuration, which must accept writes. A task of the runtime
/// drives the connection.
async fn connect(config: &Config, problem: ProblemSlot) -> Result<Client, Fault> {
    let socket = Socket::open(config).await?;
    let awaits_tls = cfg!(feature = "tls")
        && config.get_ssl_mode() != SslMode::Disable
        && config.get_ssl_negotiation() == SslNegotiation::Postgres;
    let bounded = Bounded::new(socket, problem, awaits_tls);
    #[cfg(feature = "tls")]
    let tls = super::tls::Connector::new(match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host,
        _ => "",
    });
    #[cfg(not(feature = "tls"))]
    let tls = tokio_postgres::NoTls;
    let (client, mut driver) = config.connect_raw(bounded, tls).await?;
    tokio::spawn(async move {
        // The driver itself would write the notices of the server to the log of the program.
        let mut messages = stream::poll_fn(move |cx| driver.poll_message(cx));
        // The client's calls report the driver's errors.
        while let Some(Ok(_)) = messages.next().await {}
    });

    let messages = client
        .simple_query_raw("SHOW transaction_read_only")
        .await?;
    let mut messages = pin!(messages);
    let mut is_read_only = None;
    while let Some(message) = messages.try_next().await? {
        if let SimpleQueryMessage::Row(row) = message {
            is_read_only = row.try_get(0)?.map(|value| value == "on");
        }
    }

    let text = match is_read_only {
        Some(false) => return Ok(client),
        Some(true) => "the database does not allow writes",
        None => "the server did not report whether it allows writes",
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text).into())
}

/// Drives the runtime until there is an answer, and classifies the error if there is none.
fn wait<T, E: Into<Fault>>(
    runtime: &Runtime,
    limit: Duration,
    address: &Address,
    problem: &ProblemSlot,
    answer: impl Future<Output = Result<T, E>>,
) -> Outcome<T> {
    let outcome = runtime.block_on(async { timeout(limit, answer).await });
    let fault = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => Some(error.into()),
        Err(_) => None,
    };

    Err(match (problem.take(), fault) {
        (Some(Problem::Refused(text)), _) => refused_answer(address, &text),
        (Some(Problem::Worn(text)), _) => Failure::Lost(Error::new(ErrorKind::Connect, text)),
        (None, Some(Fault::Client(error))) => client_failure(address, &error),
        (None, Some(Fault::Socket(error))) => {
            let kind = match error.kind() {
                io::ErrorKind::TimedOut => ErrorKind::Timeout,
                _ => ErrorKind::Connect,
            };
            let text = format!("error connecting to server: {error}");
            Failure::Lost(Error::new(kind, text))
        }
        (None, None) => Failure::Lost(Error::new(
            ErrorKind::Timeout,
            format!("the server did not answer within {limit:?}"),
        )),
    })
}
