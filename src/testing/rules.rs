//! The providers' requirements for a request, implemented a second time.
//!
//! Nothing here uses the crate's own validation: the two implementations check each other.

use std::collections::HashSet;

use serde_json::Value;

use crate::message::{Message, Part};
use crate::model::ModelRequest;

/// Returns every broken rule of `request`, in order. `thinking` are the reasoning blocks that may
/// appear.
pub(super) fn violations(request: &ModelRequest, thinking: &HashSet<String>) -> Vec<String> {
    let mut out = Vec::new();
    if request.max_output_tokens == Some(0) {
        out.push("max_output_tokens is 0".to_owned());
    }
    check_tools(request, &mut out);
    check_order(request, &mut out);
    check_pairs(request, &mut out);
    for (at, message) in request.messages.iter().enumerate() {
        check_contents(at, message, thinking, &mut out);
    }
    out
}

/// Returns `true` for a name that Anthropic and OpenAI accept: `[A-Za-z0-9_-]{1,64}`.
fn is_tool_name(name: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_legal)
}

fn check_tools(request: &ModelRequest, out: &mut Vec<String>) {
    let mut names = HashSet::new();
    for (at, tool) in request.tools.iter().enumerate() {
        if !is_tool_name(&tool.name) {
            out.push(format!(
                "tools[{at}]: {:?} is not a legal tool name",
                tool.name
            ));
        }

        if !names.insert(&tool.name) {
            out.push(format!("tools[{at}]: a second tool named {:?}", tool.name));
        }

        if tool.parameters.get("type") != Some(&Value::from("object")) {
            out.push(format!(
                "tools[{at}]: the schema of {:?} is not an object's",
                tool.name
            ));
        }
    }
}

/// The side of the conversation a message is on: results travel inside a user turn.
#[derive(Clone, Copy, PartialEq)]
enum TurnSide {
    User,
    Results,
    Assistant,
}

fn check_order(request: &ModelRequest, out: &mut Vec<String>) {
    let mut last = None;
    for (at, message) in request.messages.iter().enumerate() {
        let side = match message {
            Message::System(_) => {
                // Between a call and its result, `check_pairs` reports it. Elsewhere providers
                // receive it as text of the user.
                last = last.map(|_| TurnSide::User);
                continue;
            }
            Message::User(_) => TurnSide::User,
            Message::Tool(_) => TurnSide::Results,
            Message::Assistant(_) => TurnSide::Assistant,
        };

        match (last, side) {
            (None, TurnSide::User) => {}
            (None, _) => out.push(format!(
                "message[{at}]: the conversation begins with a message of the role {}",
                message.role()
            )),
            (Some(TurnSide::Assistant), TurnSide::Assistant) => {
                out.push(format!("message[{at}]: two assistant messages in a row"));
            }
            (Some(TurnSide::User), TurnSide::Results) => {
                out.push(format!("message[{at}]: a tool result after a user message"));
            }
            _ => {}
        }

        last = Some(side);
    }

    if last.is_none() {
        out.push("there is no message to answer".into());
    }
}

fn check_pairs(request: &ModelRequest, out: &mut Vec<String>) {
    let mut seen_ids = HashSet::new();

    // The calls of the last assistant message that wait for a result, with that message's index.
    let mut open_calls: Vec<(usize, &str)> = Vec::new();
    let mut ids_with_result: Vec<&str> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        if let Message::Tool(result) = message {
            let id = &*result.tool_call_id;
            match open_calls.iter().position(|(_, call_id)| *call_id == id) {
                Some(found) => {
                    open_calls.remove(found);
                    ids_with_result.push(id);
                }
                None if ids_with_result.contains(&id) => {
                    out.push(format!("message[{at}]: a second result for {id:?}"));
                }
                None => out.push(format!(
                    "message[{at}]: a result for {id:?}, which was not called"
                )),
            }

            continue;
        }

        close(&mut open_calls, out);
        ids_with_result.clear();
        for call in message.tool_calls() {
            if call.id.is_empty() {
                out.push(format!("message[{at}]: a call without an id"));
            } else if !seen_ids.insert(&*call.id) {
                out.push(format!(
                    "message[{at}]: the call id {:?} is used twice",
                    call.id
                ));
            }

            open_calls.push((at, &call.id));
        }
    }

    close(&mut open_calls, out);
}

fn close(open: &mut Vec<(usize, &str)>, out: &mut Vec<String>) {
    for (at, id) in open.drain(..) {
        out.push(format!(
            "message[{at}]: the call {id:?} has no result directly after it"
        ));
    }
}

fn has_content(part: &Part) -> bool {
    match part {
        Part::Text(text) => text.contains(|c: char| !c.is_whitespace()),
        Part::Thinking(_) | Part::Annotations(_) => false,
        _ => true,
    }
}

fn check_contents(at: usize, message: &Message, thinking: &HashSet<String>, out: &mut Vec<String>) {
    let parts = message.content().parts();
    if parts.is_empty() {
        out.push(format!("message[{at}]: empty content"));
    } else if !parts.iter().any(has_content) {
        out.push(format!("message[{at}]: nothing but whitespace or thinking"));
    }

    let is_assistant = matches!(message, Message::Assistant(_));
    for part in parts {
        match part {
            Part::Text(text) if text.is_empty() => {
                out.push(format!("message[{at}]: an empty text block"));
            }
            Part::ToolCall(_) | Part::Thinking(_) if !is_assistant => {
                out.push(format!(
                    "message[{at}]: a {} message with a block only the model may write",
                    message.role()
                ));
            }
            Part::ToolCall(call) => {
                // Other characters of a name are left to the encoder: a model may invent names.
                if call.name.is_empty() {
                    out.push(format!("message[{at}]: a call without a tool's name"));
                }

                // Arguments that could not be parsed are `null` and are encoded as an object.
                if !call.args.is_object() && !call.args.is_null() {
                    out.push(format!(
                        "message[{at}]: the arguments of {:?} are not an object",
                        call.id
                    ));
                }
            }
            Part::Thinking(block) if !thinking.contains(block.raw.get()) => {
                out.push(format!(
                    "message[{at}]: a thinking block that this model did not write, or that was changed"
                ));
            }
            _ => {}
        }
    }
}
