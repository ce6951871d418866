//! The endpoint of a provider, and its requests.

use std::collections::HashSet;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt, TryFutureExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorKind, Result};
use crate::util::http_client::Scheme;
use crate::util::secret::Cut;
use crate::util::sync::lock;
use crate::util::text::{quoted, truncate};
use crate::util::time::later;
use crate::util::{Secret, http_secrets};

use super::super::status;
use super::body::{Body, ByteStream, IdleTimer, idle_error};
use super::client::{self, CONNECT_TIMEOUT};
use super::failure;
use super::secrets::Secrets;

/// The default of the maximum time without a byte of the reply. Some models think for minutes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The maximum length of a request's id, in characters.
pub(crate) const REQUEST_ID_LIMIT: usize = 200;

/// The maximum number of bytes to read of the body of a reply that is an error.
const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// The time limit for the body of a reply that is an error.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

/// A server's address, headers and timeouts.
///
/// A mistake in the address or a header is an error of the first request, so that builders need not
/// return a `Result`.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) provider: Arc<str>,
    base: Arc<str>,
    path: Arc<str>,
    query: Vec<(Arc<str>, Arc<str>)>,
    pub(super) headers: HeaderMap,
    pub(super) secrets: Secrets,
    pub(super) connect_timeout: Duration,
    pub(super) idle_timeout: Duration,
    /// The last mistake in a setting.
    mistake: Option<Arc<str>>,
    /// The address of requests, or what is wrong with it. Determined when it is first needed.
    url: Arc<OnceLock<Result<Url, String>>>,
}

/// An address, with the runtime of the requests to it: each runtime has a pool of its own.
type PoolAddress = (Option<Id>, Arc<str>);

/// The addresses that have replied since their last broken connection. Only these can have a
/// pooled connection.
static REPLIED: LazyLock<Mutex<HashSet<PoolAddress>>> = LazyLock::new(Mutex::default);

/// The maximum number of remembered addresses, because a program may use new addresses without end.
/// A request to a forgotten address is not retried at once when its pooled connection is broken.
const MAX_REPLIED: usize = 256;

/// An attempt without a reply.
struct Failed {
    error: Error,
    /// True if a connection broke, which may be one from the pool. False if none could be made, or
    /// if the time ran out.
    is_broken: bool,
}

/// A reply with a success status.
pub(crate) struct Reply {
    /// The provider's id of the request.
    pub(crate) request_id: Option<Arc<str>>,
    /// The body, as it comes.
    pub(crate) body: ByteStream,
}

impl Endpoint {
    /// Creates an endpoint. Error texts begin with `provider`, and requests go to `path` below the
    /// base URL.
    pub(crate) fn new(
        provider: impl Into<Arc<str>>,
        base_url: &str,
        path: impl Into<Arc<str>>,
    ) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self {
            provider: provider.into(),
            base: Arc::from(""),
            path: path.into(),
            query: Vec::new(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            secrets: Secrets::default(),
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            mistake: None,
            url: Arc::default(),
        }
        .base_url(base_url)
    }

    /// Sets the base URL. A trailing slash does not matter.
    pub(crate) fn base_url(mut self, base_url: &str) -> Self {
        self.base = base_url.trim().trim_end_matches('/').into();
        if let Ok(url) = Url::parse(&self.base) {
            self.secrets = self.secrets.with(http_secrets::of_url(&url));
        }
        self.url = Arc::default();
        self
    }

    /// Sets the path of requests below the base URL.
    pub(crate) fn path(mut self, path: impl Into<Arc<str>>) -> Self {
        self.path = path.into();
        self.url = Arc::default();
        self
    }

