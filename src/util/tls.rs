//! The configuration of connections over TLS.

use std::sync::{Arc, OnceLock};

use rustls::client::WantsClientCert;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::{Error, ErrorKind, Result};

/// Returns a configuration that verifies certificates with the system's certificate store. Created
/// once, because reading the store takes milliseconds.
pub(crate) fn system_trust_config() -> Result<ClientConfig> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = make(|builder| builder.with_platform_verifier())?;
    Ok(CONFIG.get_or_init(|| config).clone())
}

/// Creates a configuration that trusts no certificate.
pub(crate) fn empty_trust_config() -> Result<ClientConfig> {
    make(|builder| Ok(builder.with_root_certificates(RootCertStore::empty())))
}

type Unfinished<T> = ConfigBuilder<ClientConfig, T>;

/// Creates a configuration with ring, regardless of the process's default.
fn make(
    verifier: impl FnOnce(
        Unfinished<WantsVerifier>,
    ) -> Result<Unfinished<WantsClientCert>, rustls::Error>,
) -> Result<ClientConfig> {
    let make_error = |error: rustls::Error| {
        let text = format!("TLS cannot be set up: {error}");
        Error::new(ErrorKind::Tls, text).with_source(error)
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(make_error)?;
    Ok(verifier(builder).map_err(make_error)?.with_no_client_auth())
}
