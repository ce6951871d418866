//! Keys of this process in the outputs of tools.

use agentcore::hook::FnHook;
use agentcore::message::Media;
use agentcore::testing::ScriptedModel;
use agentcore::tool::TaskOutcome;
use agentcore::{
    Answer, BoxError, Content, FuncTool, ModelResponse, OnUnanswered, Part, SdkMessage, Secret,
    ToolContext, ToolDecision, ToolError, ToolOutput, ToolResult, hook,
};
use serde_json::json;

use crate::kit::{Log, agent, any_object, results, watch};

/// Returns all texts that a program can see of one call of `tool`, including hooks and the model.
async fn all_texts(tool: FuncTool) -> String {
    let log = Log::default();
    let (hook_log, model_log) = (log.clone(), log.clone());
    let model = ScriptedModel::new()
        .call("tool", json!({}))
        .expect(move |request| model_log.add(format!("{:?}", request.messages)))
        .say("done");
    let around = hook::wrap_tool_call("around", move |call, next| {
        let hook_log = hook_log.clone();
        async move {
            let result = next.run(call).await?;
            hook_log.add(format!("{result:?}"));
            Ok(result)
        }
    });

    let agent = agent(model).tool(tool).hook(around).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let mut all = log.take().join("\n");
    for message in &messages {
        all.push_str(&serde_json::to_string(message).unwrap());
    }

    all.push_str(&format!("{:?}", output.unwrap().messages));
    let state = agent.session("s").state().await.unwrap();
    all.push_str(&serde_json::to_string(&state).unwrap());
    all
}

/// A tool that emits `key` in its progress, and in its result or its error.
fn leaking_tool(key: &'static str, fails: bool) -> FuncTool {
    FuncTool::new(
        "tool",
        "Tells",
        any_object(),
        move |cx: ToolContext, _args| async move {
            cx.progress(json!({"line": format!("KEY={key}"), key: 1}))
                .await;
            let text = format!("HOME=/root\nKEY={key}\nTWICE={key}{key}\n");
            let details = json!({"lines": [text.clone(), 1, null], "deep": {key: {"is": key}}});
            if fails {
                return Err(ToolError::new(text).with_details(details).into());
            }

            Ok(ToolOutput::new(text.clone())
                .with_details(details)
                .with_display(text))
        },
    )
}

#[tokio::test]
async fn known_key_is_redacted_from_results_and_errors() {
    const KEY: &str = "sk-known-0123456789";
    let _known = Secret::new(KEY);
    for fails in [false, true] {
        let seen = all_texts(leaking_tool(KEY, fails)).await;
        assert!(!seen.contains("sk-known"), "{seen}");
        assert!(
            seen.contains("KEY=[redacted]\\nTWICE=[redacted][redacted]"),
            "{seen}"
        );
    }
}

/// Returns the result of a tool that returns `returned`, with the smallest limit for results.
async fn cut_result(returned: Result<ToolOutput, String>) -> ToolResult {
    let tool = FuncTool::new("tool", "Returns", any_object(), move |_cx, _args| {
        let returned = returned.clone();
        async move { returned.map_err(BoxError::from) }
    });
    let model = ScriptedModel::new().call("tool", json!({})).say("done");
    let agent = agent(model).tool(tool).max_result_bytes(1024);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    results(&output.messages).remove(0)
}

#[tokio::test]
async fn limit_of_results_leaves_no_part_of_a_key() {
    const KEY: &str = "sk-zqxwvkjzqhgwxyqzvkjwqxzgkqvwzxhjqkzvw";
    let _known = Secret::new(KEY);
    for len in 900..=1000 {
        let text = format!("{}{KEY}{}", ".".repeat(len), ",".repeat(200));
        let outputs = [
            Ok(ToolOutput::new(text.clone())),
            Ok(ToolOutput::error(text.clone())),
            Ok(ToolOutput::new("short").with_display(text.clone())),
            Err(text),
        ];
        for output in outputs {
            let seen = format!("{:?}", cut_result(output).await);
            assert!(seen.contains("more than the limit of 1024"), "{seen}");
            let mut parts = (0..=KEY.len() - 4).map(|start| &KEY[start..start + 4]);
            assert!(!parts.any(|part| seen.contains(part)), "{seen}");
        }
    }
}

