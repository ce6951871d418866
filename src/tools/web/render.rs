//! A document as Markdown, within bounds.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::options::{BulletListMarker, HrStyle, Options};
use htmd::{Element, HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;

use crate::util::Cancellation;

/// Elements that are not for readers. The title is reported on its own.
const SKIPPED: [&str; 13] = [
    "head", "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "embed",
    "canvas", "select", "dialog",
];
/// Elements whose conversion is checked: the elements that the converter treats specially and that
/// may contain elements.
const CHECKED: [&str; 29] = [
    "a", "article", "b", "body", "caption", "code", "dd", "div", "dl", "dt", "em", "form", "h1",
    "h2", "h3", "h4", "h5", "h6", "i", "main", "p", "pre", "section", "strong", "tbody", "td",
    "th", "thead", "tr",
];
/// Elements that put a prefix before each line of their content.
const INDENTED: [&str; 4] = ["blockquote", "li", "ol", "ul"];
/// The maximum depth at which quotes and lists are shown as such, counted together.
const MAX_INDENT: usize = 32;
/// The maximum number of visited elements. The converter visits some of them twice, at each level.
const MAX_VISITS: usize = 1_000_000;
/// The maximum size of the Markdown of one element, in bytes.
const MAX_CONTENT: usize = 8 * 1024 * 1024;
/// The maximum size of a table that is aligned, in bytes: a cell is as wide as the widest of its
/// column.
const MAX_TABLE: usize = 4 * 1024 * 1024;
/// The maximum total length of quotes, lists and aligned tables, each level counted, in bytes:
/// prefixes and padding add to each of their lines. Content beyond that is neither indented nor
/// aligned.
const MAX_GROWN: usize = 64 * 1024 * 1024;
/// The number of bytes of marks around a cell or a part of it.
const MARKS: usize = 3;

pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Returns the Markdown of a document, which is incomplete if `stop` is cancelled.
pub(super) fn render(document: &Rc<Node>, stop: &Cancellation) -> Rendered {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        hr_style: HrStyle::Dashes,
        ..Options::default()
    };

    let bounds = Arc::new(RenderBounds::new(stop));
    let plain_bounds = bounds.clone();
    let indent_bounds = bounds.clone();
    let table_bounds = bounds.clone();
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .add_handler(
            CHECKED.to_vec(),
            move |handlers: &dyn Handlers, element: Element<'_>| {
                plain_bounds.visit(1, || handlers.fallback(element))
            },
        )
        .add_handler(
            INDENTED.to_vec(),
            move |handlers: &dyn Handlers, element: Element<'_>| {
                indent_bounds.indent(handlers, element)
            },
        )
        .add_handler(
            vec!["table"],
            move |handlers: &dyn Handlers, element: Element<'_>| {
                table_bounds.table(handlers, element)
            },
        )
        .skip_tags(SKIPPED.to_vec())
        .build();
    let text = converter.tree_to_markdown(document).trim().to_owned();
    Rendered {
        text,
        is_cut: bounds.is_cut.load(Relaxed),
    }
}

/// The limits of one conversion, as far as it has used them. The handlers share it.
struct RenderBounds {
    stop: Cancellation,
    visits: AtomicUsize,
    /// The number of open quotes and lists.
    indent: AtomicUsize,
    /// The total length of all quotes, lists and aligned tables, each level counted.
    grown: AtomicUsize,
    is_cut: AtomicBool,
}

impl RenderBounds {
    fn new(stop: &Cancellation) -> Self {
        Self {
            stop: stop.clone(),
            visits: AtomicUsize::new(0),
            indent: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Converts an element that costs `cost` visits, unless a limit is reached.
    fn visit(
        &self,
        cost: usize,
        convert: impl FnOnce() -> Option<HandlerResult>,
    ) -> Option<HandlerResult> {
        let visits = self.visits.fetch_add(cost, Relaxed);
        if self.stop.is_cancelled() {
            return None;
        }

        if visits > MAX_VISITS {
            self.is_cut.store(true, Relaxed);
            return None;
        }

        let mut result = convert()?;

        // Ends the conversion of the enclosing elements when the call was cancelled.
        if self.stop.is_cancelled() {
            return None;
        }

        if result.content.len() > MAX_CONTENT {
            self.is_cut.store(true, Relaxed);
            let mut end = MAX_CONTENT;
            while !result.content.is_char_boundary(end) {
                end -= 1;
            }

            result.content.truncate(end);
        }

        Some(result)
    }

    fn indent(&self, handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
        let depth = self.indent.fetch_add(1, Relaxed);
        let is_shown = depth < MAX_INDENT && self.grown.load(Relaxed) < MAX_GROWN;
        let result = self.visit(1, || {
            if is_shown {
                handlers.fallback(element)
            } else {
                Some(handlers.walk_children(element.node))
            }
        });

        self.indent.fetch_sub(1, Relaxed);
        let length = result.as_ref().map_or(0, |result| result.content.len());
        self.grown.fetch_add(length, Relaxed);
        result
    }

    fn table(&self, handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
        let size = TableSize::of(element.node);
        let aligned = size.aligned();
        let is_aligned = aligned <= MAX_TABLE && self.grown.load(Relaxed) < MAX_GROWN;
        if is_aligned {
            self.grown.fetch_add(aligned, Relaxed);
        }

        self.visit(size.nodes, || {
            if is_aligned {
                handlers.fallback(element)
            } else {
                Some(handlers.walk_children(element.node))
            }
        })
    }
}

/// The size of a table.
#[derive(Default)]
struct TableSize {
    nodes: usize,
    rows: usize,
    /// The widest cell of each column, in bytes.
    widths: Vec<usize>,
}

impl TableSize {
    fn of(table: &Rc<Node>) -> Self {
        let mut size = Self::default();
        for part in table.children.borrow().iter() {
            match tag(part) {
                Some("tr") => size.row(part),
                Some("thead" | "tbody" | "tfoot") => {
                    for row in part.children.borrow().iter() {
                        size.row(row);
                    }
                }
                _ => {
                    size.length(part);
                }
            }
        }

        size
    }

    /// Adds a row, with the lengths of its cells.
    fn row(&mut self, row: &Rc<Node>) {
        self.rows += 1;
        let cells = row.children.borrow();
        let cells = cells
            .iter()
            .filter(|cell| matches!(tag(cell), Some("td" | "th")));
        for (at, cell) in cells.enumerate() {
            let length = self.length(cell);
            match self.widths.get_mut(at) {
                Some(width) => *width = length.max(*width),
                None => self.widths.push(length),
            }
        }
    }

    /// Counts a node and the nodes below it. Returns the estimated length of their Markdown, in
    /// bytes.
    fn length(&mut self, node: &Rc<Node>) -> usize {
        let mut length = 0_usize;
        let mut stack = vec![node.clone()];
        while let Some(node) = stack.pop() {
            self.nodes += 1;
            length += match &node.data {
                NodeData::Text { contents } => contents.borrow().len(),
                NodeData::Element { attrs, .. } => {
                    let attrs = attrs.borrow();
                    attrs.iter().map(|attr| attr.value.len() + MARKS).sum()
                }
                _ => 0,
            };

            stack.extend(node.children.borrow().iter().cloned());
        }

        length
    }

    /// Returns the length of the table if each cell is as wide as the widest cell of its column.
    fn aligned(&self) -> usize {
        let row: usize = self.widths.iter().map(|width| width + MARKS).sum();
        row.saturating_mul(self.rows + 1)
    }
}

fn tag(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}
