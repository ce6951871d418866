//! Messages as Ollama takes them.
//!
//! Format: Ollama's API documentation, "Generate a chat completion".

use std::slice;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Media, MediaSource, Message, Part, Role, ToolCall, in_call_order};
use crate::model::{SystemPrompt, ToolDefinition};

use super::super::chat::{EMPTY, GAP, write_system, write_tools};
use super::super::encode::{GroupPlace, Items, Wire};
use super::super::json::{call_args, write, write_text};
use super::super::media::{is_left_out, placeholder};
use super::PROVIDER;

/// The wire of messages.
#[derive(Clone, PartialEq)]
pub(super) struct ChatWire {
    /// True if the model accepts images.
    pub(super) takes_images: bool,
}

impl Wire for ChatWire {
    fn joins(&self, before: &Message, after: &Message) -> bool {
        matches!(
            (before.role(), after.role()),
            (Role::User, Role::User) | (Role::Tool, Role::Tool)
        )
    }

    fn message(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let mut messages = Items::new(out);
        match group.first().map(|first| first.role()) {
            None => {}
            Some(Role::Tool) => {
                // A server that ignores ids assigns results to calls by their order.
                for result in &*in_call_order(place.before, group) {
                    messages.item(|out| {
                        write_message(slice::from_ref(result), self.takes_images, out)
                    })?;
                }
            }
            Some(_) => messages.item(|out| write_message(group, self.takes_images, out))?,
        }
        Ok(None)
    }

    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        write_system(system, lifted, out)
    }

    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()> {
        write_tools(tools, out)
    }
}

/// Appends a message: an answer, a result, or adjacent messages of the user.
fn write_message(group: &[Arc<Message>], takes_images: bool, out: &mut Vec<u8>) -> Result<()> {
    let Some(first) = group.first() else {
        return Ok(());
    };

    out.extend_from_slice(b"{\"role\":");
    write(out, first.role().as_str())?;
    let mut text: Vec<_> = group.iter().map(|message| message.text()).collect();
    text.retain(|text| !text.is_empty());
    let mut text = text.join(GAP);
    let parts = || group.iter().flat_map(|message| message.content().parts());
    let is_sent = |part: &&Part| takes(part) && !is_left_out(part, takes_images);
    let images: Vec<&str> = parts().filter(is_sent).filter_map(image).collect();
    let labels = parts().filter(|part| !is_sent(part));
    for label in labels.filter_map(|part| placeholder(part, takes_images)) {
        if !text.is_empty() {
            text.push_str(GAP);
        }

        text.push_str(&label);
    }

    let has_calls = first.tool_calls().next().is_some();
    if text.is_empty() && images.is_empty() && !has_calls {
        text.push_str(EMPTY);
    }

    out.extend_from_slice(b",\"content\":");
    write_text(out, &text)?;
    if !images.is_empty() {
        out.extend_from_slice(b",\"images\":");
        write(out, &images)?;
    }

    match &**first {
        Message::Assistant(_) => write_answer_fields(first, out)?,
        Message::Tool(result) => {
            out.extend_from_slice(b",\"tool_name\":");
            write_text(out, &result.name)?;
            out.extend_from_slice(b",\"tool_call_id\":");
            write_text(out, &result.tool_call_id)?;
        }
        _ => {}
    }

    out.push(b'}');
    Ok(())
}

/// Returns `true` for media that the API has a form for: images as data.
pub(super) fn takes(part: &Part) -> bool {
    image(part).is_some()
}

/// Returns the data of an image, in base64: the API takes no other media.
fn image(part: &Part) -> Option<&str> {
    match part {
        Part::Image(Media {
            source: MediaSource::Base64(data),
            ..
        }) => Some(data),
        _ => None,
    }
}

/// Writes the fields that only answers have: thinking and calls.
fn write_answer_fields(message: &Message, out: &mut Vec<u8>) -> Result<()> {
    let mut thinking = String::new();
    for part in message.content().parts() {
        thinking.push_str(&own_thinking(part));
    }

    if !thinking.is_empty() {
        out.extend_from_slice(b",\"thinking\":");
        write_text(out, &thinking)?;
    }

    let mut calls = message.tool_calls().peekable();
    if calls.peek().is_none() {
        return Ok(());
    }

    out.extend_from_slice(b",\"tool_calls\":[");
    let mut items = Items::new(out);
    for call in calls {
        items.item(|out| write_call(call, out))?;
    }

    out.push(b']');
    Ok(())
}

fn write_call(call: &ToolCall, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"{\"id\":");
    write_text(out, &call.id)?;
    out.extend_from_slice(b",\"function\":{\"name\":");
    write_text(out, &call.name)?;

    // An object, not its text.
    out.extend_from_slice(b",\"arguments\":");
    out.extend_from_slice(call_args(call)?.as_bytes());
    out.extend_from_slice(b"}}");
    Ok(())
}

/// Returns the text of a thinking block of this API; empty for any other part.
fn own_thinking(part: &Part) -> String {
    #[derive(Deserialize)]
    struct Block {
        thinking: String,
    }
    let read = |raw: &RawValue| serde_json::from_str::<Block>(raw.get()).ok();
    match part {
        Part::Thinking(block) if block.provider.as_deref() == Some(PROVIDER) => read(&block.raw)
            .map(|block| block.thinking)
            .unwrap_or_default(),
        _ => String::new(),
    }
}
