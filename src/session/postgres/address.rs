//! Where a database is, and who asks.

use std::net::IpAddr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::{Error, ErrorKind, Result};
use crate::util::Secret;

/// An address that was understood. It shows no password.
pub(super) struct Address {
    pub(super) config: Config,
    /// For errors.
    pub(super) name: String,
    secrets: Vec<Secret>,
}

impl Address {
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when it cannot be understood, or asks for TLS where there is none.
    pub(super) fn read(url: &str, timeout: Duration) -> Result<Self> {
        // What the parser complains of may be a part of the password.
        let mut config: Config = url.parse().map_err(|_| {
            Error::new(
                ErrorKind::Config,
                "the address of the PostgreSQL database cannot be read; it looks like \
                 postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require, with %XX for \
                 special characters in a password; sslmode is disable, prefer or require",
            )
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::new(
                ErrorKind::Config,
                "the address of the PostgreSQL database names no host",
            ));
        }
        if cfg!(not(feature = "tls")) && config.get_ssl_mode() == SslMode::Require {
            return Err(Error::new(
                ErrorKind::Config,
                "sslmode=require needs the crate feature `tls`",
            ));
        }
        let stays_here = config.get_hosts().iter().all(is_local)
            && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        if config.get_ssl_mode() == SslMode::Prefer && stays_here {
            config.ssl_mode(SslMode::Disable);
        }
        config.connect_timeout(
            config
                .get_connect_timeout()
                .map_or(timeout, |own| timeout.min(*own)),
        );
        if config.get_application_name().is_none() {
            config.application_name(env!("CARGO_PKG_NAME"));
        }
        let password = config.get_password().map(String::from_utf8_lossy);
        let secrets = match password {
            Some(password) => vec![Secret::new(password.into_owned()), Secret::new(url)],
            None => Vec::new(),
        };
        let name = format!("PostgreSQL at {}", place(&config));
        Ok(Self {
            config,
            name,
            secrets,
        })
    }

    /// A text of the server or the client without what is secret.
    pub(super) fn scrub(&self, text: &str) -> String {
        let scrub = |text: String, secret: &Secret| secret.scrub(&text);
        self.secrets.iter().fold(text.to_owned(), scrub)
    }
}

/// A connection that leaves no machine needs no TLS.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// `HOST:PORT/DATABASE`, of all hosts there are.
fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate();
    let mut hosts: Vec<_> = hosts
        .map(|(at, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(at)),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    if hosts.is_empty() {
        let addresses = config.get_hostaddrs().iter().enumerate();
        hosts.extend(addresses.map(|(at, ip)| format!("{ip}:{}", port(at))));
    }
    let database = config.get_dbname().or(config.get_user());
    format!("{}/{}", hosts.join(","), database.unwrap_or_default())
}
