//! Answers in a history, written as input items.
//!
//! The server verifies the items of an answer with reasoning: each must be sent back unchanged,
//! directly after its reasoning. If a call was given another id, all items of the answer are sent
//! without ids, and encrypted reasoning stays in front of its item. Where the API does not accept
//! that either, the reasoning is omitted.

use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Annotations, Message, Part, ProviderBlock, ToolCall};

use super::super::encode::Items;
use super::super::json::{call_args, fields_without, identifier, write_text};
use super::input::call_id;
use super::items::{CALL_FIELDS, CALL_ID};

/// Writes the items of an answer. Blocks named `tag` are the API's own.
pub(super) fn write_answer(
    message: &Message,
    tag: &str,
    has_reasoning: bool,
    items: &mut Items<'_>,
) -> Result<()> {
    let parts = message.content().parts();
    let answer = AnswerWriter {
        tag,
        form: if has_reasoning {
            answer_form(parts, tag)
        } else {
            AnswerForm::Bare
        },
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
                // The last part of an item has its final fields. Items without an id stay apart.
                Some((open, contents)) if id_of(open).is_some() && id_of(open) == id_of(&item) => {
                    *open = item;
                    contents.push(content);
                }
                _ => {
                    write_message_item(&mut message_item, items)?;
                    message_item = Some((item, vec![content]));
                }
            }
            continue;
        }

        if !matches!(part, Part::Annotations(_)) {
            write_message_item(&mut message_item, items)?;
            answer.write(part, annotations, items)?;
        }
    }

    write_message_item(&mut message_item, items)?;
    if was_empty && items.is_empty {
        return short_message("(nothing)", None, items);
    }
    Ok(())
}

fn id_of(item: &Map<String, Value>) -> Option<&str> {
    item.get("id").and_then(Value::as_str)
}

/// Writes the message whose parts were collected.
fn write_message_item(
    message: &mut Option<(Map<String, Value>, Vec<Value>)>,
    items: &mut Items<'_>,
) -> Result<()> {
    let Some((mut item, contents)) = message.take() else {
        return Ok(());
    };
    item.insert("content".to_owned(), contents.into());
    items.object(&item)
}

/// The form in which the items of an answer are sent back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerForm {
    /// Unchanged.
    Whole,
    /// Without their ids, with the reasoning.
    WithoutIds,
    /// Without ids and reasoning.
    Bare,
}

/// Writes the parts of one answer.
struct AnswerWriter<'a> {
    tag: &'a str,
    form: AnswerForm,
}

impl AnswerWriter<'_> {
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
        let block = block.filter(|block| self.form == AnswerForm::Whole && self.is_own(block))?;
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
            Part::Thinking(block) if self.form == AnswerForm::WithoutIds && self.is_own(block) => {
                let mut fields = fields_of(block).unwrap_or_default();
                fields.remove("id");
                items.object(&fields)
            }
            Part::Thinking(block) | Part::Opaque(block)
                if self.form == AnswerForm::Whole && self.is_own(block) =>
            {
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
        let keeps_id = self.form == AnswerForm::Whole && !is_renamed(call);
        items.item(|out| {
            out.extend_from_slice(b"{\"type\":\"function_call\",\"call_id\":");
            write_text(out, &call_id(&call.id))?;
            out.extend_from_slice(b",\"name\":");
            write_text(out, &identifier(&call.name))?;
            out.extend_from_slice(b",\"arguments\":");
            write_text(out, &call_args(call)?)?;
            for (name, value) in fields.into_iter().flatten() {
                let is_id = matches!(&*name, "id" | "status");
                if keeps_id || !is_id {
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

/// Returns `true` for a call that has another id than the server gave it.
fn is_renamed(call: &ToolCall) -> bool {
    let extra = call.extra.as_deref();
    // Hardly any call is one.
    let extra = extra.filter(|extra| extra.raw.get().contains(CALL_ID));
    let fields = extra.and_then(fields_of);
    fields.is_some_and(|fields| fields.contains_key(CALL_ID))
}

/// Returns the form of an answer. Its reasoning stays if the server can verify it: each item of
/// reasoning has encrypted content and is directly followed by another item that the server made,
/// and the server made every call of the answer. After a change of a call's id, the reasoning does
/// not stay in an answer with items of hosted tools, which have no form without their ids.
fn answer_form(parts: &[Part], tag: &str) -> AnswerForm {
    let is_own = |block: &ProviderBlock| block.provider.as_deref() == Some(tag);
    let mut reasoning = parts
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
    if reasoning.clone().next().is_none() {
        return AnswerForm::Whole;
    }
    if !has_own_calls || !reasoning.all(|(index, block)| is_encrypted(block) && is_next_own(index))
    {
        return AnswerForm::Bare;
    }

    let mut calls = parts.iter().filter_map(Part::as_tool_call);
    let has_hosted_items = || parts.iter().any(|part| matches!(part, Part::Opaque(_)));
    match calls.any(is_renamed) {
        false => AnswerForm::Whole,
        true if has_hosted_items() => AnswerForm::Bare,
        true => AnswerForm::WithoutIds,
    }
}
