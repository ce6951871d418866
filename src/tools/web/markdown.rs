//! HTML as Markdown.

use reqwest::Url;

use crate::util::Cancellation;

use super::document::parse;
use super::normalize::normalize;
use super::render::render;

pub(super) struct Markdown {
    pub(super) text: String,
    pub(super) title: Option<String>,
    /// True if the page reached a limit, so that its remainder was not read.
    pub(super) is_cut: bool,
}

/// Converts a page to Markdown, in time proportional to its length; a hostile page takes a few
/// seconds at most. Ends soon after `stop` is cancelled, with the text converted so far.
pub(super) fn convert(html: &str, base: &Url, stop: &Cancellation) -> Markdown {
    let document = parse(html, stop);
    let normalized = normalize(&document.root, base, stop);
    let rendered = render(&document.root, stop);
    Markdown {
        text: rendered.text,
        title: normalized.title,
        is_cut: document.is_cut || normalized.is_cut || rendered.is_cut,
    }
}
