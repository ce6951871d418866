//! Addresses and rules about them.

use super::glob::{matches, tokens};

/// What a rule about addresses asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UrlPattern {
    /// The host, or any below it.
    Domain(String),
    /// The whole address; `*` stops at slashes, but for a last one.
    Glob {
        scheme: String,
        host: String,
        rest: String,
    },
}

impl UrlPattern {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let (is_domain, name) = match text.strip_prefix("domain:") {
            Some(name) => (true, name.trim()),
            None => (!text.contains("://"), text),
        };
        if is_domain {
            let name = name
                .strip_prefix("*.")
                .unwrap_or(name)
                .trim_end_matches('.')
                .to_lowercase();
            if name.is_empty() {
                return Err("empty specifier: write WebFetch(domain:example.com)".to_owned());
            }
            if !name
                .chars()
                .all(|c| c.is_alphanumeric() || ".-_:[]".contains(c))
            {
                return Err(format!(
                    "`{name}` is no host name; write WebFetch(domain:example.com)"
                ));
            }
            return Ok(Self::Domain(name));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let end = rest.find('/').unwrap_or(rest.len());
        let host = rest[..end].to_lowercase();
        if host.is_empty() || host.contains('@') {
            return Err(format!("`{text}` names no host"));
        }
        Ok(Self::Glob {
            scheme: scheme.to_lowercase(),
            host,
            rest: if end == rest.len() {
                "/".to_owned()
            } else {
                rest[end..].to_owned()
            },
        })
    }

    pub(crate) fn matches(&self, url: &Url) -> bool {
        match self {
            Self::Domain(domain) => {
                url.host == *domain
                    || url
                        .host
                        .strip_suffix(domain.as_str())
                        .is_some_and(|head| head.ends_with('.') && !is_address(&url.host))
            }
            Self::Glob { scheme, host, rest } => {
                let fits = |pattern: &str, text: &str| {
                    matches(&tokens(pattern), &text.chars().collect::<Vec<_>>())
                };
                let authority = if host.contains(':') {
                    &url.authority
                } else {
                    &url.host
                };
                (scheme == "*" || *scheme == url.scheme)
                    && fits(host, authority)
                    && (host.contains(':') || url.default_port)
                    && fits(rest, &url.rest)
            }
        }
    }
}

/// The parts of an address that rules look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// Lower case, without user, port and trailing dot.
    pub(crate) host: String,
    authority: String,
    default_port: bool,
    rest: String,
}

impl Url {
    /// `None` for what is not plainly an address: no rule allows it then.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || c == '\\')
        {
            return None;
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("https".to_owned(), text),
        };
        let known = !scheme.is_empty()
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'+');
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = rest[..end].to_lowercase();
        if !known || authority.contains(['@', '%']) {
            return None;
        }
        let (host, port) = match authority.rfind(']') {
            Some(close) => {
                let (host, port) = authority.split_at(close + 1);
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority.as_str(), None),
            },
        };
        let port = match port {
            Some(port) if !port.bytes().all(|b| b.is_ascii_digit()) => return None,
            port => port.filter(|port| !port.is_empty()),
        };
        let default_port = match port {
            None => true,
            Some(port) => matches!((scheme.as_str(), port), ("https", "443") | ("http", "80")),
        };
        let host = host.trim_end_matches('.').to_owned();
        if host.is_empty() {
            return None;
        }
        let rest = &rest[end..];
        let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        let path = match path {
            "" => "/".to_owned(),
            path if path.ends_with('/') && path.len() > 1 => {
                format!("{}/", super::paths::lexical(path))
            }
            path => super::paths::lexical(path),
        };
        Some(Self {
            scheme,
            authority: authority.clone(),
            host,
            default_port,
            rest: format!("{path}{query}"),
        })
    }
}

/// Whether the host is an address: nothing is below one.
fn is_address(host: &str) -> bool {
    host.starts_with('[')
        || host
            .split('.')
            .all(|label| label.bytes().all(|b| b.is_ascii_digit()))
}
