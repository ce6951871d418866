//! The strict model, which refuses requests that a provider would refuse.

use super::*;

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "tool", json!({}))
}

async fn refused(request: impl Into<ModelRequest>) -> String {
    let model = StrictModel::new(FunctionModel::text(|_| "ok".into()));
    match model.call(request.into()).await {
        Ok(_) => String::new(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert_eq!(model.violations().join("; "), error.text());
            error.to_string()
        }
    }
}

#[tokio::test]
async fn legal_history_is_accepted() {
    let legal = Messages::new()
        .system("rules")
        .human("hi")
        .human("again")
        .ai_calling("", [call("1"), call("2")])
        .tool("2", "tool", "out of order is fine")
        .tool("1", "tool", "ok")
        .human("and")
        .ai("done")
        .human("more");
    assert_eq!(refused(legal).await, "");
    let unparsed = Messages::new()
        .human("hi")
        .with(Message::ai_calling(
            "",
            [ToolCall::from_raw("1", "tool", "{oops")],
        ))
        .tool("1", "tool", "Error: not JSON");
    assert_eq!(refused(unparsed).await, "");
}

#[tokio::test]
async fn each_violation_is_rejected_with_its_index() {
    let base = || Messages::new().human("hi");
    let cases = [
        (Messages::new(), "there is no message"),
        (Messages::new().system("only"), "there is no message"),
        (
            Messages::new().ai("me first"),
            "message[0]: the conversation begins",
        ),
        (Messages::new().tool("1", "t", "x"), "message[0]"),
        (base().ai("a").ai("b"), "message[2]: two assistant messages"),
        (
            base().ai(" 
"),
            "message[1]: nothing but whitespace",
        ),
        (
            base()
                .ai_calling("", [call("1")])
                .system("x")
                .tool("1", "tool", "y"),
            "message[1]: the call \"1\" has no result",
        ),
        (
            base().with(Message::human(agentcore::Content::new())),
            "message[1]: empty content",
        ),
        (
            base().with(Message::ai(agentcore::Content::new())),
            "message[1]: empty content",
        ),
        (
            base().with(Message::ai([Part::text("a"), Part::text("")])),
            "message[1]: an empty text block",
        ),
        (
            base().ai_calling("", [call("1")]),
            "message[1]: the call \"1\" has no result",
        ),
        (
            base()
                .ai_calling("", [call("1")])
                .human("x")
                .tool("1", "tool", "late"),
            "message[1]: the call \"1\" has no result",
        ),
        (
            base()
                .ai_calling("", [call("1")])
                .tool("1", "tool", "x")
                .tool("1", "tool", "y"),
            "message[3]: a second result",
        ),
        (
            base().ai_calling("", [call("1")]).tool("2", "tool", "x"),
            "message[2]: a result for \"2\"",
        ),
        (
            base()
                .ai_calling("", [call("1"), call("1")])
                .tool("1", "tool", "x")
                .tool("1", "tool", "x"),
            "used twice",
        ),
        (
            base().ai_calling("", [call("")]).tool("", "tool", "x"),
            "a call without an id",
        ),
        (
            base()
                .ai_calling("", [ToolCall::new("1", "", json!({}))])
                .tool("1", "", "x"),
            "without a tool's name",
        ),
        (
            base()
                .ai_calling("", [ToolCall::new("1", "tool", json!([1]))])
                .tool("1", "tool", "x"),
            "not an object",
        ),
        (
            base().with(Message::human(Part::ToolCall(call("1")))),
            "only the model may write",
        ),
    ];
    for (messages, expected) in cases {
        let text = refused(messages.clone()).await;
        assert!(
            text.contains(expected),
            "{expected}: got {text:?} for {messages:?}"
        );
    }
}

#[tokio::test]
async fn invalid_limits_and_tool_definitions_are_rejected() {
    let tool = |name: &str, schema| ToolDefinition::new(name, "", schema);
    let object = || json!({"type": "object"});
    let with = |tools: Vec<ToolDefinition>| ModelRequest::new("hi").with_tools(tools);
    assert!(
        refused(ModelRequest::new("hi").with_max_output_tokens(0))
            .await
            .contains("max_output_tokens")
    );
    assert!(
        refused(with(vec![tool("a b", object())]))
            .await
            .contains("tools[0]")
    );
    assert!(
        refused(with(vec![tool(&"x".repeat(65), object())]))
            .await
            .contains("tools[0]")
    );
    assert!(
        refused(with(vec![tool("a", object()), tool("a", object())]))
            .await
            .contains("tools[1]")
    );
    assert!(
        refused(with(vec![tool("a", json!({"type": "string"}))]))
            .await
            .contains("schema")
    );
    assert_eq!(refused(with(vec![tool("a", object())])).await, "");
}

#[tokio::test]
async fn changed_thinking_block_is_rejected() {
    let raw = r#"{"type":"thinking", "thinking":"", "signature":"s"}"#;
    let script = ScriptedModel::new()
        .step(
            Step::new()
                .and_thinking("hm", block("anthropic", raw))
                .and_text("a"),
        )
        .say("b");
    let model = StrictModel::new(script);
    let answer = model.call(ModelRequest::new("hi")).await.unwrap();
    let history = |message: Message| Messages::new().human("hi").with(message).human("go on");
    let changed = [
        Part::Thinking(block("anthropic", &raw.replace(' ', ""))),
        "a".into(),
    ];
    let error = model
        .call(history(Message::ai(changed)).into())
        .await
        .unwrap_err();
    assert!(
        error.text().starts_with("message[1]: a thinking block"),
        "{error}"
    );
    let messages_with_answer = history(answer.message().into());
    model
        .call(messages_with_answer.clone().into())
        .await
        .unwrap();

    let stranger = StrictModel::new(FunctionModel::text(|_| "ok".into()));
    assert!(
        stranger
            .call(messages_with_answer.clone().into())
            .await
            .is_err()
    );
    let model_with_history =
        StrictModel::new(FunctionModel::text(|_| "ok".into())).knowing(&messages_with_answer);
    assert!(
        model_with_history
            .call(messages_with_answer.into())
            .await
            .is_ok()
    );
}
