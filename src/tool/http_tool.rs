//! Tools that call an HTTP endpoint.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::{Map, Value, json};

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::net::{AddressPolicy, AddressRefused, Checked, Resolver, SystemResolver};
use crate::util::blocking::blocking_if_large;
use crate::util::http_body::{Body, read_body};
use crate::util::http_client::{self, Clients, Scheme};
use crate::util::json::has_more_values;
use crate::util::secret::{Cut, Redactor};
use crate::util::{Secret, http_secrets};

use super::access::{Concurrency, SideEffect};
use super::context::ToolContext;
use super::output::ToolOutput;
use super::tool::Tool;

/// The default time limit of a whole call, redirects included.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The extra time of the loop's own limit, so that this tool's error is reported first.
const GRACE: Duration = Duration::from_secs(5);

/// The maximum size of a reply, in bytes.
const MAX_REPLY: usize = 4 * 1024 * 1024;

/// The maximum number of JSON values in a reply. In objects with one field each, they take 35 MB
/// of memory.
const MAX_VALUES: usize = 50_000;

/// The maximum size of the quoted part of a failed reply, in bytes.
const MAX_QUOTE: usize = 2_000;

const MAX_REDIRECTS: usize = 5;

/// A tool that forwards its calls to a callback address.
///
/// A call is `POST {callback}/tools/{name}` with `{"name", "args"}`; the reply is
/// `{"result", "error"}`, both optional. A `result` that is not a string reaches the model as JSON
/// text.
///
/// A call succeeds if a response with status 200 arrives within the [`timeout`](Self::timeout),
/// redirects included, and its `error` is absent, `null`, `false` or an empty string. The body has
/// at most 4 MiB and 50,000 JSON values; a string counts as one value, however long it is.
/// Redirects, except those of status 303, are followed with the same body, but only to the same
/// scheme, host and port, or on that host from http at port 80 to https at port 443.
///
/// Every failure is an error of the call that begins with `http_tool: NAME`. The secrets of
/// [`bearer`](Self::bearer), of [`header`](Self::header) and of the address are redacted in
/// replies.
///
/// ```
/// use agentcore::HttpTool;
/// use serde_json::json;
///
/// let tool = HttpTool::new(
///     "lookup",
///     "Looks up an order",
///     json!({"type": "object", "properties": {"order": {"type": "string"}}}),
///     "http://127.0.0.1:8080/callbacks",
/// )?
/// .bearer("token")?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub struct HttpTool {
    name: String,
    description: String,
    parameters: Value,
    url: Url,
    headers: HeaderMap,
    redactor: Redactor,
    side_effect: SideEffect,
    concurrency: Concurrency,
    idempotent: bool,
    limit: Duration,
    policy: Option<AddressPolicy>,
    resolver: Arc<dyn Resolver>,
    /// The clients for http and for https, each created when it is first needed.
    clients: Clients<Scheme>,
}

