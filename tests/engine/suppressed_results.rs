//! Hooks that suppress the result of a tool.

use agentcore::hooks::TracingHook;
use agentcore::testing::ScriptedModel;
use agentcore::trace::MemoryRecorder;
use agentcore::{FuncTool, ToolError, ToolOutput, ToolResult, hook};
use serde_json::json;

use crate::kit::keys::{Logged, listen};
use crate::kit::{agent, any_object, progress, results, stored, watch};

const TEXT: &str = "[output suppressed by hook]";

fn tool(fails: bool) -> FuncTool {
    FuncTool::new(
        "tool",
        "Says it",
        any_object(),
        move |_cx, _args| async move {
            let details = json!({"is": "private words"});
            if fails {
                return Err(ToolError::new("private words").with_details(details).into());
            }

            Ok::<_, agentcore::BoxError>(
                ToolOutput::new("private words")
                    .with_details(details)
                    .with_display("private words"),
            )
        },
    )
}

#[tokio::test]
async fn suppressed_result_is_absent_from_store_stream_and_traces() {
    for fails in [false, true] {
        let logged = Logged::default();
        let _listening = listen(logged.clone());
        let recorder = MemoryRecorder::new();
        let model = ScriptedModel::new().call("tool", json!({})).say("done");
        let suppress =
            hook::post_tool_use("suppress", |_cx, _call, result: ToolResult| async move {
                Ok(result.suppressed())
            });
        let agent = agent(model.clone())
            .tool(tool(fails))
            .hook(TracingHook::new().with_content(true))
            .hook(suppress)
            .trace_recorder(recorder.clone())
            .build()
            .unwrap();
        let (messages, output) = watch(agent.session("s").run("go")).await;
        let history = stored(&agent, "s").await;
        let result = &results(&history)[0];
        assert_eq!(result.content.text(), TEXT);
        assert_eq!(result.is_error, fails);
        assert_eq!((&result.details, &result.display), (&None, &None));
        assert_eq!(
            results(&model.requests()[1].messages)[0].content.text(),
            TEXT
        );
        let done = progress(&messages).pop().unwrap();
        assert_eq!(done.data.as_ref().unwrap()["output"], TEXT);
        let spans = recorder.spans();
        let call = spans.iter().find(|span| span.name == "tool.call").unwrap();
        assert_eq!(call.get("output_preview").unwrap(), TEXT);
        assert_eq!(call.get("output_length").unwrap(), TEXT.len());
        assert_eq!(call.get("error").is_some(), fails);
        let all = format!(
            "{}{output:?}{history:?}{spans:?}{}",
            serde_json::to_string(&messages).unwrap(),
            logged.text()
        );
        assert!(!all.contains("private"), "{all}");
        assert!(logged.text().contains(TEXT), "{}", logged.text());
    }
}

#[tokio::test]
async fn spans_of_calls_that_are_not_suppressed_have_their_output() {
    let recorder = MemoryRecorder::new();
    let agent = agent(ScriptedModel::new().call("tool", json!({})).say("done"))
        .tool(tool(false))
        .hook(TracingHook::new())
        .trace_recorder(recorder.clone())
        .build()
        .unwrap();
    agent.run("go").await.unwrap();
    let spans = recorder.spans();
    let call = spans.iter().find(|span| span.name == "tool.call").unwrap();
    assert_eq!(call.get("output_preview").unwrap(), "private words");
    assert!(call.duration.is_some());
}
