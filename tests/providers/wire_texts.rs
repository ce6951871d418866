//! Strings that servers refuse: they are changed in requests, and unchanged in the history.

use agentcore::providers::{Anthropic, Ollama, OpenAi};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Messages, Model, ModelRequest, ToolCall};
use serde_json::{Value, json};

/// Returns the arguments of the call in `history` as each of the three APIs receives them.
async fn sent(history: &Messages) -> [Value; 3] {
    let server = FaultServer::start().await.unwrap();
    server.anthropic_text("ok");
    server.openai_text("ok");
    server.reply(Reply::ollama_text("ok"));
    let url = server.url();
    let models: [Box<dyn Model>; 3] = [
        Box::new(Anthropic::new("claude-sonnet-4-5", "sk-test").base_url(&url)),
        Box::new(OpenAi::compatible(&url, "m")),
        Box::new(Ollama::new("m").base_url(&url)),
    ];
    for model in &models {
        model
            .call(ModelRequest::new(history.clone()))
            .await
            .unwrap();
    }

    let bodies: Vec<_> = server.requests().iter().map(|one| one.json()).collect();
    let arguments =
        |body: &Value| body["messages"][1]["tool_calls"][0]["function"]["arguments"].clone();
    let text = arguments(&bodies[1]);
    [
        bodies[0]["messages"][1]["content"][0]["input"].clone(),
        serde_json::from_str(text.as_str().unwrap()).unwrap(),
        arguments(&bodies[2]),
    ]
}

fn history(call: ToolCall) -> Messages {
    Messages::from("Go")
        .ai_calling("", [call])
        .tool("1", "f", "done")
}

#[tokio::test]
async fn nul_in_arguments_is_replaced_on_the_wire_and_kept_in_the_history() {
    let raw = r#"{"text":"a\u0000b","path":"C:\\u0000"}"#;
    let expected = json!({"text": "a\u{FFFD}b", "path": "C:\\u0000"});
    for call in [
        ToolCall::from_raw("1", "f", raw.to_owned()),
        ToolCall::new("1", "f", serde_json::from_str::<Value>(raw).unwrap()),
    ] {
        let history = history(call.clone());
        for args in sent(&history).await {
            assert_eq!(args, expected);
        }
        let stored_call = history.get(1).unwrap().tool_calls().next().unwrap().clone();
        assert_eq!(
            (stored_call.args, stored_call.raw_args),
            (call.args, call.raw_args)
        );
    }
}

#[tokio::test]
async fn lone_surrogate_in_arguments_is_replaced_on_the_wire() {
    let mut call = ToolCall::from_raw("1", "f", r#"{"face":"\ud83d\ude00"}"#.to_owned());
    call.raw_args = Some(r#"{"face":"\ud83d\ude00","half":"\ud83d!"}"#.into());
    for args in sent(&history(call.clone())).await {
        assert_eq!(args, json!({"face": "\u{1F600}", "half": "\u{FFFD}!"}));
    }
}
