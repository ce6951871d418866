//! The fields of an answer that go back to the server that gave them.

use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Message, Part, ProviderBlock, ToolCall};

use super::super::encode::Items;
use super::super::json::write;
use super::details::{DETAILS, Details};
use super::messages::{ChatWire, ReasoningForm};
use super::reasoning::CHUNKS;
use super::rules::SentReasoning;
use super::user::write_text_part;

/// The reasoning of an answer, as its server takes it back.
pub(super) struct OwnFields<'a> {
    tag: &'a str,
    reasoning: ReasoningForm,
    blocks: Vec<&'a ProviderBlock>,
    /// The chunks of thinking in each of the blocks; `None` for one with other fields.
    chunks: Vec<Option<Vec<Value>>>,
}

impl<'a> OwnFields<'a> {
    /// The reasoning in `message` that came from the server with this tag.
    pub(super) fn of(message: &'a Message, tag: &'a str, reasoning: ReasoningForm) -> Self {
        let parts = message.content().parts().iter();
        let own_blocks = parts.filter_map(|part| own_block(part, tag));
        let blocks: Vec<_> = match reasoning {
            ReasoningForm::None => Vec::new(),
            ReasoningForm::Own | ReasoningForm::Chunks | ReasoningForm::OwnOrEmpty => {
                own_blocks.collect()
            }
        };
        Self {
            tag,
            reasoning,
            chunks: blocks.iter().map(|block| chunks(block)).collect(),
            blocks,
        }
    }

    /// Returns `true` if the content has chunks of thinking.
    pub(super) fn has_chunks(&self) -> bool {
        self.chunks.iter().any(Option::is_some)
    }

    /// Appends the content as a list of the texts and the chunks of thinking.
    pub(super) fn write_content(&self, message: &Message, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'[');
        let mut items = Items::new(out);
        let mut chunks = self.chunks.iter();
        for part in message.content().parts() {
            match part {
                Part::Text(text) if !text.is_empty() => {
                    items.item(|out| write_text_part(text, out))?;
                }
                part if own_block(part, self.tag).is_some() => {
                    for chunk in chunks.next().into_iter().flatten().flatten() {
                        items.item(|out| write(out, chunk))?;
                    }
                }
                _ => {}
            }
        }

        out.push(b']');
        Ok(())
    }

    /// Appends the other fields.
    pub(super) fn write_fields(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.reasoning == ReasoningForm::Chunks {
            return Ok(());
        }

        let blocks = self.blocks.iter().zip(&self.chunks);
        let fields: Vec<_> = blocks
            .filter(|(_, chunks)| chunks.is_none())
            .map(|(block, _)| *block)
            .collect();
        match &*fields {
            [] if self.reasoning == ReasoningForm::OwnOrEmpty => {
                out.extend_from_slice(b",\"reasoning_content\":\"\"");
            }
            [] => {}
            [block] => {
                if let Some(fields) = inner(block) {
                    out.push(b',');
                    out.extend_from_slice(fields.as_bytes());
                }
            }
            blocks => {
                for (name, value) in joined(blocks) {
                    out.push(b',');
                    write(out, &name)?;
                    out.push(b':');
                    write(out, &value)?;
                }
            }
        }

        Ok(())
    }
}

/// Returns the further fields of a call, without braces, for the server that gave them.
pub(super) fn call_fields<'a>(call: &'a ToolCall, wire: &ChatWire) -> Option<&'a str> {
    let block = call.extra.as_deref()?;
    let is_own = block.provider.as_deref() == Some(&*wire.tag);
    let is_taken = is_own && wire.rules.reasoning != SentReasoning::Never;
    inner(block).filter(|_| is_taken)
}

/// Returns the reasoning block of a part, if it came from the server with this tag: its JSON is
/// the object of fields that the message had.
fn own_block<'a>(part: &'a Part, tag: &str) -> Option<&'a ProviderBlock> {
    match part {
        Part::Thinking(block) if block.provider.as_deref() == Some(tag) => Some(block),
        _ => None,
    }
}

/// Returns the fields of an object, without its braces.
fn inner(block: &ProviderBlock) -> Option<&str> {
    let fields = block.raw.get().trim().strip_prefix('{')?;
    let fields = fields.strip_suffix('}')?.trim();
    Some(fields).filter(|fields| !fields.is_empty())
}

/// Returns the chunks of thinking in a block.
fn chunks(block: &ProviderBlock) -> Option<Vec<Value>> {
    // Most blocks have another field.
    if !block.raw.get().contains("\"content\"") {
        return None;
    }

    let mut fields: Map<String, Value> = serde_json::from_str(block.raw.get()).ok()?;
    match fields.remove(CHUNKS)? {
        Value::Array(chunks) => Some(chunks),
        _ => None,
    }
}

/// Returns the joined fields of several blocks. Texts of the same field are appended, lists of
/// details are joined as in a stream, and of any other field the last value stays.
fn joined(blocks: &[&ProviderBlock]) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut details = Details::default();
    for block in blocks {
        let own: Map<String, Value> = serde_json::from_str(block.raw.get()).unwrap_or_default();
        for (name, value) in own {
            match (fields.get_mut(&name), value) {
                (_, Value::Array(list)) if name == DETAILS => {
                    for piece in list {
                        if let Value::Object(piece) = piece {
                            details.join(piece);
                        }
                    }
                }
                (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
                (_, value) => {
                    fields.insert(name, value);
                }
            }
        }
    }

    if !details.is_empty() {
        fields.insert(DETAILS.to_owned(), details.take());
    }
    fields
}