impl HttpTool {
    /// Creates a tool that calls `{callback_url}/tools/{name}`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is neither http nor, with the feature `tls`, https.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        callback_url: &str,
    ) -> Result<Self> {
        Self::with_redactor(name.into(), description, parameters, callback_url, |url| {
            Ok(Redactor::default().with(http_secrets::of_url(url)))
        })
    }

    /// Creates a tool whose address a user of a server gave. The secrets of the address are
    /// redacted only in the texts of the tool: the texts of other users do not depend on them. An
    /// address with more than 16 secrets is an error.
    #[cfg(feature = "server")]
    pub(crate) fn of_user(
        name: String,
        description: String,
        parameters: Value,
        callback_url: &str,
        policy: AddressPolicy,
    ) -> Result<Self> {
        let redactor_of = http_secrets::local_redactor;
        Self::with_redactor(name, description, parameters, callback_url, redactor_of)?
            .policy(policy)
    }

    fn with_redactor(
        name: String,
        description: impl Into<String>,
        parameters: Value,
        callback_url: &str,
        redactor_of: impl FnOnce(&Url) -> Result<Redactor, String>,
    ) -> Result<Self> {
        let error = |why| Error::new(ErrorKind::Config, format!("http_tool: {name}: {why}"));
        let url = endpoint(callback_url, &name).map_err(error)?;
        let redactor = redactor_of(&url).map_err(error)?;
        Ok(Self {
            name,
            description: description.into(),
            parameters,
            url,
            headers: HeaderMap::from_iter([(
                CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )]),
            redactor,
            side_effect: SideEffect::Network,
            concurrency: Concurrency::Parallel,
            idempotent: false,
            limit: TIMEOUT,
            policy: None,
            resolver: Arc::new(SystemResolver),
            clients: Clients::new(),
        })
    }

    /// Adds a bearer token.
    ///
    /// # Errors
    ///
    /// Returns an error if the token cannot be the value of a header, such as one with a line
    /// break.
    pub fn bearer(self, token: impl Into<Secret>) -> Result<Self> {
        let token = token.into();
        let value = Secret::new(format!("Bearer {}", token.expose()));
        self.header("authorization", value)
    }

    /// Sets a header, replacing one with the same name. Its value is a secret, unless the header is
    /// a public one such as `accept` or `user-agent`.
    ///
    /// # Errors
    ///
    /// Returns an error if the name or the value is not valid in a header.
    pub fn header(mut self, name: &str, value: impl Into<Secret>) -> Result<Self> {
        let secret = value.into();
        let error = |what| {
            let text = format!("http_tool: {}: the header {name:?} has {what}", self.name);
            Error::new(ErrorKind::Config, text)
        };

        let header = HeaderName::try_from(name).map_err(|_| error("no valid name"))?;
        let mut value =
            HeaderValue::try_from(secret.expose()).map_err(|_| error("no valid value"))?;
        value.set_sensitive(!http_secrets::is_public(name));
        self.headers.insert(header, value);
        let secrets = http_secrets::of_named_header(name, secret.expose());
        self.redactor = self.redactor.with(secrets);
        Ok(self)
    }

    /// Sets the side effect. Defaults to [`SideEffect::Network`].
    #[must_use]
    pub fn side_effect(mut self, side_effect: SideEffect) -> Self {
        self.side_effect = side_effect;
        self
    }

    /// Prevents calls of the tool from running at the same time as other calls of the turn.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.concurrency = Concurrency::Exclusive;
        self
    }

    /// Marks the tool's calls as safe to repeat. A call whose result was lost in a crash then runs
    /// again automatically when its session continues.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets the limit on a whole call. Defaults to 120 seconds.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets which addresses may be connected to. Without a policy, all of them.
    ///
    /// Use it for callback addresses that come from others, as in a request that registers tools.
    /// The address is checked now, the addresses that its host resolves to at each connection, and
    /// the target of a redirect before it is followed. The system's proxy is not used, because it
    /// connects to addresses that cannot be checked. Unless it allows more, a policy refuses every
    /// port but 80 and 443 and addresses with a user or password: see [`AddressPolicy::allow_port`]
    /// and [`AddressPolicy::allow_host`].
    ///
    /// ```
    /// use agentcore::HttpTool;
    /// use agentcore::net::AddressPolicy;
    /// use serde_json::json;
    ///
    /// let tool = |callback| {
    ///     let tool = HttpTool::new("lookup", "Looks up", json!({"type": "object"}), callback)?;
    ///     tool.policy(AddressPolicy::new().allow_port(8443))
    /// };
    /// assert!(tool("http://tools.example.com:8443/callbacks").is_ok());
    /// assert!(tool("http://169.254.169.254/latest").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if the policy refuses the callback address itself.
    pub fn policy(mut self, policy: AddressPolicy) -> Result<Self> {
        if let Err(error) = policy.check_parsed(&self.url) {
            let text = self.error_text(format_args!("the callback address is refused: {error}"));
            return Err(Error::new(
                ErrorKind::Config,
                self.redactor.redact(&text).into_owned(),
            ));
        }
        self.policy = Some(policy);
        self.clients = Clients::new();
        Ok(self)
    }

    /// Sets the resolver of host names, which is used only with a [`policy`](Self::policy).
    /// Defaults to the system's.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolver = Arc::new(resolver);
        self.clients = Clients::new();
        self
    }

    async fn call(&self, args: Value) -> Result<String, String> {
        let body = json!({"name": self.name, "args": args}).to_string();
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self
                .client(&url)?
                .post(url.clone())
                .headers(self.headers.clone())
                .body(body.clone());
            let outcome = request.send().await;
            let response = outcome.map_err(|error| self.error_text(failure_reason(error)))?;
            match redirect(&url, &response) {
                Some(next) if http_client::is_same_origin_or_upgrade(&url, &next) => {
                    let checked = self
                        .policy
                        .as_ref()
                        .map(|policy| policy.check_parsed(&next));
                    if let Some(Err(reason)) = checked {
                        return Err(self.error_text(format_args!(
                            "redirected to an address that is refused: {reason}"
                        )));
                    }

                    url = next;
                }
                Some(_) => {
                    return Err(
                        self.error_text("redirected to another host, which is not followed")
                    );
                }
                None => return self.read(response).await,
            }
        }

        Err(self.error_text(format_args!("redirected more than {MAX_REDIRECTS} times")))
    }

    async fn read(&self, response: Response) -> Result<String, String> {
        let status = response.status();
        let max_len = if status == StatusCode::OK {
            MAX_REPLY
        } else {
            MAX_QUOTE
        };

        let body = read_body(response, max_len).await;
        let Body { bytes, is_cut } =
            body.map_err(|error| self.error_text(http_client::describe(error)))?;
        if status != StatusCode::OK {
            let mut text = String::from_utf8_lossy(&bytes).into_owned();
            if is_cut {
                self.redactor.redact_cut(&mut text, Cut::End);
            }

            let suffix = if is_cut { "..." } else { "" };
            let code = status.as_u16();
            return Err(format!(
                "http_tool: {} returned {code}: {}{suffix}",
                self.name,
                text.trim_end()
            ));
        }

        if is_cut {
            return Err(self.error_text(format_args!("the reply is longer than {MAX_REPLY} bytes")));
        }

        if has_more_values(&bytes, MAX_VALUES) {
            return Err(self.error_text(format_args!(
                "the reply has more than {MAX_VALUES} JSON values; return a large result as a string"
            )));
        }

        let mut reply: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
            let text = String::from_utf8_lossy(&bytes);
            let head: String = self
                .redactor
                .redact(&text)
                .chars()
                .take(MAX_QUOTE / 4)
                .collect();
            self.error_text(format_args!(
                r#"the reply is not {{"result", "error"}} in JSON: {error}: {head}"#
            ))
        })?;

        let mut take = |field| reply.remove(field).unwrap_or_default();
        match take("error") {
            Value::Null | Value::Bool(false) => Ok(value_text(take("result"))),
            Value::String(error) if error.is_empty() => Ok(value_text(take("result"))),
            error => Err(self.error_text(value_text(error))),
        }
    }

    fn client(&self, url: &Url) -> Result<Client, String> {
        let scheme = Scheme::of(url);
        self.clients.get(scheme, || {
            let mut builder =
                http_client::builder(scheme).map_err(|error| self.error_text(error))?;
            if let Some(policy) = &self.policy {
                let checked = Checked::new(policy, self.resolver.clone(), url);
                builder = builder.no_proxy().dns_resolver(checked);
            } else if is_loopback(url) {
                // A proxy would resolve the loopback address on its own machine.
                builder = builder.no_proxy();
            }

            let client = builder.build();
            client.map_err(|error| self.error_text(http_client::describe(error)))
        })
    }

    /// Returns the text of an error of the tool.
    fn error_text(&self, why: impl fmt::Display) -> String {
        format!("http_tool: {}: {why}", self.name)
    }
}

