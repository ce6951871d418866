//! The kind of a body, and its character encoding.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The number of bytes that browsers search for the encoding a page declares.
const PRESCAN: usize = 1024;

/// The way a body is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Html,
    /// The text is shown as it is.
    Text,
    /// The server declares none; the kind depends on the content.
    Unknown,
}

impl PageKind {
    pub(super) fn or_of_content(self, body: &[u8]) -> Self {
        if self != Self::Unknown {
            return self;
        }

        let start = body.trim_ascii_start();
        let has_prefix = |mark: &[u8]| {
            let head = start.get(..mark.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(mark))
        };

        if has_prefix(b"<!doctype html") || has_prefix(b"<html") {
            Self::Html
        } else {
            Self::Text
        }
    }
}

/// Returns the media type in lower case without its parameters, and the encoding among those.
pub(super) fn declared(header: &str) -> (String, Option<&'static Encoding>) {
    let mut parts = header.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| Encoding::for_label(value.trim().trim_matches('"').as_bytes()))?
    });
    (media, charset)
}

/// Returns the kind of a media type; `None` if pages of this type are not read.
pub(super) fn of(media: &str) -> Option<PageKind> {
    const TEXT: [&str; 12] = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-javascript",
        "application/x-ndjson",
        "application/ndjson",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-sh",
        "application/graphql",
    ];
    match media {
        "" => Some(PageKind::Unknown),
        "text/html" | "application/xhtml+xml" => Some(PageKind::Html),
        _ if media.starts_with("text/") || TEXT.contains(&media) => Some(PageKind::Text),
        _ if media.ends_with("+json") || media.ends_with("+xml") => Some(PageKind::Text),
        _ => None,
    }
}

/// Returns the text of a body. The encoding comes from its byte order mark, else from the server,
/// else from the page itself, else it is UTF-8. A page that is not UTF-8 is read as Windows-1252,
/// as browsers do.
pub(super) fn decoded(body: &[u8], charset: Option<&'static Encoding>, kind: PageKind) -> String {
    let is_html = kind == PageKind::Html;
    let charset = charset.or_else(|| is_html.then(|| declared_in_page(body)).flatten());
    let fallback = match std::str::from_utf8(body) {
        // An error only at the end may be caused by the cut of the body.
        Err(error) if is_html && error.error_len().is_some() => WINDOWS_1252,
        _ => UTF_8,
    };
    let (text, ..) = charset.unwrap_or(fallback).decode(body);
    text.into_owned()
}

/// Returns the encoding that a page declares with `charset=` in its first kilobyte.
fn declared_in_page(body: &[u8]) -> Option<&'static Encoding> {
    let head = body[..body.len().min(PRESCAN)].to_ascii_lowercase();
    let offset = memchr::memmem::find(&head, b"charset=")? + b"charset=".len();
    let remaining = head[offset..].trim_ascii_start();
    let remaining = remaining
        .strip_prefix(b"\"")
        .or(remaining.strip_prefix(b"'"))
        .unwrap_or(remaining);
    let is_label = |b: &u8| b.is_ascii_alphanumeric() || b"-_:".contains(b);
    let end = remaining
        .iter()
        .position(|b| !is_label(b))
        .unwrap_or(remaining.len());
    let encoding = Encoding::for_label(&remaining[..end])?;

    // A declaration that could be read as ASCII is not in UTF-16.
    Some(encoding.output_encoding())
}
