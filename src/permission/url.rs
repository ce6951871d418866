//! URLs and rules about them.

use super::glob::{matches, tokens};
use super::host::{canonical, is_address, numeric_address};
use super::paths::lexical;

/// The maximum length of a URL, in bytes. Each rule reads it.
const MAX_LEN: usize = 64 * 1024;

/// The pattern of a rule about URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UrlPattern {
    /// The host, or any below it; on one port, or on all.
    Domain { host: String, port: Option<u16> },
    /// The whole URL. `*` matches any text within the host, and any text, slashes included, after
    /// it.
    Glob {
        scheme: String,
        /// With the port, if the rule names one.
        host: String,
        /// Without a port, only the usual one of the scheme matches.
        has_port: bool,
        path_and_query: String,
    },
}

impl UrlPattern {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("domain:") {
            return domain(name.trim());
        }
        let Some((scheme, remainder)) = text.split_once("://") else {
            return domain(text);
        };

        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("an address has no white space; write it as `%20`".to_owned());
        }

        if scheme != "*" && !is_scheme(scheme) {
            return Err(format!(
                "`{scheme}` is not a scheme; write WebFetch(https://example.com/*), or `*` for \
                 every scheme"
            ));
        }

        let end = remainder.find('/').unwrap_or(remainder.len());
        let authority = remainder[..end].to_lowercase();
        if authority.is_empty() || authority.contains('@') {
            return Err(format!("`{text}` names no host"));
        }

        let (name, port) = host_and_port(&authority);
        let port = port.filter(|port| !port.is_empty());
        let host = if name.contains(['*', '?']) {
            let name = name.trim_end_matches('.');
            name.is_ascii().then(|| name.to_owned())
        } else {
            canonical(name)
        };
        let mut host = host.ok_or_else(|| unusual(name))?;
        if let Some(port) = port {
            host.push(':');
            host.push_str(&port_pattern(port).ok_or_else(|| no_port(name))?);
        }

        let path_and_query = if end == remainder.len() {
            "/"
        } else {
            &remainder[end..]
        };
        check_path(path_and_query)?;
        Ok(Self::Glob {
            scheme: scheme.to_lowercase(),
            host,
            has_port: port.is_some(),
            path_and_query: path_and_query.to_owned(),
        })
    }

    /// Returns `true` if a rule to allow covers the URL: a host is allowed for web pages alone.
    pub(crate) fn allows(&self, url: &Url) -> bool {
        let is_web = matches!(url.scheme.as_str(), "http" | "https");
        let names_scheme = matches!(self, Self::Glob { scheme, .. } if scheme != "*");
        (is_web || names_scheme) && url.readings.iter().all(|reading| self.covers(url, reading))
    }

    /// Returns `true` if a rule to deny or to ask is about the URL.
    pub(crate) fn matches(&self, url: &Url) -> bool {
        url.readings.iter().any(|reading| self.covers(url, reading))
    }

    /// Returns `true` if the pattern covers the URL when its path and query are read like this.
    fn covers(&self, url: &Url, reading: &str) -> bool {
        match self {
            Self::Domain { host, port } => {
                let head = url.host.strip_suffix(host.as_str());
                head.is_some_and(|head| {
                    head.is_empty() || (head.ends_with('.') && !is_address(&url.host))
                }) && port.is_none_or(|port| url.port == Some(port))
            }
            Self::Glob {
                scheme,
                host,
                has_port,
                path_and_query,
            } => {
                let is_match = |pattern: &str, text: &str| {
                    matches(&tokens(pattern), &text.chars().collect::<Vec<_>>())
                };

                let authority = if *has_port { &url.authority } else { &url.host };

                (scheme == "*" || *scheme == url.scheme)
                    && is_match(host, authority)
                    && (*has_port || url.has_usual_port)
                    && is_match(path_and_query, reading)
            }
        }
    }
}

fn domain(name: &str) -> Result<UrlPattern, String> {
    let (name, port) = match name.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (name, None),
    };

    let name = name.strip_prefix("*.").unwrap_or(name);
    if name.trim_end_matches('.').is_empty() {
        return Err("empty specifier: write WebFetch(domain:example.com)".to_owned());
    }

    let host = canonical(name).ok_or_else(|| unusual(name))?;
    let port = port.map(str::parse::<u16>).transpose();
    let port = port.map_err(|_| no_port(name))?;
    Ok(UrlPattern::Domain { host, port })
}

/// Returns the pattern of a port, with a number as it is compared; `None` if no port matches.
fn port_pattern(port: &str) -> Option<String> {
    if port.contains(['*', '?']) {
        let is_possible = |c: char| c.is_ascii_digit() || matches!(c, '*' | '?');
        return port.chars().all(is_possible).then(|| port.to_owned());
    }
    let number: u16 = port.parse().ok()?;
    Some(number.to_string())
}

/// Refuses the path of a pattern that no address has after it is normalized.
fn check_path(path_and_query: &str) -> Result<(), String> {
    // A query may contain anything, and a wildcard may match its beginning.
    let end = path_and_query.find(['?', '#', '*']);
    let path = &path_and_query[..end.unwrap_or(path_and_query.len())];
    // A wildcard may continue the last name.
    let whole_names = match end {
        Some(_) => path.rsplit_once('/').map_or("", |(names, _)| names),
        None => path,
    };
    let mut names = whole_names.split('/');
    if names.any(|name| matches!(name, "." | "..")) || path.contains("//") {
        return Err(format!(
            "addresses are compared without `.`, `..` and `//` in their paths; write `{path}` \
             without them"
        ));
    }
    Ok(())
}

fn is_scheme(scheme: &str) -> bool {
    let mut bytes = scheme.bytes();
    !scheme.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'+')
}

