//! Sources of tools that hang or panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::testing::{ScriptedModel, Step};
use agentcore::tool::ToolSource;
use agentcore::{FuncTool, ModelEvent, Result, RunOutput, SdkMessage, Tool, async_trait};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::kit::{agent, any_object, echo, warnings, watch};

/// A source of `echo` that hangs from its call number `hangs_from` on, counted from 0.
struct Slow {
    name: &'static str,
    asked: AtomicUsize,
    hangs_from: usize,
}

impl Slow {
    fn new(name: &'static str, hangs_from: usize) -> Self {
        Self {
            name,
            asked: AtomicUsize::new(0),
            hangs_from,
        }
    }
}

#[async_trait]
impl ToolSource for Slow {
    fn name(&self) -> &str {
        self.name
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= self.hangs_from {
            std::future::pending::<()>().await;
        }
        Ok(vec![Arc::new(echo())])
    }
}

/// A source of `echo` whose version panics from its second call on.
#[derive(Default)]
struct WithoutVersion(AtomicUsize);

#[async_trait]
impl ToolSource for WithoutVersion {
    fn name(&self) -> &str {
        "shelf"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        Ok(vec![Arc::new(echo())])
    }

    fn version(&self) -> Option<u64> {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(count == 0, "no version");
        Some(1)
    }
}

/// A source of 40 tools, without a version.
struct Forty;

#[async_trait]
impl ToolSource for Forty {
    fn name(&self) -> &str {
        "forty"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        let tools = forty_tools().map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        Ok(tools.collect())
    }
}

fn forty_tools() -> impl Iterator<Item = FuncTool> {
    let names = (0..40).map(|number| format!("t{number}"));
    names.map(|name| FuncTool::new(name, "A tool", any_object(), |_, _| async { "" }))
}

/// Reads a run, which must end within an hour.
async fn watch_an_hour(run: agentcore::Run) -> (Vec<SdkMessage>, RunOutput) {
    let hour = Duration::from_secs(3_600);
    let (messages, output) = timeout(hour, watch(run)).await.expect("the run ends");
    (messages, output.unwrap())
}

#[tokio::test(start_paused = true)]
async fn hanging_tool_source_keeps_its_earlier_tools() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .call("echo", json!({"text": "b"}))
        .say("done");
    let script = model.clone();

    // The source is asked when the run begins and before each turn.
    let agent = agent(model)
        .tool_source(Slow::new("shelf", 2))
        .build()
        .unwrap();
    let (messages, output) = watch_an_hour(agent.run("Go")).await;
    assert_eq!(output.text, "done");
    for request in script.requests() {
        let offered: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(offered, ["echo"]);
    }

    let expected =
        "tool source `shelf` failed, its earlier tools stay: it did not answer within 30s";
    assert_eq!(warnings(&messages), [expected; 2]);
}

#[tokio::test]
async fn tool_that_hides_one_of_a_source_is_reported_once_in_a_run() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .call("echo", json!({"text": "b"}))
        .say("done");
    // The source has no version, so it is asked before each turn.
    let agent = agent(model)
        .tool(echo())
        .tool_source(Slow::new("shelf", usize::MAX))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    let warnings = warnings(&messages);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("hides"), "{warnings:?}");
}

#[tokio::test]
async fn warnings_about_many_tools_are_all_emitted_and_leave_room_for_others() {
    let step = Step::new()
        .and_event(ModelEvent::Warning("late".into()))
        .and_text("done");
    let agent = agent(ScriptedModel::new().step(step))
        .tools(forty_tools())
        .tool_source(Forty)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    let warnings = warnings(&messages);
    let hidden_count = warnings.iter().filter(|text| text.contains("hides"));
    assert_eq!(hidden_count.count(), 40);
    assert!(
        warnings.iter().any(|text| text.contains("late")),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn tool_source_whose_version_panics_keeps_its_earlier_tools() {
    let model = ScriptedModel::new().say("done");
    let script = model.clone();
    let agent = agent(model)
        .tool_source(WithoutVersion::default())
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    assert_eq!(&*script.requests()[0].tools[0].name, "echo");
    let expected = "tool source `shelf` failed, its earlier tools stay: it panicked: no version";
    assert_eq!(warnings(&messages), [expected]);
}

#[tokio::test(start_paused = true)]
async fn two_hanging_tool_sources_wait_for_one_timeout_together() {
    let agent = agent(ScriptedModel::new().say("done"))
        .tool_source(Slow::new("first", 1))
        .tool_source(Slow::new("second", 1))
        .build()
        .unwrap();
    let started = Instant::now();
    let (messages, output) = watch_an_hour(agent.run("Go")).await;
    assert_eq!(output.text, "done");
    assert_eq!(started.elapsed().as_secs(), 30);
    let warnings = warnings(&messages);

    // There is another warning, since both sources have the same tool.
    let failed: Vec<_> = warnings
        .iter()
        .filter(|text| text.contains("did not answer"))
        .map(|text| text.split('`').nth(1).unwrap_or_default())
        .collect();
    assert_eq!(failed, ["first", "second"]);
}
