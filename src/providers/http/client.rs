//! The HTTP clients every provider shares.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::redirect::Policy;

/// How long a connection may take to be made, unless an endpoint says otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);

/// A client, or why there is none.
pub(super) type Built = Result<reqwest::Client, String>;

/// A client for `https`, or for plain `http`.
///
/// With the default connect timeout it is the process's shared one, built at its first use:
/// the system's certificates are read only by programs that need them. Any other timeout makes
/// a client of its own, because the timeout belongs to the connection pool.
pub(super) fn client(secure: bool, connect_timeout: Duration) -> Built {
    static PLAIN: OnceLock<Built> = OnceLock::new();
    static SECURE: OnceLock<Built> = OnceLock::new();

    if connect_timeout != CONNECT_TIMEOUT {
        return build(secure, connect_timeout);
    }
    let slot = if secure { &SECURE } else { &PLAIN };
    slot.get_or_init(|| build(secure, connect_timeout)).clone()
}

/// No redirects, because one would carry the key to another host, and no total timeout, because a
/// healthy stream may take an hour.
fn build(secure: bool, connect_timeout: Duration) -> Built {
    let builder = reqwest::Client::builder()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .user_agent(concat!("agentcore/", env!("CARGO_PKG_VERSION")));
    with_tls(builder, secure)?
        .build()
        .map_err(|error| format!("the HTTP client could not be set up: {error}"))
}

/// Hands over a finished TLS configuration, so that neither the process-wide crypto provider is
/// touched nor reqwest's own set-up, which panics without one, is reached.
#[cfg(feature = "tls")]
fn with_tls(
    builder: reqwest::ClientBuilder,
    secure: bool,
) -> Result<reqwest::ClientBuilder, String> {
    use std::sync::Arc;

    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::BuilderVerifierExt as _;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS could not be set up: {error}"))?;
    let mut config = if secure {
        config
            .with_platform_verifier()
            .map_err(|error| format!("the system's certificates could not be loaded: {error}"))?
            .with_no_client_auth()
    } else {
        // Trusts nobody, and is never asked: this client is given `http` addresses only.
        config
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(builder.tls_backend_preconfigured(config))
}

#[cfg(not(feature = "tls"))]
fn with_tls(
    builder: reqwest::ClientBuilder,
    secure: bool,
) -> Result<reqwest::ClientBuilder, String> {
    if secure {
        return Err(
            "https needs the crate feature `tls`; without it only http addresses work".to_owned(),
        );
    }
    Ok(builder)
}
