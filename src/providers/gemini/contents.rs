//! Messages as contents.
//!
//! * The results of an answer become one content of their own, also where the user's messages
//!   follow: models up to Gemini 3.5 give an empty answer to results that share a content with a
//!   text.
//! * Everything else between two answers becomes one content of the user, after the results.
//!   Adjacent answers become one as well, and a history that begins with an answer gets a content
//!   of the user in front.
//! * System messages at the beginning of a history join the system prompt. Later ones are text of
//!   the user, between `<system>` and `</system>`: the API has no other place for them.
//!
//! Format: the Gemini API reference, "Content", and its guide "Thought signatures".

use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Role, ToolResult, in_call_order};
use crate::model::{Stability, SystemPrompt, ToolDefinition};

use super::super::chat::{GAP, system_text};
use super::super::encode::{GroupPlace, Items, Wire};
use super::super::json::{write, write_text};
use super::super::schema::gemini::declared;
use super::answer::write_answer;
use super::chunks::PROVIDER;
use super::pieces::ContentPiece;

/// The text that replaces a content without a part that can be sent.
pub(super) const NOTHING: &str = "(nothing)";

/// The maximum length of a function's name, in characters.
const MAX_NAME: usize = 128;

/// The server of a model. Each refuses the signatures of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    GeminiApi,
    Vertex,
}

impl Backend {
    /// Returns the tag of blocks that only this server takes.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Self::GeminiApi => PROVIDER,
            Self::Vertex => "gemini-vertex",
        }
    }

    /// Returns the provider's name in errors and in uploaded files.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::GeminiApi => PROVIDER,
            Self::Vertex => "google-vertex",
        }
    }
}

/// The form of contents.
#[derive(Clone, PartialEq)]
pub(super) struct ContentWire {
    pub(super) backend: Backend,
    /// True for models that check signatures and take media in results.
    pub(super) is_modern: bool,
    /// True for models that accept images.
    pub(super) takes_images: bool,
    /// True for models that think, and take thoughts back.
    pub(super) thinks: bool,
}

impl Wire for ContentWire {
    const LIST: &'static str = "contents";

    fn joins(&self, before: &Message, after: &Message) -> bool {
        is_answer(before) == is_answer(after)
    }

    fn message(
        &self,
        group: &[Arc<Message>],
        place: GroupPlace<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let mut contents = Items::new(out);
        if !group.first().is_some_and(|message| is_answer(message)) {
            self.write_user_contents(group, place.before, &mut contents)?;
            return Ok(None);
        }

        if place.is_first {
            write_content("user", &mut contents, |_| Ok(()))?;
        }

        write_content("model", &mut contents, |parts| {
            write_answer(group, self, place.has_reasoning, parts)
        })?;
        Ok(None)
    }

    /// Appends the field `systemInstruction`.
    fn system(
        &self,
        system: &SystemPrompt,
        lifted: &[Arc<Message>],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let lifted_texts = lifted.iter().map(|message| message.text().into_owned());
        let texts: Vec<String> = std::iter::once(system.text_of(Stability::Stable))
            .chain(lifted_texts)
            .chain([system.text_of(Stability::Volatile)])
            .filter(|text| !text.is_empty())
            .collect();
        if texts.is_empty() {
            return Ok(());
        }

        out.extend_from_slice(b"{\"parts\":[");
        let mut parts = Items::new(out);
        for text in &texts {
            write_text_part(text, &mut parts)?;
        }

        out.extend_from_slice(b"]}");
        Ok(())
    }

    fn tools(&self, tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"[{\"functionDeclarations\":[");
        let mut declarations = Items::new(out);
        for tool in tools {
            declarations.item(|out| {
                out.extend_from_slice(b"{\"name\":");
                write_text(out, &tool.name)?;
                out.extend_from_slice(b",\"description\":");
                write_text(out, &tool.description)?;
                out.extend_from_slice(b",\"parametersJsonSchema\":");
                write(out, &declared(&tool.parameters))?;
                out.push(b'}');
                Ok(())
            })?;
        }

        out.extend_from_slice(b"]}]");
        Ok(())
    }
}

