//! The tool that fetches a page.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::error::BoxError;
use crate::net::{AddressPolicy, Resolver, SystemResolver};
use crate::tool::{Access, SideEffect, Tool, ToolContext, ToolError, ToolOutput};
use crate::tools::compute::on_own_thread;
use crate::usage::maybe_count;
use crate::util::secret::{Cut, redact_cut, redact_text};
use crate::util::{Cancellation, text};

use super::fetch::{Fetched, Limits, Page, fetch};
use super::guard::Guard;
use super::kind::{self, PageKind};
use super::markdown;

/// The default time limit of a whole call.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time by which the engine's limit of a call is longer, so that this tool's error is reported
/// first.
const GRACE: Duration = Duration::from_secs(5);
/// The default number of bytes of a page that are read.
const DEFAULT_MAX_BYTES: usize = 5 * 1024 * 1024;
/// The default number of redirects that are followed.
const DEFAULT_MAX_REDIRECTS: usize = 5;
/// The maximum number of characters that a call returns.
const MAX_CHARS: usize = 50_000;
/// The maximum length of a quoted error page, in characters.
const MAX_QUOTE: usize = 1_000;

/// The permits for conversions, for all calls of the process: each conversion takes up to 30 MB. A
/// call that waits for one does so within its time limit.
static CONVERSIONS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(2)));

/// The tool `web_fetch`, which fetches a page of the internet and returns its text, HTML as
/// Markdown.
///
/// Only addresses that an [`AddressPolicy`] allows are fetched, including those of redirects, and
/// connections go to the addresses that were checked. Requests are GET, without cookies. They
/// ignore the system's proxy, because the address that a proxy connects to cannot be checked.
///
/// HTML, text, JSON and XML are read; any other type is an error that names it. At most 5 MiB of a
/// page are read, and at most eight pages of more than 512 KiB at the same time in the process. A
/// page of more than 50,000 elements, with elements nested more than 512 deep, with more than
/// 200,000 attributes or 8 MiB of their values, or with thousands of attributes in one element, is
/// read up to that point, and the output contains a note about it. Quotes and lists nested more
/// than 32 deep are shown without marks, and tables of more than 4 MiB without columns. A call
/// returns at most 50,000 characters from `offset`, and the offset at which to continue. The output
/// begins with the title, the final URL and the status, which is 2xx; any other status is an error
/// with the start of the server's answer.
///
/// Redirects are followed to the same scheme, host and port, and on that host from http at port 80
/// to https at port 443. A redirect from https to http on the same host is an error. Any other
/// redirect is returned to the model as text, so that permission rules such as
/// `WebFetch(domain:example.com)` apply to every host.
///
/// Rules about paths are not applied to redirects within a host. If you have such rules, disable
/// redirects with [`max_redirects(0)`](Self::max_redirects).
///
/// ```
/// use agentcore::tools::web::{AddressPolicy, WebFetch};
/// use agentcore::{Tool, ToolContext};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let fetch = WebFetch::new().policy(AddressPolicy::new().allow_host("wiki.corp")?);
/// let args = json!({"url": "http://169.254.169.254/latest/meta-data/"});
/// let refused = fetch.execute(ToolContext::detached(), args).await.unwrap_err();
/// assert!(refused.to_string().contains("a cloud's metadata service"));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[must_use]
pub struct WebFetch {
    guard: Guard,
    parameters: Value,
    timeout: Duration,
    limits: Limits,
}

impl WebFetch {
    /// Creates a tool that fetches pages of the public internet.
    pub fn new() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Such as https://example.com/page"},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Where in the text to begin, in characters. Defaults to 0"
                },
                "max_chars": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many characters to return. Defaults to 50000, the maximum"
                },
                "raw": {"type": "boolean", "description": "Return HTML as it is"}
            },
            "required": ["url"]
        });

        Self {
            guard: Guard {
                policy: AddressPolicy::new(),
                resolver: Arc::new(SystemResolver),
            },
            parameters,
            timeout: DEFAULT_TIMEOUT,
            limits: Limits {
                redirects: DEFAULT_MAX_REDIRECTS,
                bytes: DEFAULT_MAX_BYTES,
            },
        }
    }

    /// Sets the policy for URLs that may be fetched. Defaults to all URLs of the public internet.
    pub fn policy(mut self, policy: AddressPolicy) -> Self {
        self.guard.policy = policy;
        self
    }

    /// Sets the resolver of host names. Defaults to the system's. The addresses are checked.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.guard.resolver = Arc::new(resolver);
        self
    }

    /// Sets the time limit of a whole call. Defaults to 30 seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Sets the number of bytes of a page that are read. Defaults to 5 MiB.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// Sets the number of redirects within a host that are followed. Defaults to 5. With 0, none
    /// is followed: a redirect is returned to the model as one to another host is.
    pub fn max_redirects(mut self, redirects: usize) -> Self {
        self.limits.redirects = redirects;
        self
    }

    async fn call(&self, input: Input) -> Result<ToolOutput, String> {
        let error = |why| format!("{why}; it is not fetched");
        let url = self.guard.policy.parse(&input.url).map_err(error)?;
        match fetch(&self.guard, url, self.limits).await? {
            Fetched::Page(page) => render_page(page, &input).await,
            Fetched::Redirect { from, to } => {
                let text = format!(
                    "{from} redirects to {to}, which was not followed. To read it, call web_fetch \
                     with that URL."
                );
                let details = json!({"url": from.as_str(), "redirect": to.as_str()});
                Ok(ToolOutput::new(text).with_details(details))
            }
        }
    }
}

