//! The JSON of a cassette: one object a line, the first one a [`Header`], the rest [`Exchange`]s.
//!
//! Raw blocks and raw arguments are kept as strings, so that not a byte of them changes.

use std::sync::Arc;
use std::time::Duration;

use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Annotations, Citation, Media, MediaSource, Part, ProviderBlock, ToolCall};
use crate::model::{ModelCard, ModelEvent, ModelProfile, Prices, ResponseHead, StopReason};
use crate::usage::Usage;

use super::fingerprint::Fingerprint;

/// The version this code writes.
pub(super) const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) cassette: u32,
    #[serde(flatten)]
    pub(super) model: WireCard,
}

/// A model and what is known about it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WireCard {
    model: Arc<str>,
    context_window: u64,
    max_output_tokens: u32,
    images: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prices: Option<Prices>,
}

impl From<ModelCard> for WireCard {
    fn from(card: ModelCard) -> Self {
        Self {
            model: card.id,
            context_window: card.profile.context_window,
            max_output_tokens: card.profile.max_output_tokens,
            images: card.profile.images,
            prices: card.profile.prices,
        }
    }
}

impl From<WireCard> for ModelCard {
    fn from(wire: WireCard) -> Self {
        let profile = ModelProfile::default()
            .with_context_window(wire.context_window)
            .with_max_output_tokens(wire.max_output_tokens)
            .with_images(wire.images);
        let prices = wire.prices;
        Self::new(wire.model, ModelProfile { prices, ..profile })
    }
}

