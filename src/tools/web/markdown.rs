//! HTML as Markdown.

use std::rc::Rc;

use htmd::options::{BulletListMarker, HrStyle, Options};
use htmd::{HtmlToMarkdown, Node};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::NodeData;
use reqwest::Url;

use crate::util::text;

use super::sink::{MAX_DEPTH, Sink};

/// How much is parsed before the limits are checked again, in bytes.
const STEP: usize = 1024;
/// The longest title, in characters.
const MAX_TITLE: usize = 300;
/// Elements that are not for readers. The title is reported on its own.
const SKIPPED: [&str; 13] = [
    "head", "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "embed",
    "canvas", "select", "dialog",
];

pub(super) struct Markdown {
    pub(super) text: String,
    pub(super) title: Option<String>,
    /// Whether the page reached a limit, so that the rest was not read.
    pub(super) is_cut: bool,
}

/// Takes time in proportion to the page, and a few seconds at most for one that is made to be slow.
pub(super) fn convert(html: &str, base: &Url) -> Markdown {
    let sink = Sink::default();
    let full = sink.full();
    let mut parser = parse_document(sink, ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() && !full.get() {
        let mut end = STEP.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (step, after) = rest.split_at(end);
        parser.process(StrTendril::from(step));
        rest = after;
    }
    let document = parser.finish();
    let tidied = tidy(&document, base);
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        hr_style: HrStyle::Dashes,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .skip_tags(SKIPPED.to_vec())
        .build();
    Markdown {
        text: converter.tree_to_markdown(&document).trim().to_owned(),
        title: tidied.title,
        is_cut: full.get() || tidied.is_cut,
    }
}

#[derive(Default)]
struct Tidied {
    title: Option<String>,
    is_cut: bool,
}

/// Finds the title, makes links absolute, and cuts off what is nested too deep, for the converter
/// recurses. An element may have been moved deeper after it was added.
fn tidy(document: &Rc<Node>, page: &Url) -> Tidied {
    let mut tidied = Tidied::default();
    let mut base = page.clone();
    let mut open = vec![(document.clone(), 0)];
    while let Some((node, depth)) = open.pop() {
        if let NodeData::Element { name, attrs, .. } = &node.data {
            let mut attrs = attrs.borrow_mut();
            match &*name.local {
                "title" if tidied.title.is_none() => tidied.title = title(&node),
                "base" => {
                    let href = attrs.iter().find(|attr| &*attr.name.local == "href");
                    let href = href.and_then(|attr| page.join(&attr.value).ok());
                    base = href.unwrap_or(base);
                }
                _ => {}
            }
            for attr in attrs.iter_mut() {
                if matches!(&*attr.name.local, "href" | "src") {
                    attr.value = StrTendril::from(absolute(&base, &attr.value));
                }
            }
        }
        if depth > MAX_DEPTH {
            tidied.is_cut |= !node.children.borrow().is_empty();
            node.children.borrow_mut().clear();
        }
        let children = node.children.borrow();
        open.extend(
            children
                .iter()
                .rev()
                .map(|child| (child.clone(), depth + 1)),
        );
    }
    tidied
}

/// The absolute link; of one that carries its own content only the scheme.
fn absolute(base: &Url, link: &str) -> String {
    match base.join(link.trim()) {
        Ok(url) if matches!(url.scheme(), "data" | "javascript" | "blob") => {
            format!("{}:", url.scheme())
        }
        Ok(url) => url.into(),
        Err(_) => link.to_owned(),
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
    let title = text::truncate(&words.join(" "), MAX_TITLE).into_owned();
    Some(title).filter(|title| !title.is_empty())
}
