//! The order of chunks that `ai` 7 requires.

use std::collections::BTreeSet;

use agentcore::server::SseEvent;
use serde_json::Value;

/// Checks the chunks of a stream, which is complete if `is_whole`. The client has `known_calls`
/// from an earlier run, where they were pending.
pub fn check(
    events: &[SseEvent],
    known_calls: impl IntoIterator<Item = String>,
    is_whole: bool,
) -> Result<(), String> {
    let mut active: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut calls: BTreeSet<String> = known_calls.into_iter().collect();
    let mut is_in_step = false;
    let mut is_over = false;
    for (index, event) in events.iter().enumerate() {
        if is_over {
            return Err("a chunk after the end".to_owned());
        }
        if event.data == "[DONE]" {
            is_over = true;
            continue;
        }
        let json: Value = serde_json::from_str(&event.data).map_err(|e| e.to_string())?;
        let kind = json["type"].as_str().ok_or("no type")?;
        let fail = |text: &str| Err(format!("{text}: {json}"));
        if (index == 0) != (kind == "start") && kind != "error" {
            return fail("`start` is first and once");
        }
        let id = json["id"].as_str().unwrap_or_default().to_owned();
        let call = json["toolCallId"].as_str().unwrap_or_default().to_owned();
        let is_valid = match kind {
            "text-start" => active.insert(("text", id)),
            "text-delta" => active.contains(&("text", id)) && json["delta"].is_string(),
            "text-end" => active.remove(&("text", id)),
            "reasoning-start" => active.insert(("reasoning", id)),
            "reasoning-delta" => active.contains(&("reasoning", id)),
            "reasoning-end" => active.remove(&("reasoning", id)),
            "tool-input-start" | "tool-input-available" => {
                calls.insert(call);
                json["toolName"].is_string()
            }
            "tool-input-delta"
            | "tool-output-available"
            | "tool-output-error"
            | "tool-output-denied"
            | "tool-approval-request" => calls.contains(&call),
            "start-step" => !std::mem::replace(&mut is_in_step, true),
            "finish-step" => std::mem::replace(&mut is_in_step, false),
            "reset-step" => active.is_empty() && is_in_step,
            "finish" | "abort" => active.is_empty() && !is_in_step,
            "start" | "error" | "data-state" | "data-agentcore" | "steering-message" => true,
            _ => false,
        };
        if !is_valid {
            return fail("a chunk out of order");
        }
    }
    if !is_whole || is_over {
        Ok(())
    } else {
        Err("the stream has no end".to_owned())
    }
}
