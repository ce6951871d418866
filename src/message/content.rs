//! The ordered parts of a message.

use std::borrow::Cow;

use super::annotations::Citation;
use super::part::{Part, ToolCall};
use crate::util::secret::{redact_joined, redact_text};
use crate::util::text;

/// The content of a message: parts in order.
///
/// Most contents are one text, and `"..".into()` creates them. `"".into()` creates a content
/// without parts, because providers refuse empty texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content(Vec<Part>);

impl Content {
    /// Creates a content without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the text parts, joined without a separator. Borrowed when there is one text part.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.0.iter().filter_map(Part::as_text);
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(one), None) => Cow::Borrowed(one),
            (Some(one), Some(two)) => {
                let mut text = String::with_capacity(self.text_len());
                text.push_str(one);
                text.push_str(two);
                text.extend(texts);
                Cow::Owned(text)
            }
        }
    }

    /// Returns the number of bytes of text.
    pub(crate) fn text_len(&self) -> usize {
        self.0.iter().filter_map(Part::as_text).map(str::len).sum()
    }

    /// Returns the calls among the parts.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.0.iter().filter_map(Part::as_tool_call)
    }

    /// Returns the citations of all texts, in order.
    pub fn citations(&self) -> impl Iterator<Item = &Citation> {
        self.0.iter().flat_map(|part| match part {
            Part::Annotations(annotations) => annotations.citations.as_slice(),
            _ => &[],
        })
    }

    /// Returns `true` if there is no content for a provider: no part but empty texts, and
    /// citations.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|part| match part {
            Part::Text(text) => text.is_empty(),
            Part::Annotations(_) => true,
            _ => false,
        })
    }

    /// Returns `true` if there is nothing that can be sent: whitespace is refused like an empty
    /// text, thinking alone is neither a response nor kept by other providers, and citations belong
    /// to a text.
    pub(crate) fn is_blank(&self) -> bool {
        self.0.iter().all(|part| match part {
            Part::Text(text) => text.trim_start().is_empty(),
            Part::Thinking(_) | Part::Annotations(_) => true,
            _ => false,
        })
    }

    /// Returns the parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Returns the parts, to change.
    pub fn parts_mut(&mut self) -> &mut Vec<Part> {
        &mut self.0
    }

    /// Adds a part at the end.
    pub fn push(&mut self, part: impl Into<Part>) {
        self.0.push(part.into());
    }

    /// Adds text to the last part if that is text, else as a new part.
    ///
    /// An empty text adds nothing.
    pub fn push_text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.0.push(Part::Text(text.to_owned())),
        }
    }

    /// Redacts the registered secrets in the texts. The texts are searched as one, because readers
    /// join them; a text that was only the continuation of a secret is removed.
    pub(crate) fn redact(&mut self) {
        let texts = self.0.iter_mut().filter_map(|part| match part {
            Part::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        });
        let mut texts: Vec<_> = texts.collect();
        let has_changed = match &mut *texts {
            [] => false,
            [text] => {
                redact_text(text);
                false
            }
            texts => redact_joined(texts),
        };

        if has_changed {
            self.0
                .retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        }
    }

    /// Keeps the first `max_chars` characters of the text and returns how many it cut.
    ///
    /// When texts were cut, `... (truncated X characters)` follows the last text that stays, on top
    /// of `max_chars`. Other parts are left unchanged.
    ///
    /// ```
    /// use agentcore::Content;
    ///
    /// let mut content = Content::from("naïve");
    /// assert_eq!(content.truncate(3), 2);
    /// assert_eq!(content.text(), "naï... (truncated 2 characters)");
    /// ```
    pub fn truncate(&mut self, max_chars: usize) -> usize {
        let mut remaining = max_chars;
        let mut total_omitted = 0;
        let mut first_cut = None;
        for (index, part) in self.0.iter_mut().enumerate() {
            let Part::Text(text) = part else { continue };
            let (head, omitted_count) = text::head(text, remaining);
            remaining -= head.chars().count();
            if omitted_count > 0 {
                let len = head.len();
                text.truncate(len);
                first_cut.get_or_insert(index);
            }

            total_omitted += omitted_count;
        }

        if let Some(index) = first_cut {
            if let Some(Part::Text(text)) = self.0.get_mut(index) {
                text.push_str(&format!("... (truncated {total_omitted} characters)"));
            }

            self.0
                .retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        }

        total_omitted
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        if text.is_empty() {
            return Self::new();
        }
        Self(vec![Part::Text(text)])
    }
}

impl From<&String> for Content {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Cow<'_, str>> for Content {
    fn from(text: Cow<'_, str>) -> Self {
        text.into_owned().into()
    }
}

impl From<Part> for Content {
    fn from(part: Part) -> Self {
        Self(vec![part])
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts)
    }
}

impl<const N: usize> From<[Part; N]> for Content {
    fn from(parts: [Part; N]) -> Self {
        Self(parts.into())
    }
}

impl FromIterator<Part> for Content {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        Self(parts.into_iter().collect())
    }
}
