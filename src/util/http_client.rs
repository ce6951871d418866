//! The HTTP client everything of this crate starts from.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect};

use crate::error::Result;

/// How long a connection may take to come up, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A client that names this crate, follows no redirect and sends no `Referer`. With the feature
/// `tls` it speaks https and trusts whom the system trusts.
///
/// A client belongs to the runtime it is first used in, for its pooled connections do.
///
/// # Errors
///
/// When the system's certificate store cannot be used.
pub(crate) fn builder() -> Result<ClientBuilder> {
    let builder = Client::builder()
        .user_agent(concat!(
            env!("CARGO_PKG_NAME"),
            "/",
            env!("CARGO_PKG_VERSION")
        ))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .referer(false);
    #[cfg(feature = "tls")]
    let builder = builder.tls_backend_preconfigured(tls::config()?);
    Ok(builder)
}

/// A transport error with its causes, which say more than it does, and without its address, which
/// may hold a secret.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::{Arc, OnceLock};

    use rustls::ClientConfig;
    use rustls::crypto::ring::default_provider;
    use rustls_platform_verifier::BuilderVerifierExt as _;

    use crate::error::{Error, ErrorKind, Result};

    /// The configuration, made once, for reading the certificate store takes milliseconds. It
    /// names its provider, so that it depends on no process-wide default.
    pub(super) fn config() -> Result<ClientConfig> {
        static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
        if let Some(config) = CONFIG.get() {
            return Ok(config.clone());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| {
                Error::new(ErrorKind::Tls, format!("TLS cannot be set up: {error}"))
                    .with_source(error)
            })?
            .with_no_client_auth();
        Ok(CONFIG.get_or_init(|| config).clone())
    }
}
