//! The citations of texts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::part::ProviderBlock;

/// The citations of a text, and the fields that its provider requires back with it.
///
/// Annotations belong to the text part directly before them. Without such a text, they are neither
/// sent nor emitted.
///
/// ```
/// use agentcore::message::{Annotations, Citation};
/// use agentcore::{Content, Part};
///
/// let source = Citation::new("https://example.com/tides").with_title("Tides");
/// let content = Content::from([
///     Part::text("High water is at noon."),
///     Part::Annotations(Annotations::new([source])),
/// ]);
/// let urls: Vec<_> = content.citations().map(|citation| &*citation.url).collect();
/// assert_eq!(urls, ["https://example.com/tides"]);
/// assert_eq!(content.text(), "High water is at noon.");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Annotations {
    /// The sources of the text, in the order in which they were given.
    pub citations: Vec<Citation>,
    /// The provider's block of the text, without the text itself: an object. Defaults to `None`.
    ///
    /// A block that is nested deeper than 100 levels is removed from the responses of a model.
    pub block: Option<ProviderBlock>,
}

impl Annotations {
    /// Creates the annotations of a text that has these sources.
    pub fn new(citations: impl IntoIterator<Item = Citation>) -> Self {
        Self {
            citations: citations.into_iter().collect(),
            block: None,
        }
    }

    /// Sets the fields that the provider requires back.
    #[must_use]
    pub fn with_block(mut self, block: ProviderBlock) -> Self {
        self.block = Some(block);
        self
    }
}

/// A source of a text.
///
/// ```
/// use agentcore::message::Citation;
///
/// let source = Citation::new("https://example.com/tides")
///     .with_title("Tides")
///     .with_cited_text("High water: 12:04");
/// let json = serde_json::to_string(&source)?;
/// assert_eq!(
///     json,
///     r#"{"url":"https://example.com/tides","title":"Tides","cited_text":"High water: 12:04"}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct Citation {
    /// The address of the source; empty when it has none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub url: Arc<str>,
    /// The title of the source; empty when it was not given.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub title: Arc<str>,
    /// The quoted text; empty when it was not given.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub cited_text: Arc<str>,
}

impl Citation {
    /// Creates a citation of the source at `url`.
    pub fn new(url: impl Into<Arc<str>>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// Sets the title of the source.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Arc<str>>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the quoted text.
    #[must_use]
    pub fn with_cited_text(mut self, text: impl Into<Arc<str>>) -> Self {
        self.cited_text = text.into();
        self
    }
}
