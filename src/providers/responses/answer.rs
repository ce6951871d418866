//! Answers as input items.
//!
//! The server verifies the items of an answer that had reasoning: each must come back as it was,
//! directly after the reasoning that led to it. If that cannot be, none of the answer's items has
//! its id, and the reasoning is omitted.

use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Annotations, Message, Part, ProviderBlock, ToolCall};

use super::super::encode::Items;
use super::super::json::{call_args, fields_without, identifier, write_text};
use super::input::call_id;
use super::items::CALL_FIELDS;

/// Writes the items of an answer. Blocks named `tag` are the API's own.
pub(super) fn write_answer(
    message: &Message,
    tag: &str,
    has_reasoning: bool,
    items: &mut Items<'_>,
) -> Result<()> {
    let parts = message.content().parts();
    let answer = Answer {
        tag,
        keeps_ids: has_reasoning && is_verifiable(parts, tag),
    };

    let was_empty = items.is_empty;
    let mut message_item: Option<(Map<String, Value>, Vec<Value>)> = None;
    for (index, part) in parts.iter().enumerate() {
        let annotations = match parts.get(index + 1) {
            Some(Part::Annotations(annotations)) => Some(annotations),
            _ => None,
        };
        if let Some((item, content)) = answer.own_text(part, annotations) {
            match &mut message_item {
                // The last part of an item has its final fields.
                Some((open, contents)) if open.get("id") == item.get("id") => {
                    *open = item;
                    contents.push(content);
                }
                _ => {
                    close(&mut message_item, items)?;
                    message_item = Some((item, vec![content]));
                }
            }
            continue;
        }

        if !matches!(part, Part::Annotations(_)) {
            close(&mut message_item, items)?;
            answer.write(part, annotations, items)?;
        }
    }

    close(&mut message_item, items)?;
    if was_empty && items.is_empty {
        return short_message("(nothing)", None, items);
    }
    Ok(())
}

/// Writes the message whose parts were collected.
fn close(
    message: &mut Option<(Map<String, Value>, Vec<Value>)>,
    items: &mut Items<'_>,
) -> Result<()> {
    let Some((mut item, contents)) = message.take() else {
        return Ok(());
    };
    item.insert("content".to_owned(), contents.into());
    items.object(&item)
}

struct Answer<'a> {
    tag: &'a str,
    /// True if reasoning and ids are sent back.
    keeps_ids: bool,
}

impl Answer<'_> {
    fn is_own(&self, block: &ProviderBlock) -> bool {
        block.provider.as_deref() == Some(self.tag)
    }

    /// Returns the fields of the item that a text belongs to, and the text as a part of it.
    fn own_text(
        &self,
        part: &Part,
        annotations: Option<&Annotations>,
    ) -> Option<(Map<String, Value>, Value)> {
        let Part::Text(text) = part else {
            return None;
        };
        let block = annotations?.block.as_ref();
        let block = block.filter(|block| self.keeps_ids && self.is_own(block))?;
        let fields: Value = serde_json::from_str(block.raw.get()).ok()?;
        let item = fields.get("item")?.as_object()?.clone();
        let mut content = fields.get("part")?.as_object()?.clone();
        let is_refusal = content.get("type").is_some_and(|kind| kind == "refusal");
        let field = if is_refusal { "refusal" } else { "text" };
        content.insert(field.to_owned(), text.as_str().into());
        Some((item, content.into()))
    }

    fn write(
        &self,
        part: &Part,
        annotations: Option<&Annotations>,
        items: &mut Items<'_>,
    ) -> Result<()> {
        match part {
            Part::Text(text) if !text.is_empty() => {
                let block = annotations.and_then(|annotations| annotations.block.as_ref());
                let block = block.filter(|block| self.is_own(block));
                short_message(text, block, items)
            }
            Part::Thinking(block) | Part::Opaque(block) if self.keeps_ids && self.is_own(block) => {
                items.item(|out| {
                    out.extend_from_slice(block.raw.get().as_bytes());
                    Ok(())
                })
            }
            Part::ToolCall(call) => self.call(call, items),
            _ => Ok(()),
        }
    }

    fn call(&self, call: &ToolCall, items: &mut Items<'_>) -> Result<()> {
        let extra = call.extra.as_ref().filter(|extra| self.is_own(extra));
        let fields = extra.and_then(|extra| fields_without(extra.raw.get(), CALL_FIELDS).ok());
        items.item(|out| {
            out.extend_from_slice(b"{\"type\":\"function_call\",\"call_id\":");
            write_text(out, call_id(&call.id))?;
            out.extend_from_slice(b",\"name\":");
            write_text(out, &identifier(&call.name))?;
            out.extend_from_slice(b",\"arguments\":");
            write_text(out, &call_args(call)?)?;
            for (name, value) in fields.into_iter().flatten() {
                let is_id = matches!(&*name, "id" | "status");
                if self.keeps_ids || !is_id {
                    out.push(b',');
                    write_text(out, &name)?;
                    out.push(b':');
                    out.extend_from_slice(value.get().as_bytes());
                }
            }
            out.push(b'}');
            Ok(())
        })
    }
}

/// Writes a text without the id of its item. `block` has the phase of the item.
fn short_message(text: &str, block: Option<&ProviderBlock>, items: &mut Items<'_>) -> Result<()> {
    let fields = block.and_then(fields_of);
    let item = fields.as_ref().and_then(|fields| fields.get("item"));
    let phase = item
        .and_then(|item| item.get("phase"))
        .and_then(Value::as_str);
    items.item(|out| {
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        write_text(out, text)?;
        if let Some(phase) = phase {
            out.extend_from_slice(b",\"phase\":");
            write_text(out, phase)?;
        }
        out.push(b'}');
        Ok(())
    })
}

fn fields_of(block: &ProviderBlock) -> Option<Map<String, Value>> {
    serde_json::from_str(block.raw.get()).ok()
}

/// Returns `true` if every reasoning item of the answer can be verified: it has its encrypted
/// content, an item of the answer stands directly after it, and every call is one of the answer's
/// items.
fn is_verifiable(parts: &[Part], tag: &str) -> bool {
    let is_own = |block: &ProviderBlock| block.provider.as_deref() == Some(tag);
    let reasoning = parts
        .iter()
        .enumerate()
        .filter_map(|(index, part)| match part {
            Part::Thinking(block) if is_own(block) => Some((index, block)),
            _ => None,
        });
    let is_next_own = |index: usize| match parts.get(index + 1) {
        Some(Part::Thinking(block) | Part::Opaque(block)) => is_own(block),
        Some(Part::ToolCall(call)) => call.extra.as_deref().is_some_and(is_own),
        Some(Part::Text(_)) => match parts.get(index + 2) {
            Some(Part::Annotations(annotations)) => annotations.block.as_ref().is_some_and(is_own),
            _ => false,
        },
        _ => false,
    };
    let is_encrypted = |block: &ProviderBlock| {
        let fields = fields_of(block).unwrap_or_default();
        let content = fields.get("encrypted_content").and_then(Value::as_str);
        content.is_some_and(|content| !content.is_empty())
    };
    let has_own_calls = parts.iter().all(|part| match part {
        Part::ToolCall(call) => call.extra.as_deref().is_some_and(is_own),
        _ => true,
    });
    let mut reasoning = reasoning;
    reasoning.all(|(index, block)| has_own_calls && is_encrypted(block) && is_next_own(index))
}