/// One call: its request, and its events.
#[derive(Serialize, Deserialize)]
pub(super) struct Exchange {
    /// The position of the call among the calls of its recording.
    pub(super) call: usize,
    pub(super) request: Fingerprint,
    /// The error of a call whose stream never began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<WireError>,
    #[serde(default)]
    pub(super) events: Vec<WireEvent>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WireEvent {
    Start {
        id: Arc<str>,
        model: Arc<str>,
        request_id: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<Box<WireCard>>,
    },
    Text(String),
    Thinking(String),
    CallStart {
        index: u32,
        id: Arc<str>,
        name: Arc<str>,
    },
    CallDelta {
        index: u32,
        json: String,
    },
    Part(WirePart),
    PartEnd,
    Usage(Usage),
    Restart,
    Warning(String),
    Stop {
        reason: Option<Reason>,
        sequence: Option<Arc<str>>,
    },
    Error(WireError),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    Known(String),
    Other(Arc<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WirePart {
    Text(String),
    Image(WireMedia),
    Document(WireMedia),
    Audio(WireMedia),
    Thinking(WireBlock),
    Call {
        id: Arc<str>,
        name: Arc<str>,
        args: Arc<Value>,
        raw: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<WireBlock>,
    },
    Opaque(WireBlock),
    Annotations {
        citations: Vec<Citation>,
        block: Option<WireBlock>,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireMedia {
    media_type: Arc<str>,
    url: bool,
    source: Arc<str>,
    name: Option<Arc<str>>,
    /// The provider of an uploaded file, whose id is `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireBlock {
    provider: Option<Arc<str>>,
    raw: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WireError {
    kind: String,
    text: String,
    retryable: bool,
    retry_after_ms: Option<u64>,
    request_id: Option<String>,
    status: Option<u16>,
}

impl From<&Result<ModelEvent>> for WireEvent {
    fn from(event: &Result<ModelEvent>) -> Self {
        let event = match event {
            Ok(event) => event.clone(),
            Err(error) => return Self::Error(error.into()),
        };

        match event {
            ModelEvent::Start(head) => Self::Start {
                id: head.id,
                model: head.model,
                request_id: head.request_id,
                answered_by: head.answered_by.map(|card| Box::new((*card).into())),
            },
            ModelEvent::Text(text) => Self::Text(text),
            ModelEvent::Thinking(text) => Self::Thinking(text),
            ModelEvent::ToolCallStart { index, id, name } => Self::CallStart { index, id, name },
            ModelEvent::ToolCallDelta { index, json } => Self::CallDelta { index, json },
            ModelEvent::ToolCall(call) => Self::Part((&Part::ToolCall(call)).into()),
            ModelEvent::Part(part) => Self::Part((&part).into()),
            ModelEvent::PartEnd => Self::PartEnd,
            ModelEvent::Usage(usage) => Self::Usage(usage),
            ModelEvent::Restart => Self::Restart,
            ModelEvent::Warning(text) => Self::Warning(text),
            ModelEvent::Stop { reason, sequence } => Self::Stop {
                reason: reason.map(|reason| match reason {
                    StopReason::Other(label) => Reason::Other(label),
                    known => Reason::Known(known.as_str().to_owned()),
                }),
                sequence,
            },
        }
    }
}

impl WireEvent {
    /// Returns the event, or the error that ended the stream.
    ///
    /// # Errors
    ///
    /// Returns the recorded error, and an error if a raw block is not JSON.
    pub(super) fn event(&self) -> Result<ModelEvent> {
        Ok(match self {
            Self::Start {
                id,
                model,
                request_id,
                answered_by,
            } => {
                let mut head = ResponseHead::new(id.clone(), model.clone());
                head.request_id = request_id.clone();
                head.answered_by = answered_by.clone().map(|wire| Box::new((*wire).into()));
                ModelEvent::Start(Box::new(head))
            }
            Self::Text(text) => ModelEvent::Text(text.clone()),
            Self::Thinking(text) => ModelEvent::Thinking(text.clone()),
            Self::CallStart { index, id, name } => ModelEvent::ToolCallStart {
                index: *index,
                id: id.clone(),
                name: name.clone(),
            },
            Self::CallDelta { index, json } => ModelEvent::ToolCallDelta {
                index: *index,
                json: json.clone(),
            },
            Self::Part(part) => match part.part()? {
                Part::ToolCall(call) => ModelEvent::ToolCall(call),
                part => ModelEvent::Part(part),
            },
            Self::PartEnd => ModelEvent::PartEnd,
            Self::Usage(usage) => ModelEvent::Usage(*usage),
            Self::Restart => ModelEvent::Restart,
            Self::Warning(text) => ModelEvent::Warning(text.clone()),
            Self::Stop { reason, sequence } => ModelEvent::Stop {
                reason: reason.as_ref().map(|reason| match reason {
                    Reason::Known(label) => StopReason::from(label.as_str()),
                    Reason::Other(label) => StopReason::Other(label.clone()),
                }),
                sequence: sequence.clone(),
            },
            Self::Error(error) => return Err(error.into()),
        })
    }
}

impl From<&Part> for WirePart {
    fn from(part: &Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text.clone()),
            Part::Image(media) => Self::Image(media.into()),
            Part::Document(media) => Self::Document(media.into()),
            Part::Audio(media) => Self::Audio(media.into()),
            Part::Thinking(block) => Self::Thinking(block.into()),
            Part::ToolCall(call) => Self::Call {
                id: call.id.clone(),
                name: call.name.clone(),
                args: call.args.clone(),
                raw: call.raw_args.clone(),
                extra: call.extra.as_deref().map(WireBlock::from),
            },
            Part::Opaque(block) => Self::Opaque(block.into()),
            Part::Annotations(annotations) => Self::Annotations {
                citations: annotations.citations.clone(),
                block: annotations.block.as_ref().map(WireBlock::from),
            },
        }
    }
}

impl WirePart {
    fn part(&self) -> Result<Part> {
        Ok(match self {
            Self::Text(text) => Part::Text(text.clone()),
            Self::Image(media) => Part::Image(media.media()),
            Self::Document(media) => Part::Document(media.media()),
            Self::Audio(media) => Part::Audio(media.media()),
            Self::Thinking(block) => Part::Thinking(block.block()?),
            Self::Call {
                id,
                name,
                args,
                raw,
                extra,
            } => {
                let mut call = ToolCall::new(id.clone(), name.clone(), args.clone());
                call.raw_args = raw.clone();
                let extra = extra.as_ref().map(WireBlock::block).transpose()?;
                call.extra = extra.map(Arc::new);
                Part::ToolCall(call)
            }
            Self::Opaque(block) => Part::Opaque(block.block()?),
            Self::Annotations { citations, block } => Part::Annotations(Annotations {
                block: block.as_ref().map(WireBlock::block).transpose()?,
                ..Annotations::new(citations.iter().cloned())
            }),
        })
    }
}

impl From<&Media> for WireMedia {
    fn from(media: &Media) -> Self {
        let (url, source, file) = match &media.source {
            MediaSource::Base64(data) => (false, data, None),
            MediaSource::Url(url) => (true, url, None),
            MediaSource::File { provider, id } => (false, id, Some(provider.clone())),
        };
        Self {
            media_type: media.media_type.clone(),
            url,
            source: source.clone(),
            name: media.name.clone(),
            file,
        }
    }
}

impl WireMedia {
    fn media(&self) -> Media {
        let source = self.source.clone();
        Media {
            media_type: self.media_type.clone(),
            source: match &self.file {
                Some(provider) => MediaSource::File {
                    provider: provider.clone(),
                    id: source,
                },
                None if self.url => MediaSource::Url(source),
                None => MediaSource::Base64(source),
            },
            name: self.name.clone(),
        }
    }
}

impl From<&ProviderBlock> for WireBlock {
    fn from(block: &ProviderBlock) -> Self {
        Self {
            provider: block.provider.clone(),
            raw: block.raw.get().to_owned(),
        }
    }
}

impl WireBlock {
    fn block(&self) -> Result<ProviderBlock> {
        let raw = RawValue::from_string(self.raw.clone())
            .map_err(|error| Error::new(ErrorKind::Corrupt, error.to_string()))?;
        Ok(ProviderBlock {
            provider: self.provider.clone(),
            raw: raw.into(),
        })
    }
}

impl From<&Error> for WireError {
    fn from(error: &Error) -> Self {
        Self {
            kind: format!("{:?}", error.kind()),
            text: error.text().to_owned(),
            retryable: error.is_retryable(),
            retry_after_ms: error
                .retry_after()
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            request_id: error.request_id().map(str::to_owned),
            status: error.status(),
        }
    }
}

impl From<&WireError> for Error {
    fn from(wire: &WireError) -> Self {
        let kind = kind(&wire.kind).unwrap_or(ErrorKind::Other);
        let mut error = Self::new(kind, wire.text.clone()).with_retryable(wire.retryable);
        if let Some(wait) = wire.retry_after_ms {
            error = error.with_retry_after(Duration::from_millis(wait));
        }

        if let Some(id) = &wire.request_id {
            error = error.with_request_id(id.clone());
        }

        if let Some(status) = wire.status {
            error = error.with_status(status);
        }

        error
    }
}

/// Returns the kind of this name; `None` if it is not known, such as a kind of a newer version.
fn kind(name: &str) -> Option<ErrorKind> {
    let name: StrDeserializer<'_, ValueError> = name.into_deserializer();
    ErrorKind::deserialize(name).ok()
}
