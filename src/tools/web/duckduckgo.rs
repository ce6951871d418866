//! The search with DuckDuckGo.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::ACCEPT;
use reqwest::{StatusCode, Url};

use crate::error::{BoxError, Result};
use crate::util::blocking::blocking_until_dropped;

use super::duckduckgo_page::{Page, read};
use super::search::{SearchProvider, SearchResults};
use super::search_service::{Parameters, SearchService};

const PARAMETERS: Parameters = Parameters {
    name: "DuckDuckGo",
    base_url: "https://html.duckduckgo.com",
    path: &["html", ""],
    variable: "",
};

/// The search of DuckDuckGo, without a key. It reads the page for browsers without scripts.
///
/// It returns the sources of the first page, without an answer; advertisements are omitted. After
/// many searches the service asks for proof that a person searches, and searches fail with an error
/// that states this. Use a service with a key, such as [`Brave`](super::Brave), if your program
/// depends on searches.
///
/// A search may take 30 seconds by default, and a reply may have 2 MiB.
///
/// ```
/// use agentcore::tools::web::{DuckDuckGo, internet_search};
///
/// let search = internet_search(DuckDuckGo::new());
/// ```
#[derive(Debug)]
#[must_use]
pub struct DuckDuckGo(SearchService);

impl DuckDuckGo {
    /// Creates a client of the service.
    pub fn new() -> Self {
        Self(SearchService::new(&PARAMETERS, None))
    }

    /// Sets the base URL of the service, for example of a gateway; `/html/` is added to it.
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
        url.query_pairs_mut().append_pair("q", query);
        let request = self
            .0
            .client()?
            .get(url.clone())
            .header(ACCEPT, "text/html");
        let (status, body) = self.0.send(request).await?;
        let page = read_page(url, body).await?;
        match page {
            Page::Results(mut sources) => {
                sources.truncate(limit);
                Ok(SearchResults::new(sources))
            }
            Page::Challenge => Err(refusal()),
            // DuckDuckGo answers with this status when it asks for proof of a person.
            Page::Unknown if status == StatusCode::ACCEPTED => Err(refusal()),
            Page::Unknown => Err("the reply is no page of results".to_owned()),
        }
    }
}

fn refusal() -> String {
    "it asks for a person, after too many searches; try again later".to_owned()
}

/// Reads a page on a thread for blocking work.
async fn read_page(url: Url, body: Vec<u8>) -> Result<Page, String> {
    let page = blocking_until_dropped(move |cancellation| {
        let html = String::from_utf8_lossy(&body);
        Ok(read(&html, &url, cancellation))
    });
    page.await.map_err(|error| error.to_string())
}

impl Default for DuckDuckGo {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl SearchProvider for DuckDuckGo {
    async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError> {
        self.0.search(self.ask(query, limit)).await
    }
}
