//! Parts of a message as content blocks of the Messages API.
//!
//! Format: <https://docs.anthropic.com/en/api/messages>.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::citations::{annotations, citation_values};
use super::fields::read;
use crate::message::{
    Annotations, Content, Media, MediaSource, Part, ProviderBlock, ToolCall, ToolResult,
};

/// The provider of this format: blocks of other providers are not written.
pub(crate) const PROVIDER: &str = "anthropic";

/// One part as a content block, a text with its citations.
pub(super) struct Block<'a> {
    part: &'a Part,
    annotations: Option<&'a Annotations>,
}

/// Returns the parts as content blocks. Parts that have no such form are omitted: blocks of other
/// providers and files that were uploaded to them, recordings, and empty texts, which the API
/// refuses.
pub(super) fn blocks(parts: &[Part]) -> impl Iterator<Item = Block<'_>> {
    let blocks = parts.iter().enumerate().map(|(index, part)| Block {
        part,
        annotations: match (part, parts.get(index + 1)) {
            (Part::Text(_), Some(Part::Annotations(annotations))) => Some(annotations),
            _ => None,
        },
    });
    blocks.filter(Block::has_form)
}

/// The parts as an array of [`blocks`].
pub(crate) struct Blocks<'a>(pub(crate) &'a [Part]);

/// The result of a call as a `tool_result` block.
pub(crate) struct ToolResultBlock<'a>(pub(crate) &'a ToolResult);

impl Block<'_> {
    /// Returns `true` if the part has a form here. Annotations are in the block of their text.
    fn has_form(&self) -> bool {
        match self.part {
            Part::Text(text) => !text.is_empty(),
            Part::Thinking(block) | Part::Opaque(block) => block.is_for(PROVIDER),
            Part::Image(media) | Part::Document(media) => has_form(media),
            Part::ToolCall(_) => true,
            Part::Audio(_) | Part::Annotations(_) => false,
        }
    }
}

/// Returns `true` unless the bytes are a file that was uploaded to another provider.
fn has_form(media: &Media) -> bool {
    match &media.source {
        MediaSource::Base64(_) | MediaSource::Url(_) => true,
        MediaSource::File { provider, .. } => &**provider == PROVIDER,
    }
}

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.part {
            Part::Text(text) => {
                let citations = self.annotations.map(citation_values).unwrap_or_default();
                let mut map = to.serialize_map(None)?;
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
                if !citations.is_empty() {
                    map.serialize_entry("citations", &citations)?;
                }

                map.end()
            }
            Part::Image(media) => serialize_media(to, "image", media),
            Part::Document(media) => serialize_media(to, "document", media),
            Part::ToolCall(call) => {
                let mut map = to.serialize_map(Some(4))?;
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", &*call.id)?;
                map.serialize_entry("name", &*call.name)?;
                map.serialize_entry("input", &Input(call))?;
                map.end()
            }
            Part::Thinking(block) | Part::Opaque(block) => one_line(&block.raw).serialize(to),
            // `has_form` leaves them out.
            Part::Audio(_) | Part::Annotations(_) => to.serialize_none(),
        }
    }
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(blocks(self.0))
    }
}

impl Serialize for ToolResultBlock<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("type", "tool_result")?;
        map.serialize_entry("tool_use_id", &*self.0.tool_call_id)?;
        map.serialize_entry("content", &TextOrBlocks(&self.0.content))?;
        if self.0.is_error {
            map.serialize_entry("is_error", &true)?;
        }
        map.end()
    }
}

/// Content as a string when it is at most one text, as blocks otherwise.
pub(crate) struct TextOrBlocks<'a>(pub(crate) &'a Content);

impl Serialize for TextOrBlocks<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.parts() {
            [] => to.serialize_str(""),
            [Part::Text(text)] => to.serialize_str(text),
            parts => Blocks(parts).serialize(to),
        }
    }
}

/// The arguments of a call: as the model wrote them if that is an object, else as parsed.
struct Input<'a>(&'a ToolCall);

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some(args) = self.0.args.as_object() else {
            return to.serialize_map(Some(0))?.end();
        };
        let raw = self.0.raw_args.as_deref().map(str::trim);
        match raw
            .filter(|raw| raw.starts_with('{'))
            .map(serde_json::from_str)
        {
            Some(Ok(raw)) => one_line(raw).serialize(to),
            _ => args.serialize(to),
        }
    }
}

fn serialize_media<S: Serializer>(to: S, kind: &str, media: &Media) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    map.serialize_entry("type", kind)?;
    map.serialize_entry("source", &Source(media))?;
    if let (Some(name), "document") = (&media.name, kind) {
        map.serialize_entry("title", &**name)?;
    }
    map.end()
}

struct Source<'a>(&'a Media);

