//! The redaction of secrets in complete parts of responses.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Annotations, Media, MediaSource, Part, ProviderBlock, ToolCall};
use crate::model::{ModelResponse, ResponseHead, StopReason};
use crate::util::secret::{ExactSearch, redacted};

/// The fields in which servers send unsigned reasoning.
const UNSIGNED: &[&str] = &["reasoning_content", "reasoning", "thinking"];

/// Removes the secrets of this process from a response that hooks have returned, as they are
/// removed from the stream of a model.
///
/// # Errors
///
/// Returns [`ErrorKind::SecretInAnswer`] if a secret is in a block that must stay as it is.
pub(super) fn redact_response(response: &mut ModelResponse) -> Result<()> {
    match ExactSearch::of_now() {
        Some(search) => PartRedactor { search }.redact_response(response),
        None => Ok(()),
    }
}

/// The removal of secrets from complete parts.
pub(super) struct PartRedactor {
    pub(super) search: ExactSearch,
}

impl PartRedactor {
    fn redact_response(&self, response: &mut ModelResponse) -> Result<()> {
        let parts = std::mem::take(response.content.parts_mut()).into_iter();
        let parts: Result<Vec<_>> = parts.map(|part| self.redact_part(part)).collect();
        let mut parts = parts?;
        let texts = parts.iter_mut().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        });
        let mut texts = Vec::from_iter(texts);
        // A single text has been searched with its part.
        if texts.len() > 1 {
            self.search.redact_joined(&mut texts);
        }
        response.content = parts.into();

        let names = response.cut_calls.iter_mut();
        for name in names.chain(&mut response.stop_sequence) {
            *name = self.redact_text(name.clone());
        }
        let reason = response.stop_reason.take();
        response.stop_reason = reason.map(|reason| self.redact_reason(reason));

        let ids = [&mut response.id, &mut response.model].into_iter();
        redact_ids(ids.chain(&mut response.request_id));
        Ok(())
    }

    pub(super) fn redact_text(&self, text: Arc<str>) -> Arc<str> {
        self.search.try_redact(&text).map_or(text, Arc::from)
    }

    pub(super) fn redact_reason(&self, reason: StopReason) -> StopReason {
        match reason {
            StopReason::Other(label) => StopReason::Other(self.redact_text(label)),
            reason => reason,
        }
    }

    /// Returns the head without secrets.
    pub(super) fn redact_head(&self, mut head: Box<ResponseHead>) -> Box<ResponseHead> {
        let ResponseHead {
            id,
            model,
            request_id,
            ..
        } = &mut *head;
        redact_ids([id, model].into_iter().chain(request_id));
        head
    }

    /// Returns a call without secrets. If the values of its arguments contained one, the raw
    /// arguments are serialized again.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in the fields that its provider
    /// requires back.
    pub(super) fn redact_call(&self, mut call: ToolCall) -> Result<ToolCall> {
        // The search for secrets is recursive.
        call.limit_depth();
        let ToolCall {
            id,
            name,
            mut args,
            raw_args,
            extra,
        } = call;
        if extra.as_ref().is_some_and(|fields| self.has_secret(fields)) {
            return Err(secret_in_signed_block());
        }

        let is_in_args = self.search.is_in_value(&args);
        if is_in_args {
            self.search.redact(Arc::make_mut(&mut args));
        }

        let raw_args = raw_args.map(|raw| {
            if is_in_args {
                args.to_string().into()
            } else if self.search.is_in_json(&raw) {
                self.search.redacted_json(&raw).into()
            } else {
                raw
            }
        });

        Ok(ToolCall {
            id: self.redact_text(id),
            name: self.redact_text(name),
            args,
            raw_args,
            extra,
        })
    }

    fn has_secret(&self, block: &ProviderBlock) -> bool {
        self.search.is_in_json(block.raw.get())
    }

    /// Returns a part without secrets.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in a block that must stay as it is.
    pub(super) fn redact_part(&self, part: Part) -> Result<Part> {
        Ok(match part {
            Part::Text(text) => Part::Text(self.search.try_redact(&text).unwrap_or(text)),
            Part::ToolCall(call) => Part::ToolCall(self.redact_call(call)?),
            Part::Image(media) => Part::Image(self.redact_media(media)),
            Part::Document(media) => Part::Document(self.redact_media(media)),
            Part::Audio(media) => Part::Audio(self.redact_media(media)),
            Part::Annotations(annotations) => {
                Part::Annotations(self.redact_annotations(annotations)?)
            }
            Part::Thinking(block) if !self.has_secret(&block) => Part::Thinking(block),
            Part::Thinking(block) => Part::Thinking(self.redact_unsigned(block)?),
            Part::Opaque(block) if !self.has_secret(&block) => Part::Opaque(block),
            Part::Opaque(_) => return Err(secret_in_signed_block()),
        })
    }

    fn redact_media(&self, mut media: Media) -> Media {
        match &mut media.source {
            MediaSource::Url(place) | MediaSource::File { id: place, .. } => {
                *place = self.redact_text(place.clone());
            }
            MediaSource::Base64(_) => {}
        }

        media.name = media.name.map(|name| self.redact_text(name));
        media
    }

    /// Returns annotations without secrets.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in the fields that the provider
    /// requires back.
    fn redact_annotations(&self, mut annotations: Annotations) -> Result<Annotations> {
        if annotations
            .block
            .as_ref()
            .is_some_and(|block| self.has_secret(block))
        {
            return Err(secret_in_signed_block());
        }

        for citation in &mut annotations.citations {
            let texts = [
                &mut citation.url,
                &mut citation.title,
                &mut citation.cited_text,
            ];
            for text in texts {
                *text = self.redact_text(text.clone());
            }
        }

        Ok(annotations)
    }

    /// Returns reasoning without secrets.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if the block has other fields than unsigned text.
    fn redact_unsigned(&self, mut block: ProviderBlock) -> Result<ProviderBlock> {
        let mut value: Value = serde_json::from_str(block.raw.get())?;
        let is_text = value.as_object().is_some_and(|fields| {
            let mut fields = fields.iter();
            fields.all(|(name, value)| UNSIGNED.contains(&&**name) && value.is_string())
        });
        if !is_text {
            return Err(secret_in_signed_block());
        }
        self.search.redact(&mut value);
        block.raw = RawValue::from_string(value.to_string())?.into();
        Ok(block)
    }
}

/// Removes the secrets from ids. They are the server's own, which may spell a key differently, so
/// they are not redacted by exact match.
fn redact_ids<'a>(ids: impl Iterator<Item = &'a mut Arc<str>>) {
    for id in ids {
        if let Cow::Owned(new_id) = redacted(id) {
            *id = new_id.into();
        }
    }
}

fn secret_in_signed_block() -> Error {
    let text = "the model repeated a secret of this process in a block that its provider takes back \
                only unchanged, such as signed thinking; the answer is not kept: keep the secret \
                out of what the model reads";
    Error::new(ErrorKind::SecretInAnswer, text)
}
