//! A search service over HTTP.

use std::env;
use std::fmt;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::tool::ToolError;
use crate::util::http_body::{Body, read_body};
use crate::util::http_client::{self, ClientResult, Clients, Scheme};
use crate::util::json::{MAX_VALUES, has_more_values};
use crate::util::secret::{Cut, Redactor};
use crate::util::{Secret, http_secrets, text};

use super::search::SearchResults;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a reply, in bytes.
const MAX_REPLY: usize = 2 * 1024 * 1024;
/// The maximum length of a quoted error, in characters.
const MAX_QUOTE: usize = 300;

/// The constants of a service.
pub(super) struct Parameters {
    /// The name for errors.
    pub(super) name: &'static str,
    pub(super) base_url: &'static str,
    /// The path of searches below the base URL.
    pub(super) path: &'static [&'static str],
    /// The environment variable of the key; empty for a service without one.
    pub(super) variable: &'static str,
}

/// A client of one service.
pub(super) struct SearchService {
    parameters: &'static Parameters,
    key: Option<Secret>,
    redactor: Redactor,
    url: Url,
    limit: Duration,
    /// The clients, one for each runtime that searches.
    clients: Clients<Scheme>,
}

impl SearchService {
    pub(super) fn new(parameters: &'static Parameters, key: Option<Secret>) -> Self {
        let base_url = Url::parse(parameters.base_url).expect("it is a URL");
        Self {
            redactor: key.clone().into_iter().collect(),
            key,
            url: below(base_url, parameters.path),
            parameters,
            limit: DEFAULT_TIMEOUT,
            clients: Clients::new(),
        }
    }

    /// Returns the key in the environment.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Auth`] if the variable is not set or empty.
    pub(super) fn key_from_env(parameters: &Parameters) -> Result<String> {
        let Parameters { name, variable, .. } = parameters;
        let key = env::var(variable).unwrap_or_default();
        match key.trim() {
            "" => {
                let text =
                    format!("{name}: there is no key; set the environment variable {variable}");
                Err(Error::new(ErrorKind::Auth, text))
            }
            key => Ok(key.to_owned()),
        }
    }

    /// Returns the same service at another base URL.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if it is not an http or https URL.
    pub(super) fn with_base_url(mut self, url: &str) -> Result<Self> {
        let name = self.parameters.name;
        let error = || {
            let text = format!("{name}: the base URL is not http or https");
            Error::new(ErrorKind::Config, text)
        };

        let url = Url::parse(url).map_err(|_| error())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(error());
        }

        let url = below(url, self.parameters.path);
        self.redactor = self.redactor.with(http_secrets::of_url(&url));
        self.url = url;
        self.clients = Clients::new();
        Ok(self)
    }

    pub(super) fn with_timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn key(&self) -> &str {
        self.key.as_ref().map_or("", Secret::expose)
    }

    /// Returns the client for requests to the service, which follows no redirect.
    pub(super) fn client(&self) -> ClientResult {
        let scheme = Scheme::of(&self.url);
        self.clients.get(scheme, || {
            let builder = http_client::builder(scheme).map_err(|error| error.to_string())?;
            builder.build().map_err(http_client::describe)
        })
    }

    /// Awaits a search within the time limit. The error names the service and has no secrets.
    pub(super) async fn search(
        &self,
        search: impl Future<Output = Result<SearchResults, String>>,
    ) -> Result<SearchResults, BoxError> {
        let outcome = tokio::time::timeout(self.limit, search).await;
        let timeout_error = || Err(format!("no reply within {:?}", self.limit));
        outcome.unwrap_or_else(|_| timeout_error()).map_err(|why| {
            let text = format!("{}: {}", self.parameters.name, self.redactor.redact(&why));
            ToolError::new(text).into()
        })
    }

    /// Returns the status and the body of a reply with a status of 2xx.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let response = request.send().await.map_err(http_client::describe)?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(response).await);
        }

        let body = read_body(response, MAX_REPLY).await;
        let Body { bytes, is_cut } = body.map_err(http_client::describe)?;
        if is_cut {
            return Err(format!("the reply is longer than {MAX_REPLY} bytes"));
        }
        Ok((status, bytes))
    }

    /// Returns the JSON of a reply.
    pub(super) async fn send_for_json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, String> {
        let (_, bytes) = self.send(request).await?;
        if has_more_values(&bytes, MAX_VALUES) {
            return Err(format!("the reply has more than {MAX_VALUES} JSON values"));
        }
        let make_error = |error| format!("the reply cannot be read: {error}");
        serde_json::from_slice(&bytes).map_err(make_error)
    }

    /// Returns the error text for a status other than 2xx.
    async fn refusal(&self, response: Response) -> String {
        let status = response.status();
        let wait = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .map(str::trim);
        let variable = self.parameters.variable;
        let hint = match status.as_u16() {
            401 | 403 if !variable.is_empty() => {
                format!("the key is not accepted; check {variable}")
            }
            429 => match wait.and_then(|wait| wait.parse::<u64>().ok()) {
                Some(seconds) => format!("too many searches; try again in {seconds} seconds"),
                None => "too many searches; try again later".to_owned(),
            },
            432 | 433 => "the plan's limit is reached".to_owned(),
            500.. => "the service has a fault; try again later".to_owned(),
            _ => "the search was refused".to_owned(),
        };

        // The detail is optional: without it, the hint is returned.
        let detail = match read_body(response, 4 * MAX_QUOTE).await {
            Ok(body) => error_detail(&body.bytes, body.is_cut, &self.redactor),
            Err(_) => String::new(),
        };

        let code = status.as_u16();
        if detail.is_empty() {
            format!("status {code}: {hint}")
        } else {
            format!("status {code}: {hint} ({detail})")
        }
    }
}

impl fmt::Debug for SearchService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.parameters.name)
            .field("host", &self.url.host_str())
            .field("timeout", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Returns the URL with `path` appended to its own.
fn below(mut url: Url, path: &[&str]) -> Url {
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Returns the reason in a reply: `detail` or `error`, which may be an object with one of them.
/// Secrets are removed before it is cut.
fn error_detail(body: &[u8], is_cut: bool, redactor: &Redactor) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let inner = |value: &Value| value.get("detail").or(value.get("error")).cloned();
    let detail = json.as_ref().and_then(inner);
    let detail = detail.map(|detail| inner(&detail).unwrap_or(detail));
    let mut body_text = String::from_utf8_lossy(body).into_owned();
    if is_cut {
        redactor.redact_cut(&mut body_text, Cut::End);
    }

    let text = detail.as_ref().and_then(Value::as_str);
    let text = redactor.redact(text.unwrap_or(&body_text));
    let words: Vec<&str> = text.split_whitespace().collect();
    text::truncate(&words.join(" "), MAX_QUOTE).into_owned()
}
