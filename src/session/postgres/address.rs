//! The address of a database, and the user's credentials.

use std::net::IpAddr;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};

use crate::error::{Error, ErrorKind, Result};
use crate::session::remote::scrub;
use crate::util::Secret;
use crate::util::secret::Redactor;

/// The address of a database, with the user's credentials.
pub(super) struct Address {
    pub(super) config: Config,
    /// The name for errors.
    pub(super) name: String,
    redactor: Redactor,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if it cannot be parsed, or requires TLS while the feature
    /// `tls` is off.
    pub(super) fn read(url: &str) -> Result<Self> {
        // The parser's error may contain a part of the password.
        let make_error = || {
            refused(
                "the address of the PostgreSQL database cannot be read; it looks like \
                 postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require, with %XX for \
                 special characters in a password, such as %40 for @; sslmode is disable, prefer, \
                 require, verify-ca or verify-full",
            )
        };

        if is_ambiguous(url) {
            return Err(make_error());
        }

        // The parser does not support the verifying modes; the server is always verified here.
        let outcome = url.parse().or_else(|_| {
            let verified = |text: String, mode| text.replace(mode, "sslmode=require");
            let modes = ["sslmode=verify-full", "sslmode=verify-ca"];
            modes.into_iter().fold(url.to_owned(), verified).parse()
        });

        let mut config: Config = outcome.map_err(|_| make_error())?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refused(
                "the address of the PostgreSQL database names no host; add one, such as \
                 postgres://USER@HOST/DATABASE",
            ));
        }

        if !has_matching_lists(&config) {
            return Err(refused(
                "the address of the PostgreSQL database has not as many hosts as `hostaddr`s, or \
                 neither one port nor one for each host",
            ));
        }

        if config.get_channel_binding() == ChannelBinding::Require {
            return Err(refused(
                "channel_binding=require is not supported; remove it",
            ));
        }

        match config.get_target_session_attrs() {
            TargetSessionAttrs::ReadOnly => {
                return Err(refused(
                    "target_session_attrs=read-only cannot be used, because a store writes; remove it",
                ));
            }
            // Without this, a standby would be used like the primary, with outdated data.
            _ => config.target_session_attrs(TargetSessionAttrs::ReadWrite),
        };

        if cfg!(not(feature = "tls")) && config.get_ssl_mode() == SslMode::Require {
            return Err(refused("sslmode=require needs the crate feature `tls`"));
        }

        let is_on_this_machine = config.get_hosts().iter().all(is_local)
            && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        if config.get_ssl_mode() == SslMode::Prefer && is_on_this_machine {
            config.ssl_mode(SslMode::Disable);
        }

        if config.get_application_name().is_none() {
            config.application_name(env!("CARGO_PKG_NAME"));
        }

        let password = config.get_password().map(String::from_utf8_lossy);
        let redactor = match password {
            Some(password) => [Secret::new(password.into_owned()), Secret::new(url)]
                .into_iter()
                .collect(),
            None => Redactor::default(),
        };

        let name = format!("PostgreSQL at {}", name_of(&config));
        Ok(Self {
            config,
            name,
            redactor,
        })
    }

    /// Returns the start of a text of the server or the client, without secrets.
    pub(super) fn scrub(&self, text: &str) -> String {
        scrub(&self.redactor, text)
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Config, why)
}

/// Returns `true` if the parser could read a part of the URL's password as the host, because the
/// password ends at the first `@`.
fn is_ambiguous(url: &str) -> bool {
    let Some(("postgres" | "postgresql", address)) = url.split_once("://") else {
        return false;
    };
    let (head, query) = address.split_once('?').unwrap_or((address, ""));
    match head.matches('@').count() {
        0 => query.contains('@'),
        count => count > 1,
    }
}

/// Returns `true` if the lists of hosts, addresses and ports match in length.
fn has_matching_lists(config: &Config) -> bool {
    let hosts = config.get_hosts().len();
    let ips = config.get_hostaddrs().len();
    let ports = config.get_ports().len();
    (hosts == ips || hosts == 0 || ips == 0) && (ports <= 1 || ports == hosts.max(ips))
}

/// Returns `true` for this machine, to which connections need no TLS.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Returns the hosts and the database, as `HOST:PORT,HOST:PORT/DATABASE`.
fn name_of(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let mut hosts: Vec<_> = config
        .get_hosts()
        .iter()
        .enumerate()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_has_no_password_and_is_cut() {
        let address = Address::read("postgres://agent:secret-word-1@127.0.0.1/agent").unwrap();
        let text = address.scrub(&format!("ERR secret-word-1 {}", "e".repeat(60_000)));
        assert_eq!(text.chars().count(), 2_000);
        assert!(!text.contains("secret-word") && text.ends_with("e..."));
    }
}
