//! Concurrent agents with each store: turns per second.
//!
//! A turn is an answer of the model with a call, and the result of the call. `files` and `database`
//! are in a folder below the current one, whose disk is measured. PostgreSQL and Redis are measured
//! if `AGENTCORE_TEST_POSTGRES` and `AGENTCORE_TEST_REDIS` name servers; each measurement uses
//! tables and keys of its own, which are not removed.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agentcore::session::{JsonlStore, SqliteStore};
use agentcore::testing::FunctionModel;
use agentcore::{
    Agent, AgentBuilder, BoxError, FuncTool, ModelEvent, Role, SessionStore, ThreadStore, ToolCall,
};
use futures::future::join_all;
use serde_json::json;

const AGENTS: [usize; 2] = [10, 100];

/// A model that makes `calls` calls of a tool, then answers.
fn model(calls: usize) -> FunctionModel {
    FunctionModel::new(move |request| {
        let messages = request.messages.as_slice();
        let since_input = messages.iter().rev();
        let since_input = since_input.take_while(|message| message.role() != Role::User);
        if since_input.count() / 2 >= calls {
            return vec![Ok(ModelEvent::Text("done".into()))];
        }
        let number = messages.len();
        let args = json!({"text": number.to_string()});
        let call = ToolCall::new(format!("call_{number}"), "echo", args);
        vec![Ok(ModelEvent::ToolCall(call))]
    })
}

fn echo() -> FuncTool {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    });
    FuncTool::new("echo", "Echoes the text.", schema, |_, args| async move {
        Ok::<_, BoxError>(args["text"].as_str().unwrap_or_default().to_owned())
    })
}

fn agent(turns: usize, store: &Arc<dyn SessionStore>) -> Agent {
    let builder = AgentBuilder::new(model(turns - 1)).tool(echo());
    builder.max_turns(0).store(store.clone()).build().unwrap()
}

/// Runs concurrent agents, and prints their turns per second.
async fn measure(name: &str, store: Arc<dyn SessionStore>, agents: usize, turns: usize) {
    let agent = agent(turns, &store);
    let start = Instant::now();
    let runs = (0..agents).map(|number| {
        let session = agent.session(format!("{agents} {number}"));
        tokio::spawn(session.run("Go").finish())
    });
    for end in join_all(runs).await {
        end.unwrap().unwrap();
    }
    let rate = (agents * turns) as f64 / start.elapsed().as_secs_f64();
    println!("{name:<10} {agents:>4} agents of {turns:>4} turns: {rate:>8.0} turns/s");
}

#[cfg(feature = "postgres")]
fn postgres() -> Option<Arc<dyn SessionStore>> {
    use agentcore::session::{PostgresStore, ServerOptions};

    let url = std::env::var("AGENTCORE_TEST_POSTGRES").ok()?;
    let options = ServerOptions::default().prefix(prefix());
    Some(Arc::new(
        PostgresStore::with_options(&url, options).unwrap(),
    ))
}

#[cfg(feature = "redis")]
fn redis() -> Option<Arc<dyn SessionStore>> {
    use agentcore::session::{RedisStore, ServerOptions};

    let url = std::env::var("AGENTCORE_TEST_REDIS").ok()?;
    let options = ServerOptions::default().prefix(prefix());
    Some(Arc::new(RedisStore::with_options(&url, options).unwrap()))
}

/// Returns a prefix that no other run of this program uses.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn prefix() -> String {
    format!("scale_{}", uuid::Uuid::new_v4().simple())
}

async fn measure_all(folder: &Path, turns: usize) {
    for agents in AGENTS {
        // The total number of turns is the same, so that each measurement takes a similar time.
        let turns = (turns / agents).max(2);
        measure("memory", Arc::new(ThreadStore::new()), agents, turns).await;
        let files = folder.join(format!("files-{agents}"));
        let files = JsonlStore::open(files).unwrap();
        measure("files", Arc::new(files), agents, turns).await;
        let database = folder.join(format!("{agents}.db"));
        let database = SqliteStore::open(database).unwrap();
        measure("database", Arc::new(database), agents, turns).await;
        #[cfg(feature = "postgres")]
        if let Some(store) = postgres() {
            measure("postgres", store, agents, turns).await;
        }
        #[cfg(feature = "redis")]
        if let Some(store) = redis() {
            measure("redis", store, agents, turns).await;
        }
    }
}

fn main() {
    // Without the argument that `cargo bench` adds, this is a test of the bench.
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let turns = if is_measured { 5_000 } else { 200 };
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(measure_all(folder.path(), turns));
}
