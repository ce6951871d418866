//! The tools `internet_search` and `web_search`, and the search providers behind them.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, ToolContext, ToolError, ToolOutput};
use crate::usage::maybe_count;
use crate::util::text;

/// The number of sources that are requested unless the call sets another.
const DEFAULT_SOURCES: usize = 5;
/// The maximum number of sources of a call.
const MAX_SOURCES: usize = 20;
/// The maximum length of a query, in characters.
const MAX_QUERY: usize = 1_000;
/// The maximum length of an answer, in characters.
const MAX_ANSWER: usize = 10_000;
/// The maximum length of a title, a URL and a snippet, in characters.
const MAX_FIELD: usize = 2_000;

/// A provider of internet searches.
#[async_trait]
pub trait SearchProvider: Send + Sync + 'static {
    /// Searches for `query` and returns about `limit` sources.
    ///
    /// # Errors
    ///
    /// Returns an error if the search fails; the model reads the text.
    async fn search(&self, query: &str, limit: usize) -> Result<SearchResults, BoxError>;
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchResults {
    /// A short answer to the query, from providers that give one.
    pub answer: Option<String>,
    /// The sources, best first.
    pub sources: Vec<Source>,
}

impl SearchResults {
    /// Creates results with these sources and without an answer.
    pub fn new(sources: Vec<Source>) -> Self {
        Self {
            answer: None,
            sources,
        }
    }

    /// Sets the answer.
    #[must_use]
    pub fn with_answer(mut self, answer: impl Into<String>) -> Self {
        self.answer = Some(answer.into());
        self
    }
}

/// A page in the results of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The title of the page.
    pub title: String,
    /// The URL of the page.
    pub url: String,
    /// The part of the page that fits the query.
    pub snippet: String,
}

impl Source {
    /// Creates a source from a page.
    pub fn new(
        title: impl Into<String>,
        url: impl Into<String>,
        snippet: impl Into<String>,
    ) -> Self {
        Self {
            title: title.into(),
            url: url.into(),
            snippet: snippet.into(),
        }
    }
}

/// Creates the tool `internet_search`, which sends a `query` to a search provider and returns its
/// answer and sources.
///
/// The output is `Answer: ..`, an empty line, `Sources:` and each source as `- [title](url)` with
/// its snippet below; without an answer it begins with the sources. A call requests 5 sources by
/// default, and 20 at most.
///
/// ```
/// use agentcore::tools::web::{SearchProvider, SearchResults, Source, internet_search};
/// use agentcore::{BoxError, Tool, ToolContext, async_trait};
/// use serde_json::json;
///
/// struct Handbook;
///
/// #[async_trait]
/// impl SearchProvider for Handbook {
///     async fn search(&self, _query: &str, _limit: usize) -> Result<SearchResults, BoxError> {
///         let page = Source::new("Leave", "https://wiki.corp/leave", "30 days a year.");
///         Ok(SearchResults::new(vec![page]).with_answer("30 days"))
///     }
/// }
///
/// # async fn example() -> Result<(), BoxError> {
/// let search = internet_search(Handbook);
/// let args = json!({"query": "How much leave is there?"});
/// let output = search.execute(ToolContext::detached(), args).await?;
/// assert_eq!(
///     output.content.text(),
///     "Answer: 30 days\n\nSources:\n- [Leave](https://wiki.corp/leave)\n  30 days a year.\n\n"
/// );
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn internet_search(provider: impl SearchProvider) -> FuncTool {
    search_tool("internet_search", "max_results", provider)
}

/// Creates the tool `web_search`: [`internet_search`] with the names of the agent `picoclaw`, where
/// the argument for the number of sources is `count`.
pub fn web_search(provider: impl SearchProvider) -> FuncTool {
    search_tool("web_search", "count", provider)
}

fn search_tool(name: &str, count: &str, provider: impl SearchProvider) -> FuncTool {
    let description = "Searches the internet and returns a short answer and sources to read.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for"},
            count: {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_SOURCES,
                "description": format!("How many sources. Defaults to {DEFAULT_SOURCES}")
            }
        },
        "required": ["query"]
    });

    let provider: Arc<dyn SearchProvider> = Arc::new(provider);
    let body = move |_cx: ToolContext, args| call(provider.clone(), args);
    FuncTool::new(name, description, parameters, body)
        .side_effect(SideEffect::Network)
        .idempotent()
}

#[derive(Deserialize)]
struct Input {
    query: String,
    #[serde(default, deserialize_with = "maybe_count", alias = "count")]
    max_results: Option<u64>,
}

async fn call(provider: Arc<dyn SearchProvider>, args: Value) -> Result<ToolOutput, BoxError> {
    let input = Input::deserialize(args)?;
    let query = input.query.trim();
    if query.is_empty() {
        return Err(ToolError::new("the query is empty").into());
    }

    if text::head(query, MAX_QUERY).1 > 0 {
        let text = format!("the query has more than {MAX_QUERY} characters");
        return Err(ToolError::new(text).into());
    }

    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limit = input
        .max_results
        .map_or(DEFAULT_SOURCES, count)
        .clamp(1, MAX_SOURCES);
    let mut results = provider.search(query, limit).await.map_err(shorten)?;
    results.sources.truncate(MAX_SOURCES);
    let answer = results.answer.as_deref().map(str::trim);
    results.answer = answer.map(|answer| text::truncate_redacted(answer, MAX_ANSWER));
    for source in &mut results.sources {
        for field in [&mut source.title, &mut source.url, &mut source.snippet] {
            *field = line(field);
        }
    }
    let sources: Vec<Value> = results
        .sources
        .iter()
        .map(|source| json!({"title": source.title, "url": source.url, "snippet": source.snippet}))
        .collect();
    let details = json!({"answer": results.answer, "sources": sources});
    Ok(ToolOutput::new(format_results(&results)).with_details(details))
}

/// Returns an error with at most [`MAX_ANSWER`] characters, because its text may be a server's.
fn shorten(error: BoxError) -> BoxError {
    let text = error.to_string();
    match text::head(&text, MAX_ANSWER) {
        (_, 0) => error,
        _ => text::truncate_redacted(&text, MAX_ANSWER).into(),
    }
}

fn format_results(results: &SearchResults) -> String {
    let mut out = String::new();
    let answer = results.answer.as_deref().unwrap_or_default();
    if !answer.is_empty() {
        let _ = write!(out, "Answer: {answer}\n\n");
    }

    if results.sources.is_empty() {
        out.push_str(if answer.is_empty() {
            "Nothing was found."
        } else {
            "No sources."
        });

        return out;
    }

    out.push_str("Sources:\n");
    for source in &results.sources {
        let url = &source.url;
        let is_named = !source.title.is_empty();
        let title = if is_named { &source.title } else { url };
        let _ = write!(out, "- [{title}]({url})\n  {}\n\n", source.snippet);
    }

    out
}

/// Returns the text on one line, so that one source cannot look like several.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    text::truncate_redacted(&words.join(" "), MAX_FIELD)
}
