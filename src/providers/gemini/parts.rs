//! The parts of an answer while they stream.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Annotations, Citation, Part, ProviderBlock};
use crate::model::ModelEvent;

use super::super::encode::EncodedCalls;
use super::super::events::Events;
use super::super::json::replace_refused;
use super::super::lenient::is_empty_value;
use super::super::whole_calls::WholeCalls;
use super::chunks::{FunctionCall, WirePart};
use super::raw_parts::RawParts;

/// Joins the pieces of texts and thoughts to parts.
///
/// A text with a signature is never joined with another text, because the server checks that the
/// signature is sent back with its text. Thoughts are joined up to the thought with a signature. A
/// part that is neither text nor call is a block of its own, and so is an empty text with a
/// signature.
///
/// The citations of the last text may arrive after the parts that follow it. These parts are
/// buffered until the next text begins or the answer ends, so that the citations directly follow
/// their text.
pub(super) struct AnswerParts {
    /// The tag of the blocks that only the backend of this answer accepts.
    tag: Arc<str>,
    calls: WholeCalls,
    open: OpenPart,
    /// The text after which events are held back.
    ended_text: Option<EndedText>,
    /// The citations of the open text, or else of the next text, or else of the last text.
    citations: Vec<Citation>,
}

/// The part that the next piece may belong to.
#[derive(Default)]
enum OpenPart {
    #[default]
    Nothing,
    Text,
    /// A whole text, by its signature. Its citations may follow.
    SignedText(String),
    Thoughts(String),
}

/// A whole text whose citations may still arrive.
struct EndedText {
    /// Empty for a text without one.
    signature: String,
    /// The citations that arrived before its end.
    citations: Vec<Citation>,
}

/// The fields of a part that its provider requires back.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "str::is_empty")]
    thought_signature: &'a str,
}

impl AnswerParts {
    pub(super) fn new(tag: Arc<str>, encoded_calls: EncodedCalls) -> Self {
        Self {
            tag,
            calls: WholeCalls::new(encoded_calls),
            open: OpenPart::default(),
            ended_text: None,
            citations: Vec::new(),
        }
    }

    /// Sets the provider's id of the response, which is part of generated ids.
    pub(super) fn set_response(&mut self, id: &str) {
        self.calls.set_response(id);
    }

    /// Replaces the citations of the text.
    pub(super) fn set_citations(&mut self, citations: Vec<Citation>) {
        self.citations = citations;
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.len() > 0
    }

    /// Adds the next part, the current one of `raw_parts`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if a limit is exceeded, and [`ErrorKind::Protocol`]
    /// if a call is incomplete.
    pub(super) fn push(
        &mut self,
        part: WirePart<'_>,
        raw_parts: &mut RawParts<'_>,
        out: &mut Events,
    ) -> Result<()> {
        let signature = &*part.thought_signature.0;
        let is_signed = !signature.is_empty();
        match (part.function_call, part.text) {
            (Some(call), _) => self.call(&call, signature, out),
            (None, Some(text)) if part.thought == Some(true) => {
                self.thought(text.0, signature, out)
            }
            (None, Some(text)) if !text.is_empty() || !is_signed => {
                self.push_text(text.0, signature, out)
            }
            (None, text) => match raw_parts.current()? {
                Some(raw) if text.is_some() || !is_empty_value(raw) => self.opaque(raw, out),
                _ => Ok(()),
            },
        }
    }

    /// Ends the answer. The citations so far become those of its last text.
    pub(super) fn finish(&mut self, out: &mut Events) -> Result<()> {
        self.end(out)?;
        let citations = std::mem::take(&mut self.citations);
        if let Some(text) = self.ended_text.as_mut().filter(|_| !citations.is_empty()) {
            text.citations = citations;
        }
        self.annotate(out)
    }

    /// Ends the open part. The citations of a text may arrive later.
    fn end(&mut self, out: &mut Events) -> Result<()> {
        let signature = match std::mem::take(&mut self.open) {
            OpenPart::Nothing => return Ok(()),
            OpenPart::Thoughts(text) => return self.end_thoughts(&text, "", out),
            OpenPart::Text => String::new(),
            OpenPart::SignedText(signature) => signature,
        };
        self.ended_text = Some(EndedText {
            signature,
            citations: std::mem::take(&mut self.citations),
        });
        out.hold();
        Ok(())
    }

