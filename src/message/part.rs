//! The parts of a message.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::util::json::{MAX_VALUES, has_more_values};

use super::annotations::Annotations;
use super::depth::{MAX_JSON_DEPTH, dismantle_shared, is_text_too_deep, is_too_deep};

/// One part of a message's content.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// Plain text.
    Text(String),
    /// An image.
    Image(Media),
    /// A file, such as a PDF.
    Document(Media),
    /// A recording.
    Audio(Media),
    /// The model's reasoning, preserved verbatim: providers refuse it if a byte has changed.
    Thinking(ProviderBlock),
    /// A tool call of the model. Only assistant messages have calls.
    ToolCall(ToolCall),
    /// The citations of the text part before, and the fields that the provider requires together
    /// with that text in later requests.
    Annotations(Annotations),
    /// A block of a kind this crate does not interpret, preserved verbatim.
    Opaque(ProviderBlock),
}

impl Part {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns the text, or `None` for other parts.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the tool call, or `None` for other parts.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            _ => None,
        }
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<ToolCall> for Part {
    fn from(call: ToolCall) -> Self {
        Self::ToolCall(call)
    }
}

/// An image, a document or a recording: a media type, the bytes or their location, and an optional
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Media {
    /// The MIME type, such as `image/png`. Empty when only a URL or a file's id is known.
    pub media_type: Arc<str>,
    /// The bytes or their location.
    pub source: MediaSource,
    /// A file name or title for the model.
    pub name: Option<Arc<str>>,
}

/// The location of the bytes of a [`Media`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediaSource {
    /// The bytes themselves, in standard base64 with padding.
    Base64(Arc<str>),
    /// A URL that the provider fetches.
    Url(Arc<str>),
    /// A file that was uploaded to a provider. No other provider has it.
    File {
        /// The provider's name: `anthropic`, `openai`, `gemini` or `google-vertex`, or the name of
        /// another server of the Responses API.
        provider: Arc<str>,
        /// The file's id; for Gemini its URI.
        id: Arc<str>,
    },
}

impl Media {
    /// Creates media from base64 text.
    pub fn base64(media_type: impl Into<Arc<str>>, data: impl Into<Arc<str>>) -> Self {
        Self {
            media_type: media_type.into(),
            source: MediaSource::Base64(data.into()),
            name: None,
        }
    }

    /// Creates media from bytes, which are encoded in base64.
    pub fn bytes(media_type: impl Into<Arc<str>>, data: &[u8]) -> Self {
        Self::base64(media_type, STANDARD.encode(data))
    }

    /// Creates media that the provider fetches from `url`.
    pub fn url(url: impl Into<Arc<str>>) -> Self {
        Self {
            media_type: Arc::from(""),
            source: MediaSource::Url(url.into()),
            name: None,
        }
    }

    /// Creates media from a file that was uploaded to `provider`, without a media type.
    ///
    /// ```
    /// use agentcore::message::{Media, MediaSource};
    ///
    /// let report = Media::file("anthropic", "file_011CNha8iCJcU1wXNR6q4V8w");
    /// let report = report.with_name("report.pdf");
    /// let MediaSource::File { provider, .. } = &report.source else {
    ///     panic!("{report:?}");
    /// };
    /// assert_eq!(&**provider, "anthropic");
    /// ```
    pub fn file(provider: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Self {
        Self {
            media_type: Arc::from(""),
            source: MediaSource::File {
                provider: provider.into(),
                id: id.into(),
            },
            name: None,
        }
    }

    /// Returns the decoded content, when it is text.
    pub(crate) fn text(&self) -> Option<String> {
        let MediaSource::Base64(data) = &self.source else {
            return None;
        };
        if !self.media_type.starts_with("text/") {
            return None;
        }
        let bytes = STANDARD.decode(&**data);
        String::from_utf8(bytes.ok()?).ok()
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// A provider's own block, byte for byte, with the provider's name.
///
/// A block with a provider is sent back unchanged to that provider, and to no other provider.
#[derive(Clone)]
#[non_exhaustive]
pub struct ProviderBlock {
    /// The name with which the provider marks its blocks, such as `anthropic`, `gemini`, `openai`
    /// for Chat Completions or `openai-responses`; `None` if unknown.
    pub provider: Option<Arc<str>>,
    /// The block's JSON.
    pub raw: Arc<RawValue>,
}

impl ProviderBlock {
    /// Creates a block of `provider`.
    pub fn new(provider: impl Into<Arc<str>>, raw: impl Into<Arc<RawValue>>) -> Self {
        Self {
            provider: Some(provider.into()),
            raw: raw.into(),
        }
    }

    /// Returns `true` if the block may be sent to `provider`; a block without a provider may be
    /// sent to any.
    pub fn is_for(&self, provider: &str) -> bool {
        self.provider.as_deref().is_none_or(|own| own == provider)
    }
}

impl PartialEq for ProviderBlock {
    fn eq(&self, other: &Self) -> bool {
        self.provider == other.provider && self.raw.get() == other.raw.get()
    }
}

impl fmt::Debug for ProviderBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderBlock")
            .field("provider", &self.provider)
            .field("raw", &self.raw.get())
            .finish()
    }
}

/// A tool call of the model.
///
/// Two calls are equal if their ids, names and parsed arguments are equal;
/// [`raw_args`](ToolCall::raw_args) and [`extra`](ToolCall::extra) do not count.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolCall {
    /// The call's id, assigned by the model's provider.
    pub id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The parsed arguments. Anything but an object means that they could not be parsed, and
    /// such a call gets an error result instead of being run.
    pub args: Arc<Value>,
    /// The arguments as the model wrote them: never serialized, sent back verbatim.
    pub raw_args: Option<Arc<str>>,
    /// Further fields of the call that its provider requires back, unchanged: an object. Defaults
    /// to `None`.
    ///
    /// They do not count for equality, and are sent to no other provider. Fields that are nested
    /// deeper than 100 levels are removed from the calls of a model.
    pub extra: Option<Arc<ProviderBlock>>,
}

