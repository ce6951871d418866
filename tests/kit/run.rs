//! Helpers for tests of runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::sdk::{SystemKind, ToolProgress};
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    Agent, AgentBuilder, BoxError, FuncTool, Message, Messages, Model, Result, Run, SdkMessage,
    SessionStore, ToolContext, ToolDecision, ToolOutput, ToolResult, async_trait,
};
use futures::StreamExt;
use serde_json::{Value, json};

/// A log of events, in order. Clones share it.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A value that panics when it is dropped, unless the thread is already panicking.
pub struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("boom in drop");
        }
    }
}

/// Creates the builder of an agent with this model.
pub fn agent(model: impl Model) -> AgentBuilder {
    AgentBuilder::new(model)
}

/// Returns the schema of arguments that are any object.
pub fn any_object() -> Value {
    json!({"type": "object"})
}

/// A tool that returns its `text`.
pub fn echo() -> FuncTool {
    FuncTool::new(
        "echo",
        "Says it again",
        any_object(),
        |_cx, args| async move { args["text"].as_str().unwrap_or_default().to_owned() },
    )
}

/// A tool that logs each of its calls with the arguments.
pub fn logged(name: &'static str, log: &Log) -> FuncTool {
    let log = log.clone();
    FuncTool::new(name, "Logs its calls", any_object(), move |_cx, args| {
        log.add(format!("{name}{args}"));
        async move { ToolOutput::new(format!("{name} ran")) }
    })
}

/// A tool that never returns.
pub fn stuck() -> FuncTool {
    FuncTool::new("stuck", "Never returns", any_object(), |_cx, _args| {
        std::future::pending::<String>()
    })
}

/// A tool that sleeps `n` seconds and logs its beginning and its end.
pub fn nap(log: &Log) -> FuncTool {
    let log = log.clone();
    FuncTool::new("nap", "Sleeps", any_object(), move |_cx, args: Value| {
        let log = log.clone();
        async move {
            let n = args["n"].as_u64().unwrap();
            log.add(format!("{n} begins"));
            sleep(n).await;
            log.add(format!("{n} ends"));
            n.to_string()
        }
    })
}

/// Sleeps this number of seconds of the runtime's clock.
pub async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Reads a run to its end, and returns its messages.
pub async fn collect(run: Run) -> Vec<SdkMessage> {
    run.collect().await
}

/// Reads a run to its end, and returns its messages and its outcome.
pub async fn watch(mut run: Run) -> (Vec<SdkMessage>, Result<agentcore::RunOutput>) {
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        messages.push(message);
    }
    (messages, run.into_output())
}

/// Returns the type of a message: `assistant`, `system/init`.
pub fn kind(message: &SdkMessage) -> String {
    let value = serde_json::to_value(message).unwrap();
    match value["subtype"].as_str() {
        Some(subtype) => format!("{}/{subtype}", value["type"].as_str().unwrap()),
        None => value["type"].as_str().unwrap().to_owned(),
    }
}

/// Returns the types of messages, as [`kind`] does.
pub fn kinds(messages: &[SdkMessage]) -> Vec<String> {
    messages.iter().map(kind).collect()
}

/// Returns the texts of the warnings and of the other `informational` messages, in order.
pub fn warnings(messages: &[SdkMessage]) -> Vec<String> {
    let warnings = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::Informational { content, .. } => Some(content.clone()),
            _ => None,
        },
        _ => None,
    });
    warnings.collect()
}

/// Returns the messages about the progress of calls, in order.
pub fn progress(messages: &[SdkMessage]) -> Vec<&ToolProgress> {
    let progress = messages.iter().filter_map(|message| match message {
        SdkMessage::ToolProgress(progress) => Some(&**progress),
        _ => None,
    });
    progress.collect()
}

/// Returns the results in a history, in order.
pub fn results(messages: &Messages) -> Vec<ToolResult> {
    let results = messages
        .tool_messages()
        .filter_map(Message::as_tool_result)
        .cloned();
    results.collect()
}

/// Returns the texts of the results in a history, in order.
pub fn result_texts(messages: &Messages) -> Vec<String> {
    results(messages)
        .iter()
        .map(|result| result.content.text().into_owned())
        .collect()
}

/// Returns the roles of the messages of a history, such as `user assistant tool assistant`.
pub fn roles(messages: &Messages) -> String {
    let names = messages.iter().map(|message| message.role().to_string());
    names.collect::<Vec<_>>().join(" ")
}

/// A permission gate from a function.
pub struct Gate<F>(pub F);

#[async_trait]
impl<F> PermissionGate for Gate<F>
where
    F: Fn(&GateRequest) -> ToolDecision + Send + Sync + 'static,
{
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        Ok(self.0(request))
    }
}

/// A gate that asks about every call.
pub fn asking() -> impl PermissionGate {
    Gate(|request: &GateRequest| ToolDecision::ask(format!("run {}?", request.call.name)))
}

/// Returns the stored history of a session.
pub async fn stored(agent: &Agent, id: &str) -> Messages {
    let state = agent.session(id).state().await.unwrap();
    state.expect("the session exists").messages
}

/// Returns the ids of the sessions of the subagents that calls with this name and id started.
/// `call` is `PARENT:sub:NAME:CALL`; the ids have a dash and eight hexadecimal digits after it.
pub async fn child_sessions(store: &dyn SessionStore, call: &str) -> Vec<Arc<str>> {
    let list = store.list().await.unwrap().into_iter();
    let is_of_call = |id: &Arc<str>| {
        let end = id.strip_prefix(call).and_then(|end| end.strip_prefix('-'));
        end.is_some_and(|end| end.len() == 8 && end.chars().all(|c| c.is_ascii_hexdigit()))
    };
    list.map(|info| info.id).filter(is_of_call).collect()
}

/// Returns the id of the session of the subagent that a call started.
pub async fn child_session(store: &dyn SessionStore, call: &str) -> Arc<str> {
    let ids = child_sessions(store, call).await;
    assert_eq!(ids.len(), 1, "{ids:?}");
    ids[0].clone()
}

/// Returns the text of this name in `tests/data/subagents/texts.txt`.
pub fn text_of(name: &str) -> String {
    let lines = include_str!("../data/subagents/texts.txt").lines();
    let mut texts = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let text = texts.next().expect("the text is in the file");
    text.replace("\\n", "\n")
}

/// A tool that runs `child` in a new session; its result has the child's text and the results of
/// the child's own calls.
pub fn delegate(child: Agent) -> FuncTool {
    let run = move |cx: ToolContext, _args: Value| {
        let session = child.new_session();
        async move {
            let output = session.run_as_child(&cx, "Help").await?;
            let results = result_texts(&output.messages).join("; ");
            Ok::<_, BoxError>(format!("{} [{results}]", output.text))
        }
    };
    FuncTool::new("delegate", "Delegates", any_object(), run)
}
