//! What went wrong below HTTP.

use std::error::Error as StdError;

use crate::error::{Error, ErrorKind};

use super::secrets::Secrets;

/// A request that got no answer.
pub(super) fn sending(error: reqwest::Error, secrets: &Secrets) -> Error {
    let kind = kind_of(&error);
    let text = match kind {
        ErrorKind::Dns => "the host name could not be resolved",
        ErrorKind::Tls => "the TLS handshake failed",
        ErrorKind::Proxy => "the proxy refused the connection",
        ErrorKind::Config => "the request could not be built",
        _ if error.is_connect() && error.is_timeout() => "connecting took too long",
        _ if error.is_connect() => "the connection could not be made",
        _ => "the connection broke before an answer came",
    };
    describe(kind, text, error, secrets)
}

/// A body that broke off. What came before it is an incomplete answer.
pub(super) fn reading(error: reqwest::Error, secrets: &Secrets) -> Error {
    describe(
        ErrorKind::StreamTruncated,
        "the connection broke in the middle of the answer",
        error,
        secrets,
    )
}

/// The URL is dropped and the causes become one scrubbed line, because either may hold a key that
/// was put into a query or a proxy's address.
fn describe(kind: ErrorKind, text: &str, error: reqwest::Error, secrets: &Secrets) -> Error {
    let error = error.without_url();
    let mut causes = Vec::new();
    let mut next: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(cause) = next {
        let line = cause.to_string();
        if causes.last() != Some(&line) {
            causes.push(line);
        }
        next = cause.source();
    }
    let root = secrets.scrub(causes.last().map_or("", String::as_str));
    let chain = secrets.scrub(&causes.join(": "));
    Error::new(kind, format!("{text}: {root}")).with_source(chain)
}

fn kind_of(error: &reqwest::Error) -> ErrorKind {
    if error.is_builder() {
        return ErrorKind::Config;
    }
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(cause) = next {
        if is_tls(cause) {
            return ErrorKind::Tls;
        }
        // Tunnel errors are a private type below reqwest; their text is all there is.
        let text = cause.to_string();
        if text.starts_with("tunnel error") || text.contains("proxy auth") {
            return ErrorKind::Proxy;
        }
        next = cause.source();
    }
    if error.is_dns() {
        return ErrorKind::Dns;
    }
    ErrorKind::Connect
}

#[cfg(feature = "tls")]
fn is_tls(cause: &(dyn StdError + 'static)) -> bool {
    if cause.is::<rustls::Error>() {
        return true;
    }
    // `io::Error::source` skips the error it wraps, so that one is looked at here.
    cause
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref)
        .is_some_and(|inner| is_tls(inner))
}

#[cfg(not(feature = "tls"))]
fn is_tls(_: &(dyn StdError + 'static)) -> bool {
    false
}
