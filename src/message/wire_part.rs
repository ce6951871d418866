//! The JSON of the parts of a message.
//!
//! Blocks that must survive byte for byte are [`RawValue`]s, which only pass through plain structs:
//! `#[serde(tag)]`, `flatten` and `untagged` buffer their input and lose the text. So a part is
//! read as raw JSON, its `type` is read, and then it is read again as that type.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::annotations::{Annotations, Citation};
use super::part::{Media, MediaSource, Part, ProviderBlock, ToolCall};

/// Returns the text of a parser's error without its position in the input.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(offset) = text.rfind(" at line ") {
        text.truncate(offset);
    }
    text
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        call_entries(&mut map, self)?;
        map.end()
    }
}

fn call_entries<M: SerializeMap>(map: &mut M, call: &ToolCall) -> Result<(), M::Error> {
    map.serialize_entry("id", &*call.id)?;
    map.serialize_entry("name", &*call.name)?;
    map.serialize_entry("args", &*call.args)?;
    match &call.extra {
        Some(fields) => map.serialize_entry("extra", &BlockOut(fields)),
        None => Ok(()),
    }
}

/// A block with its provider.
struct BlockOut<'a>(&'a ProviderBlock);

impl Serialize for BlockOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        block_entries(&mut map, self.0)?;
        map.end()
    }
}

fn block_entries<M: SerializeMap>(map: &mut M, block: &ProviderBlock) -> Result<(), M::Error> {
    if let Some(provider) = &block.provider {
        map.serialize_entry("provider", &**provider)?;
    }
    map.serialize_entry("block", &*block.raw)
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, block) = match self {
            Self::Thinking(block) => ("thinking", Some(block)),
            Self::Opaque(block) => ("opaque", Some(block)),
            Self::Text(_) => ("text", None),
            Self::Image(_) => ("image", None),
            Self::Document(_) => ("document", None),
            Self::Audio(_) => ("audio", None),
            Self::ToolCall(_) => ("tool_call", None),
            Self::Annotations(_) => ("annotations", None),
        };

        if let Some(block) = block
            && reads_back_bare(self, block)
        {
            return block.raw.serialize(serializer);
        }

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", kind)?;
        match self {
            Self::Text(text) => map.serialize_entry("text", text)?,
            Self::ToolCall(call) => call_entries(&mut map, call)?,
            Self::Image(media) | Self::Document(media) | Self::Audio(media) => {
                media_entries(&mut map, media)?;
            }
            Self::Annotations(annotations) => {
                map.serialize_entry("citations", &annotations.citations)?;
                if let Some(block) = &annotations.block {
                    block_entries(&mut map, block)?;
                }
            }
            Self::Thinking(block) | Self::Opaque(block) => block_entries(&mut map, block)?,
        }

        map.end()
    }
}

fn media_entries<M: SerializeMap>(map: &mut M, media: &Media) -> Result<(), M::Error> {
    if !media.media_type.is_empty() {
        map.serialize_entry("media_type", &*media.media_type)?;
    }

    match &media.source {
        MediaSource::Base64(data) => map.serialize_entry("data", &**data)?,
        MediaSource::Url(url) => map.serialize_entry("url", &**url)?,
        MediaSource::File { provider, id } => {
            map.serialize_entry("file", &File { provider, id })?;
        }
    }

    match &media.name {
        Some(name) => map.serialize_entry("name", &**name),
        None => Ok(()),
    }
}

/// A file that was uploaded.
#[derive(serde::Serialize)]
struct File<'a> {
    provider: &'a str,
    id: &'a str,
}

/// Returns `true` if the block of an unknown provider, written without a wrapper, is read as this
/// part.
fn reads_back_bare(part: &Part, block: &ProviderBlock) -> bool {
    block.provider.is_none() && read_part(block.raw.as_ref().to_owned()).is_ok_and(|p| p == *part)
}

#[derive(serde::Deserialize)]
#[serde(expecting = "a tool call")]
struct CallIn {
    id: Option<Arc<str>>,
    name: Option<Arc<str>>,
    // Absent means no arguments; `null` is written for a call with arguments that could not be
    // parsed.
    #[serde(default, deserialize_with = "present")]
    args: Option<Value>,
    /// The arguments as models and their servers name them: the value, or its text.
    arguments: Option<Value>,
    /// The name and the arguments, as in Chat Completions.
    function: Option<FunctionIn>,
    #[serde(default, deserialize_with = "extra")]
    extra: Option<Arc<ProviderBlock>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(expecting = "the function of a call")]
