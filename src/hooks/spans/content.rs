//! The conversation as the OpenTelemetry conventions write it.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::message::{Message, Messages, Part, Role, ToolCall};
use crate::model::{ModelResponse, SystemPrompt};
use crate::util::json::json_head;
use crate::util::secret::{Cut, redact_cut};
use crate::util::text::floor_char_boundary;

/// The maximum size of the texts of an attribute, in bytes. All of them are searched for secrets in
/// one poll.
pub(super) const MAX_TEXT: usize = 256 * 1024;

/// The size that a message or a part counts in addition to its text.
const ENTRY: usize = 64;

/// The bytes that are left for the texts of an attribute.
struct Room(usize);

impl Room {
    /// Returns a text, or its start if it does not fit. Counts it, and [`ENTRY`] in addition: an
    /// empty text counts a message or a part alone.
    fn take<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let room = self.0;
        self.0 = room.saturating_sub(text.len() + ENTRY);
        if text.len() <= room {
            return Cow::Borrowed(text);
        }
        let start = &text[..floor_char_boundary(text, room)];
        Cow::Owned(marked_cut(start.to_owned()))
    }

    /// Returns arguments, or the start of their JSON if it does not fit.
    fn take_args(&mut self, args: &Value) -> Value {
        let (text, is_cut) = json_head(args, self.0);
        if is_cut {
            self.0 = 0;
            return json!(marked_cut(text));
        }
        self.take(&text);
        args.clone()
    }
}

/// Returns the start of a text that was cut, with a mark at its end.
fn marked_cut(mut start: String) -> String {
    // Later, the part of a secret at the cut could not be recognized.
    redact_cut(&mut start, Cut::End);
    start.push_str(" ... (cut)");
    start
}

/// Returns a text that is an attribute, or its start if it is longer than [`MAX_TEXT`].
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    Room(MAX_TEXT).take(text)
}

/// Returns the JSON of arguments, or its start if it is longer than [`MAX_TEXT`].
pub(super) fn args_text(args: &Value) -> String {
    let (text, is_cut) = json_head(args, MAX_TEXT);
    if is_cut { marked_cut(text) } else { text }
}

/// Returns the system prompt of a request as JSON; empty when there is none.
pub(super) fn instructions(system: &SystemPrompt) -> String {
    let text = system.to_string();
    if text.is_empty() {
        text
    } else {
        json!([{"type": "text", "content": cut(&text)}]).to_string()
    }
}

/// Returns the messages of a request as JSON. The oldest are left out if they do not fit.
pub(super) fn input(messages: &Messages) -> String {
    let mut room = Room(MAX_TEXT);
    let mut values = Vec::new();
    for message in messages.iter().rev() {
        if room.0 == 0 {
            break;
        }
        let role = match message.role() {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        };
        room.take("");
        values.push(json!({"role": role, "parts": parts(message, &mut room)}));
    }
    values.reverse();
    Value::Array(values).to_string()
}

/// Returns the response of the model as JSON.
pub(super) fn output(response: &ModelResponse) -> String {
    let reason = response.stop_reason.as_ref();
    let message = Message::Assistant(response.message());
    json!([{
        "role": "assistant",
        "parts": parts(&message, &mut Room(MAX_TEXT)),
        "finish_reason": reason.map(|reason| reason.as_str()),
    }])
    .to_string()
}

fn parts(message: &Message, room: &mut Room) -> Vec<Value> {
    if let Some(result) = message.as_tool_result() {
        return vec![json!({
            "type": "tool_call_response",
            "id": &*result.tool_call_id,
            "response": room.take(&result.content.text()),
        })];
    }
    let parts = message.content().parts().iter();
    parts
        .map_while(|part| (room.0 > 0).then(|| part_value(part, room)))
        .flatten()
        .collect()
}

fn part_value(part: &Part, room: &mut Room) -> Option<Value> {
    let media = |kind: &str, room: &mut Room| {
        room.take("");
        Some(json!({"type": kind}))
    };
    match part {
        Part::Text(text) => Some(json!({"type": "text", "content": room.take(text)})),
        Part::ToolCall(call) => Some(tool_call(call, room)),
        // The bytes of media are not recorded.
        Part::Image(_) => media("image", room),
        Part::Document(_) => media("document", room),
        Part::Audio(_) => media("audio", room),
        Part::Thinking(_) | Part::Opaque(_) | Part::Annotations(_) => None,
    }
}

fn tool_call(call: &ToolCall, room: &mut Room) -> Value {
    let args = room.take_args(&call.args);
    json!({"type": "tool_call", "id": &*call.id, "name": &*call.name, "arguments": args})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::secret::Secret;

    fn content(message: &Value) -> &str {
        message["parts"][0]["content"].as_str().unwrap()
    }

    #[test]
    fn attribute_has_the_newest_messages_within_its_limit() {
        let text = |number: usize| format!("{number}:{}", "x".repeat(100 * 1024));
        let messages: Messages = (0..50).map(|number| Message::human(text(number))).collect();
        let json = input(&messages);
        assert!(json.len() < MAX_TEXT + 1024, "{}", json.len());
        let values: Vec<Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(values.len(), 3);
        assert!(content(&values[0]).starts_with("47:x"));
        assert!(content(&values[0]).ends_with("x ... (cut)"));
        assert_eq!(content(&values[2]), text(49));

        let many: Messages = (0..50_000).map(|_| Message::human("")).collect();
        assert!(input(&many).len() < 2 * MAX_TEXT);
    }

    #[test]
    fn arguments_and_answers_are_cut_at_the_limit() {
        let call = |len| ToolCall::new("c", "t", json!({"text": "x".repeat(len)}));
        let args = |len| tool_call(&call(len), &mut Room(MAX_TEXT))["arguments"].clone();
        assert_eq!(args(10), json!({"text": "x".repeat(10)}));
        let cut_args = args(2 * MAX_TEXT);
        let cut_args = cut_args.as_str().unwrap();
        assert!(cut_args.starts_with("{\"text\":\"x") && cut_args.ends_with("x ... (cut)"));
        assert!(cut_args.len() < MAX_TEXT + 100);
        assert!(cut(&"x".repeat(2 * MAX_TEXT)).len() < MAX_TEXT + 100);
    }

    #[test]
    fn arguments_are_cut_within_a_character() {
        // The cut is at each of the three bytes of a character.
        for before in ["", "x", "xx"] {
            let args = json!(format!("{before}{}", "€".repeat(MAX_TEXT)));
            let call = ToolCall::new("c", "t", args.clone());
            let call = tool_call(&call, &mut Room(MAX_TEXT));
            for text in [call["arguments"].as_str().unwrap(), &args_text(&args)] {
                assert!(text.len() < MAX_TEXT + 100, "{}", text.len());
                assert!(text.ends_with("€ ... (cut)"));
            }
        }
    }

    #[test]
    fn part_of_a_secret_at_a_cut_is_removed() {
        let secret = "cut-spans-8c1f5a7e90b2";
        let _secret = Secret::new(secret);
        let text = "x".repeat(MAX_TEXT - 10) + secret;
        let text = cut(&text);
        assert!(
            text.ends_with("x[redacted] ... (cut)"),
            "{}",
            &text[MAX_TEXT - 20..]
        );
    }
}
