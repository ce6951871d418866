//! The tokens of a page that reach the document.

use std::cell::Cell;
use std::rc::Rc;

use html5ever::Attribute;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};

use crate::util::secret::{Cut, redact_cut};

/// The attributes that the document or the Markdown depends on. All others are dropped at once,
/// because elements that are reopened (`<b>` across paragraphs) copy their attributes.
const USED: [&str; 11] = [
    "alt", "class", "color", "encoding", "face", "href", "size", "src", "start", "title", "type",
];

/// The maximum length of an attribute's value, in bytes.
pub(super) const MAX_VALUE: usize = 8 * 1024;

/// The maximum number of comparisons of attribute names that a page may cause: the tokenizer
/// compares each with all others of its element. One element reaches this with about 20,000
/// attributes.
const MAX_COMPARISONS: usize = 200_000_000;

/// Passes tokens on until the document is full, and bounds the work within one element.
///
/// While the tokenizer is inside an element, it emits no token. Each attribute after the first
/// begins right after a separator, so the number of such positions since the last token is at least
/// the number of attributes, in any state of the tokenizer.
pub(super) struct Tokens<S> {
    pub(super) inner: S,
    full: Rc<Cell<bool>>,
    /// The upper bound of the number of attributes of the open element.
    attribute_count: Cell<usize>,
    /// True if a token was emitted since the last piece.
    has_token: Cell<bool>,
    comparisons: Cell<usize>,
    after_separator: Cell<bool>,
}

impl<S> Tokens<S> {
    pub(super) fn new(inner: S, full: Rc<Cell<bool>>) -> Self {
        Self {
            inner,
            full,
            attribute_count: Cell::new(0),
            has_token: Cell::new(false),
            comparisons: Cell::new(0),
            after_separator: Cell::new(false),
        }
    }

    /// Counts the comparisons that a piece may cause, before the tokenizer receives it. Sets the
    /// flag of the document if they exceed the limit.
    pub(super) fn count_comparisons(&self, piece: &str) {
        if self.has_token.replace(false) {
            self.attribute_count.set(0);
        }

        let mut start_count = 0;
        let mut is_after_separator = self.after_separator.get();
        for byte in piece.bytes() {
            let is_separator = matches!(
                byte,
                b' ' | b'\t' | b'\n' | b'\x0c' | b'\r' | b'/' | b'"' | b'\''
            );
            start_count += usize::from(is_after_separator && !is_separator);
            is_after_separator = is_separator;
        }

        self.after_separator.set(is_after_separator);
        let attribute_count = self.attribute_count.get();
        self.attribute_count
            .set(attribute_count.saturating_add(start_count));
        let comparisons = self
            .comparisons
            .get()
            .saturating_add(start_count.saturating_mul(attribute_count));
        self.comparisons.set(comparisons);
        if comparisons > MAX_COMPARISONS {
            self.full.set(true);
        }
    }
}

impl<S: TokenSink> TokenSink for Tokens<S> {
    type Handle = S::Handle;

    fn process_token(&self, mut token: Token, line: u64) -> TokenSinkResult<S::Handle> {
        match &mut token {
            // Emitted for a repeated attribute; it does not end an element.
            Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::TagToken(tag) => trim(tag),
            _ => {}
        }
        self.has_token.set(true);
        if self.full.get() && token != Token::EOFToken {
            return TokenSinkResult::Continue;
        }
        self.inner.process_token(token, line)
    }

    fn end(&self) {
        self.inner.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        let inner = &self.inner;
        inner.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Drops the unused parts of a tag.
fn trim(tag: &mut Tag) {
    match tag.kind {
        TagKind::EndTag => tag.attrs.clear(),
        TagKind::StartTag => {
            tag.attrs.retain(|attr| USED.contains(&&*attr.name.local));
            tag.attrs.iter_mut().for_each(shorten);
            tag.attrs.shrink_to_fit();
        }
    }
}

/// Cuts a value that is too long. A link with its own content is cut to its scheme, and any other
/// link becomes empty, because a part of it would lead elsewhere.
fn shorten(attr: &mut Attribute) {
    if attr.value.len() <= MAX_VALUE {
        return;
    }

    let is_link = matches!(&*attr.name.local, "href" | "src");
    let short_value = if is_link {
        let scheme = attr.value.trim_start().split_once(':');
        let scheme = scheme.map(|(scheme, _)| scheme.to_ascii_lowercase());
        let own_scheme = scheme.filter(|scheme| OWN_CONTENT.contains(&scheme.as_str()));
        own_scheme.map_or_else(String::new, |scheme| format!("{scheme}:"))
    } else {
        let mut end = MAX_VALUE;
        while !attr.value.is_char_boundary(end) {
            end -= 1;
        }

        let mut start = attr.value[..end].to_owned();
        redact_cut(&mut start, Cut::End);
        start
    };

    attr.value = StrTendril::from(short_value);
}

/// The schemes of links that carry their own content.
pub(super) const OWN_CONTENT: [&str; 3] = ["data", "javascript", "blob"];

#[cfg(test)]
mod tests {
    use html5ever::tokenizer::{BufferQueue, Tokenizer, TokenizerOpts};

    use super::*;

    struct Nothing;

    impl TokenSink for Nothing {
        type Handle = ();

        fn process_token(&self, _token: Token, _line: u64) -> TokenSinkResult<()> {
            TokenSinkResult::Continue
        }
    }

    /// Returns the number of comparisons that are expected for a page in pieces of this size.
    fn comparisons(html: &str, piece: usize) -> usize {
        let tokens = Tokens::new(Nothing, Rc::default());
        let tokenizer = Tokenizer::new(tokens, TokenizerOpts::default());
        let queue = BufferQueue::default();
        for piece in html.as_bytes().chunks(piece) {
            let piece = std::str::from_utf8(piece).unwrap();
            tokenizer.sink.count_comparisons(piece);
            queue.push_back(StrTendril::from(piece));
            let _ = tokenizer.feed(&queue);
        }
        tokenizer.sink.comparisons.get()
    }

    #[test]
    fn attributes_are_counted_in_every_syntax() {
        let make_attributes = |before: &str, after: &str| -> String {
            (0..300).map(|n| format!("{before}a{n}{after}")).collect()
        };

        let shapes = [
            make_attributes(" ", ""),
            make_attributes("\n \t", ""),
            make_attributes("/", ""),
            make_attributes("", "=\"\""),
            make_attributes("", "=''"),
            make_attributes(" ", " = x"),
            make_attributes(" =", ""),
        ];
        let openings = [
            "<p ",
            "</p ",
            "<!-- <a \" --><b ",
            "<script>\"<a '</script><b ",
            "<p title='\"><b ",
            "<![CDATA[ \" ]]><b ",
            "<a b=\"x\"c='\"'><b ",
        ];
        for shape in &shapes {
            for opening in openings {
                let html = format!("{opening}{shape}>");
                for piece in [1, 7, 64] {
                    // Attributes in the piece of the last token are not compared with others.
                    let expected = 300 * 300 / 2 * 2 / 3;
                    let comparison_count = comparisons(&html, piece);
                    assert!(
                        comparison_count > expected,
                        "{opening}: {comparison_count}: {shape:.40}"
                    );
                }
            }
        }
    }

    #[test]
    fn text_and_small_elements_need_no_comparisons() {
        let html = "<p class='a b' id=c>some \"quoted\" words</p>\n".repeat(10_000);
        assert_eq!(comparisons(&html, 1024), 0);
    }
}
