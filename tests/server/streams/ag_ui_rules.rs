//! The order of events that `@ag-ui/client` 1.0.0 requires.

use std::collections::{BTreeMap, BTreeSet};

use agentcore::server::SseEvent;
use serde_json::Value;

type Rule = Result<(), String>;

#[derive(Default)]
struct Rules {
    is_started: bool,
    is_over: bool,
    open: BTreeSet<(&'static str, String)>,
    /// The subagent that owns each id, by kind.
    owners: BTreeMap<(&'static str, String), Option<String>>,
    closed_subagents: BTreeSet<String>,
}

/// Checks the events of a stream, which is complete if `is_whole`.
pub fn check(events: &[SseEvent], is_whole: bool) -> Rule {
    let mut rules = Rules::default();
    for event in events {
        let json: Value = serde_json::from_str(&event.data).map_err(|e| e.to_string())?;
        rules
            .event(&json)
            .map_err(|error| format!("{error}: {json}"))?;
    }
    if is_whole && !rules.is_over {
        return Err("the run has no end".to_owned());
    }
    Ok(())
}

fn text(json: &Value, key: &str) -> Result<String, String> {
    let text = json[key].as_str().map(str::to_owned);
    text.ok_or_else(|| format!("{key} is missing"))
}

impl Rules {
    fn event(&mut self, json: &Value) -> Rule {
        let kind = text(json, "type")?;
        if self.is_over {
            return Err("an event after the end".to_owned());
        }
        if json.as_object().unwrap().values().any(Value::is_null) {
            return Err("a field is null".to_owned());
        }
        if !self.is_started && kind != "RUN_STARTED" && kind != "RUN_ERROR" {
            return Err("the first event is no RUN_STARTED".to_owned());
        }
        match kind.as_str() {
            "RUN_STARTED" if self.is_started => Err("a second RUN_STARTED".to_owned()),
            "RUN_STARTED" => {
                self.is_started = true;
                text(json, "threadId").and(text(json, "runId")).map(drop)
            }
            "RUN_ERROR" => {
                self.is_over = true;
                text(json, "message").map(drop)
            }
            "RUN_FINISHED" => self.finish(json),
            "TEXT_MESSAGE_START" => self.open("message", "messageId", json),
            "TEXT_MESSAGE_CONTENT" => self.grow("message", "messageId", json),
            "TEXT_MESSAGE_END" => self.close("message", "messageId", json),
            "REASONING_START" => self.open("span", "messageId", json),
            "REASONING_MESSAGE_START" => self.open("reasoning", "messageId", json),
            "REASONING_MESSAGE_CONTENT" => self.grow("reasoning", "messageId", json),
            "REASONING_MESSAGE_END" => self.close("reasoning", "messageId", json),
            "REASONING_END" => self.close("span", "messageId", json),
            "TOOL_CALL_START" => {
                text(json, "toolCallName")?;
                let parent = ("message", text(json, "parentMessageId")?);
                let owner = json["subagentRunId"].as_str().map(str::to_owned);
                if self
                    .owners
                    .get(&parent)
                    .is_some_and(|parent| *parent != owner)
                {
                    return Err("the parent message has another owner".to_owned());
                }
                self.open("call", "toolCallId", json)
            }
            "TOOL_CALL_ARGS" => self.grow("call", "toolCallId", json),
            "TOOL_CALL_END" => self.close("call", "toolCallId", json),
            "TOOL_CALL_RESULT" => {
                let is_text = json["content"].is_string() && json["messageId"].is_string();
                is_text.then_some(()).ok_or("content is missing".to_owned())
            }
            "STEP_STARTED" => self.open("step", "stepName", json),
            "STEP_FINISHED" => self.close("step", "stepName", json),
            "SUBAGENT_STARTED" => self.start_subagent(json),
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => self.end_subagent(json),
            "STATE_SNAPSHOT" | "STATE_DELTA" | "MESSAGES_SNAPSHOT" | "ACTIVITY_SNAPSHOT"
            | "CUSTOM" => Ok(()),
            _ => Err("an unknown event".to_owned()),
        }
    }

    /// Returns the key of an id. The keys of steps include the agent.
    fn key(kind: &'static str, key: &str, json: &Value) -> Result<(&'static str, String), String> {
        let id = text(json, key)?;
        let owner = json["subagentRunId"].as_str().unwrap_or_default();
        Ok((
            kind,
            if kind == "step" {
                format!("{owner}/{id}")
            } else {
                id
            },
        ))
    }

    fn open(&mut self, kind: &'static str, key: &str, json: &Value) -> Rule {
        let place = Self::key(kind, key, json)?;
        let owner = json["subagentRunId"].as_str().map(str::to_owned);
        if *self.owners.entry(place.clone()).or_insert(owner.clone()) != owner {
            return Err(format!("{place:?} has another owner"));
        }
        if self.open.insert(place.clone()) {
            Ok(())
        } else {
            Err(format!("{place:?} is open"))
        }
    }

    fn grow(&mut self, kind: &'static str, key: &str, json: &Value) -> Rule {
        let place = Self::key(kind, key, json)?;
        text(json, "delta")?;
        let owner = json["subagentRunId"].as_str().map(str::to_owned);
        if self.owners.get(&place) != Some(&owner) {
            return Err(format!("{place:?} has another owner"));
        }
        if self.open.contains(&place) {
            Ok(())
        } else {
            Err(format!("{place:?} is not open"))
        }
    }

    fn close(&mut self, kind: &'static str, key: &str, json: &Value) -> Rule {
        let place = Self::key(kind, key, json)?;
        if self.open.remove(&place) {
            Ok(())
        } else {
            Err(format!("{place:?} is not open"))
        }
    }

    fn start_subagent(&mut self, json: &Value) -> Rule {
        text(json, "name")?;
        let id = text(json, "subagentRunId")?;
        if let Some(parent) = json["parentSubagentRunId"].as_str() {
            let place = ("subagent", parent.to_owned());
            if !self.open.contains(&place) && !self.closed_subagents.contains(parent) {
                return Err("the parent has not started".to_owned());
            }
        }
        if self.closed_subagents.contains(&id) || !self.open.insert(("subagent", id)) {
            return Err("the subagent has started before".to_owned());
        }
        Ok(())
    }

    fn end_subagent(&mut self, json: &Value) -> Rule {
        let id = text(json, "subagentRunId")?;
        if !self.open.remove(&("subagent", id.clone())) {
            return Err("the subagent is not at work".to_owned());
        }
        self.closed_subagents.insert(id);
        Ok(())
    }

    fn finish(&mut self, json: &Value) -> Rule {
        self.is_over = true;
        if !self.open.is_empty() {
            return Err(format!("{:?} are open", self.open));
        }
        match json["outcome"]["type"].as_str() {
            Some("success" | "cancelled") => Ok(()),
            Some("interrupt") if json["outcome"]["interrupts"][0].is_object() => Ok(()),
            _ => Err("the outcome is unknown".to_owned()),
        }
    }
}
