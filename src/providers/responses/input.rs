//! Messages as input items.
//!
//! Format: the OpenAI API reference, "Create a model response", and its guide "Conversation state".

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Part, Role, ToolResult};
use crate::model::{Stability, SystemPrompt, ToolDefinition};

use super::super::chat::{EMPTY, GAP, short_id};
use super::super::encode::{GroupPlace, Items, Wire};
use super::super::json::{write, write_text};
use super::super::schema::openai::is_strict;
use super::answer::write_answer;
use super::content::{ContentPiece, MediaForms, pieces_of, write_pieces};

/// The maximum length of a call's id, in bytes: "string too long. Expected a string with maximum
/// length 64".
const MAX_ID: usize = 64;

/// The form of input items. Blocks with another tag are not sent back.
#[derive(Clone, PartialEq)]
pub(super) struct ItemWire {
    pub(super) tag: Arc<str>,
    /// The media that the server takes.
    pub(super) media: MediaForms,
    /// True if the model accepts images.
    pub(super) takes_images: bool,
    /// False for a model that never reasons: it gets no reasoning of another one.
    pub(super) takes_reasoning: bool,
}

impl Wire for ItemWire {
    const LIST: &'static str = "input";

    /// Results and the user's messages after them form one group, so that volatile text stands
    /// after both.
    fn joins(&self, before: &Message, after: &Message) -> bool {
        use Role::{Tool, User};
        matches!(
            (before.role(), after.role()),
            (User, User) | (Tool, Tool | User)
        )
    }

    fn message(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let mut items = Items::new(out);
        let mut pieces = Vec::new();
        for message in group {
            match &**message {
                Message::Tool(result) => output(result, self, &mut items)?,
                Message::User(user) => {
                    pieces.extend(pieces_of(&user.content, &self.tag, self));
                }
                Message::Assistant(_) => {
                    let has_reasoning =
                        place.has_reasoning && (self.takes_reasoning || !has_thoughts(message));
                    write_answer(message, &self.tag, has_reasoning, &mut items)?;
                }
                Message::System(_) => developer(&message.text(), &mut items)?,
            }
        }

        let has_user = group.iter().any(|message| message.role() == Role::User);
        if has_user {
            if pieces.is_empty() {
                pieces.push(ContentPiece::Text(EMPTY.into()));
            }
            items.item(|out| {
                out.extend_from_slice(b"{\"role\":\"user\",\"content\":");
                write_pieces(&pieces, out)?;
                out.push(b'}');
                Ok(())
            })?;
        }
        if let Some(tail) = place.tail {
            developer(tail, &mut items)?;
        }

        Ok(None)
    }

    fn has_tail(&self) -> bool {
        true
    }

    /// Appends the instructions, a string.
    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let lifted_texts = lifted.iter().map(|message| message.text().into_owned());
        let texts: Vec<String> = std::iter::once(system.text_of(Stability::Stable))
            .chain(lifted_texts)
            .filter(|text| !text.is_empty())
            .collect();
        if texts.is_empty() {
            return Ok(());
        }
        write_text(out, &texts.join(GAP))
    }

    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()> {
        out.push(b'[');
        for (index, tool) in tools.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }

            out.extend_from_slice(b"{\"type\":\"function\",\"name\":");
            write_text(out, &tool.name)?;
            out.extend_from_slice(b",\"description\":");
            write_text(out, &tool.description)?;
            out.extend_from_slice(b",\"parameters\":");
            write(out, &tool.parameters)?;
            out.extend_from_slice(b",\"strict\":");
            write(out, &is_strict(&tool.parameters))?;
            out.push(b'}');
        }

        out.push(b']');
        Ok(())
    }
}

fn has_thoughts(message: &Message) -> bool {
    let mut parts = message.content().parts().iter();
    parts.any(|part| matches!(part, Part::Thinking(_)))
}

/// Writes a message of the role `developer`; nothing for an empty text.
pub(super) fn developer(text: &str, items: &mut Items<'_>) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    items.item(|out| {
        out.extend_from_slice(b"{\"role\":\"developer\",\"content\":");
        write_text(out, text)?;
        out.push(b'}');
        Ok(())
    })
}

/// Writes the output of a call: its text, or a list when it has media.
fn output(result: &ToolResult, wire: &ItemWire, items: &mut Items<'_>) -> Result<()> {
    let pieces = pieces_of(&result.content, "", wire);
    let text: Option<Vec<&str>> = pieces.iter().map(ContentPiece::as_text).collect();
    items.item(|out| {
        out.extend_from_slice(b"{\"type\":\"function_call_output\",\"call_id\":");
        write_text(out, &call_id(&result.tool_call_id))?;
        out.extend_from_slice(b",\"output\":");
        match text {
            Some(texts) => write_text(out, &texts.join(GAP))?,
            None => write_pieces(&pieces, out)?,
        }
        out.push(b'}');
        Ok(())
    })
}

/// Returns the id of a call as it is sent.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    short_id(id, MAX_ID)
}
