//! The parsing of a page into a document of limited size.

use std::cell::Cell;
use std::rc::Rc;

use htmd::Node;
use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};

use crate::util::Cancellation;

use super::sink::Sink;
use super::tokens::Tokens;

/// The number of bytes that are parsed before the limits are checked again.
const STEP: usize = 1024;

pub(super) struct Document {
    pub(super) root: Rc<Node>,
    /// True if the page reached a limit, so that its remainder was not read.
    pub(super) is_cut: bool,
}

/// Parses the page, up to a limit or until `stop` is cancelled.
pub(super) fn parse(html: &str, stop: &Cancellation) -> Document {
    let sink = Sink::default();
    let is_full: Rc<Cell<bool>> = sink.full();
    let builder = TreeBuilder::new(sink, TreeBuilderOpts::default());
    let tokens = Tokens::new(builder, is_full.clone());
    let tokenizer = Tokenizer::new(tokens, TokenizerOpts::default());
    let queue = BufferQueue::default();
    let mut remaining = html;
    while !remaining.is_empty() && !is_full.get() && !stop.is_cancelled() {
        let mut end = STEP.min(remaining.len());
        while !remaining.is_char_boundary(end) {
            end -= 1;
        }

        let (step, tail) = remaining.split_at(end);
        // Sets `is_full` if the tokenizer would compare too much.
        tokenizer.sink.count_comparisons(step);
        if !is_full.get() {
            queue.push_back(StrTendril::from(step));
            feed(&tokenizer, &queue);
        }

        remaining = tail;
    }

    tokenizer.end();
    let root = tokenizer.sink.inner.sink.root();
    Document {
        root,
        is_cut: is_full.get(),
    }
}

/// Feeds the queue to the tokenizer. Requests to run a script or to change the encoding are
/// ignored.
fn feed<S: html5ever::tokenizer::TokenSink>(tokenizer: &Tokenizer<S>, queue: &BufferQueue) {
    while !matches!(tokenizer.feed(queue), TokenizerResult::Done) {}
}

#[cfg(test)]
mod tests {
    use markup5ever_rcdom::NodeData;

    use super::*;

    /// Returns the number of elements of a document, the number of their attributes, and the length
    /// of the values.
    fn size(root: &Rc<Node>) -> (usize, usize, usize) {
        let (mut elements, mut attributes, mut values) = (0, 0, 0);
        let mut stack = vec![root.clone()];
        while let Some(node) = stack.pop() {
            if let NodeData::Element { attrs, .. } = &node.data {
                elements += 1;
                attributes += attrs.borrow().len();
                let lengths = attrs.borrow();
                values += lengths.iter().map(|attr| attr.value.len()).sum::<usize>();
            }

            stack.extend(node.children.borrow().iter().cloned());
        }

        (elements, attributes, values)
    }

    #[test]
    fn document_is_bounded_in_elements_attributes_and_values() {
        let names = "href=a src=b title=c alt=d class=e type=f size=g face=h color=i start=j";
        let unknown_attributes: String = (0..1_000).map(|n| format!(" a{n}")).collect();
        let long_value = "y".repeat(100_000);
        for html in [
            format!("<p><b {names}>{}", "<p>x".repeat(25_000)),
            format!("<p><b{unknown_attributes}>{}", "<p>x".repeat(25_000)),
            format!("<p><b title={long_value}>{}", "<p>x".repeat(25_000)),
            format!(
                "<p><a href={long_value} alt={long_value}>{}",
                "<p>x".repeat(25_000)
            ),
            format!("<i {names}></i>").repeat(60_000),
            format!("<body {names}>").repeat(25_000),
        ] {
            let document = parse(&html, &Cancellation::default());
            let (elements, attributes, values) = size(&document.root);
            // The step that reaches a limit may exceed it by the elements that it inserts again.
            assert!(elements < 51_000, "{html:.40}: {elements} elements");
            assert!(attributes <= 200_000, "{html:.40}: {attributes} attributes");
            assert!(values <= 8 << 20, "{html:.40}: {values} bytes");
        }
    }

    #[test]
    fn cancelled_parsing_stops() {
        let stop = Cancellation::default();
        stop.cancel();
        let document = parse(&"<p>x".repeat(10_000), &stop);
        assert!(size(&document.root).0 < 10);
    }
}
