//! The search with Brave.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, HeaderValue};
use serde::Deserialize;

use crate::error::{BoxError, Result};
use crate::util::Secret;

use super::search::{SearchProvider, SearchResults, Source};
use super::search_service::{Parameters, SearchService};

const PARAMETERS: Parameters = Parameters {
    name: "Brave",
    base_url: "https://api.search.brave.com",
    path: &["res", "v1", "web", "search"],
    variable: "BRAVE_API_KEY",
};

/// The search service of Brave.
///
/// It returns sources without an answer, at most 20. A search may take 30 seconds by default, and a
/// reply may have 2 MiB. Errors contain the status and advice, never the key.
///
/// ```no_run
/// use agentcore::tools::web::{Brave, internet_search};
///
/// let search = internet_search(Brave::from_env()?);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Brave(SearchService);

impl Brave {
    /// Creates a client of the service.
    pub fn new(key: impl Into<Secret>) -> Self {
        Self(SearchService::new(&PARAMETERS, Some(key.into())))
    }

    /// Creates the service, with the key in the environment variable `BRAVE_API_KEY`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Auth`](crate::ErrorKind::Auth) if the variable is not set or empty.
    pub fn from_env() -> Result<Self> {
        SearchService::key_from_env(&PARAMETERS).map(Self::new)
    }

    /// Sets the base URL of the service, for example of a gateway; `/res/v1/web/search` is added to
    /// it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) if it is not an http or https URL.
    pub fn base_url(self, url: &str) -> Result<Self> {
        self.0.with_base_url(url).map(Self)
    }

    /// Sets the time limit of a search. Defaults to 30 seconds.
    pub fn timeout(self, limit: Duration) -> Self {
        Self(self.0.with_timeout(limit))
    }

    async fn ask(&self, query: &str, limit: usize) -> Result<SearchResults, String> {
        let mut url = self.0.url().clone();
        url.query_pairs_mut()
            .append_pair("q", query)
            .append_pair("count", &limit.to_string())
            .append_pair("result_filter", "web")
            .append_pair("text_decorations", "false");
        let key = HeaderValue::from_str(self.0.key());
        let mut key = key.map_err(|_| "the key has characters that no header may have")?;
        key.set_sensitive(true);
        let request = self
            .0
            .client()?
            .get(url)
            .header(ACCEPT, "application/json")
            .header("x-subscription-token", key);
        let reply: Reply = self.0.send_for_json(request).await?;
        let pages = reply.web.unwrap_or_default().results.into_iter();
        let sources = pages.map(|page| {
            let snippet = page.description.unwrap_or_default();
            Source::new(page.title.unwrap_or_default(), page.url, snippet)
        });
        Ok(SearchResults::new(sources.collect()))
    }
}

#[async_trait]
impl SearchProvider for Brave {
    async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError> {
        self.0.search(self.ask(query, limit)).await
    }
}

/// A reply of the service. Without results, it has no `web`.
#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    web: Option<Pages>,
}

#[derive(Default, Deserialize)]
struct Pages {
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
}
