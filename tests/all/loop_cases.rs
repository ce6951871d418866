//! The loop: what it sends, in which order, and why it ends.

use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, ExitReason, FuncTool, Run, SdkMessage};
use futures::StreamExt;
use serde_json::json;

fn echo() -> FuncTool {
    FuncTool::new(
        "echo",
        "Says it again",
        json!({"type": "object"}),
        |_cx, args| async move { args["text"].as_str().unwrap_or_default().to_owned() },
    )
}

async fn collect(run: Run) -> Vec<SdkMessage> {
    run.collect().await
}

fn kinds(messages: &[SdkMessage]) -> Vec<String> {
    messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .map(|value| match value["subtype"].as_str() {
            Some(subtype) => format!("{}/{subtype}", value["type"].as_str().unwrap()),
            None => value["type"].as_str().unwrap().to_owned(),
        })
        .collect()
}

#[tokio::test]
async fn simple_text_response() {
    let agent = AgentBuilder::new(ScriptedModel::new().say("Hello"))
        .build()
        .unwrap();
    let messages = collect(agent.run("Hi")).await;
    assert_eq!(
        kinds(&messages),
        ["system/init", "assistant", "result/success"]
    );
    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(result.result.as_deref(), Some("Hello"));
    assert_eq!(result.terminal_reason.as_deref(), Some("completed"));
}

#[tokio::test]
async fn single_tool_call() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = AgentBuilder::new(model).tool(echo()).build().unwrap();
    let messages = collect(agent.run("Go")).await;
    assert_eq!(
        kinds(&messages),
        [
            "system/init",
            "assistant",
            "tool_progress",
            "tool_progress",
            "user",
            "assistant",
            "result/success"
        ]
    );
}

#[tokio::test]
async fn max_turns() {
    let mut model = ScriptedModel::new();
    for n in 0..3 {
        model = model.call("echo", json!({"text": n.to_string()}));
    }
    let agent = AgentBuilder::new(model)
        .tool(echo())
        .max_turns(3)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!((output.end, output.turns), (ExitReason::MaxTurns, 3));
    output.messages.validate_for_model().unwrap();
}