struct FunctionIn {
    name: Option<Arc<str>>,
    arguments: Option<Value>,
}

/// Reads a present `null` as a value, unlike an absent field.
pub(super) fn present<'de, D>(deserializer: D) -> Result<Option<Value>, D::Error>
where
    D: Deserializer<'de>,
{
    Value::deserialize(deserializer).map(Some)
}

/// Reads the further fields of a call; fields of an unknown shape are ignored.
fn extra<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<ProviderBlock>>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(read_wrapped(raw.get()).map(Arc::new))
}

impl From<CallIn> for ToolCall {
    fn from(call: CallIn) -> Self {
        let id = call.id.unwrap_or_default();
        let function = call.function.unwrap_or_default();
        let name = call.name.or(function.name).unwrap_or_default();
        let extra = call.extra;
        let call = match (call.args, call.arguments.or(function.arguments)) {
            (Some(args), _) => Self::new(id, name, args),
            (None, Some(Value::String(text))) => Self::from_raw(id, name, text),
            (None, args) => Self::new(id, name, args.unwrap_or_else(|| Map::new().into())),
        };
        Self { extra, ..call }
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CallIn::deserialize(deserializer).map(Self::from)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_part(Box::<RawValue>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(expecting = "a part with a type")]
struct Peek<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "a text")]
struct TextIn {
    text: String,
}

#[derive(serde::Deserialize)]
struct MediaIn {
    media_type: Option<Arc<str>>,
    data: Option<Arc<str>>,
    url: Option<Arc<str>>,
    file: Option<FileIn>,
    name: Option<Arc<str>>,
}

#[derive(serde::Deserialize)]
struct FileIn {
    provider: Arc<str>,
    id: Arc<str>,
}

#[derive(serde::Deserialize)]
struct AnnotationsIn {
    citations: Vec<Citation>,
    provider: Option<Arc<str>>,
    block: Option<Box<RawValue>>,
}

#[derive(serde::Deserialize)]
struct BlockIn {
    provider: Option<Arc<str>>,
    block: Box<RawValue>,
}

fn read_part(raw: Box<RawValue>) -> Result<Part, String> {
    let json = raw.get();
    let kind = serde_json::from_str::<Peek<'_>>(json)
        .map_err(|error| without_position(&error))?
        .kind;
    let in_part = |error: serde_json::Error| format!("{kind} part: {}", without_position(&error));
    let is_thinking = matches!(&*kind, "thinking" | "redacted_thinking");
    let known_part = match &*kind {
        "text" => Some(Part::Text(
            serde_json::from_str::<TextIn>(json).map_err(in_part)?.text,
        )),
        "tool_call" => Some(Part::ToolCall(serde_json::from_str(json).map_err(in_part)?)),
        "image" => read_media(json).map(Part::Image),
        "document" => read_media(json).map(Part::Document),
        "audio" => read_media(json).map(Part::Audio),
        "thinking" => read_wrapped(json).map(Part::Thinking),
        "opaque" => read_wrapped(json).map(Part::Opaque),
        "annotations" => read_annotations(json).map(Part::Annotations),
        _ => None,
    };

    // Anything else is in a provider's own format, such as an image.
    Ok(known_part.unwrap_or_else(|| {
        let block = ProviderBlock {
            provider: None,
            raw: raw.into(),
        };

        if is_thinking {
            Part::Thinking(block)
        } else {
            Part::Opaque(block)
        }
    }))
}

fn read_media(json: &str) -> Option<Media> {
    let media: MediaIn = serde_json::from_str(json).ok()?;
    let source = match (media.data, media.url, media.file) {
        (Some(data), ..) => MediaSource::Base64(data),
        (None, Some(url), _) => MediaSource::Url(url),
        (None, None, Some(FileIn { provider, id })) => MediaSource::File { provider, id },
        (None, None, None) => return None,
    };
    Some(Media {
        media_type: media.media_type.unwrap_or_default(),
        source,
        name: media.name,
    })
}

fn read_annotations(json: &str) -> Option<Annotations> {
    let annotations: AnnotationsIn = serde_json::from_str(json).ok()?;
    Some(Annotations {
        block: annotations.block.map(|raw| ProviderBlock {
            provider: annotations.provider,
            raw: raw.into(),
        }),
        ..Annotations::new(annotations.citations)
    })
}

fn read_wrapped(json: &str) -> Option<ProviderBlock> {
    let wrapped: BlockIn = serde_json::from_str(json).ok()?;
    Some(ProviderBlock {
        provider: wrapped.provider,
        raw: wrapped.block.into(),
    })
}
