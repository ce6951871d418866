//! The credentials for a server.

use async_nats::{ConnectOptions, ServerAddr};

use crate::error::Result;
use crate::util::Secret;
use crate::util::secret::{Redactor, percent_decoded};

use super::failure::invalid;
use super::options::NatsOptions;

/// The address of a server, and the credentials for it.
pub(super) struct Login {
    /// Without a user: the client logs addresses.
    pub address: ServerAddr,
    user: Option<String>,
    password: Option<Secret>,
    credentials: Option<Secret>,
}

impl Login {
    pub(super) fn new(url: &str, options: &NatsOptions) -> Result<Self> {
        // The text of the parser's error may have a password.
        let invalid_url = || {
            invalid(
                "the URL of the NATS server cannot be read; it has the form nats://HOST:PORT"
                    .to_owned(),
            )
        };
        let address: ServerAddr = url.parse().map_err(|_| invalid_url())?;
        let mut url = address.into_inner();
        let user = (!url.username().is_empty()).then(|| percent_decoded(url.username()));
        let password = url.password().map(percent_decoded).map(Secret::new);
        if user.is_some() || password.is_some() {
            url.set_username("").map_err(|()| invalid_url())?;
            url.set_password(None).map_err(|()| invalid_url())?;
        }

        Ok(Self {
            address: ServerAddr::from_url(url).map_err(|_| invalid_url())?,
            user,
            password,
            credentials: options.credentials.clone(),
        })
    }

    /// Returns the options that log in: with the credentials file, and with the user and password
    /// of the URL, or with its user as a token if it has no password.
    pub(super) fn connect_options(&self) -> Result<ConnectOptions> {
        let options = match &self.credentials {
            Some(credentials) => {
                ConnectOptions::with_credentials(credentials.expose()).map_err(|_| {
                    invalid(
                        "the NATS credentials cannot be read; use the content of a `.creds` file"
                            .to_owned(),
                    )
                })?
            }
            None => ConnectOptions::new(),
        };
        Ok(match (&self.user, &self.password) {
            (None, None) => options,
            (Some(token), None) => options.token(token.clone()),
            (user, Some(password)) => {
                let user = user.clone().unwrap_or_default();
                options.user_and_password(user, password.expose().to_owned())
            }
        })
    }

    /// Returns the secrets that a server may repeat in an error: the password or token, and the
    /// lines of the credentials file.
    pub(super) fn redactor(&self) -> Redactor {
        let token = self.user.iter().filter(|_| self.password.is_none());
        let lines = self
            .credentials
            .iter()
            .flat_map(|file| file.expose().lines());
        let lines = lines.map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('-'));
        let lines = lines.filter(|line| !line.contains(' '));
        let texts = token.map(String::as_str).chain(lines).map(Secret::new);
        self.password.iter().cloned().chain(texts).collect()
    }
}
