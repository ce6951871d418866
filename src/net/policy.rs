//! The policy for URLs that may be fetched.

use std::net::{IpAddr, SocketAddr};

use reqwest::Url;

use crate::error::{Error, ErrorKind, Result};
use crate::util::secret::redacted;
use crate::util::text;

use super::address::{AddressKind, kind};

/// The maximum length of a URL, in bytes.
const MAX_URL: usize = 8 * 1024;

const WITH_USER: &str = "a URL with a user or password is not fetched";

/// Domains that never hold a public host.
const LOCAL: [&str; 10] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
];

/// Names of metadata services outside of `.internal`.
const METADATA: [&str; 3] = ["metadata.goog", "metadata.tencentyun.com", "instance-data"];

/// The URLs that may be fetched: URLs of the public internet, and hosts that you add.
///
/// It is meant for URLs that a model, a page or a remote server names, which must not reach the
/// program's own machine or network. Two things are checked: the URL as it is written, with
/// [`check_url`](Self::check_url), and the addresses its host resolves to, with
/// [`check_address`](Self::check_address). Only both checks together protect:
/// `web_fetch` and [`HttpTool`](crate::HttpTool) connect only to addresses that passed the second
/// check, without resolving the name again.
///
/// Without additions, these are allowed:
///
/// * schemes: `http` and `https`;
/// * ports: 80 and 443;
/// * URLs without a user or password before the host;
/// * hosts: public ones.
///
/// These hosts are not public:
///
/// * addresses of special networks in IPv4 and IPv6, such as loopback, private, shared, link-local,
///   multicast and documentation, however they are spelled;
/// * IPv6 addresses that carry an IPv4 address, except a public one by NAT64;
/// * metadata services;
/// * names without a dot, and names in `localhost`, `local`, `internal` and the like.
///
/// ```
/// use agentcore::net::AddressPolicy;
///
/// let policy = AddressPolicy::new();
/// assert!(policy.check_url("https://example.com/docs").is_ok());
/// assert!(policy.check_url("http://0x7f.1/").is_err());
/// assert!(policy.check_url("http://[::ffff:10.0.0.1]/").is_err());
/// assert!(policy.check_address("169.254.169.254:80".parse()?).is_err());
///
/// let policy = policy.allow_host("wiki.corp")?.allow_port(8080);
/// assert!(policy.check_url("http://wiki.corp:8080/start").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AddressPolicy {
    ports: Vec<u16>,
    private: bool,
    hosts: Vec<(String, Option<u16>)>,
    addresses: Vec<SocketAddr>,
}

impl AddressPolicy {
    /// Allows the public internet alone.
    pub fn new() -> Self {
        Self {
            ports: vec![80, 443],
            private: false,
            hosts: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// Allows another port, on every host that is allowed.
    pub fn allow_port(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// Allows private networks: RFC 1918, shared (CGNAT) and unique local addresses, names without
    /// a dot and names such as `wiki.internal`. Loopback and link-local addresses, metadata
    /// services and every other special network are still refused.
    pub fn allow_private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Allows a host, regardless of the addresses its name resolves to: its DNS is trusted.
    /// `wiki.corp` is allowed on the ports of the policy, `localhost:3000` on that port alone.
    /// Names below the host are not included.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if it is neither a host nor a host with a port.
    pub fn allow_host(mut self, host: &str) -> Result<Self> {
        let no_host = || {
            let text = format!("{host:?} is not a host; write example.com or example.com:8080");
            Error::new(ErrorKind::Config, text)
        };

        if host.contains(['/', '?', '#', '@', '\\']) || host.contains(char::is_whitespace) {
            return Err(no_host());
        }

        let parse = |scheme| Url::parse(&format!("{scheme}://{host}/")).map_err(|_| no_host());
        let url = parse("http")?;

        // `Url` omits the default port of its own scheme, but not the default port of the other
        // scheme.
        let port = url.port().or(parse("https")?.port());
        let name = plain(url.host_str().ok_or_else(no_host)?).to_owned();
        self.hosts.push((name, port));
        Ok(self)
    }

    /// Allows exactly this address and port. A URL may contain the address itself or a name that
    /// resolves to it, but no name that the policy refuses, such as `localhost`: allow that with
    /// [`allow_host`](Self::allow_host).
    pub fn allow_address(mut self, address: SocketAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Checks a URL as it is written. Its host still has to be resolved, and each address
    /// [checked](Self::check_address) before it is connected to, unless the host was added with
    /// [`allow_host`](Self::allow_host).
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is refused; the text contains the reason.
    pub fn check_url(&self, url: &str) -> Result<(), AddressRefused> {
        self.parse(url).map(drop)
    }

    /// Checks an address before it is connected to.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is refused; the text contains the reason.
    pub fn check_address(&self, address: SocketAddr) -> Result<(), AddressRefused> {
        if self.addresses.contains(&address) {
            return Ok(());
        }
        match kind(address.ip()) {
            AddressKind::Public => self.check_port(address.port()),
            AddressKind::Private(_) if self.private => self.check_port(address.port()),
            AddressKind::Private(what) | AddressKind::Special(what) => {
                Err(AddressRefused(format!("{} is {what}", address.ip())))
            }
        }
    }

    /// Returns the URL in its normal form, if nothing about it is refused.
    pub(crate) fn parse(&self, url: &str) -> Result<Url, AddressRefused> {
        let url = parse_url(url)?;
        self.check_host(&url)?;
        Ok(url)
    }

    /// Checks a URL that was parsed. The error does not quote it, because it may contain a secret.
    pub(crate) fn check_parsed(&self, url: &Url) -> Result<(), AddressRefused> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressRefused(WITH_USER.to_owned()));
        }
        self.check_host(url)
    }

    /// Returns `true` if the host was added, regardless of its addresses.
    pub(crate) fn trusts(&self, url: &Url) -> bool {
        let Some(host) = url.host_str().map(plain) else {
            return false;
        };
        let port = url.port_or_known_default();
        self.hosts.iter().any(|(name, only)| {
            let is_on_port = match only {
                Some(only) => port == Some(*only),
                None => port.is_some_and(|port| self.ports.contains(&port)),
            };
            name == host && is_on_port
        })
    }

    fn check_host(&self, url: &Url) -> Result<(), AddressRefused> {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(AddressRefused("the URL names no host".to_owned()));
        };

        if self.trusts(url) {
            return Ok(());
        }

        if let Some(ip) = literal(host) {
            return self.check_address(SocketAddr::new(ip, port));
        }

        // The name may resolve to one of the added addresses.
        if !self.addresses.iter().any(|address| address.port() == port) {
            self.check_port(port)?;
        }

        self.check_name(plain(host))
    }

