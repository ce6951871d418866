//! A page of results of DuckDuckGo.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;
use reqwest::Url;

use crate::util::Cancellation;

use super::document::parse;
use super::search::Source;

/// The class of the link of an entry, which has its title.
const LINK: &str = "result__a";
/// The class of the text of an entry.
const SNIPPET: &str = "result__snippet";
/// The class of an entry that is an advertisement.
const ADVERTISEMENT: &str = "result--ad";
/// The classes by which a page of results is recognized, even without entries.
const RESULTS: [&str; 3] = ["results", "no-results", "result--no-result"];
/// The classes by which a challenge is recognized.
const CHALLENGES: [&str; 2] = ["anomaly-modal__modal", "anomaly-modal__title"];
/// The maximum length of a title or a snippet, in bytes.
const MAX_TEXT: usize = 8 * 1024;

/// A page, by its kind.
#[derive(Debug, PartialEq)]
pub(super) enum Page {
    Results(Vec<Source>),
    /// A question for a person.
    Challenge,
    Unknown,
}

/// Reads the page at `url`, in time in proportion to it.
pub(super) fn read(html: &str, url: &Url, stop: &Cancellation) -> Page {
    let mut sources: Vec<Source> = Vec::new();
    let mut is_page_of_results = false;
    let document = parse(html, stop);
    // A root that is dropped takes the children of all its nodes with it.
    let mut stack = vec![document.root.clone()];
    while let Some(node) = stack.pop() {
        let class = attribute(&node, "class").unwrap_or_default();
        let has_class = |name: &str| class.split_ascii_whitespace().any(|word| word == name);
        if CHALLENGES.iter().any(|name| has_class(name)) {
            return Page::Challenge;
        }

        is_page_of_results |= RESULTS.iter().any(|name| has_class(name));
        if has_class(ADVERTISEMENT) {
            continue;
        }

        if has_class(LINK) {
            let href = attribute(&node, "href").unwrap_or_default();
            // An entry without a target has an empty target, so that its snippet is not taken for
            // the snippet of the previous entry.
            let target = link_target(url, &href).map_or(String::new(), String::from);
            sources.push(Source::new(text(&node), target, ""));
        } else if has_class(SNIPPET)
            && let Some(source) = sources.last_mut()
            && source.snippet.is_empty()
        {
            source.snippet = text(&node);
        } else {
            stack.extend(node.children.borrow().iter().rev().cloned());
        }
    }

    sources.retain(|source| !source.url.is_empty());
    if is_page_of_results || !sources.is_empty() {
        Page::Results(sources)
    } else {
        Page::Unknown
    }
}

/// Returns the address that a link leads to: links of the service have it as the parameter `uddg`.
/// `None` for links to the service itself.
fn link_target(page: &Url, href: &str) -> Option<Url> {
    let link = page.join(href).ok()?;
    let is_own = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        url.host() == page.host() || host == "duckduckgo.com" || host.ends_with(".duckduckgo.com")
    };
    let target = if is_own(&link) {
        let mut pairs = link.query_pairs();
        let (_, target) = pairs.find(|(name, _)| name == "uddg")?;
        Url::parse(&target).ok()?
    } else {
        link
    };
    (matches!(target.scheme(), "http" | "https") && !is_own(&target)).then_some(target)
}

fn attribute(node: &Node, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else {
        return None;
    };
    let attrs = attrs.borrow();
    let attribute = attrs.iter().find(|attr| &*attr.name.local == name);
    attribute.map(|attr| attr.value.to_string())
}

/// Returns the text of a node and of all nodes in it.
fn text(node: &Rc<Node>) -> String {
    let mut text = String::new();
    let mut stack = vec![node.clone()];
    while let Some(node) = stack.pop() {
        if let NodeData::Text { contents } = &node.data {
            text.push_str(&contents.borrow());
        }
        if text.len() > MAX_TEXT {
            break;
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }

    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}
