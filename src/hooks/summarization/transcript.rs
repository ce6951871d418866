//! A history as the summarizer reads it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::{Media, Message, Part, TokenCounter, ToolCall, ToolResult};
use crate::util::text::{head, head_tail};

/// The maximum length of a file's content, in characters; the rest can be read in the file.
const MAX_FILE_CHARS: usize = 2_000;
/// The maximum number of pieces of a history: the summarizer is called once for each.
pub(super) const MAX_PIECES: usize = 512;
/// The tools whose arguments hold the contents of files.
const WRITERS: [&str; 7] = [
    "write_file",
    "edit_file",
    "append_file",
    "Write",
    "Edit",
    "write",
    "edit",
];
/// The arguments of these tools that are contents of files.
const CONTENTS: [&str; 6] = [
    "content",
    "old_text",
    "new_text",
    "old_string",
    "new_string",
    "text",
];

/// Returns the messages as text, a blank line after each. At most `max_result` characters of a tool
/// result are included: the model itself has seen no more.
pub(super) fn transcript(
    messages: &[Arc<Message>],
    max_result: usize,
) -> impl Iterator<Item = String> {
    messages
        .iter()
        .map(move |message| entry(message, max_result))
        .filter(|entry| !entry.is_empty())
}

fn entry(message: &Message, max_result: usize) -> String {
    let mut out = String::new();
    match message {
        Message::Tool(result) => tool_result(&mut out, result, max_result),
        Message::User(_) => write_message(&mut out, "User", message),
        Message::Assistant(_) => write_message(&mut out, "Assistant", message),
        Message::System(_) => write_message(&mut out, "System", message),
    }
    out
}

fn write_message(out: &mut String, who: &str, message: &Message) {
    for part in message.content().parts() {
        match part {
            Part::Text(text) if text.trim().is_empty() => {}
            Part::Text(text) => {
                let _ = write!(out, "{who}: {}\n\n", text.trim_end());
            }
            Part::ToolCall(call) => {
                let _ = write!(out, "{who} called {}({})\n\n", call.name, arguments(call));
            }
            Part::Image(media) => write_media(out, who, "an image", media),
            Part::Document(media) => write_media(out, who, "a document", media),
            Part::Audio(media) => write_media(out, who, "a recording", media),
            // Thinking, provider blocks and citations are not part of the summary.
            Part::Thinking(_) | Part::Opaque(_) | Part::Annotations(_) => {}
        }
    }
}

fn write_media(out: &mut String, who: &str, kind: &str, media: &Media) {
    let name = media.name.as_deref().unwrap_or("unnamed");
    let _ = write!(out, "{who} sent {kind} ({name})\n\n");
}

fn tool_result(out: &mut String, result: &ToolResult, max_result: usize) {
    let kind = if result.is_error {
        "failed"
    } else {
        "returned"
    };
    let text = result.content.text();
    let half_len = max_result / 2;
    let text = head_tail(&text, half_len, half_len, |left| {
        format!("\n... ({left} characters left out) ...\n")
    });
    let _ = write!(out, "{} {kind}: {}\n\n", result.name, text.trim_end());
}

/// Returns the arguments as JSON. The contents of files are cut.
fn arguments(call: &ToolCall) -> String {
    let Value::Object(args) = &*call.args else {
        return match &call.raw_args {
            Some(raw) => raw.to_string(),
            None => call.args.to_string(),
        };
    };
    if !WRITERS.contains(&&*call.name) {
        return call.args.to_string();
    }
    let shorten = |(key, value): (&String, &Value)| (key.clone(), shortened(key, value));
    Value::Object(args.iter().map(shorten).collect::<Map<_, _>>()).to_string()
}

fn shortened(key: &str, value: &Value) -> Value {
    let Value::String(text) = value else {
        return value.clone();
    };
    match head(text, MAX_FILE_CHARS) {
        (start, left) if left > 0 && CONTENTS.contains(&key) => {
            format!("{start}... ({left} characters left out)").into()
        }
        _ => value.clone(),
    }
}

/// Returns the entries in pieces of about `max_tokens` at most, in order and without a gap. An
/// entry that is too long for a piece continues in the next. Ends with the first piece beyond
/// [`MAX_PIECES`].
pub(super) fn pieces(
    entries: impl IntoIterator<Item = String>,
    max_tokens: u64,
    counter: &dyn TokenCounter,
) -> VecDeque<String> {
    let max_tokens = max_tokens.max(1);
    let mut pieces = VecDeque::new();
    let mut piece = String::new();
    let mut room = max_tokens;
    for entry in entries {
        if pieces.len() > MAX_PIECES {
            break;
        }

        let tokens = counter.count_text(&entry);
        if tokens > room && !piece.is_empty() {
            pieces.push_back(std::mem::take(&mut piece));
            room = max_tokens;
        }

        if tokens <= room {
            piece.push_str(&entry);
            room -= tokens;
            continue;
        }

        let share = max_tokens as f64 / tokens as f64;
        let chars = (entry.chars().count() as f64 * share).max(1.0) as usize;
        let mut remaining = entry.as_str();
        while !remaining.is_empty() && pieces.len() <= MAX_PIECES {
            let start = before_a_word(remaining, chars);
            pieces.push_back(start.to_owned());
            remaining = &remaining[start.len()..];
        }
    }

    if !piece.is_empty() {
        pieces.push_back(piece);
    }

    pieces
}

/// Returns the first `chars` characters, or somewhat fewer so that no word is torn.
fn before_a_word(text: &str, chars: usize) -> &str {
    // Visits no more than `chars` characters: the text may be much longer.
    let Some((end, _)) = text.char_indices().nth(chars) else {
        return text;
    };
    let start = &text[..end];
    match start.rfind(char::is_whitespace) {
        Some(at) if at >= start.len() / 2 && at > 0 => &start[..at],
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::EstimateCounter;

    #[test]
    fn pieces_of_a_long_entry_end_behind_the_limit() {
        let text = "word ".repeat(10_000);
        let all_pieces = pieces([text.clone()], 100, &EstimateCounter);
        assert!(all_pieces.len() < MAX_PIECES);
        assert_eq!(Vec::from(all_pieces).concat(), text);
        let first_pieces = pieces([text.clone(), text], 1, &EstimateCounter);
        assert_eq!(first_pieces.len(), MAX_PIECES + 1);
    }
}