impl Serialize for Source<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Media {
            media_type, source, ..
        } = self.0;
        let mut map = to.serialize_map(Some(3))?;
        match source {
            MediaSource::Url(url) => {
                map.serialize_entry("type", "url")?;
                map.serialize_entry("url", &**url)?;
            }
            MediaSource::File { id, .. } => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file_id", &**id)?;
            }
            MediaSource::Base64(data) => {
                // The API accepts only plain text as text.
                let text = (&**media_type == "text/plain")
                    .then(|| String::from_utf8(BASE64.decode(&**data).ok()?).ok())
                    .flatten();
                map.serialize_entry("type", if text.is_some() { "text" } else { "base64" })?;
                map.serialize_entry("media_type", &**media_type)?;
                map.serialize_entry("data", text.as_deref().unwrap_or(data))?;
            }
        }

        map.end()
    }
}

/// Raw JSON on one line, so that a message stays one line. JSON has line breaks only between
/// tokens, where a space is equivalent.
pub(super) fn one_line(raw: &RawValue) -> Cow<'_, RawValue> {
    if !raw.get().contains(['\n', '\r']) {
        return Cow::Borrowed(raw);
    }
    let spaced = raw.get().replace(['\n', '\r'], " ");
    match RawValue::from_string(spaced) {
        Ok(line) => Cow::Owned(line),
        Err(_) => Cow::Borrowed(raw),
    }
}

/// A content block as it is read: the fields of all known kinds.
#[derive(serde::Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    citations: Option<Box<RawValue>>,
    id: Option<Arc<str>>,
    name: Option<Arc<str>>,
    input: Option<Box<RawValue>>,
    source: Option<serde_json::Value>,
    title: Option<Arc<str>>,
    tool_use_id: Option<Arc<str>>,
    content: Option<Box<RawValue>>,
    is_error: Option<bool>,
}

/// A parsed content block of a message.
pub(super) enum Parsed {
    Part(Part),
    Cited(String, Annotations),
    Result(Box<ToolResult>),
}

/// Reads a block of a message; one of a kind or shape that is not known stays as it is.
pub(super) fn parse(raw: &RawValue) -> Parsed {
    let Ok(wire) = read::<Wire>(raw.get()) else {
        return Parsed::Part(opaque(raw));
    };

    let part = match (&*wire.kind, wire.text, wire.source.as_ref().and_then(media)) {
        ("text", Some(text), _) => match wire.citations.as_deref().and_then(annotations) {
            Some(annotations) => return Parsed::Cited(text, annotations),
            None => Part::Text(text),
        },
        ("image", _, Some(media)) => Part::Image(media),
        ("document", _, Some(media)) => Part::Document(Media {
            name: wire.title,
            ..media
        }),
        ("tool_use", ..) => Part::ToolCall(ToolCall::from_raw(
            wire.id.unwrap_or_default(),
            wire.name.unwrap_or_default(),
            wire.input.as_deref().map_or("", RawValue::get),
        )),
        ("tool_result", ..) => {
            let content = wire.content.map_or(Ok(Content::new()), |raw| content(&raw));
            let Ok(content) = content else {
                return Parsed::Part(opaque(raw));
            };
            let mut result = ToolResult::new(wire.tool_use_id.unwrap_or_default(), "", content);
            result.is_error = wire.is_error.unwrap_or_default();
            return Parsed::Result(Box::new(result));
        }
        ("thinking" | "redacted_thinking", ..) => Part::Thinking(provider_block(raw)),
        _ => opaque(raw),
    };

    Parsed::Part(part)
}

/// Reads content: a string, or blocks. A result inside of content is not interpreted.
pub(super) fn content(raw: &RawValue) -> serde_json::Result<Content> {
    if !raw.get().starts_with('[') {
        let text: Option<String> = read(raw.get())?;
        return Ok(text.map_or_else(Content::new, Content::from));
    }

    let blocks: Vec<&RawValue> = serde_json::from_str(raw.get())?;
    let mut content = Content::new();
    for raw in blocks {
        // Before it is parsed: results may be nested to any depth.
        if is_result(raw) {
            content.push(opaque(raw));
            continue;
        }
        match parse(raw) {
            Parsed::Part(part) => content.push(part),
            Parsed::Cited(text, annotations) => {
                content.push(text);
                content.push(Part::Annotations(annotations));
            }
            Parsed::Result(_) => content.push(opaque(raw)),
        }
    }

    Ok(content)
}

fn is_result(raw: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }

    let block = serde_json::from_str::<Kind<'_>>(raw.get());
    block.is_ok_and(|block| block.kind == "tool_result")
}

fn opaque(raw: &RawValue) -> Part {
    Part::Opaque(provider_block(raw))
}

fn provider_block(raw: &RawValue) -> ProviderBlock {
    ProviderBlock::new(PROVIDER, raw.to_owned())
}

fn media(source: &serde_json::Value) -> Option<Media> {
    let text = |key| source.get(key).and_then(serde_json::Value::as_str);
    match text("type")? {
        "base64" => Some(Media::base64(text("media_type")?, text("data")?)),
        "text" => Some(Media::bytes(text("media_type")?, text("data")?.as_bytes())),
        "url" => Some(Media::url(text("url")?)),
        "file" => Some(Media::file(PROVIDER, text("file_id")?)),
        _ => None,
    }
}
