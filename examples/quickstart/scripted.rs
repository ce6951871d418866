//! The model of the quickstart if there is no other. It answers one question, from the results of
//! the tools.

use agentcore::testing::FunctionModel;
use agentcore::{ModelEvent, ModelRequest, ToolCall};
use serde_json::{Value, json};

use super::QUESTION;

type Events = Vec<agentcore::Result<ModelEvent>>;

pub(crate) fn model() -> FunctionModel {
    FunctionModel::new(|request| respond(&request)).with_id("scripted:quickstart")
}

fn respond(request: &ModelRequest) -> Events {
    let is_known = request
        .messages
        .user_messages()
        .any(|message| message.text() == QUESTION);
    let results: Vec<_> = request
        .messages
        .tool_messages()
        .map(|result| result.text())
        .collect();
    match (is_known, &results[..]) {
        (false, _) => {
            say("I am a script and answer one question only. Run me without an argument.")
        }
        (true, []) => {
            let mut events = say("I will count the lines of every source file first.");
            events.push(call("list_files", json!({"path": "src"})));
            events
        }
        (true, [listing]) => {
            let Some((path, lines)) = longest(listing) else {
                return say(&format!("I cannot answer. The listing is: {listing}"));
            };

            let mut events = say(&format!(
                "{path} is the longest. Let me read how it begins."
            ));
            events.push(call(
                "read_file",
                json!({"path": path, "lines": lines.min(40)}),
            ));
            events
        }
        (true, [listing, head, ..]) => {
            let (path, lines) = longest(listing).unwrap_or_default();
            let docs: Vec<_> = head
                .lines()
                .map_while(|line| line.strip_prefix("//!"))
                .collect();
            let docs = docs.join("\n").trim().replace("\n ", "\n");
            say(&format!(
                "{path} is the longest, with {lines} lines. Its documentation:\n\n{docs}"
            ))
        }
    }
}

/// The path with the most lines, of lines such as `src/lib.rs: 42 lines`.
fn longest(listing: &str) -> Option<(&str, usize)> {
    let entry = |line| {
        let (path, lines) = str::rsplit_once(line, ": ")?;
        Some((path, lines.strip_suffix(" lines")?.parse().ok()?))
    };
    listing
        .lines()
        .filter_map(entry)
        .max_by_key(|(_, lines)| *lines)
}

fn say(text: &str) -> Events {
    let words = text.split_inclusive(' ');
    words
        .map(|word| Ok(ModelEvent::Text(word.to_owned())))
        .collect()
}

fn call(tool: &str, args: Value) -> agentcore::Result<ModelEvent> {
    let id = format!("call_{tool}");
    Ok(ModelEvent::ToolCall(ToolCall::new(id, tool, args)))
}
