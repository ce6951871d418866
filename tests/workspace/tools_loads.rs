//! Concurrent calls that load whole files and folders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::backend::{Backend, DirEntry, Metadata};
use agentcore::testing::ScriptedModel;
use agentcore::tools::wick;
use agentcore::{
    AgentBuilder, ExitReason, FuncTool, ModelEvent, Result, StopReason, ToolCall, async_trait,
};
use bytes::Bytes;
use serde_json::json;

/// A backend whose reads never end, and the number of reads in progress.
#[derive(Clone, Debug, Default)]
struct Endless(Arc<AtomicUsize>);

impl Endless {
    async fn read_forever<T>(&self) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}

#[async_trait]
impl Backend for Endless {
    fn root(&self) -> &str {
        "/workspace"
    }

    async fn read(&self, _path: &str) -> Result<Bytes> {
        self.read_forever().await
    }

    async fn read_range(&self, _path: &str, _offset: u64, len: usize) -> Result<Bytes> {
        Ok(vec![b'a'; len].into())
    }

    async fn stat(&self, _path: &str) -> Result<Metadata> {
        self.read_forever().await
    }

    async fn write(&self, _path: &str, _content: &[u8]) -> Result<()> {
        self.read_forever().await
    }

    async fn list(&self, _path: &str) -> Result<Vec<DirEntry>> {
        self.read_forever().await
    }

    async fn remove(&self, _path: &str) -> Result<()> {
        self.read_forever().await
    }
}

type MakeTool = fn(Endless) -> FuncTool;

#[tokio::test(start_paused = true)]
async fn few_calls_load_at_once_and_none_begins_after_a_stop() {
    let tools: [(&str, MakeTool); 3] =
        [("ls", wick::ls), ("glob", wick::glob), ("grep", wick::grep)];
    for (name, tool) in tools {
        let backend = Endless::default();
        let calls = (0..16)
            .map(|n| ToolCall::new(format!("c{n}"), name, json!({"path": "a", "pattern": "a"})));
        let events = calls.map(ModelEvent::ToolCall);
        let events = events
            .chain([ModelEvent::stop(StopReason::ToolUse)])
            .map(Ok);
        let model = ScriptedModel::new().events(events.collect());
        let agent = AgentBuilder::new(model).tool(tool(backend.clone()));
        let agent = agent.parallel_tools(16).build().unwrap();
        let run = agent.run("Go");
        let handle = run.handle();
        let running = tokio::spawn(async move { run.await.unwrap() });
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(backend.0.load(Ordering::Relaxed), 2, "{name}");
        handle.interrupt();
        assert_eq!(running.await.unwrap().end, ExitReason::Interrupted);
        assert_eq!(backend.0.load(Ordering::Relaxed), 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_turn_counts_against_no_timeout() {
    let backend = Endless::default();
    let calls = (0..6).map(|n| ToolCall::new(format!("c{n}"), "ls", json!({})));
    let events = calls.map(ModelEvent::ToolCall);
    let events = events
        .chain([ModelEvent::stop(StopReason::ToolUse)])
        .map(Ok);
    let model = ScriptedModel::new().events(events.collect()).say("Done.");
    let agent = AgentBuilder::new(model)
        .tool(wick::ls(backend.clone()))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();

    // The calls are concurrent: each of them has the full time.
    assert_eq!(backend.0.load(Ordering::Relaxed), 6);
    for message in output.messages.tool_messages() {
        assert!(message.text().contains("timed out"), "{}", message.text());
    }
}
