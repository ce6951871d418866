//! The HTTP client everything of this crate starts from.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url, redirect};

use crate::error::Result;

/// How long a connection may take to come up, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A client for https or for plain http, that names this crate, follows no redirect and sends no
/// `Referer`.
///
/// A client belongs to the runtime it is first used in, for its pooled connections do.
///
/// # Errors
///
/// When it is to be secure and the system's certificate store cannot be used, or the feature
/// `tls` is off.
pub(crate) fn builder(secure: bool) -> Result<ClientBuilder> {
    let builder = Client::builder()
        .user_agent(concat!(
            env!("CARGO_PKG_NAME"),
            "/",
            env!("CARGO_PKG_VERSION")
        ))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .referer(false);
    tls::add(builder, secure)
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

/// Whether a redirect keeps to its place: the same host and port, or from http to https on the same host with the ports of both.
pub(crate) fn stays(from: &Url, to: &Url) -> bool {
    let port = Url::port_or_known_default;
    let is_upgrade = (from.scheme(), port(from), to.scheme(), port(to))
        == ("http", Some(80), "https", Some(443));
    let is_same = from.scheme() == to.scheme() && port(from) == port(to);
    from.host() == to.host() && (is_same || is_upgrade)
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::{Arc, OnceLock};

    use reqwest::ClientBuilder;
    use rustls::crypto::ring::default_provider;
    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::BuilderVerifierExt as _;

    use crate::error::{Error, ErrorKind, Result};

    /// Hands over a finished configuration: reqwest's own depends on a process-wide default.
    pub(super) fn add(builder: ClientBuilder, secure: bool) -> Result<ClientBuilder> {
        let config = if secure {
            trusting_system()?
        } else {
            make(false)?
        };
        Ok(builder.tls_backend_preconfigured(config))
    }

    /// Made once, for reading the certificate store takes milliseconds.
    fn trusting_system() -> Result<ClientConfig> {
        static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
        if let Some(config) = CONFIG.get() {
            return Ok(config.clone());
        }
        let config = make(true)?;
        Ok(CONFIG.get_or_init(|| config).clone())
    }

    fn make(trusting: bool) -> Result<ClientConfig> {
        let failed = |error: rustls::Error| {
            let text = format!("TLS cannot be set up: {error}");
            Error::new(ErrorKind::Tls, text).with_source(error)
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let builder = if trusting {
            builder.with_platform_verifier().map_err(failed)?
        } else {
            // Trusts nobody, so that plain http works where there is no certificate store.
            builder.with_root_certificates(RootCertStore::empty())
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use reqwest::ClientBuilder;

    use crate::error::{Error, ErrorKind, Result};

    pub(super) fn add(builder: ClientBuilder, secure: bool) -> Result<ClientBuilder> {
        if secure {
            let text = "https needs the crate feature `tls`";
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(builder)
    }
}