    /// Adds a query parameter to requests. Keys never belong there.
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.into(), value.into()));
        self.url = Arc::default();
        self
    }

    /// Sets the name in front of error texts.
    pub(crate) fn named(mut self, provider: &str) -> Self {
        self.provider = provider.into();
        self
    }

    /// Sets a header, replacing one with the same name. Its value is a secret, unless the header is
    /// a public one such as `accept`.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let value = value.trim();
        self.secrets = self
            .secrets
            .with(http_secrets::of_named_header(name, value));
        self.insert_header(name, value, !http_secrets::is_public(name))
    }

    /// Sets a header to `prefix`, such as `Bearer `, followed by a secret. Only the secret is
    /// redacted, not the prefix.
    pub(crate) fn secret_header(mut self, name: &str, prefix: &str, secret: &Secret) -> Self {
        // A key from a file ends in a line break, which is neither sent nor repeated by a server.
        let secret = Secret::from(secret.expose().trim());
        let value = format!("{prefix}{}", secret.expose());
        self.secrets = self.secrets.with([secret]);
        self.insert_header(name, &value, true)
    }

    pub(crate) fn without_header(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    fn insert_header(mut self, name: &str, value: &str, is_sensitive: bool) -> Self {
        match (
            HeaderName::try_from(name),
            HeaderValue::try_from(value.to_owned()),
        ) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(is_sensitive);
                self.headers.insert(name, value);
            }
            (Err(_), _) => {
                self.mistake = Some(format!("{} is not a valid header name", quoted(name)).into());
            }
            (Ok(name), Err(_)) => {
                let name = truncate(name.as_str(), 64);
                let text = format!(
                    "the value of the header {name} has control characters, such as a line break; \
                     remove them"
                );
                self.mistake = Some(text.into());
            }
        }

        self
    }

    /// Records a mistake in a setting, which the first request reports. Replaces an earlier one.
    pub(crate) fn with_mistake(mut self, text: impl Into<Arc<str>>) -> Self {
        self.mistake = Some(text.into());
        self
    }

    /// Returns the value of a header.
    pub(crate) fn header_value(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    pub(crate) fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Returns the name in front of error texts.
    pub(crate) fn provider(&self) -> &Arc<str> {
        &self.provider
    }

    /// Returns the texts that must not appear in errors.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Sends `body`, which is JSON, and returns the reply once its head has arrived.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] for a mistake in the endpoint, [`ErrorKind::Timeout`] if the
    /// head does not arrive within the idle timeout, and an error if the connection fails, if the
    /// status is not 2xx (see [`status`]), or if the reply is HTML.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub(crate) fn post_stream<'a>(
        &'a self,
        body: &'a Bytes,
    ) -> impl Future<Output = Result<Reply>> + Send + 'a {
        self.send(body)
            .map_err(|error| error.context(&self.provider))
    }

    async fn send(&self, body: &Bytes) -> Result<Reply> {
        let url = self.url()?;
        let to_error = |reason: String| Error::new(ErrorKind::Config, reason);
        let scheme = Scheme::of(url);
        let client = client::client(scheme, self.connect_timeout).map_err(to_error)?;
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        let address = (runtime, self.base.clone());
        // Looked up before the attempt: of several requests whose pooled connections are closed,
        // the first to fail forgets the address.
        let has_replied = lock(&REPLIED).contains(&address);
        let first = self.attempt(&client, url, body).await;
        let (response, timer) = match first {
            // The server had closed the pooled connection, so one new connection is tried: others
            // in the pool may be closed as well.
            Err(failed) if failed.is_broken && has_replied => {
                lock(&REPLIED).remove(&address);
                let client = client::unpooled_client(scheme, self.connect_timeout);
                let client = client.map_err(to_error)?;
                self.attempt(&client, url, body).boxed().await?
            }
            first => first?,
        };

        record_replied(&mut lock(&REPLIED), address);
        match self.accept(*response, timer) {
            Ok(reply) => Ok(reply),
            Err(response) => Err(self.refusal(*response).boxed().await),
        }
    }

    /// Returns the base URL, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the address of requests, or the mistake in the endpoint. The error does not quote
    /// the address, which may contain a password.
    pub(super) fn url(&self) -> Result<&Url> {
        let url = match &self.mistake {
            Some(text) => Err(&**text),
            None => self
                .url
                .get_or_init(|| self.request_url())
                .as_ref()
                .map_err(String::as_str),
        };
        url.map_err(|text| Error::new(ErrorKind::Config, text))
    }

    /// Returns the address of requests: base, path and query.
    fn request_url(&self) -> Result<Url, String> {
        let mut url = parse_url(&format!("{}{}", self.base, self.path))?;
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }

        Ok(url)
    }

    /// Checks that a request can be built.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] for the last mistake in a setting, or else in the address.
    pub(crate) fn check(&self) -> Result<()> {
        self.url()
            .map(drop)
            .map_err(|error| error.context(&self.provider))
    }

    /// Sends a request. Returns the reply and its idle timer, which the body uses again because a
    /// new timer takes a lock of the runtime. The reply is boxed, because it is larger than
    /// everything else in the future.
    fn attempt(
        &self,
        client: &reqwest::Client,
        url: &Url,
        body: &Bytes,
    ) -> impl Future<Output = Result<(Box<Response>, IdleTimer), Failed>> + Send + '_ {
        let request = client.post(url.clone()).headers(self.headers.clone());
        let sending = request.body(body.clone()).send();
        let timer = Box::pin(sleep_until(later(Instant::now(), self.idle_timeout)));
        select(sending, timer).map(|first| match first {
            Either::Left((Ok(response), timer)) => Ok((Box::new(response), timer)),
            Either::Left((Err(error), _)) => {
                let is_connected = !error.is_connect();
                let error = failure::sending(error, &self.secrets);
                let is_broken = is_connected && error.kind() == ErrorKind::Connect;
                Err(Failed { error, is_broken })
            }
            Either::Right(_) => Err(Failed {
                error: idle_error(self.idle_timeout),
                is_broken: false,
            }),
        })
    }

    /// Returns the reply as a stream, or the reply as it arrived if its status is no success or it
    /// is HTML.
    fn accept(&self, response: Response, timer: IdleTimer) -> Result<Reply, Box<Response>> {
        if !response.status().is_success() || is_html(&response) {
            return Err(Box::new(response));
        }

        let request_id = self.request_id(response.headers());
        let body = Body::new(
            response.bytes_stream(),
            timer,
            self.idle_timeout,
            self.secrets.clone(),
        );
        Ok(Reply {
            request_id,
            body: Box::pin(body),
        })
    }

    /// Returns the error for a reply whose status is no success, or that is HTML.
    pub(super) async fn refusal(&self, response: Response) -> Error {
        let request_id = self.request_id(response.headers());
        let status = response.status();
        let headers = response.headers().clone();
        let body = self.error_body(response).await;
        if !status.is_success() {
            return status::from_response(
                status.as_u16(),
                &headers,
                &body,
                request_id.as_deref(),
                &self.secrets,
            );
        }

        let excerpt = status::excerpt(&String::from_utf8_lossy(&body), &self.secrets);
        let error = Error::new(
            ErrorKind::Protocol,
            format!(
                "the answer is a web page, not a model's: {excerpt}; set the base URL to the \
                 address of the API"
            ),
        );
        match request_id {
            Some(id) => error.with_request_id(&*id),
            None => error,
        }
    }

    /// Returns the bytes of the body that arrived, at most [`ERROR_BODY_LIMIT`]. A body that breaks
    /// or is slow does not hide its status.
    async fn error_body(&self, response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let mut is_whole = false;
        let mut chunks = pin!(response.bytes_stream());
        let reading = async {
            while body.len() < ERROR_BODY_LIMIT {
                match chunks.next().await {
                    Some(Ok(chunk)) => {
                        let room = ERROR_BODY_LIMIT - body.len();
                        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    }
                    Some(Err(_)) => break,
                    None => {
                        is_whole = true;
                        break;
                    }
                }
            }
        };

        let limit = self.idle_timeout.min(ERROR_BODY_TIME);
        if tokio::time::timeout(limit, reading).await.is_err() {
            tracing::debug!("the body of an error reply did not end in time");
        }

        if !is_whole {
            let mut text = String::from_utf8_lossy(&body).into_owned();
            self.secrets.redact_cut(&mut text, Cut::End);
            return text.into_bytes();
        }

        body
    }

    /// Returns the provider's id of a request.
    fn request_id(&self, headers: &HeaderMap) -> Option<Arc<str>> {
        let mut names = ["request-id", "x-request-id"].iter();
        let id = names.find_map(|name| headers.get(*name)?.to_str().ok())?;
        Some(self.secrets.head(id, REQUEST_ID_LIMIT).into())
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// Records that the address has replied.
fn record_replied(addresses: &mut HashSet<PoolAddress>, address: PoolAddress) {
    if addresses.len() >= MAX_REPLIED && !addresses.contains(&address) {
        addresses.clear();
    }
    addresses.insert(address);
}

/// Returns `true` for a text that is one segment of a path as it is.
pub(crate) fn is_path_segment(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.trim_matches('.').is_empty() && text.chars().all(is_allowed)
}

fn is_html(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

pub(super) fn parse_url(address: &str) -> Result<Url, String> {
    match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(url) => Err(format!(
            "the base URL has the scheme {:?}; use http or https",
            url.scheme()
        )),
        Err(error) => Err(format!("the base URL cannot be used: {error}")),
    }
}

impl fmt::Debug for Endpoint {
    /// Names of headers only, and no address: both may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::new("test", "http://127.0.0.1:1/v1/", "/chat")
    }

    fn address(endpoint: &Endpoint) -> &str {
        endpoint.url().unwrap().as_str()
    }

    #[test]
    fn query_parameter_is_escaped() {
        let plain = endpoint();
        assert_eq!(address(&plain), "http://127.0.0.1:1/v1/chat");
        let queried = plain.query("alt", "sse").query("a&b", "c d=e");
        let expected = "http://127.0.0.1:1/v1/chat?alt=sse&a%26b=c+d%3De";
        assert_eq!(address(&queried), expected);
    }

    #[test]
    fn path_of_a_request_can_change() {
        let first = endpoint().query("alt", "sse");
        assert_eq!(address(&first), "http://127.0.0.1:1/v1/chat?alt=sse");
        let second = first.clone().path("/models/m:stream");
        let expected = "http://127.0.0.1:1/v1/models/m:stream?alt=sse";
        assert_eq!(address(&second), expected);
        assert_eq!(address(&first), "http://127.0.0.1:1/v1/chat?alt=sse");
    }

    #[test]
    fn error_names_the_provider() {
        let endpoint = endpoint().header("not a name", "").named("other");
        let error = endpoint.check().unwrap_err();
        assert!(error.text().starts_with("other: "), "{error}");
    }

    #[test]
    fn error_about_a_long_name_of_a_header_is_short() {
        let long_name = "x".repeat(60_000);
        for (name, value) in [(format!("{long_name} "), "v"), (long_name, "a\r\nb")] {
            let error = endpoint().header(&name, value).check().unwrap_err();
            assert!(error.text().len() < 300, "{error}");
        }
    }

    /// Sends a request to a server that does not reply.
    async fn breaks(address: &str) -> bool {
        let endpoint = Endpoint::new("test", address, "/chat");
        let client = client::client(Scheme::Http, CONNECT_TIMEOUT).unwrap();
        let body = Bytes::from_static(b"{}");
        let outcome = endpoint.attempt(&client, endpoint.url().unwrap(), &body);
        outcome.await.err().unwrap().is_broken
    }

    #[tokio::test]
    async fn connection_that_was_not_made_is_not_broken() {
        // Nobody listens on the first port, which only the system may hand out.
        assert!(!breaks("http://127.0.0.1:1").await);

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let accept = async { drop(listener.accept().await.unwrap()) };
        let (is_broken, ()) = tokio::join!(breaks(&address), accept);
        assert!(is_broken);
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let mut addresses = HashSet::new();
        for n in 0..10_000 {
            let address = (None, format!("http://host-{n}").into());
            record_replied(&mut addresses, address.clone());
            assert!(addresses.contains(&address) && addresses.len() <= MAX_REPLIED);
        }
    }
}