    fn check_name(&self, name: &str) -> Result<(), AddressRefused> {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.split('.').any(str::is_empty) || !name.bytes().all(is_allowed) {
            return Err(AddressRefused(format!("{name:?} is not a host name")));
        }

        let is_within = |end: &str| {
            let head = name.strip_suffix(end);
            head.is_some_and(|head| head.is_empty() || head.ends_with('.'))
        };

        if METADATA.iter().any(|end| is_within(end)) || name.starts_with("metadata.google.") {
            return Err(AddressRefused(format!(
                "{name} is a cloud's metadata service"
            )));
        }

        let is_loopback = is_within("localhost") || is_within("localdomain");
        let is_local = !name.contains('.') || LOCAL.iter().any(|end| is_within(end));
        if is_loopback || is_local && !self.private {
            Err(AddressRefused(format!(
                "{name} is a name of a local network"
            )))
        } else {
            Ok(())
        }
    }

    fn check_port(&self, port: u16) -> Result<(), AddressRefused> {
        if self.ports.contains(&port) {
            return Ok(());
        }
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let ports = ports.join(", ");
        Err(AddressRefused(format!(
            "port {port} is not among the allowed ports: {ports}"
        )))
    }
}

impl Default for AddressPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// The reason a URL or an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressRefused(pub(crate) String);

/// Parses a URL and removes its fragment. Refuses URLs that other parsers may read differently.
fn parse_url(text: &str) -> Result<Url, AddressRefused> {
    let reject = |why: &str| {
        let text = redacted(text);
        let (excerpt, _) = text::head(&text, 100);
        Err(AddressRefused(format!("{excerpt:?} {why}")))
    };

    let text = text.trim();
    if text.len() > MAX_URL {
        return reject("is too long for a URL");
    }

    // URL parsers treat these characters differently.
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return reject("has characters that do not belong in a URL");
    }

    let Some((scheme, suffix)) = text.split_once("://") else {
        return reject("is not a URL; write https://example.com/");
    };

    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return reject("is not http or https");
    }

    let authority = suffix.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return reject("names no host");
    }

    if authority.contains('@') {
        return Err(AddressRefused(WITH_USER.to_owned()));
    }

    match Url::parse(text) {
        Ok(mut url) => {
            url.set_fragment(None);
            Ok(url)
        }
        Err(error) => reject(&format!("is not a URL: {error}")),
    }
}

/// Returns the address that a host of a parsed URL is, if it is not a name.
fn literal(host: &str) -> Option<IpAddr> {
    let bare_host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare_host.unwrap_or(host).parse().ok()
}

/// Returns the name without a trailing dot.
fn plain(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}
