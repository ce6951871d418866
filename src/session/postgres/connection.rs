//! A connection to a database, used from threads for blocking work.

use std::error::Error as _;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use tokio::net::lookup_host;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Row};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Outcome};

use super::address::Address;

/// What a statement is given.
pub(super) type Values<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// A connection and the runtime that drives it, while somebody waits for an answer.
pub(super) struct Connection {
    runtime: Option<Runtime>,
    client: Client,
    timeout: Duration,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Dropping it would wait, which an async thread must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connection {
    pub(super) fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Refused(error.into()))?;
        let hosts = &address.config;
        let count = hosts.get_hosts().len().max(hosts.get_hostaddrs().len());
        let longest = timeout.saturating_mul(u32::try_from(count.max(1)).unwrap_or(u32::MAX));
        let connecting = async {
            let mut config = hosts.clone();
            // A silent one takes none of the next one's time.
            let share = timeout / most_addresses(lookups(hosts), timeout / 4).await;
            config.connect_timeout(
                hosts
                    .get_connect_timeout()
                    .map_or(share, |own| share.min(*own)),
            );
            #[cfg(feature = "tls")]
            return config.connect(super::tls::Tls).await;
            #[cfg(not(feature = "tls"))]
            return config.connect(tokio_postgres::NoTls).await;
        };
        let (client, driver) = match wait(&runtime, longest, address, connecting) {
            Ok(made) => made,
            Err(error) => {
                // A name may be looked up for longer; dropping the runtime would wait for that.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        runtime.spawn(async move {
            // Its calls fail, and tell why.
            let _ = driver.await;
        });
        Ok(Self {
            runtime: Some(runtime),
            client,
            timeout,
        })
    }

    /// Runs a statement and says how many rows it wrote.
    pub(super) fn execute(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
    ) -> Outcome<u64> {
        self.wait(address, self.client.execute_typed(sql, values))
    }

    /// Statements without values.
    pub(super) fn batch(&mut self, address: &Address, sql: &str) -> Outcome<()> {
        self.wait(address, self.client.batch_execute(sql))
    }

    /// The rows of a statement. The time limit is for each.
    pub(super) fn query(
        &mut self,
        address: &Address,
        sql: &str,
        values: &Values<'_>,
    ) -> Outcome<Vec<Row>> {
        let values = values.iter().map(|(value, kind)| (*value, kind.clone()));
        let rows = self.wait(address, self.client.query_typed_raw(sql, values))?;
        let mut rows = pin!(rows);
        let mut all = Vec::new();
        while let Some(row) = self.wait(address, rows.try_next())? {
            all.push(row);
        }
        Ok(all)
    }

    /// The rows of a statement without values; `None` when its table has not been made.
    pub(super) fn query_if_made(
        &mut self,
        address: &Address,
        sql: &str,
    ) -> Outcome<Option<Vec<Row>>> {
        let asking = async {
            match self.client.query_typed(sql, &[]).await {
                Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
                outcome => outcome.map(Some),
            }
        };
        self.wait(address, asking)
    }

    fn wait<T>(
        &self,
        address: &Address,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Outcome<T> {
        match &self.runtime {
            Some(runtime) => wait(runtime, self.timeout, address, answer),
            None => unreachable!("it is taken when the connection is dropped"),
        }
    }
}

/// What finds out how many addresses each host has.
fn lookups(config: &Config) -> impl Iterator<Item = impl Future<Output = io::Result<usize>>> {
    let hosts = match config.get_hostaddrs() {
        [] => config.get_hosts(),
        _ => &[],
    };
    hosts.iter().filter_map(|host| match host {
        Host::Tcp(name) => Some(async { Ok(lookup_host((name.as_str(), 0)).await?.count()) }),
        #[cfg(unix)]
        Host::Unix(_) => None,
    })
}

