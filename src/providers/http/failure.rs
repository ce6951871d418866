//! The errors of requests that failed below HTTP.

use std::error::Error as StdError;
use std::iter;

use crate::error::{Error, ErrorKind};

use super::secrets::Secrets;

/// Returns the error of a request without a reply.
pub(super) fn sending(error: reqwest::Error, secrets: &Secrets) -> Error {
    let kind = kind_of(&error);
    let server = origin_of(&error);
    let text = match kind {
        ErrorKind::Dns => format!("the name of {server} could not be resolved"),
        ErrorKind::Tls => format!("the TLS handshake with {server} failed"),
        ErrorKind::Proxy => format!("the proxy did not lead to {server}"),
        ErrorKind::Config => "the request could not be built".into(),
        _ if error.is_connect() && error.is_timeout() => {
            format!("connecting to {server} took too long")
        }
        _ if error.is_connect() => format!("{server} could not be reached"),
        _ => format!("the connection to {server} broke before an answer came"),
    };

    let advice = causes(&error).find_map(tls::advice);
    describe(kind, &text, advice, error, secrets)
}

/// Returns the error of a body that was interrupted. The bytes before it are an incomplete
/// answer.
pub(super) fn reading(error: reqwest::Error, secrets: &Secrets) -> Error {
    let text = "the connection broke in the middle of the answer";
    describe(ErrorKind::StreamTruncated, text, None, error, secrets)
}

/// Returns the scheme, the host and the port. Other parts of an address may contain a secret.
fn origin_of(error: &reqwest::Error) -> String {
    match error.url() {
        Some(url) => url.origin().ascii_serialization(),
        None => "the server".into(),
    }
}

/// Returns the error and its sources, from the outermost on.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let first: &(dyn StdError + 'static) = error;
    iter::successors(Some(first), |&cause| cause.source())
}

/// Returns an error whose text has the innermost cause, and whose source has all causes. The URL is
/// removed and the texts are scrubbed, because a query or the address of a proxy may contain a key.
fn describe(
    kind: ErrorKind,
    text: &str,
    advice: Option<&str>,
    error: reqwest::Error,
    secrets: &Secrets,
) -> Error {
    let error = error.without_url();
    let mut lines: Vec<_> = causes(&error).map(ToString::to_string).collect();
    lines.dedup();
    let root = secrets.scrub(lines.last().map_or("", String::as_str));
    let chain = secrets.scrub(&lines.join(": "));
    let text = match advice {
        Some(advice) => format!("{text}: {root}; {advice}"),
        None => format!("{text}: {root}"),
    };
    Error::new(kind, secrets.scrub(&text)).with_source(chain)
}

fn kind_of(error: &reqwest::Error) -> ErrorKind {
    if error.is_builder() {
        return ErrorKind::Config;
    }

    for cause in causes(error) {
        if tls::is_tls_error(cause) {
            return ErrorKind::Tls;
        }

        // The type of tunnel errors is private, so they are recognized by their text.
        let text = cause.to_string();
        if text.starts_with("tunnel error") || text.contains("proxy auth") {
            return ErrorKind::Proxy;
        }
    }

    if error.is_dns() {
        return ErrorKind::Dns;
    }

    ErrorKind::Connect
}

#[cfg(feature = "tls")]
mod tls {
    use std::error::Error as StdError;
    use std::io;

    use rustls::{CertificateError, Error};

    /// Returns the error of rustls that a cause is or wraps.
    fn tls_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
        cause.downcast_ref().or_else(|| {
            // `io::Error::source` skips the error that it wraps.
            tls_error(cause.downcast_ref::<io::Error>()?.get_ref()?)
        })
    }

    pub(super) fn is_tls_error(cause: &(dyn StdError + 'static)) -> bool {
        tls_error(cause).is_some()
    }

    /// Returns the advice for a failure.
    pub(super) fn advice(cause: &(dyn StdError + 'static)) -> Option<&'static str> {
        use CertificateError::*;
        Some(match tls_error(cause)? {
            Error::InvalidCertificate(reason) => match reason {
                Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
                    "have the certificate renewed, or set the clock of this machine"
                }
                UnknownIssuer => {
                    "if the server is yours, add its issuer to the certificates this system trusts"
                }
                NotValidForName | NotValidForNameContext { .. } => {
                    "use a base URL with a name the certificate is for"
                }
                _ => "the server needs another certificate",
            },
            Error::InvalidMessage(_) => {
                "if the server speaks plain HTTP, use a base URL with http://"
            }
            _ => return None,
        })
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use std::error::Error as StdError;

    pub(super) fn is_tls_error(_: &(dyn StdError + 'static)) -> bool {
        false
    }

    pub(super) fn advice(_: &(dyn StdError + 'static)) -> Option<&'static str> {
        None
    }
}