impl ContentWire {
    /// Writes the content of the results, and the content of the user after it.
    fn write_user_contents(
        &self,
        group: &[Arc<Message>],
        answer: Option<&Message>,
        contents: &mut Items<'_>,
    ) -> Result<()> {
        let mut pieces = Vec::new();
        let is_result = |message: &&Arc<Message>| message.role() == Role::Tool;
        let result_count = group.iter().take_while(is_result).count();
        let (results, others) = group.split_at(result_count);

        // Older models tell results apart by their order.
        let results = in_call_order(answer, results);
        let mut results = results
            .iter()
            .chain(others)
            .filter_map(|message| message.as_tool_result())
            .peekable();
        let has_results = results.peek().is_some();
        if has_results {
            write_content("user", contents, |parts| {
                for result in results {
                    self.write_result(result, parts, &mut pieces)?;
                }
                Ok(())
            })?;
        }

        for message in group {
            match &**message {
                Message::User(user) => pieces.extend(self.pieces(&user.content)),
                Message::System(system) => {
                    let text = system_text(&system.content.text());
                    pieces.extend(text.map(|text| ContentPiece::Text(text.into())));
                }
                Message::Assistant(_) | Message::Tool(_) => {}
            }
        }

        if has_results && pieces.is_empty() {
            return Ok(());
        }

        write_content("user", contents, |parts| {
            pieces
                .iter()
                .try_for_each(|piece| piece.write(self.backend, parts))
        })
    }

    /// Writes the part of a result. Media that cannot be in it are added to `media_after_results`.
    fn write_result<'a>(
        &self,
        result: &'a ToolResult,
        parts: &mut Items<'_>,
        media_after_results: &mut Vec<ContentPiece<'a>>,
    ) -> Result<()> {
        let mut texts = Vec::new();
        let mut media = Vec::new();
        for piece in self.pieces(&result.content) {
            match piece {
                ContentPiece::Text(text) => texts.push(text),
                piece if self.is_modern && piece.is_for_results() => media.push(piece),
                piece => media_after_results.push(piece),
            }
        }

        parts.item(|out| {
            out.extend_from_slice(b"{\"functionResponse\":{\"id\":");
            write_text(out, &result.tool_call_id)?;
            out.extend_from_slice(b",\"name\":");
            write_name(out, &result.name)?;
            out.extend_from_slice(if result.is_error {
                b",\"response\":{\"error\":"
            } else {
                b",\"response\":{\"output\":"
            });
            write_text(out, &texts.join(GAP))?;
            out.push(b'}');
            if !media.is_empty() {
                out.extend_from_slice(b",\"parts\":[");
                let mut parts = Items::new(out);
                media
                    .iter()
                    .try_for_each(|piece| piece.write(self.backend, &mut parts))?;
                out.push(b']');
            }

            out.extend_from_slice(b"}}");
            Ok(())
        })
    }
}

fn is_answer(message: &Message) -> bool {
    message.role() == Role::Assistant
}

/// Writes a content, with a filler if `write_parts` writes none.
fn write_content(
    role: &str,
    contents: &mut Items<'_>,
    write_parts: impl FnOnce(&mut Items<'_>) -> Result<()>,
) -> Result<()> {
    contents.item(|out| {
        out.extend_from_slice(b"{\"role\":");
        write(out, role)?;
        out.extend_from_slice(b",\"parts\":[");
        let mut parts = Items::new(out);
        write_parts(&mut parts)?;
        if parts.is_empty {
            write_text_part(NOTHING, &mut parts)?;
        }

        out.extend_from_slice(b"]}");
        Ok(())
    })
}

/// Writes a part of text.
pub(super) fn write_text_part(text: &str, parts: &mut Items<'_>) -> Result<()> {
    parts.item(|out| {
        out.extend_from_slice(b"{\"text\":");
        write_text(out, text)?;
        out.push(b'}');
        Ok(())
    })
}

/// Appends the name of a function. Characters that the API refuses, in names that another provider
/// or a model made up, become `_`.
pub(super) fn write_name(out: &mut Vec<u8>, name: &str) -> Result<()> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_allowed = |c: char| is_letter(c) || c.is_ascii_digit() || matches!(c, '.' | ':' | '-');
    if name.starts_with(is_letter) && name.len() <= MAX_NAME && name.chars().all(is_allowed) {
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
        return Ok(());
    }

    let start = if name.starts_with(is_letter) { "" } else { "_" };
    let letters = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    let allowed: String = start.chars().chain(letters).take(MAX_NAME).collect();
    write(out, &allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_allowed_characters() {
        let long = "n".repeat(200);
        for (name, expected) in [
            ("get_weather", "get_weather"),
            ("a.b:c-1", "a.b:c-1"),
            ("made up/näme", "made_up_n_me"),
            ("1st", "_1st"),
            ("", "_"),
            (&*long, &long[..128]),
        ] {
            let mut out = Vec::new();
            write_name(&mut out, name).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("\"{expected}\""));
        }
    }
}
