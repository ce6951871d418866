//! Agents that the tests serve.

use std::sync::Arc;

use agentcore::model::{ModelEvent, ModelRequest};
use agentcore::server::User;
use agentcore::testing::FunctionModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, Error, ErrorKind, FuncTool, Message, Result, ToolCall, ToolContext, ToolDecision,
    async_trait,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

/// An agent that answers every input with `You said: INPUT`.
pub fn echo() -> AgentBuilder {
    AgentBuilder::new(FunctionModel::new(|request| {
        vec![text(format!("You said: {}", last_text(&request)))]
    }))
}

/// An agent that calls the tool `name` once for each input, and then answers with `Done: RESULT`.
pub fn caller(name: &'static str, args: Value) -> AgentBuilder {
    AgentBuilder::new(FunctionModel::new(move |request| {
        match request.messages.last() {
            Some(Message::Tool(result)) => {
                vec![text(format!("Done: {}", result.content.text()))]
            }
            _ => {
                let id = format!("call_{}", request.messages.len());
                vec![Ok(ModelEvent::ToolCall(ToolCall::new(
                    id,
                    name,
                    args.clone(),
                )))]
            }
        }
    }))
}

pub fn text(text: String) -> Result<ModelEvent, Error> {
    Ok(ModelEvent::Text(text))
}

/// Returns the text of the last message of a request.
pub fn last_text(request: &ModelRequest) -> String {
    let message = request.messages.last();
    message.map_or_else(String::new, |message| message.content().text().to_string())
}

/// A gate that asks about every call.
pub struct AskAlways;

#[async_trait]
impl PermissionGate for AskAlways {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        Ok(ToolDecision::ask(format!("May {} run?", request.call.name)))
    }
}

/// Controls a tool that waits until the test lets it end, and that reports its calls.
pub struct Gate {
    open: Arc<Semaphore>,
    begun: mpsc::UnboundedReceiver<()>,
}

impl Gate {
    /// Creates the tool `wait` and its gate.
    pub fn new() -> (Self, FuncTool) {
        let open = Arc::new(Semaphore::new(0));
        let (sender, begun) = mpsc::unbounded_channel();
        let permits = open.clone();
        let tool = FuncTool::new(
            "wait",
            "Waits",
            json!({"type": "object"}),
            move |_cx: ToolContext, _args| {
                let (permits, sender) = (permits.clone(), sender.clone());
                async move {
                    sender.send(()).unwrap();
                    permits.acquire().await.unwrap().forget();
                    "waited"
                }
            },
        );
        (Self { open, begun }, tool)
    }

    /// Waits until a call has begun.
    pub async fn begun(&mut self) {
        crate::http::patiently(self.begun.recv()).await.unwrap();
    }

    /// Lets one call end.
    pub fn open(&self) {
        self.open.add_permits(1);
    }
}

/// Returns the body of a run with one input.
pub fn input(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

/// Returns the body of a run with one input in this thread.
pub fn input_in(thread: &str, text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}], "thread_id": thread})
}

/// A login that trusts a header, for tests with several users. Those named `admin` are admins.
pub fn login(parts: &axum::http::request::Parts) -> Result<User> {
    let name = parts.headers.get("x-user");
    let name = name.and_then(|name| name.to_str().ok());
    match name {
        Some("banned") => Err(Error::new(ErrorKind::PermissionDenied, "you are banned")),
        Some("admin") => Ok(User::admin("admin")),
        Some(name) => Ok(User::new(name)),
        None => Err(Error::new(ErrorKind::Auth, "log in first")),
    }
}
