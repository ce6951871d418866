//! Messages as AG-UI has them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::message::{Content, Media, MediaSource, Message, Part};

use super::super::blocks::{text_id, thinking_id, thinking_text};
use super::super::history::ShownMessage;
use super::super::state::StreamState;
use super::super::step::args_text;

/// Returns the messages of a snapshot; `None` if those before the run are not known.
pub(super) fn snapshot(state: &StreamState) -> Option<Vec<Value>> {
    let mut messages = Vec::new();
    for shown in state.history().messages()? {
        let start = messages.len();
        add(&shown, state, &mut messages);
        if let Some(subagent) = &shown.subagent {
            for message in &mut messages[start..] {
                message["subagentRunId"] = json!(subagent);
            }
        }
    }
    Some(messages)
}

fn add(shown: &ShownMessage, state: &StreamState, messages: &mut Vec<Value>) {
    let id = &shown.id;
    match &*shown.message {
        Message::System(message) => {
            messages.push(json!({"id": id, "role": "system", "content": message.content.text()}));
        }
        Message::User(message) => {
            let content = user_content(&message.content);
            messages.push(json!({"id": id, "role": "user", "content": content}));
        }
        Message::Assistant(message) => add_response(shown, &message.content, state, messages),
        Message::Tool(result) => {
            let text = result.content.text();
            let mut message = json!({
                "id": id,
                "role": "tool",
                "toolCallId": state.shown_call_id(&shown.subagent, &result.tool_call_id),
                "content": text,
            });
            if result.is_error {
                message["error"] = json!(text);
            }
            messages.push(message);
        }
        // No other kind of message exists.
        #[expect(unreachable_patterns, reason = "the kinds may grow")]
        _ => {}
    }
}

/// Adds a response: reasoning, the message with its first text and its calls, and one message for
/// each further text, under the ids that they have when they are streamed.
fn add_response(
    shown: &ShownMessage,
    content: &Content,
    state: &StreamState,
    messages: &mut Vec<Value>,
) {
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for part in content.parts() {
        match part {
            Part::Text(text) if !text.is_empty() => texts.push(text),
            Part::Thinking(block) => thoughts.extend(thinking_text(block)),
            Part::ToolCall(call) => calls.push(json!({
                "id": state.shown_call_id(&shown.subagent, &call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": args_text(call)},
            })),
            _ => {}
        }
    }

    for (number, text) in (0..).zip(thoughts) {
        let id = thinking_id(&shown.id, number);
        messages.push(json!({"id": id, "role": "reasoning", "content": text}));
    }
    let mut message = json!({"id": shown.id, "role": "assistant"});
    if let Some(text) = texts.first() {
        message["content"] = json!(text);
    }
    if !calls.is_empty() {
        message["toolCalls"] = json!(calls);
    }
    messages.push(message);
    for (number, text) in (1..).zip(texts.iter().skip(1)) {
        let id: Arc<str> = text_id(&shown.id, number);
        messages.push(json!({"id": id, "role": "assistant", "content": text}));
    }
}

/// Content as one text, or as parts if it has more than text.
fn user_content(content: &Content) -> Value {
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    if content.parts().iter().all(is_text) {
        return json!(content.text());
    }
    let parts = content.parts().iter().filter_map(|part| match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::Image(media) => Some(json!({"type": "image", "source": source(media)})),
        Part::Document(media) => Some(json!({"type": "document", "source": source(media)})),
        Part::Audio(media) => Some(json!({"type": "audio", "source": source(media)})),
        _ => None,
    });
    parts.collect()
}

fn source(media: &Media) -> Value {
    let mut source = match &media.source {
        MediaSource::Base64(data) => json!({"type": "data", "value": data}),
        MediaSource::Url(url) => json!({"type": "url", "value": url}),
        MediaSource::File { provider, id } => {
            json!({"type": "file", "value": id, "provider": provider})
        }
        #[expect(unreachable_patterns, reason = "the kinds may grow")]
        _ => json!({"type": "url", "value": ""}),
    };
    let is_data = matches!(media.source, MediaSource::Base64(_));
    if is_data || !media.media_type.is_empty() {
        source["mimeType"] = json!(media.media_type);
    }
    source
}