fn no_port(name: &str) -> String {
    format!("what follows `{name}:` is not a port")
}

fn unusual(name: &str) -> String {
    format!(
        "`{name}` is not a host name in its usual spelling; write WebFetch(domain:example.com), \
         and letters beyond ASCII as `xn--..`"
    )
}

/// The parts of a URL that rules look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// The host in its canonical spelling, without user and port.
    pub(crate) host: String,
    /// The host and the port, if there is a usual one for the scheme or the URL has one.
    authority: String,
    port: Option<u16>,
    /// True if the port is the usual one of the scheme.
    has_usual_port: bool,
    /// The path and query, once for each way in which servers read them.
    readings: Vec<String>,
    /// True if some servers read the path as one that climbs.
    may_climb: bool,
}

impl Url {
    /// Returns the scheme, the host and the port.
    pub(super) fn origin(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.scheme, self.host)
    }

    /// Returns the URL that clients may read in a text, for rules to deny and to ask: unlike with
    /// [`parse`](Self::parse), a user, escapes in the host, numbers as a host and paths that may
    /// climb are read.
    pub(super) fn possible(text: &str) -> Option<Self> {
        Self::read(text).or_else(|| {
            let text = text.trim();
            let (scheme, remainder) = text.split_once("://").filter(|_| text.len() <= MAX_LEN)?;
            let (authority, path) = remainder.split_at(authority_end(remainder));
            let authority = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            let authority = decoded(authority).to_lowercase();
            let (host, port) = host_and_port(&authority);
            let host = numeric_address(host).map_or(host.to_owned(), |address| address.to_string());
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            Self::read(&format!("{scheme}://{host}{port}{path}"))
        })
    }

    /// `None` for what is not plainly a URL, too long, or may climb: no rule allows it then.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::read(text).filter(|url| !url.may_climb)
    }

    /// Returns the URL, also if its path may climb.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if text.len() > MAX_LEN || text.contains(is_odd) {
            return None;
        }

        let (scheme, remainder) = match text.split_once("://") {
            Some((scheme, remainder)) => (scheme.to_ascii_lowercase(), remainder),
            // Some clients accept `https:evil.test` without slashes.
            None if text.starts_with("http") && text.contains(':') => return None,
            None => ("https".to_owned(), text),
        };

        let end = authority_end(remainder);
        let authority = remainder[..end].to_lowercase();
        if !is_scheme(&scheme) || authority.contains(['@', '%']) {
            return None;
        }

        let (host, port) = host_and_port(&authority);
        let usual = match scheme.as_str() {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        };

        let port = match port.filter(|port| !port.is_empty()) {
            Some(port) if !port.bytes().all(|b| b.is_ascii_digit()) => return None,
            Some(port) => Some(port.parse().ok()?),
            None => usual,
        };

        let host = canonical(host)?;
        let remainder = &remainder[end..];
        let (path, query) =
            remainder.split_at(remainder.find(['?', '#']).unwrap_or(remainder.len()));
        let paths = path_readings(path);
        Some(Self {
            scheme,
            authority: match port {
                Some(port) => format!("{host}:{port}"),
                None => host.clone(),
            },
            host,
            port,
            has_usual_port: port == usual,
            may_climb: paths.iter().any(|path| may_climb(path)),
            readings: paths.into_iter().map(|path| path + query).collect(),
        })
    }
}

/// Returns the offset of the path, the query or the fragment behind the host.
fn authority_end(remainder: &str) -> usize {
    remainder.find(['/', '?', '#']).unwrap_or(remainder.len())
}

fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    if let Some(bracket_offset) = authority.rfind(']') {
        let (host, port) = authority.split_at(bracket_offset + 1);
        return (host, port.strip_prefix(':'));
    }
    match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

/// Returns the path as servers read it, once for each way.
fn path_readings(path: &str) -> Vec<String> {
    let path = decoded(path);
    let mut readings = vec![normal(&path)];
    if path.contains("//") {
        // Some servers ignore empty names only after the client has removed `..`, others read
        // another path.
        let sent_path = with_empty_names(&path);
        readings.push(normal(&sent_path));
        readings.push(sent_path);
    }
    readings
}

/// Returns `true` if some servers read the path as one that climbs.
fn may_climb(path: &str) -> bool {
    let lowercase = path.to_ascii_lowercase();
    let climbs = ["..%2f", "%2f..", "..%5c", "%5c..", "..;"];
    climbs.iter().any(|part| lowercase.contains(part))
}

/// `path` without `.`, `..` and repeated slashes; a trailing slash stays.
fn normal(path: &str) -> String {
    match path {
        "" => "/".to_owned(),
        path if path.ends_with('/') && path.len() > 1 => {
            format!("{}/", lexical(path).trim_end_matches('/'))
        }
        path => lexical(path),
    }
}

/// `path` without `.` and `..`, as clients send it: an empty name is a name, which `..` removes.
fn with_empty_names(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').skip(1) {
        match name {
            "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }

    if path.ends_with("/.") || path.ends_with("/..") {
        names.push("");
    }
    format!("/{}", names.join("/"))
}

/// `path` without needless escapes: `%2e%2e` climbs as `..` does.
fn decoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut remaining = path;
    while let Some(offset) = remaining.find('%') {
        let (prefix, escape) = remaining.split_at(offset);
        out.push_str(prefix);
        let byte = escape
            .get(1..3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let plain_byte = byte.filter(|b| b.is_ascii_alphanumeric() || b"-._~".contains(b));
        out.push(plain_byte.map_or('%', char::from));
        remaining = &escape[plain_byte.map_or(1, |_| 3)..];
    }

    out.push_str(remaining);
    out
}