impl Default for WebFetch {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Deserialize)]
struct Input {
    url: String,
    #[serde(default, deserialize_with = "maybe_count", alias = "start_index")]
    offset: Option<u64>,
    #[serde(
        default,
        deserialize_with = "maybe_count",
        alias = "maxChars",
        alias = "max_length"
    )]
    max_chars: Option<u64>,
    #[serde(default)]
    raw: Option<bool>,
}

#[async_trait]
impl Tool for WebFetch {
    fn name(&self) -> &str {
        "web_fetch"
    }

    fn description(&self) -> &str {
        "Fetches a page from the internet and returns its text, HTML as Markdown. It reads HTML, \
         text, JSON and XML. A redirect to another host is returned instead of followed."
    }

    fn parameters(&self) -> &Value {
        &self.parameters
    }

    fn side_effect(&self) -> SideEffect {
        SideEffect::Network
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout.saturating_add(GRACE))
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    /// Returns the URL in the form in which it is fetched, so that rules apply to that URL.
    fn accesses(&self, args: &Value) -> Vec<Access> {
        let Some(text) = args.get("url").and_then(Value::as_str) else {
            return Vec::new();
        };
        let raw = || Access::Url(text.into());
        match self.guard.policy.parse(text) {
            // A rule may spell the host with characters beyond ASCII.
            Ok(url) if !text.is_ascii() => vec![Access::Url(url.as_str().into()), raw()],
            Ok(url) => vec![Access::Url(url.as_str().into())],
            Err(_) => vec![raw()],
        }
    }

    async fn execute(&self, _cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
        let input = Input::deserialize(args)?;
        let outcome = tokio::time::timeout(self.timeout, self.call(input)).await;
        let timeout_error = || Err(format!("the page did not arrive within {:?}", self.timeout));
        let outcome = outcome.unwrap_or_else(|_| timeout_error());
        outcome.map_err(|text| ToolError::new(format!("web_fetch: {text}")).into())
    }
}

impl fmt::Debug for WebFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebFetch")
            .field("policy", &self.guard.policy)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The text of a page, converted or raw, without secrets.
struct PageText {
    text: String,
    title: Option<String>,
    is_cut: bool,
}

async fn render_page(page: Page, input: &Input) -> Result<ToolOutput, String> {
    let url = page.url.clone();
    let status = page.status;
    let content_type = page.content_type.clone();
    let bytes = page.body.bytes.len();
    let page_text = convert(page, input.raw == Some(true)).await?;
    if !status.is_success() {
        let quote = text::truncate(&page_text.text, MAX_QUOTE);
        return Err(format!("{url} returned {status}: {quote}"));
    }

    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let offset = input.offset.map_or(0, count);
    let max_chars = input.max_chars.map_or(MAX_CHARS, count).clamp(1, MAX_CHARS);
    let (prefix, _) = text::head(&page_text.text, offset);
    let (part, remaining) = text::head(&page_text.text[prefix.len()..], max_chars);
    let mut out = String::new();
    if let Some(title) = &page_text.title {
        out.push_str(&format!("Title: {title}\n"));
    }

    out.push_str(&format!("URL: {url}\nStatus: {status}\n\n{part}"));
    if page_text.text.is_empty() {
        out.push_str("(the page has no text)");
    } else if part.is_empty() {
        let length = prefix.chars().count();
        out.push_str(&format!("(the page has only {length} characters)"));
    }

    if remaining > 0 {
        let next = offset + part.chars().count();
        out.push_str(&format!(
            "\n\n... ({remaining} more characters; continue with offset {next})"
        ));
    } else if page_text.is_cut {
        out.push_str("\n\n... (the page is larger than what is read; its rest is left out)");
    }

    let details = json!({
        "url": url.as_str(),
        "status": status.as_u16(),
        "content_type": content_type,
        "title": page_text.title,
        "bytes": bytes,
        "truncated": remaining > 0 || page_text.is_cut,
    });

    Ok(ToolOutput::new(out).with_details(details))
}

/// Converts a page on its own thread. Waits while two other pages are being converted.
async fn convert(page: Page, raw: bool) -> Result<PageText, String> {
    let url = page.url.clone();
    let permit = CONVERSIONS.clone().acquire_owned().await;
    let permit = permit.map_err(|error| error.to_string())?;
    let conversion = on_own_thread(move |stop: &Cancellation| {
        let page_text = to_page_text(&page, raw, stop);

        // Released by the thread, because an abandoned call does not wait for it.
        drop(permit);
        page_text
    });

    let page_text = conversion
        .await
        .map_err(|error| format!("{url}: {error}"))?;
    page_text.ok_or_else(|| format!("{url} cannot be converted"))
}

fn to_page_text(page: &Page, raw: bool, stop: &Cancellation) -> PageText {
    let text = kind::decoded(&page.body.bytes, page.charset, page.kind);
    let mut page_text = if page.kind != PageKind::Html || raw {
        PageText {
            text,
            title: None,
            is_cut: page.body.is_cut,
        }
    } else {
        let conversion = markdown::convert(&text, &page.url, stop);
        PageText {
            text: conversion.text,
            title: conversion.title,
            is_cut: page.body.is_cut || conversion.is_cut,
        }
    };

    // Calls return parts of the text, and a part may begin or end within a secret.
    if page_text.is_cut {
        redact_cut(&mut page_text.text, Cut::End);
    } else {
        redact_text(&mut page_text.text);
    }
    page_text
}
