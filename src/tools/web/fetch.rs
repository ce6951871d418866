//! The fetch of one page: its redirects, its kind, its bytes.

use std::sync::{Arc, LazyLock};

use encoding_rs::Encoding;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::util::http_body::BodyReader;
use crate::util::{http_client, text};

use super::guard::Guard;
use super::kind::{self, PageKind};

/// The maximum length of a header's value that is read and quoted, in characters.
const MAX_QUOTE: usize = 300;

/// The maximum number of bytes of a page that are read without a permit.
const SMALL_PAGE: usize = 512 * 1024;

/// The permits for larger pages, for all fetches of the process. A fetch that waits for one does so
/// within its time limit.
static LARGE_PAGES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(8)));

/// The result of a fetch.
pub(super) enum Fetched {
    Page(Page),
    /// A redirect to another host, which is not followed.
    Redirect {
        from: Url,
        to: Url,
    },
}

/// A page as the server sent it.
pub(super) struct Page {
    pub(super) url: Url,
    pub(super) status: StatusCode,
    /// The content type without parameters; empty if the server declares none.
    pub(super) content_type: String,
    pub(super) kind: PageKind,
    pub(super) charset: Option<&'static Encoding>,
    pub(super) body: PageBody,
}

/// The content of a page, up to the limit.
pub(super) struct PageBody {
    pub(super) bytes: Vec<u8>,
    /// True if the page is longer than the limit.
    pub(super) is_cut: bool,
    /// The permit of a large page, held while its bytes are in memory.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The limits of a fetch.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The number of redirects that are followed.
    pub(super) redirects: usize,
    /// The number of bytes of a page that are read.
    pub(super) bytes: usize,
}

/// Fetches `url`, which the policy allows, and follows its redirects.
///
/// # Errors
///
/// Returns the text of the error for the model.
pub(super) async fn fetch(guard: &Guard, mut url: Url, limits: Limits) -> Result<Fetched, String> {
    let mut followed = 0;
    loop {
        let response = request(guard, &url).await?;
        let Some(location) = location(&response)? else {
            return Ok(Fetched::Page(read(url, response, limits.bytes).await?));
        };

        let target = redirect_target(guard, &url, &location)?;
        match redirect(&url, &target, followed, limits.redirects) {
            Redirect::Follow => {
                url = target;
                followed += 1;
            }
            Redirect::Report => {
                return Ok(Fetched::Redirect {
                    from: url,
                    to: target,
                });
            }
            Redirect::TooMany => {
                return Err(format!("{url}: redirected more than {followed} times"));
            }
            Redirect::Downgrade => {
                return Err(format!(
                    "{url} redirects from https to {target}, which is not followed; fetch that URL \
                     itself if it does not have to be secure"
                ));
            }
        }
    }
}

async fn request(guard: &Guard, url: &Url) -> Result<Response, String> {
    let client = guard.client(url).await.map_err(|why| why.to_string())?;
    let request = client
        .get(url.clone())
        .header(
            ACCEPT,
            "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5",
        )
        // Uncompressed bodies cannot expand.
        .header(ACCEPT_ENCODING, "identity");
    let outcome = request.send().await;
    outcome.map_err(|error| format!("{url}: {}", http_client::describe(error)))
}

/// Returns the URL that a redirect from `url` leads to, if the policy allows it.
fn redirect_target(guard: &Guard, url: &Url, location: &str) -> Result<Url, String> {
    let joined_url = url.join(location).map_err(|error| {
        let location = text::truncate_redacted(location, MAX_QUOTE);
        format!("{url} redirects to {location:?}: {error}")
    })?;
    let make_error = |why| format!("{url} redirects to a URL that is refused: {why}");
    guard.policy.parse(joined_url.as_str()).map_err(make_error)
}

/// The handling of a redirect.
enum Redirect {
    /// The target is fetched.
    Follow,
    /// The caller receives the target, which is not fetched.
    Report,
    /// As many redirects as allowed were followed before.
    TooMany,
    /// The target is on the same host, but not secure.
    Downgrade,
}

/// Returns the handling of a redirect after `followed` others, of which `max` may be followed. Only
/// redirects within an origin, and to its secure form, are followed.
fn redirect(from: &Url, to: &Url, followed: usize, max: usize) -> Redirect {
    let is_same_origin = http_client::is_same_origin_or_upgrade(from, to);
    if is_same_origin && followed < max {
        return Redirect::Follow;
    }

    if is_same_origin && max > 0 {
        return Redirect::TooMany;
    }

    let is_downgrade =
        from.host() == to.host() && (from.scheme(), to.scheme()) == ("https", "http");
    if is_downgrade {
        Redirect::Downgrade
    } else {
        Redirect::Report
    }
}

/// Returns the `Location` of a redirect; `None` for any other response.
fn location(response: &Response) -> Result<Option<String>, String> {
    use StatusCode as S;
    let redirects = [
        S::MOVED_PERMANENTLY,
        S::FOUND,
        S::SEE_OTHER,
        S::TEMPORARY_REDIRECT,
        S::PERMANENT_REDIRECT,
    ];
    if !redirects.contains(&response.status()) {
        return Ok(None);
    }

    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };

    let text = std::str::from_utf8(location.as_bytes());
    let make_error = |_| "a redirect to a URL that cannot be read".to_owned();
    Ok(Some(text.map_err(make_error)?.to_owned()))
}

async fn read(url: Url, response: Response, max_bytes: usize) -> Result<Page, String> {
    let status = response.status();
    let header = |name| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::trim).map(str::to_owned)
    };

    let coding = header(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity"));
    if let Some(coding) = coding.filter(|coding| !coding.is_empty()) {
        return Err(format!(
            "{url} is compressed ({}), which was not asked for",
            text::truncate_redacted(&coding, MAX_QUOTE)
        ));
    }

    let declared = header(CONTENT_TYPE).unwrap_or_default();
    let (content_type, charset) = kind::declared(&text::truncate_redacted(&declared, MAX_QUOTE));
    let Some(kind) = kind::of(&content_type) else {
        let size = match response.content_length() {
            Some(length) => format!("{length} bytes"),
            None => "of unknown size".to_owned(),
        };

        return Err(format!(
            "{url} is {content_type} ({size}), which is not read; HTML, text, JSON and XML are"
        ));
    };

    let body = PageBody::read(response, max_bytes).await;
    let body = body.map_err(|why| format!("{url}: {why}"))?;
    Ok(Page {
        url,
        status,
        kind: kind.or_of_content(&body.bytes),
        content_type,
        charset,
        body,
    })
}

impl PageBody {
    async fn read(response: Response, max_bytes: usize) -> Result<Self, String> {
        let mut reader = BodyReader::new(response);
        let is_cut = reader.read_to(max_bytes.min(SMALL_PAGE)).await;
        let mut is_cut = is_cut.map_err(http_client::describe)?;
        let mut permit = None;
        if is_cut && max_bytes > SMALL_PAGE {
            let outcome = LARGE_PAGES.clone().acquire_owned().await;
            permit = Some(outcome.map_err(|error| error.to_string())?);
            let is_longer = reader.read_to(max_bytes).await;
            is_cut = is_longer.map_err(http_client::describe)?;
        }

        Ok(Self {
            bytes: reader.into_bytes(),
            is_cut,
            _permit: permit,
        })
    }
}
