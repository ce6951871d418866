//! The hosts and origins whose requests are served. Without this check, a page of another site
//! could reach the server through its user's browser: with a cross-site request, or through a name
//! that resolves to this machine (DNS rebinding).

use std::net::IpAddr;

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// The headers that a page of an allowed origin may send.
const ALLOWED_HEADERS: &str = "authorization, content-type, last-event-id";
const ALLOWED_METHODS: &str = "GET, POST, PATCH, DELETE";

/// The hosts and origins whose requests are served.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    /// The address that the server is bound to.
    pub(super) bound: IpAddr,
    /// Further hosts, in lower case, with or without a port.
    pub(super) hosts: Vec<String>,
    /// Further origins, in lower case.
    pub(super) origins: Vec<String>,
}

impl Origins {
    /// Checks the host and the origin of a request. Returns the origin if it belongs to another
    /// site.
    pub(super) fn check(&self, parts: &Parts) -> Result<Option<HeaderValue>, ApiError> {
        let host = host_of(parts)?;
        if !self.allows_host(&host) {
            return Err(ApiError::forbidden(format!(
                "requests to the host {host:?} are not served; the program can allow it with \
                 `Server::allow_host`"
            )));
        }

        let Some(value) = single(&parts.headers, &header::ORIGIN)? else {
            return Ok(None);
        };
        let origin = value.to_str().unwrap_or_default().to_ascii_lowercase();
        let is_same = ["http://", "https://"].iter().any(|scheme| {
            origin
                .strip_prefix(scheme)
                .is_some_and(|rest| *rest == host)
        });
        if is_same {
            return Ok(None);
        }
        if self.origins.contains(&origin) {
            return Ok(Some(value.clone()));
        }
        Err(ApiError::forbidden(format!(
            "requests from pages of {origin:?} are not served; the program can allow it with \
             `Server::allow_origin`"
        )))
    }

    fn allows_host(&self, host: &str) -> bool {
        let name = without_port(host);
        if self
            .hosts
            .iter()
            .any(|allowed| allowed == host || allowed == name)
        {
            return true;
        }
        if name == "localhost" {
            return true;
        }
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        let Ok(address) = literal.parse::<IpAddr>() else {
            return false;
        };
        // A page cannot make a browser send an address instead of the name that it was loaded from.
        address == self.bound || address.is_loopback() || self.bound.is_unspecified()
    }
}

/// Returns the host that a request names, in lower case.
fn host_of(parts: &Parts) -> Result<String, ApiError> {
    let value = single(&parts.headers, &header::HOST)?;
    let host = match (parts.uri.authority(), value) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(value)) => value.to_str().unwrap_or_default(),
        (None, None) => "",
    };
    Ok(host.to_ascii_lowercase())
}

fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        let text = format!("the header {:?} occurs more than once", name.as_str());
        return Err(ApiError::bad_request(text));
    }
    Ok(value)
}

fn without_port(host: &str) -> &str {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    }
}

/// Returns the reply to a preflight request of a page of an allowed origin.
pub(super) fn preflight_reply(method: &Method, headers: &HeaderMap) -> Option<Response> {
    let is_preflight =
        method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    is_preflight.then(|| {
        let headers = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ];
        (StatusCode::NO_CONTENT, headers).into_response()
    })
}

/// Adds the headers that let a page of an allowed origin read the response.
pub(super) fn add_cors_headers(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let exposed = HeaderValue::from_static("retry-after, x-thread-id");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(bound: &str) -> Origins {
        Origins {
            bound: bound.parse().unwrap(),
            hosts: vec!["agents.example".to_owned(), "other.example:8443".to_owned()],
            origins: Vec::new(),
        }
    }

    #[test]
    fn host_is_allowed_by_name_and_by_address() {
        let allowed = [
            "localhost",
            "localhost:8000",
            "127.0.0.1:9",
            "[::1]:8000",
            "[::1]",
            "agents.example",
            "agents.example:443",
            "other.example:8443",
        ];
        for host in allowed {
            assert!(origins("127.0.0.1").allows_host(host), "{host}");
        }
        let foreign_hosts = [
            "",
            "evil.example",
            "localhost.evil.example",
            "other.example",
            "192.168.0.4",
            "agents.example.",
            "127.0.0.1.evil.example",
            "2130706433",
        ];
        for host in foreign_hosts {
            assert!(!origins("127.0.0.1").allows_host(host), "{host}");
        }
        assert!(origins("0.0.0.0").allows_host("192.168.0.4:8000"));
        assert!(!origins("0.0.0.0").allows_host("evil.example"));
    }
}