/// How many addresses a host has, at most, as far as they are found within `limit`: a name that
/// hangs keeps no other host waiting. What is wrong with a name is told when it is used.
async fn most_addresses(
    lookups: impl Iterator<Item = impl Future<Output = io::Result<usize>>>,
    limit: Duration,
) -> u32 {
    let found = join_all(lookups.map(|lookup| timeout(limit, lookup))).await;
    let counts = found.into_iter().flatten().flatten();
    let most = counts.max().unwrap_or(1).max(1);
    u32::try_from(most).unwrap_or(u32::MAX)
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

/// What an error means for the next try.
fn failure(address: &Address, error: &tokio_postgres::Error) -> Failure {
    let told = |kind| Error::new(kind, address.scrub(&describe(error)));
    if let Some(code) = error.code() {
        return refused(code, told);
    }
    #[cfg(feature = "tls")]
    if cause::<super::tls::Distrust>(error).is_some() {
        return Failure::Refused(told(ErrorKind::Tls));
    }
    match cause::<io::Error>(error) {
        _ if error.is_closed() => Failure::Lost(told(ErrorKind::Connect)),
        Some(cause) if cause.kind() == io::ErrorKind::TimedOut => {
            Failure::Lost(told(ErrorKind::Timeout))
        }
        Some(_) => Failure::Lost(told(ErrorKind::Connect)),
        None if error.to_string().contains("TLS") => Failure::Refused(told(ErrorKind::Tls)),
        None => Failure::Refused(told(ErrorKind::Protocol)),
    }
}

/// What the server said. Its classes and codes are those of the SQL standard and PostgreSQL's own.
fn refused(code: &SqlState, told: impl Fn(ErrorKind) -> Error) -> Failure {
    match code.code() {
        // Starting, stopping, full, or a copy that will be told to take over.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" => {
            Failure::Lost(told(ErrorKind::Connect))
        }
        // Two transactions in each other's way.
        "40001" | "40P01" => Failure::Lost(told(ErrorKind::Server)),
        "28000" | "28P01" => Failure::Refused(told(ErrorKind::Auth)),
        "42501" => Failure::Refused(told(ErrorKind::PermissionDenied)),
        // A text that the database's encoding does not have.
        "22021" | "22P05" => Failure::Refused(told(ErrorKind::InvalidRequest)),
        "3D000" | "3F000" => Failure::Refused(told(ErrorKind::Config)),
        other if other.starts_with("08") => Failure::Lost(told(ErrorKind::Connect)),
        _ => Failure::Refused(told(ErrorKind::Io)),
    }
}

fn cause<T: std::error::Error + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::{BoxFuture, pending, ready};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn names_that_hang_are_waited_for_side_by_side() {
        const LIMIT: Duration = Duration::from_secs(2);
        let began = Instant::now();
        let lookups: [BoxFuture<'_, io::Result<usize>>; 5] = [
            pending().boxed(),
            ready(Ok(2)).boxed(),
            ready(Err(io::ErrorKind::NotFound.into())).boxed(),
            pending().boxed(),
            ready(Ok(3)).boxed(),
        ];
        assert_eq!(most_addresses(lookups.into_iter(), LIMIT).await, 3);
        assert_eq!(began.elapsed(), LIMIT);
        for none in [pending().boxed(), ready(Ok(0)).boxed()] {
            assert_eq!(most_addresses([none].into_iter(), LIMIT).await, 1);
        }
    }

    #[tokio::test]
    async fn only_names_are_looked_up() {
        let count = |url: &str| lookups(&url.parse().unwrap()).count();
        assert_eq!(count("host=a,b user=u"), 2);
        assert_eq!(count("host=/run/a,b user=u"), 1);
        assert_eq!(count("host=a,b hostaddr=127.0.0.1,127.0.0.2 user=u"), 0);
        let config = "host=127.0.0.1 user=u".parse().unwrap();
        assert_eq!(most_addresses(lookups(&config), Duration::MAX).await, 1);
    }
}