    /// Adds a text, whose signature may be empty. An empty text without a signature is ignored.
    pub(super) fn push_text(
        &mut self,
        text: Cow<'_, str>,
        signature: &str,
        out: &mut Events,
    ) -> Result<()> {
        if text.is_empty() && signature.is_empty() {
            return Ok(());
        }

        let is_behind_text = matches!(self.open, OpenPart::Text);
        if !is_behind_text {
            self.end(out)?;
            self.annotate(out)?;
        }

        if signature.is_empty() {
            self.open = OpenPart::Text;
        } else {
            // The citations so far belong to this text, the last one.
            if is_behind_text {
                out.push(ModelEvent::PartEnd);
            }

            out.collect_bytes(signature.len())?;
            self.open = OpenPart::SignedText(signature.to_owned());
        }

        out.push_text(text);
        Ok(())
    }

    /// Emits the citations and the signature of the text that has ended, if there is one, and then
    /// the events that were held back.
    fn annotate(&mut self, out: &mut Events) -> Result<()> {
        let Some(EndedText {
            signature,
            citations,
        }) = self.ended_text.take()
        else {
            return Ok(());
        };
        if citations.is_empty() && signature.is_empty() {
            out.release(None);
            return Ok(());
        }

        // Several citations may support the same text.
        for citation in &citations {
            let texts = [&citation.url, &citation.title, &citation.cited_text];
            out.collect_bytes(texts.iter().map(|text| text.len()).sum())?;
        }

        let mut annotations = Annotations::new(citations);
        if !signature.is_empty() {
            annotations = annotations.with_block(self.signature(&signature)?);
        }

        out.release(Some(ModelEvent::Part(Part::Annotations(annotations))));
        Ok(())
    }

    fn thought(&mut self, text: Cow<'_, str>, signature: &str, out: &mut Events) -> Result<()> {
        if text.is_empty() && signature.is_empty() {
            return Ok(());
        }

        let mut thoughts = match std::mem::take(&mut self.open) {
            OpenPart::Thoughts(thoughts) => thoughts,
            open => {
                self.open = open;
                self.end(out)?;
                String::new()
            }
        };

        out.collect_bytes(text.len() + signature.len())?;
        thoughts.push_str(&text);
        if !text.is_empty() {
            out.push(ModelEvent::Thinking(text.into_owned()));
        }

        if !signature.is_empty() {
            return self.end_thoughts(&thoughts, signature, out);
        }

        self.open = OpenPart::Thoughts(thoughts);
        Ok(())
    }

    fn end_thoughts(&self, text: &str, signature: &str, out: &mut Events) -> Result<()> {
        let block = self.block(&PartFields {
            text: Some(text),
            thought: Some(true),
            thought_signature: signature,
        })?;
        out.push(ModelEvent::Part(Part::Thinking(block)));
        Ok(())
    }

    fn call(&mut self, call: &FunctionCall<'_>, signature: &str, out: &mut Events) -> Result<()> {
        if call.is_partial() {
            let index = self.calls.len();
            let text = format!(
                "the arguments of the tool call {index} are streamed, which was not requested"
            );
            return Err(Error::new(ErrorKind::Protocol, text));
        }

        self.end(out)?;
        let args = match call.args.map(RawValue::get) {
            None | Some("null") => "{}".into(),
            Some(args) => replace_refused(args),
        };

        out.collect_bytes(signature.len())?;
        let is_signed = !signature.is_empty();
        let fields = is_signed.then(|| self.signature(signature)).transpose()?;
        self.calls.push(&call.id.0, &call.name.0, args, fields, out)
    }

    fn opaque(&mut self, raw: &RawValue, out: &mut Events) -> Result<()> {
        self.end(out)?;
        out.collect_block()?;
        out.collect_json(raw)?;
        let block = ProviderBlock::new(self.tag.clone(), raw.to_owned());
        out.push(ModelEvent::Part(Part::Opaque(block)));
        Ok(())
    }

    fn signature(&self, signature: &str) -> Result<ProviderBlock> {
        self.block(&PartFields {
            thought_signature: signature,
            ..PartFields::default()
        })
    }

    fn block(&self, fields: &PartFields<'_>) -> Result<ProviderBlock> {
        Ok(ProviderBlock::new(self.tag.clone(), to_raw_value(fields)?))
    }
}
