//! The address of a server, and the user's credentials.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::{Error, ErrorKind, Result};
use crate::session::remote::scrub;
use crate::util::Secret;
use crate::util::secret::Redactor;

/// The address of a server, with the user's credentials.
pub(super) struct Address {
    pub(super) place: ConnectionAddr,
    #[cfg(feature = "tls")]
    pub(super) is_secure: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: i64,
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
        // Parsed as an address without TLS: the connection of this crate adds TLS itself.
        let plain_url = url
            .strip_prefix("rediss://")
            .map(|address| format!("redis://{address}"));
        let is_secure = plain_url.is_some();
        if is_secure && cfg!(not(feature = "tls")) {
            return Err(Error::new(
                ErrorKind::Config,
                "rediss:// needs the crate feature `tls`",
            ));
        }

        // The parser's error may contain a part of the password.
        let make_error = || {
            Error::new(
                ErrorKind::Config,
                "the address of the Redis server cannot be read; it looks like \
                 rediss://USER:PASSWORD@HOST:6379/DATABASE, with %XX for special characters in a \
                 password; redis:// is without TLS",
            )
        };

        if url.contains('#') {
            return Err(make_error());
        }

        let text = plain_url.as_deref().unwrap_or(url);
        let info: ConnectionInfo = text.into_connection_info().map_err(|_| make_error())?;
        let settings = info.redis_settings();
        let password = settings.password().map(Secret::from);
        let database = settings.db();
        let name = match info.addr() {
            ConnectionAddr::Tcp(host, port) => format!("Redis at {host}:{port}/{database}"),
            ConnectionAddr::Unix(path) => format!("Redis at {}/{database}", path.display()),
            _ => return Err(make_error()),
        };

        Ok(Self {
            place: info.addr().clone(),
            #[cfg(feature = "tls")]
            is_secure,
            user: settings.username().map(str::to_owned),
            redactor: match &password {
                Some(password) => [password.clone(), Secret::new(url)].into_iter().collect(),
                None => Redactor::default(),
            },
            password,
            database,
            name,
        })
    }

    /// Returns the start of a text of the server or the client, without secrets.
    pub(super) fn scrub(&self, text: &str) -> String {
        scrub(&self.redactor, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_has_no_password_and_is_cut() {
        let address = Address::read("redis://agent:secret-word-1@127.0.0.1/0").unwrap();
        let text = address.scrub(&format!("ERR secret-word-1 {}", "e".repeat(60_000)));
        assert_eq!(text.chars().count(), 2_000);
        assert!(!text.contains("secret-word") && text.ends_with("e..."));
    }
}
