//! Answers in a history, written as contents of the model.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Message, Part, ProviderBlock, ToolCall};

use super::super::encode::Items;
use super::super::gemini_family::PLACEHOLDER;
use super::super::json::{call_args, write, write_text};
use super::contents::{ContentWire, write_name, write_text_part};
use super::signatures::{SIGNATURE, fields_of, is_signed, strip};

/// Writes the parts of adjacent answers. Without reasoning, their thoughts and signatures are
/// omitted.
pub(super) fn write_answer(
    group: &[Arc<Message>],
    wire: &ContentWire,
    has_reasoning: bool,
    out: &mut Items<'_>,
) -> Result<()> {
    let parts: Vec<&Part> = group
        .iter()
        .flat_map(|message| message.content().parts())
        .collect();
    let mut answer = AnswerWriter {
        wire,
        has_reasoning,
        has_call: false,
    };
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Text(text) if !text.is_empty() => {
                let block = match parts.get(index + 1) {
                    Some(Part::Annotations(annotations)) => annotations.block.as_ref(),
                    _ => None,
                };
                answer.text(text, block, out)?;
            }
            Part::Thinking(block) if answer.takes_thought(block) => write_raw(block, out)?,
            Part::Opaque(block) if answer.is_own(block) => answer.opaque(block, out)?,
            Part::ToolCall(call) => answer.call(call, out)?,
            _ => {}
        }
    }

    Ok(())
}

/// Writes the parts of one answer.
struct AnswerWriter<'a> {
    wire: &'a ContentWire,
    has_reasoning: bool,
    /// True if a call of the answer is written.
    has_call: bool,
}

impl AnswerWriter<'_> {
    fn is_own(&self, block: &ProviderBlock) -> bool {
        block.provider.as_deref() == Some(self.wire.backend.tag())
    }

    /// Returns `true` for a thought that goes back to its server.
    fn takes_thought(&self, block: &ProviderBlock) -> bool {
        self.has_reasoning && self.wire.thinks && self.is_own(block)
    }

    /// Returns the fields of the API's own block. Without reasoning, they have no signature.
    fn own_fields(&self, block: Option<&ProviderBlock>) -> Map<String, Value> {
        let block = block.filter(|block| self.is_own(block));
        let mut fields = block.and_then(fields_of).unwrap_or_default();
        if !self.has_reasoning {
            fields.remove(SIGNATURE);
        }
        fields
    }

    fn text(&self, text: &str, block: Option<&ProviderBlock>, out: &mut Items<'_>) -> Result<()> {
        let mut fields = self.own_fields(block);
        fields.remove("text");
        if fields.is_empty() {
            return write_text_part(text, out);
        }

        out.item(|out| {
            out.extend_from_slice(b"{\"text\":");
            write_text(out, text)?;
            write_fields(&fields, out)
        })
    }

    fn opaque(&mut self, block: &ProviderBlock, out: &mut Items<'_>) -> Result<()> {
        if self.has_reasoning && self.wire.is_modern {
            return write_raw(block, out);
        }

        let Some(mut fields) = fields_of(block) else {
            return Ok(());
        };

        // Older models refuse the calls of the provider's own tools.
        let is_hosted = fields.contains_key("toolCall") || fields.contains_key("toolResponse");
        let is_taken = self.wire.is_modern || !is_hosted;
        let has_content = self.has_reasoning || strip(&mut fields, &mut self.has_call);
        if is_taken && has_content && !fields.is_empty() {
            out.object(&fields)?;
        }

        Ok(())
    }

    /// Writes a call. The first call of an answer has a signature if the model requires one.
    fn call(&mut self, call: &ToolCall, out: &mut Items<'_>) -> Result<()> {
        let mut fields = self.own_fields(call.extra.as_deref());
        fields.remove("functionCall");
        let is_first = !std::mem::replace(&mut self.has_call, true);
        if is_first && self.wire.is_modern && !is_signed(&fields) {
            fields.insert(SIGNATURE.to_owned(), PLACEHOLDER.into());
        }

        out.item(|out| {
            out.extend_from_slice(b"{\"functionCall\":{\"id\":");
            write_text(out, &call.id)?;
            out.extend_from_slice(b",\"name\":");
            write_name(out, &call.name)?;
            out.extend_from_slice(b",\"args\":");
            out.extend_from_slice(call_args(call)?.as_bytes());
            out.push(b'}');
            write_fields(&fields, out)
        })
    }
}

/// Writes further fields of an object, and its end.
fn write_fields(fields: &Map<String, Value>, out: &mut Vec<u8>) -> Result<()> {
    for (name, value) in fields {
        out.push(b',');
        write(out, name)?;
        out.push(b':');
        write(out, value)?;
    }

    out.push(b'}');
    Ok(())
}

fn write_raw(block: &ProviderBlock, out: &mut Items<'_>) -> Result<()> {
    out.item(|out| {
        out.extend_from_slice(block.raw.get().as_bytes());
        Ok(())
    })
}
