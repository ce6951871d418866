//! Recorded runs of scripted models, whose ids and times are replaced by fixed ones.

use std::collections::HashMap;

use agentcore::hooks::TodoListHook;
use agentcore::message::ProviderBlock;
use agentcore::sdk::SystemKind;
use agentcore::testing::{ScriptedModel, Step};
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    Agent, AgentBuilder, AgentState, Decision, Error, ErrorKind, FuncTool, Message, ModelEvent,
    OnUnanswered, Result, Run, SdkMessage, ToolContext, ToolDecision, async_trait,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A run as the server sees it.
pub struct Recording {
    pub name: &'static str,
    /// The session before the run.
    pub before: AgentState,
    pub input: Vec<Message>,
    pub messages: Vec<SdkMessage>,
    /// The session after the run.
    pub after: AgentState,
}

struct Gate;

#[async_trait]
impl PermissionGate for Gate {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        Ok(match &*request.call.name {
            "erase" => ToolDecision::deny("files are kept"),
            "publish" => ToolDecision::ask("Publish it?"),
            _ => ToolDecision::allow(),
        })
    }
}

fn thinking(text: &str) -> ProviderBlock {
    let block = json!({"type": "thinking", "thinking": text, "signature": "sig"});
    ProviderBlock::new(
        "anthropic",
        RawValue::from_string(block.to_string()).unwrap(),
    )
}

fn any_object() -> Value {
    json!({"type": "object"})
}

fn read_tool() -> FuncTool {
    FuncTool::new(
        "read",
        "Reads a file",
        any_object(),
        |cx: ToolContext, args: Value| async move {
            cx.progress(json!({"bytes": 10})).await;
            cx.progress(json!({"bytes": 20})).await;
            format!("contents of {}", args["path"].as_str().unwrap_or_default())
        },
    )
}

fn fixed_tool(name: &'static str, text: &'static str) -> FuncTool {
    FuncTool::new(
        name,
        "A tool",
        any_object(),
        move |_cx, _args: Value| async move { text },
    )
}

fn builder(model: ScriptedModel) -> AgentBuilder {
    Agent::builder(model)
        .name("lead")
        .include_partial_messages(true)
        .unanswered(OnUnanswered::Park)
        .permissions(Gate)
}

fn scout() -> Agent {
    let model = ScriptedModel::new()
        .with_id("scripted:scout")
        .step(Step::text("Looking around.").and_call("read", json!({"path": "c.txt"})))
        .say("All quiet.");
    let scout = Agent::builder(model).name("scout").tool(read_tool());
    scout.include_partial_messages(true).build().unwrap()
}

/// The agent of the story: it reads two files concurrently, is refused a third call, keeps a task
/// list, begins an answer twice, starts the subagent `scout`, and asks before it publishes.
fn lead(model: ScriptedModel) -> Agent {
    builder(model)
        .hook(TodoListHook::new())
        .tools([
            read_tool(),
            fixed_tool("erase", "erased"),
            fixed_tool("publish", "published"),
        ])
        .tool(scout().as_tool("scout", "Looks around"))
        .build()
        .unwrap()
}

/// The story up to the pending call, and after that call was allowed.
pub async fn story() -> [Recording; 2] {
    let model = ScriptedModel::new()
        .step(
            Step::new()
                .and_thinking(
                    "Two files.\nAnd one to erase.",
                    thinking("Two files.\nAnd one to erase."),
                )
                .and_text("I read both.")
                .and_call("read", json!({"path": "a.txt"}))
                .and_call("read", json!({"path": "b.txt"}))
                .and_call("erase", json!({"path": "a.txt"})),
        )
        .call(
            "write_todos",
            json!({"todos": [{"id": "1", "title": "Scout", "status": "in_progress"}]}),
        )
        .step(
            Step::text("First half of an ans")
                .and_event(ModelEvent::Restart)
                .and_text("A scout knows more.")
                .and_call("scout", json!({"task": "Look around"})),
        )
        .step(Step::text("Now I publish.").and_call("publish", json!({"to": "all"})))
        .say("It is \"public\".\r\nDone.");
    let agent = lead(model);
    let before = AgentState::new("th_1");
    let first = record(
        "story",
        agent.session("th_1").run("Read the files"),
        before,
        &["Read the files"],
    );
    let first = first.await;
    let pending = agent.session("th_1").pending().await.unwrap();
    let decision = Decision::allow(&pending[0]);
    let resumed_run = agent.session("th_1").resume(decision);
    let second = record("resumed", resumed_run, first.after.clone(), &[]).await;
    [first, second]
}

/// A run whose model fails.
pub async fn failure() -> Recording {
    let model = ScriptedModel::new()
        .step(Step::text("Wait.").and_call("read", json!({"path": "a.txt"})))
        .fail(Error::new(ErrorKind::Auth, "the key was refused"));
    let agent = lead(model);
    let run = agent.session("th_2").run("Read");
    record("failure", run, AgentState::new("th_2"), &["Read"]).await
}

