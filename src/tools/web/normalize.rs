//! The preparation of an HTML document for conversion to Markdown.

use std::rc::Rc;

use htmd::Node;
use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use markup5ever_rcdom::NodeData;
use reqwest::Url;

use crate::util::{Cancellation, text};

use super::sink::MAX_DEPTH;
use super::tokens::{MAX_VALUE, OWN_CONTENT};

/// The maximum length of a title, in characters.
const MAX_TITLE: usize = 300;
/// The maximum length of the base of a page's links, in bytes. Each link may repeat the base.
const MAX_BASE: usize = 2 * 1024;
/// The maximum number of bytes by which all links of a page together may grow when they become
/// absolute.
const MAX_GROWTH: usize = 8 * 1024 * 1024;
/// The number of nodes between two checks for cancellation.
const CHECK_EVERY: usize = 1024;
/// The maximum number of siblings that the converter may see as one run: it joins consecutive
/// inline elements, and copies the joined text for each of them.
const MAX_RUN: usize = 64;

#[derive(Default)]
pub(super) struct Normalized {
    pub(super) title: Option<String>,
    pub(super) is_cut: bool,
}

/// Finds the title, makes links absolute, divides long runs of siblings, and removes elements that
/// are nested too deep, because the converter recurses. The parser may have moved an element deeper
/// after its depth was checked.
pub(super) fn normalize(document: &Rc<Node>, page: &Url, stop: &Cancellation) -> Normalized {
    let mut output = Normalized::default();
    let mut links = Links::of(page);
    let mut stack = vec![(document.clone(), 0)];
    let mut visited = 0_usize;
    while let Some((node, depth)) = stack.pop() {
        visited += 1;
        if visited.is_multiple_of(CHECK_EVERY) && stop.is_cancelled() {
            break;
        }

        if let NodeData::Element { name, attrs, .. } = &node.data {
            let mut attrs = attrs.borrow_mut();
            match &*name.local {
                "title" if output.title.is_none() => output.title = title(&node),
                "base" => links.rebase(&attrs),
                _ => {}
            }

            for attr in attrs.iter_mut() {
                if matches!(&*attr.name.local, "href" | "src") {
                    links.complete(attr);
                }
            }
        }

        if depth > MAX_DEPTH {
            output.is_cut |= !node.children.borrow().is_empty();
            node.children.borrow_mut().clear();
        }

        separate_runs(&node);
        let children = node.children.borrow();
        stack.extend(
            children
                .iter()
                .rev()
                .map(|child| (child.clone(), depth + 1)),
        );
    }

    output
}

/// Separates runs of more than [`MAX_RUN`] siblings by empty texts.
fn separate_runs(node: &Rc<Node>) {
    let mut children = node.children.borrow_mut();
    if children.len() <= MAX_RUN {
        return;
    }

    let mut separated = Vec::with_capacity(children.len() + children.len() / MAX_RUN);
    for (at, child) in children.drain(..).enumerate() {
        if at > 0 && at.is_multiple_of(MAX_RUN) {
            let contents = StrTendril::new().into();
            separated.push(Node::new(NodeData::Text { contents }));
        }

        separated.push(child);
    }

    *children = separated;
}

/// The base of links, and the length they have grown by.
struct Links<'a> {
    page: &'a Url,
    base: Url,
    growth: usize,
}

impl<'a> Links<'a> {
    fn of(page: &'a Url) -> Self {
        Self {
            page,
            base: page.clone(),
            growth: 0,
        }
    }

    fn rebase(&mut self, attrs: &[Attribute]) {
        let href = attrs
            .iter()
            .find(|attr| &*attr.name.local == "href")
            .filter(|attr| attr.value.len() <= MAX_BASE);
        if let Some(base) = href.and_then(|attr| self.page.join(&attr.value).ok())
            && base.as_str().len() <= MAX_BASE
        {
            self.base = base;
        }
    }

    /// Makes a link absolute unless it becomes too long. A link that carries its own content is cut
    /// to its scheme.
    fn complete(&mut self, attr: &mut Attribute) {
        let Ok(url) = self.base.join(attr.value.trim()) else {
            return;
        };

        if OWN_CONTENT.contains(&url.scheme()) {
            attr.value = StrTendril::from(format!("{}:", url.scheme()));
            return;
        }

        let growth = url.as_str().len().saturating_sub(attr.value.len());
        if url.as_str().len() > MAX_VALUE || self.growth + growth > MAX_GROWTH {
            return;
        }

        self.growth += growth;
        attr.value = StrTendril::from(url.as_str());
    }
}

fn title(node: &Rc<Node>) -> Option<String> {
    let mut title = String::new();
    for child in node.children.borrow().iter() {
        if let NodeData::Text { contents } = &child.data {
            title.push_str(&contents.borrow());
        }
    }
    let words: Vec<&str> = title.split_whitespace().collect();
    let title = text::truncate_redacted(&words.join(" "), MAX_TITLE);
    Some(title).filter(|title| !title.is_empty())
}
