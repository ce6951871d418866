//! The search with Tavily.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::json;

use crate::error::{BoxError, Result};
use crate::util::Secret;

use super::search::{SearchProvider, SearchResults, Source};
use super::search_service::{Parameters, SearchService};

const PARAMETERS: Parameters = Parameters {
    name: "Tavily",
    base_url: "https://api.tavily.com",
    path: &["search"],
    variable: "TAVILY_API_KEY",
};

/// The search service of Tavily.
///
/// A search may take 30 seconds by default, and a reply may have 2 MiB. Errors contain the status
/// and advice, never the key.
///
/// ```no_run
/// use agentcore::tools::web::{Tavily, internet_search};
///
/// let search = internet_search(Tavily::from_env()?);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Tavily(SearchService);

impl Tavily {
    /// Creates a client of the service.
    pub fn new(key: impl Into<Secret>) -> Self {
        Self(SearchService::new(&PARAMETERS, Some(key.into())))
    }

    /// Creates the service, with the key in the environment variable `TAVILY_API_KEY`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Auth`](crate::ErrorKind::Auth) if the variable is not set or empty.
    pub fn from_env() -> Result<Self> {
        SearchService::key_from_env(&PARAMETERS).map(Self::new)
    }

    /// Sets the base URL of the service, for example of a gateway; `/search` is added to it.
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
        let body = json!({
            "query": query,
            "max_results": limit,
            "include_answer": true,
            "search_depth": "basic",
        });

        let request = self
            .0
            .client()?
            .post(self.0.url().clone())
            .header(CONTENT_TYPE, "application/json")
            .bearer_auth(self.0.key())
            .body(body.to_string());
        let reply: Reply = self.0.send_for_json(request).await?;
        let sources = reply.results.into_iter().map(|page| {
            let title = page.title.unwrap_or_default();
            Source::new(title, page.url, page.content.unwrap_or_default())
        });

        let mut results = SearchResults::new(sources.collect());
        results.answer = reply.answer;
        Ok(results)
    }
}

#[async_trait]
impl SearchProvider for Tavily {
    async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError> {
        self.0.search(self.ask(query, limit)).await
    }
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    answer: Option<String>,
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}