#[async_trait]
impl Tool for HttpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> &Value {
        &self.parameters
    }

    fn side_effect(&self) -> SideEffect {
        self.side_effect
    }

    fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.limit.saturating_add(GRACE))
    }

    fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    async fn execute(&self, _cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
        let timeout_error =
            || Err(self.error_text(format_args!("no reply within {:?}", self.limit)));
        let outcome = tokio::time::timeout(self.limit, self.call(args)).await;
        let outcome = outcome.unwrap_or_else(|_| timeout_error());
        let len = outcome.as_ref().map_or_else(String::len, String::len);
        let redactor = self.redactor.clone();
        let redact = move |text: String| redactor.redact(&text).into_owned();
        match blocking_if_large(len, move || outcome.map(&redact).map_err(&redact)).await? {
            Ok(text) => Ok(text.into()),
            Err(text) => Err(text.into()),
        }
    }
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password or a token, so only its host is printed.
        f.debug_struct("HttpTool")
            .field("name", &self.name)
            .field("host", &self.url.host_str())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

fn endpoint(callback: &str, name: &str) -> Result<Url, String> {
    let mut url = Url::parse(callback).map_err(|error| format!("the callback address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(String::from("the callback address must be http or https"));
    }

    if url.scheme() == "https" && cfg!(not(feature = "tls")) {
        let reason = "the callback address is https, which needs the crate feature `tls`";
        return Err(String::from(reason));
    }

    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["tools", name]);
    }

    Ok(url)
}

/// Returns the reason of a failed request: the refused address, if there is one.
fn failure_reason(error: reqwest::Error) -> String {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(refusal) = inner.downcast_ref::<AddressRefused>() {
            return refusal.to_string();
        }
        source = inner.source();
    }
    http_client::describe(error)
}

/// Returns the target of a redirect, to which the same request is sent. A 303 is none, because its
/// target is requested with GET.
fn redirect(from: &Url, response: &Response) -> Option<Url> {
    if !matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    ) {
        return None;
    }

    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    from.join(location).ok()
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

/// Converts a value to text: a string as it is, `null` to an empty text, anything else to JSON.
fn value_text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}