#[tokio::test]
async fn key_that_continues_in_later_texts_of_a_result_is_redacted() {
    const KEY: &str = "sk-parts-0123456789-\u{e4}bc";
    // Base64 of the key.
    const ENCODED: &str = "c2stcGFydHMtMDEyMzQ1Njc4OS3DpGJj";
    let _known = Secret::new(KEY);
    let image = || Part::Image(Media::bytes("image/png", b"image"));
    let mut contents: Vec<(Content, usize)> = Vec::new();
    for secret in [KEY, ENCODED] {
        let text = format!("a {secret} b");
        let mut by_character = Content::new();
        for character in text.chars() {
            by_character.push(character.to_string());
        }
        contents.push((by_character, 5));
        for (cut, _) in secret.char_indices().skip(1) {
            let (start, end) = text.split_at("a ".len() + cut);
            let [start, end] = [start, end].map(Part::text);
            let empty = Part::text("");
            contents.push(([start.clone(), end.clone()].into(), 2));
            contents.push(([start.clone(), image(), end.clone()].into(), 3));
            contents.push(([start, empty, end].into(), 2));
        }
    }

    for (content, part_count) in contents {
        let result = cut_result(Ok(ToolOutput::new(content.clone()))).await;
        assert_eq!(result.content.text(), "a [redacted] b", "{content:?}");
        assert_eq!(result.content.parts().len(), part_count, "{content:?}");
        let result = cut_result(Ok(ToolOutput::error(content.clone()))).await;
        let text = result.content.text().into_owned();
        let text = text.strip_prefix("Error: ").unwrap_or(&text);
        assert_eq!(text, "a [redacted] b", "{content:?}");
    }
}

#[tokio::test]
async fn texts_of_a_result_without_a_key_stay() {
    let _known = Secret::new("sk-parts-9876543210");
    let content = Content::from(["sk-parts", "-98765432 10"].map(Part::text));
    let result = cut_result(Ok(ToolOutput::new(content.clone()))).await;
    assert_eq!(result.content, content);
    let key_in_one = Content::from(["x sk-parts-9876543210", " y"].map(Part::text));
    let result = cut_result(Ok(ToolOutput::new(key_in_one))).await;
    let expected = Content::from(["x [redacted]", " y"].map(Part::text));
    assert_eq!(result.content, expected);
}

