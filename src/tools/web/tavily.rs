//! The search with Tavily.

use std::env;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::tool::ToolError;
use crate::util::http_body::{Body, read_body};
use crate::util::json::{MAX_VALUES, has_more_values};
use crate::util::secret::{Cut, Redactor, redact_cut};
use crate::util::{Secret, http_client, http_secrets, text};

use super::search::{SearchProvider, SearchResults, Source};

const VARIABLE: &str = "TAVILY_API_KEY";
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a reply.
const MAX_REPLY: usize = 2 * 1024 * 1024;
/// The length to which an error is quoted, in characters.
const MAX_QUOTE: usize = 300;

/// The search service of Tavily.
///
/// A search may take 30 seconds, and a reply may have 2 MiB. Errors name the status and what to do
/// about it, and never show the key.
///
/// ```no_run
/// use agentcore::tools::web::{Tavily, internet_search};
///
/// let search = internet_search(Tavily::from_env()?);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[must_use]
pub struct Tavily {
    key: Secret,
    redactor: Redactor,
    url: Url,
    limit: Duration,
    /// The client, made by the first search, for it belongs to the runtime it is used in.
    client: OnceLock<Client>,
}

impl Tavily {
    /// Creates a client of the service.
    pub fn new(key: impl Into<Secret>) -> Self {
        let key = key.into();
        Self {
            redactor: [key.clone()].into_iter().collect(),
            key,
            url: Url::parse("https://api.tavily.com/search").expect("it is a URL"),
            limit: TIMEOUT,
            client: OnceLock::new(),
        }
    }

    /// The service, with the key in the environment variable `TAVILY_API_KEY`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Auth`] when the variable is not set or empty.
    pub fn from_env() -> Result<Self> {
        let key = env::var(VARIABLE).unwrap_or_default();
        match key.trim() {
            "" => {
                let text =
                    format!("Tavily: there is no key; set the environment variable {VARIABLE}");
                Err(Error::new(ErrorKind::Auth, text))
            }
            key => Ok(Self::new(key)),
        }
    }

    /// The service at another base URL, such as that of a gateway; `/search` is added to it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when it is not an http or https URL.
    pub fn base_url(mut self, url: &str) -> Result<Self> {
        let error = || {
            Error::new(
                ErrorKind::Config,
                "Tavily: the base URL is not http or https",
            )
        };

        let mut url = Url::parse(url).map_err(|_| error())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(error());
        }

        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("search");
        }

        self.redactor = self.redactor.with(http_secrets::of_url(&url));
        self.url = url;
        self.client = OnceLock::new();
        Ok(self)
    }

    /// Sets the time limit of a search; 30 seconds by default.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn ask(&self, query: &str, limit: usize) -> Result<SearchResults, String> {
        let body = json!({
            "query": query,
            "max_results": limit,
            "include_answer": true,
            "search_depth": "basic",
        });

        let request = self.client()?.post(self.url.clone());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .bearer_auth(self.key.expose())
            .body(body.to_string());
        let response = request.send().await.map_err(http_client::describe)?;
        let status = response.status();
        if !status.is_success() {
            return Err(refusal(response, &self.redactor).await);
        }

        let body = read_body(response, MAX_REPLY).await;
        let Body { bytes, is_cut } = body.map_err(http_client::describe)?;
        if is_cut {
            return Err(format!("the reply is longer than {MAX_REPLY} bytes"));
        }

        if has_more_values(&bytes, MAX_VALUES) {
            return Err(format!("the reply has more than {MAX_VALUES} JSON values"));
        }

        let make_error = |error| format!("the reply cannot be read: {error}");
        let reply: Reply = serde_json::from_slice(&bytes).map_err(make_error)?;
        let sources = reply.results.into_iter().map(|page| {
            let title = page.title.unwrap_or_default();
            Source::new(title, page.url, page.content.unwrap_or_default())
        });

        let mut results = SearchResults::new(sources.collect());
        results.answer = reply.answer;
        Ok(results)
    }

    fn client(&self) -> Result<&Client, String> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let builder = http_client::builder(self.url.scheme() == "https");
        let client = builder.map_err(|error| error.to_string())?.build();
        let client = client.map_err(http_client::describe)?;
        Ok(self.client.get_or_init(|| client))
    }
}

#[async_trait]
impl SearchProvider for Tavily {
    async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError> {
        let outcome = tokio::time::timeout(self.limit, self.ask(query, limit)).await;
        let timeout_error = || Err(format!("no reply within {:?}", self.limit));
        outcome.unwrap_or_else(|_| timeout_error()).map_err(|why| {
            let text = format!("Tavily: {}", self.redactor.text(&why));
            ToolError::new(text).into()
        })
    }
}

impl fmt::Debug for Tavily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tavily")
            .field("key", &self.key)
            .field("host", &self.url.host_str())
            .field("timeout", &self.limit)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    answer: Option<String>,
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

/// The error text for a status other than 2xx.
async fn refusal(response: Response, redactor: &Redactor) -> String {
    let status = response.status();
    let wait = response.headers().get(RETRY_AFTER);
    let wait = wait.and_then(|value| value.to_str().ok()).map(str::trim);
    let hint = match status.as_u16() {
        401 | 403 => format!("the key is not accepted; check {VARIABLE}"),
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
        Ok(body) => error_detail(&body.bytes, body.is_cut, redactor),
        Err(_) => String::new(),
    };

    let code = status.as_u16();
    if detail.is_empty() {
        format!("status {code}: {hint}")
    } else {
        format!("status {code}: {hint} ({detail})")
    }
}

/// The reason in a reply. Secrets are removed before it is cut.
fn error_detail(body: &[u8], is_cut: bool, redactor: &Redactor) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let text = json.as_ref().and_then(|reply| {
        let detail = reply.get("detail").or(reply.get("error"))?;
        detail.get("error").unwrap_or(detail).as_str()
    });

    let mut body_text = String::from_utf8_lossy(body).into_owned();
    if is_cut {
        redact_cut(&mut body_text, Cut::End);
    }

    let text = redactor.text(text.unwrap_or(&body_text));
    let words: Vec<&str> = text.split_whitespace().collect();
    text::truncate(&words.join(" "), MAX_QUOTE).into_owned()
}
