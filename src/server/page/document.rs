//! The document of the page.

use std::sync::LazyLock;

use super::minify;

/// The text in the place of the nonce of a response.
pub(super) const NONCE: &str = "__NONCE__";

const MARKUP: &str = include_str!("index.html");

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = concat!(
    include_str!("view.js"),
    include_str!("api.js"),
    include_str!("stream.js"),
    include_str!("state.js"),
    include_str!("markdown.js"),
    include_str!("view_thread.js"),
    include_str!("view_tool.js"),
    include_str!("view_question.js"),
    include_str!("view_panel.js"),
    include_str!("view_sessions.js"),
    include_str!("view_status.js"),
    include_str!("layout.js"),
    include_str!("theme.js"),
    include_str!("speaker.js"),
    include_str!("main.js"),
);

/// The document, with [`NONCE`] in the place of each nonce.
pub(super) static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let style = minify::style(STYLE);
    let markup = minify::markup(MARKUP);
    let script = minify::script(SCRIPT);
    // The style is first, so that nothing is shown without it.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<style nonce=\"{NONCE}\">{style}</style>\n{markup}\
         <script type=\"module\" nonce=\"{NONCE}\">{script}</script>\n"
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_has_at_most_80_kib() {
        let length = DOCUMENT.len();
        assert!(length <= 80 * 1024, "{length} bytes");
    }

    #[test]
    fn document_has_one_style_and_one_script_with_nonces() {
        for (text, count) in [
            ("<style", 1),
            ("<script", 1),
            ("</script", 1),
            (NONCE, 2),
            (" style=\"", 0),
            (" onclick=\"", 0),
        ] {
            assert_eq!(DOCUMENT.matches(text).count(), count, "{text}");
        }
    }

    /// The policy of the page forbids these; a script that uses them fails in the browser alone.
    #[test]
    fn script_makes_no_markup_and_no_code_from_text() {
        for text in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "Function(",
            "importScripts",
            "import(",
            "javascript:",
        ] {
            assert!(!SCRIPT.contains(text), "{text}");
        }
    }

    #[test]
    fn document_names_no_other_server() {
        let text = DOCUMENT.replace("http://www.w3.org/2000/svg", "");
        for scheme in ["http://", "https://", "ws://", "wss://", "src=\"//"] {
            assert!(!text.contains(scheme), "{scheme}");
        }
    }
}