impl ToolCall {
    /// Creates a call without raw text.
    pub fn new(
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        args: impl Into<Arc<Value>>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            args: args.into(),
            raw_args: None,
            extra: None,
        }
    }

    /// Creates a call from the text of the arguments that a model wrote.
    ///
    /// `raw_args` has the text. An empty text counts as `{}`. If any other text is not a JSON
    /// object, is nested deeper than 100 levels or has more than 200,000 values, `args` is `null`.
    pub fn from_raw(
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        raw: impl Into<Arc<str>>,
    ) -> Self {
        let raw: Arc<str> = raw.into();
        let args = match raw.trim() {
            "" => Value::Object(serde_json::Map::new()),
            // Values may take more than a hundred times the memory of their text.
            text if has_more_values(text, MAX_VALUES) => Value::Null,
            text => match serde_json::from_str(text) {
                Ok(value @ Value::Object(_)) if !is_too_deep(&value) => value,
                _ => Value::Null,
            },
        };

        Self {
            id: id.into(),
            name: name.into(),
            args: Arc::new(args),
            raw_args: Some(raw),
            extra: None,
        }
    }

    /// Sets the further fields that the provider requires back.
    ///
    /// ```
    /// use agentcore::ToolCall;
    /// use agentcore::message::ProviderBlock;
    /// use serde_json::json;
    /// use serde_json::value::to_raw_value;
    ///
    /// let fields = to_raw_value(&json!({"thoughtSignature": "c2ln"}))?;
    /// let call = ToolCall::new("call_1", "grep", json!({"pattern": "x"}))
    ///     .with_extra(ProviderBlock::new("gemini", fields));
    /// assert!(call.extra.is_some_and(|fields| fields.is_for("gemini")));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn with_extra(mut self, fields: ProviderBlock) -> Self {
        self.extra = Some(Arc::new(fields));
        self
    }

    /// Sets the arguments and removes the raw text, which no longer matches them.
    #[must_use]
    pub fn with_args(mut self, args: impl Into<Arc<Value>>) -> Self {
        self.args = args.into();
        self.raw_args = None;
        self
    }

    /// Replaces arguments that are nested too deep to be stored by `null`, as if they could not be
    /// parsed, and removes further fields that are nested too deep.
    pub(crate) fn limit_depth(&mut self) {
        self.extra
            .take_if(|fields| is_text_too_deep(fields.raw.get()));
        if !is_too_deep(&self.args) {
            return;
        }
        dismantle_shared(std::mem::take(&mut self.args));
        if !self.raw_args.as_deref().is_some_and(is_text_too_deep) {
            // The error result takes its reason from the raw text, so that it must be nested too
            // deep as well. It is neither stored nor sent.
            self.raw_args = Some("[".repeat(MAX_JSON_DEPTH + 1).into());
        }
    }
}

impl PartialEq for ToolCall {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.name == other.name && self.args == other.args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_takes_at_most_80_bytes() {
        assert!(size_of::<Part>() <= 80, "{}", size_of::<Part>());
    }
}