/// A run that is interrupted in the middle of an answer.
pub async fn interrupt() -> Recording {
    let model = ScriptedModel::new().step(Step::text("A long story").then_hang());
    let agent = lead(model);
    let run = agent.session("th_3").run("Tell");
    record("interrupt", run, AgentState::new("th_3"), &["Tell"]).await
}

/// Returns all recordings.
pub async fn recordings() -> Vec<Recording> {
    let mut recordings = Vec::from(story().await);
    recordings.push(failure().await);
    recordings.push(interrupt().await);
    recordings
}

async fn record(name: &'static str, mut run: Run, before: AgentState, input: &[&str]) -> Recording {
    let handle = run.handle();
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        if name == "interrupt"
            && message
                .text_delta()
                .is_some_and(|text| text.contains("story"))
        {
            handle.interrupt();
        }
        messages.push(message);
    }
    let state = match run.into_output() {
        Ok(output) => output.state,
        Err(error) => error.partial().unwrap().state.clone(),
    };

    let mut fixed = Fixed::default();
    let messages = messages
        .iter()
        .map(|message| fixed.value(message))
        .collect();
    let after = fixed.value(&state);
    Recording {
        name,
        before: fixed.value(&before),
        input: input.iter().map(|text| Message::human(*text)).collect(),
        messages,
        after,
    }
}

/// Replaces ids and times by fixed ones.
#[derive(Default)]
struct Fixed(HashMap<String, String>);

impl Fixed {
    fn value<T: serde::Serialize + serde::de::DeserializeOwned>(&mut self, value: &T) -> T {
        let mut json = serde_json::to_value(value).unwrap();
        self.fix(&mut json);
        // Messages can be deserialized only from text.
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn fix(&mut self, json: &mut Value) {
        match json {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.fix(value)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "duration_ms" | "duration_api_ms" | "elapsed_time_seconds" | "ttft_ms" => {
                            *value = json!(0);
                        }
                        "expires_at_ms" if value.is_u64() => *value = json!(1_800_000_000_000_u64),
                        "claude_code_version" => *value = json!("agentcore"),
                        "cwd" => *value = json!("."),
                        _ => self.fix(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns a text in which every UUID is replaced by a numbered one.
    fn text(&mut self, text: &str) -> String {
        let mut fixed = String::new();
        let mut rest = text;
        while let Some((at, len)) = (0..rest.len()).find_map(|at| Some((at, uuid_len(rest, at)?))) {
            let (head, tail) = rest.split_at(at);
            let (uuid, tail) = tail.split_at(len);
            let number = self.0.len() + 1;
            let name = self.0.entry(uuid.to_owned());
            let name = name.or_insert_with(|| format!("00000000-0000-4000-8000-{number:012}"));
            fixed.push_str(head);
            fixed.push_str(name);
            rest = tail;
        }
        fixed.push_str(rest);
        without_answer_ids(&fixed)
    }
}

/// Returns a text with zeros in place of the part of an answer's id in each id of a subagent's
/// session.
fn without_answer_ids(text: &str) -> String {
    let mut parts = text.split(":sub:");
    let mut fixed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |letter: char| !letter.is_ascii_alphanumeric() && !"_-:".contains(letter);
        let (id, tail) = part.split_at(part.find(is_end).unwrap_or(part.len()));
        let call = id.rsplit_once('-').map_or(id, |(call, _)| call);
        fixed.push_str(&format!(":sub:{call}-00000000{tail}"));
    }
    fixed
}

/// Returns the length of the UUID at this offset, with its hyphens or without.
fn uuid_len(text: &str, at: usize) -> Option<usize> {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_hyphenated = |part: &str| {
        let lengths: Vec<usize> = part.split('-').map(str::len).collect();
        lengths == [8, 4, 4, 4, 12] && part.split('-').all(is_hex)
    };
    if text.get(at..at + 36).is_some_and(is_hyphenated) {
        return Some(36);
    }
    text.get(at..at + 32).is_some_and(is_hex).then_some(32)
}

#[tokio::test(start_paused = true)]
async fn recorded_run_has_a_restart_a_denial_a_subagent_and_a_pending_call() {
    let [story, resumed] = story().await;
    let has = |recording: &Recording, check: fn(&SystemKind) -> bool| {
        recording
            .messages
            .iter()
            .any(|message| matches!(message, SdkMessage::System(event) if check(&event.kind)))
    };
    assert!(has(&story, |kind| matches!(
        kind,
        SystemKind::StreamRestart { .. }
    )));
    assert!(has(&story, |kind| matches!(
        kind,
        SystemKind::PermissionDenied(_)
    )));
    assert!(has(&story, |kind| matches!(
        kind,
        SystemKind::TaskNotification(_)
    )));
    assert!(has(&story, |kind| matches!(
        kind,
        SystemKind::StateChanged { .. }
    )));
    assert_eq!(story.after.pending.len(), 1);
    assert!(resumed.after.pending.is_empty());
}
