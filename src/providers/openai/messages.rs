//! Messages as Chat Completions takes them.
//!
//! Format: the OpenAI API reference, "Create chat completion".

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Role, ToolCall, ToolResult};
use crate::model::{SystemPrompt, ToolDefinition};

use super::super::chat::{EMPTY, GAP, system_text, write_system, write_tools};
use super::super::encode::{GroupPlace, Items, Wire};
use super::super::json::{call_args, write, write_identifier, write_text};
use super::super::media::{is_left_out, placeholder};
use super::call_ids::sent_id;
use super::extra_content::{is_signed, write_placeholder};
use super::own_fields::{OwnFields, call_fields};
use super::rules::Rules;
use super::user::{UserPiece, result_pieces, user_pieces, write_user};

/// The answer between results and a message of the user, for servers that require one.
const BRIDGE: &[u8] = br#"{"role":"assistant","content":"OK."}"#;

/// The [`Wire`] of Chat Completions: the rules of the server, and the abilities of the model.
#[derive(Clone, PartialEq)]
pub(super) struct ChatWire {
    pub(super) rules: &'static Rules,
    /// The tag of the server's own blocks.
    pub(super) tag: Cow<'static, str>,
    pub(super) reasoning: ReasoningForm,
    /// True if the first call of each answer needs a signature.
    pub(super) signs_calls: bool,
    /// True if the model takes recordings, where the server has a form for them.
    pub(super) takes_audio: bool,
    /// True if the model accepts images.
    pub(super) takes_images: bool,
}

/// The form in which the reasoning in the answers of a history is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningForm {
    None,
    /// The fields of the server's own answers.
    Own,
    /// The chunks of thinking in the content of the server's own answers.
    Chunks,
    /// The fields of the server's own answers; one without any has an empty `reasoning_content`.
    OwnOrEmpty,
}

impl Wire for ChatWire {
    /// Results and the user's messages after them form one group: images from a tool travel in
    /// the user message after all results.
    fn joins(&self, before: &Message, after: &Message) -> bool {
        use Role::{Tool, User};
        matches!(
            (self.sent_role(before), self.sent_role(after)),
            (User, User) | (Tool, Tool) | (Tool, User)
        )
    }

    fn message(
        &self,
        group: &[Arc<Message>],
        _: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let mut messages = Items::new(out);
        let mut pieces = Vec::new();
        let mut has_results = false;
        for message in group {
            match &**message {
                Message::User(_) => user_pieces(message, self, &mut pieces),
                Message::System(_) if self.sent_role(message) == Role::User => {
                    let text = system_text(&message.text());
                    pieces.extend(text.map(|text| UserPiece::Text(text.into())));
                }
                Message::System(_) => messages.item(|out| {
                    out.extend_from_slice(b"{\"role\":\"system\",\"content\":");
                    write_text(out, non_empty(&message.text()))?;
                    out.push(b'}');
                    Ok(())
                })?,
                Message::Assistant(_) => messages.item(|out| self.write_answer(message, out))?,
                Message::Tool(result) => {
                    has_results = true;
                    messages.item(|out| self.write_result(result, out))?;
                    result_pieces(message, self, &mut pieces);
                }
            }
        }

        let mut sent_roles = group.iter().map(|message| self.sent_role(message));
        if sent_roles.any(|role| role == Role::User) || !pieces.is_empty() {
            if has_results && self.rules.needs_answer_after_results {
                messages.item(|out| {
                    out.extend_from_slice(BRIDGE);
                    Ok(())
                })?;
            }

            messages.item(|out| write_user(&pieces, out))?;
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

impl ChatWire {
    /// Returns the role under which a message is sent.
    fn sent_role(&self, message: &Message) -> Role {
        match message.role() {
            Role::System if !self.rules.takes_later_system => Role::User,
            role => role,
        }
    }

    fn write_result(&self, result: &ToolResult, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
        write_text(out, &sent_id(&result.tool_call_id, self.rules.call_ids))?;
        if self.rules.names_results {
            out.extend_from_slice(b",\"name\":");
            write_identifier(out, &result.name)?;
        }

        out.extend_from_slice(b",\"content\":");
        write_text(out, non_empty(&self.result_text(result)))?;
        out.push(b'}');
        Ok(())
    }

    /// Returns the text of a result, with the texts that replace its omitted images.
    fn result_text<'a>(&self, result: &'a ToolResult) -> Cow<'a, str> {
        let mut text = result.content.text();
        let parts = result.content.parts().iter();
        let images = parts.filter(|part| is_left_out(part, self.takes_images));
        for label in images.filter_map(|part| placeholder(part, self.takes_images)) {
            if !text.is_empty() {
                text.to_mut().push_str(GAP);
            }
            text.to_mut().push_str(&label);
        }
        text
    }

    fn write_answer(&self, message: &Message, out: &mut Vec<u8>) -> Result<()> {
        let own = OwnFields::of(message, &self.tag, self.reasoning);
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        if own.has_chunks() {
            own.write_content(message, out)?;
        } else {
            let text = message.text();
            match (&*text, message.tool_calls().next()) {
                ("", Some(_)) => out.extend_from_slice(b"null"),
                (text, _) => write_text(out, non_empty(text))?,
            }
        }

        own.write_fields(out)?;
        let mut calls = message.tool_calls().enumerate().peekable();
        if calls.peek().is_some() {
            out.extend_from_slice(b",\"tool_calls\":[");
            let mut items = Items::new(out);
            for (index, call) in calls {
                items.item(|out| self.write_call(call, index == 0, out))?;
            }

            out.push(b']');
        }

        out.push(b'}');
        Ok(())
    }

    fn write_call(&self, call: &ToolCall, is_first: bool, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"{\"id\":");
        write_text(out, &sent_id(&call.id, self.rules.call_ids))?;
        out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
        write_identifier(out, &call.name)?;
        out.extend_from_slice(b",\"arguments\":");
        write(out, &*call_args(call)?)?;
        out.push(b'}');
        let fields = call_fields(call, self);
        if is_first && self.signs_calls && !fields.is_some_and(is_signed) {
            write_placeholder(out);
        } else if let Some(fields) = fields {
            out.push(b',');
            out.extend_from_slice(fields.as_bytes());
        }

        out.push(b'}');
        Ok(())
    }
}

/// Returns the text, or a filler: servers refuse messages without text.
pub(super) fn non_empty(text: &str) -> &str {
    if text.is_empty() { EMPTY } else { text }
}