#[tokio::test]
async fn dropped_and_placeholder_secrets_are_not_redacted() {
    const GONE: &str = "sk-gone-0123456789";
    const SHORT: &str = "placeholder";
    let (_short, twin) = (Secret::new(SHORT), Secret::new(GONE));
    let dropped_secret = Secret::new(GONE);
    drop(dropped_secret.clone());
    drop(dropped_secret);
    assert!(
        !all_texts(leaking_tool(GONE, false)).await.contains(GONE),
        "one is left"
    );
    drop(twin);
    for text in [GONE, SHORT] {
        assert!(
            all_texts(leaking_tool(text, false)).await.contains(text),
            "{text}"
        );
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn provider_key_is_redacted_from_panics() {
    const KEY: &str = "sk-provider-0123456789";
    let panics = FuncTool::new("tool", "Panics", any_object(), |_cx, _args| async {
        if KEY.len() > 1 {
            panic!("no {KEY} here");
        }
    });
    let provider = agentcore::providers::OpenAi::new("gpt-4o", format!("{KEY}\n"));
    let seen = all_texts(panics).await;
    assert!(seen.contains("panicked: no [redacted] here"), "{seen}");
    drop(provider);
}

/// The outcome of a background task is reported to the model and the reader.
#[tokio::test]
async fn key_in_a_background_task_outcome_is_redacted() {
    const KEY: &str = "sk-aside-0123456789";
    let _known = Secret::new(KEY);
    let starts = FuncTool::new(
        "tool",
        "Starts",
        any_object(),
        |cx: ToolContext, _args| async move {
            cx.tasks().spawn("aside", async {
                TaskOutcome::Completed(format!("found {KEY}"))
            });

            "started"
        },
    );
    let seen = all_texts(starts).await;
    assert!(!seen.contains("sk-aside"), "{seen}");
    assert!(seen.contains("found [redacted]"), "{seen}");
}

#[tokio::test]
async fn key_in_a_question_of_a_tool_is_redacted() {
    const KEY: &str = "sk-question-0123456789";
    let _known = Secret::new(KEY);
    let run = |cx: ToolContext, _args| async move {
        cx.ask(format!("Is {KEY} yours?")).await;
        let error = ToolError::new("no answer").with_question(format!("Is {KEY} right?"));
        Err::<String, BoxError>(error.into())
    };
    let agent = agent(ScriptedModel::new().call("tool", json!({})))
        .tool(FuncTool::new("tool", "Asks", any_object(), run))
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let mut run = agent.session("s").run("Go");
    let responder = run.responder();
    let mut seen = String::new();
    while let Some(message) = run.next().await {
        seen.push_str(&serde_json::to_string(&message).unwrap());
        if let SdkMessage::PermissionRequest(request) = &message {
            assert_eq!(request.question, "Is [redacted] yours?");
            responder.respond(request, Answer::Unanswered);
        }
    }
    let output = run.into_output().unwrap();
    assert_eq!(output.pending()[0].question, "Is [redacted] right?");
    let state = agent.session("s").state().await.unwrap();
    seen.push_str(&serde_json::to_string(&state).unwrap());
    assert!(!seen.contains("sk-question"), "{seen}");
}

/// Returns all output of a run with a call and this hook.
async fn seen_with(hook: FnHook) -> String {
    let tool = FuncTool::new("tool", "Runs", any_object(), |_, _| async { "ran" });
    let model = ScriptedModel::new().call("tool", json!({})).say("done");
    let agent = agent(model).tool(tool).hook(hook).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let mut seen = format!("{:?}", output.unwrap().messages);
    for message in &messages {
        seen.push_str(&serde_json::to_string(message).unwrap());
    }
    seen
}

#[tokio::test]
async fn texts_of_hooks_in_results_have_no_secrets() {
    let secret = Secret::new("sk-context-7c41e9b02d");
    let text = format!("the key is {}", secret.expose());
    let context = text.clone();
    let add = hook::pre_tool_use("add", move |_cx, _call| {
        let decision = ToolDecision::proceed().with_context(context.clone());
        async move { Ok(decision) }
    });
    let change = hook::post_tool_use("change", move |_cx, call, _result| {
        let result = ToolResult::ok(&call, text.clone());
        async move { Ok(result) }
    });
    for hook in [add, change] {
        let seen = seen_with(hook).await;
        assert!(seen.contains("the key is [redacted]"), "{seen}");
        assert!(!seen.contains("sk-context"), "{seen}");
    }
}

#[tokio::test]
async fn responses_of_hooks_have_no_secrets() {
    let secret = Secret::new("sk-response-5d20c8e1fa");
    let (start, end) = secret.expose().split_at(9);
    let contents = [
        Content::from(format!("the key is {}", secret.expose())),
        Content::from([format!("the key is {start}"), end.to_owned()].map(Part::text)),
    ];
    for content in contents {
        let response = ModelResponse::new(content);
        let answer = hook::wrap_model_call("answer", move |_request, _next| {
            let response = response.clone();
            async move { Ok(response) }
        });
        let seen = seen_with(answer).await;
        assert!(seen.contains("the key is [redacted]"), "{seen}");
        assert!(!seen.contains("sk-resp") && !seen.contains(end), "{seen}");
    }
}

#[tokio::test]
async fn reason_of_a_denial_has_no_secrets() {
    let secret = Secret::new("sk-denial-4e07a1b95c");
    let reason = format!("{}{}", "x".repeat(9_990), secret.expose());
    let deny = hook::pre_tool_use("deny", move |_cx, _call| {
        let reason = reason.clone();
        async move { Ok(ToolDecision::deny(reason)) }
    });
    let seen = seen_with(deny).await;
    assert!(seen.contains("permission_denied") && seen.contains("[redacted"));
    assert!(!seen.contains("sk-denial"), "{seen}");
}

/// A file of a project sets permissions, and neither an endpoint nor a key.
#[test]
fn permission_config_rejects_endpoints_and_keys() {
    use agentcore::permission::PermissionConfig;
    for name in [
        "base_url",
        "api_key",
        "apiKeyHelper",
        "env",
        "hooks",
        "model",
    ] {
        let file = json!({"allow": ["Read"], name: "x"});
        let error = PermissionConfig::from_json(&file.to_string()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("unknown field `{name}`")),
            "{error}"
        );
    }
}
