//! Session stores that hang.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::session::Record;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentState, ErrorKind, ExitReason, Result, ThreadStore, async_trait};
use serde_json::json;

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{agent, echo, warnings, watch};

/// A time far longer than the timeout of a store.
const LONG: Duration = Duration::from_secs(3_600);

struct NeverSaves;

#[async_trait]
impl Spy for NeverSaves {
    async fn save(&self, _: &AgentState) -> Result<()> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_store_at_the_end_of_a_run_does_not_block_its_stop() {
    let agent = agent(ScriptedModel::new().say("hi"))
        .store(Spied(ThreadStore::new(), NeverSaves))
        .max_duration(Duration::from_secs(2))
        .build()
        .unwrap();
    let ended = tokio::time::timeout(LONG, watch(agent.session("s").run("Hello"))).await;
    let (messages, output) = ended.expect("the run ends");
    assert_eq!(output.unwrap().text, "hi");
    let text = warnings(&messages).join("\n");
    assert!(text.contains("did not answer within 10s"), "{text}");
}

/// Hangs in the append with this number.
struct HangsAt(usize, AtomicUsize);

#[async_trait]
impl Spy for HangsAt {
    async fn append(&self, _: &[Record]) -> Result<()> {
        if self.1.fetch_add(1, Ordering::SeqCst) == self.0 {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_store_inside_a_run_does_not_block_its_stop() {
    for at in 0..4 {
        let model = ScriptedModel::new()
            .call("echo", json!({"text": "a"}))
            .say("hi");
        model.allow_unused();
        let agent = agent(model)
            .tool(echo())
            .store(Spied(ThreadStore::new(), HangsAt(at, AtomicUsize::new(0))))
            .max_duration(Duration::from_secs(2))
            .build()
            .unwrap();
        let ended = tokio::time::timeout(LONG, agent.session("s").run("Hello")).await;
        match ended.expect("the run ends") {
            Ok(output) => assert_eq!(output.end, ExitReason::MaxDuration, "{at}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{at}: {error}"),
        }
    }
}
