//! Size limits of tool results.

use agentcore::message::Media;
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::tool::TaskOutcome;
use agentcore::{
    AgentBuilder, Answer, BoxError, Decision, FuncTool, OnUnanswered, Part, SdkMessage, ToolCall,
    ToolDecision, ToolOutput, ToolResult, hook,
};
use serde_json::{Value, json};

use crate::kit::{any_object, asking, result_texts, results, watch};

const LIMIT: usize = 8 * 1024 * 1024;

fn agent(tool: FuncTool) -> AgentBuilder {
    let model = ScriptedModel::new().call("act", json!({})).say("done");
    AgentBuilder::new(model).tool(tool)
}

async fn result(builder: AgentBuilder) -> ToolResult {
    let output = builder.build().unwrap().run("go").await.unwrap();
    results(&output.messages).remove(0)
}

fn small() -> FuncTool {
    FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
        "small"
    })
}

fn capacity(result: &ToolResult) -> usize {
    let texts = result.content.parts().iter().map(|part| match part {
        Part::Text(text) => text.capacity(),
        _ => 0,
    });
    texts.sum()
}

#[tokio::test]
async fn large_result_is_cut_to_the_default_limit_and_its_memory_is_released() {
    let text = FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
        "x".repeat(4 * LIMIT)
    });

    let error = FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
        Err::<String, BoxError>("x".repeat(4 * LIMIT).into())
    });

    let failed = FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
        ToolOutput::error("x".repeat(4 * LIMIT))
    });

    for (tool, is_error) in [(text, false), (error, true), (failed, true)] {
        let result = result(agent(tool)).await;
        let text = result.content.text();
        assert_eq!(result.is_error, is_error);
        // A line end takes two bytes in JSON, so the text is one byte shorter.
        assert_eq!(text.len(), LIMIT - 1);
        assert!(text.ends_with("\n... (cut: 33554432 bytes are more than the limit of 8388608)"));
        assert_eq!(text.matches("... (cut").count(), 1);
        assert!(capacity(&result) <= LIMIT + 64, "{}", capacity(&result));
    }
}

#[tokio::test]
async fn result_at_the_limit_is_unchanged() {
    let tool = FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
        "é".repeat(1_000)
    });
    let result = result(agent(tool).max_result_bytes(2_000)).await;
    assert_eq!(result.content.text(), "é".repeat(1_000));
}

#[tokio::test]
async fn result_is_measured_as_it_stands_in_a_request() {
    for text in ["\u{1}", "\"", "é"] {
        let tool = FuncTool::new(
            "act",
            "Acts",
            any_object(),
            move |_cx, _: Value| async move { text.repeat(2_000) },
        );

        let result = result(agent(tool).max_result_bytes(2_000)).await;
        let text = result.content.text();
        let json = serde_json::to_string(&text).unwrap();
        assert!((1_990..=2_002).contains(&json.len()), "{}", json.len());
        assert!(text.contains("bytes are more than the limit of 2000"));
    }
}

#[tokio::test]
async fn results_changed_by_hooks_are_limited() {
    let after = hook::post_tool_use("long", |_, _, mut result: ToolResult| async move {
        result.content.push_text(&"y".repeat(5_000));
        Ok(result)
    });

    let around = hook::wrap_tool_call("long", |call: ToolCall, _next| async move {
        Ok(ToolResult::ok(&call, "y".repeat(5_000)))
    });

    let before = hook::pre_tool_use("long", |_, _| async {
        Ok(ToolDecision::proceed().with_context("y".repeat(5_000)))
    });

    for hook in [after, around, before] {
        let result = result(agent(small()).hook(hook).max_result_bytes(2_000)).await;
        let text = result.content.text();
        assert!((1_990..2_000).contains(&text.len()), "{}", text.len());
        assert!(text.contains("y\n... (cut: "));
    }
}

#[tokio::test]
async fn media_beyond_the_limit_is_replaced_by_an_error_text() {
    let tool = || {
        FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async {
            let image = Media::bytes("image/png", &[0; 3_000]);
            let parts = [Part::text("a picture"), Part::Image(image)];
            ToolOutput::new(agentcore::Content::from_iter(parts))
        })
    };

    let limited = agent(tool()).max_result_bytes(2_000);
    let output = limited.build().unwrap().run("go").await.unwrap();
    let text = result_texts(&output.messages).remove(0);
    assert!(text.starts_with("a picture"), "{text}");
    assert!(
        text.contains("Error: the image of 4009 bytes was left out"),
        "{text}"
    );
    assert_eq!(result(agent(tool())).await.content.parts().len(), 2);
}

#[tokio::test]
async fn reply_of_a_person_is_cut_to_the_limit_with_its_details() {
    let reply = || Answer::Reply {
        text: "x".repeat(100_000),
        picked: vec![0; 100_000],
    };
    let builder = || agent(small()).permissions(asking()).max_result_bytes(2_000);
    let agent = builder().build().unwrap();
    let mut run = agent.run("go");
    let responder = run.responder();
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            responder.respond(request, reply());
        }
    }
    let answered = run.into_output().unwrap();

    let agent = builder().unanswered(OnUnanswered::Park).build().unwrap();
    let output = agent.session("s").run("go").await.unwrap();
    let mut decision = Decision::allow(&output.pending()[0]);
    decision.answer = reply();
    let resumed = agent.session("s").resume(decision).await.unwrap();

    for output in [answered, resumed] {
        let result = results(&output.messages).remove(0);
        assert!(!result.is_error);
        let text = result.content.text();
        assert!(text.len() <= 2_000, "{}", text.len());
        assert!(text.starts_with("xxx"), "{text}");
        assert_eq!(result.details, None);
    }
}

#[tokio::test]
async fn outcome_of_a_background_task_is_cut_to_the_limit() {
    for failed in [false, true] {
        let begin = FuncTool::new(
            "act",
            "Acts",
            any_object(),
            move |cx, _: Value| async move {
                let outcome = if failed {
                    TaskOutcome::Failed("x".repeat(100_000))
                } else {
                    TaskOutcome::Completed("x".repeat(100_000))
                };

                cx.tasks().spawn("long", async { outcome });
                "begun"
            },
        );
        let model = ScriptedModel::new()
            .call("act", json!({}))
            .call("act", json!({}))
            .say("done");
        let agent = AgentBuilder::new(model).tool(begin).max_result_bytes(2_000);
        let (shown, output) = watch(agent.build().unwrap().run("go")).await;
        let note = "... (cut: 100000 bytes are more than the limit of 2000)";
        let output = output.unwrap();
        let texts = output
            .messages
            .iter()
            .map(|message| message.text().into_owned());
        let texts: Vec<_> = texts.filter(|text| text.contains("Task 'long'")).collect();
        assert!(!texts.is_empty());
        for text in texts {
            assert!(text.len() < 2_200 && text.ends_with(note), "{}", text.len());
        }

        let notified = shown.iter().filter_map(|message| match message {
            SdkMessage::System(event) => match &event.kind {
                SystemKind::TaskNotification(note) => Some(note.summary.len()),
                _ => None,
            },
            _ => None,
        });

        assert!(notified.inspect(|len| assert_eq!(*len, 1_999)).count() > 0);
    }
}
