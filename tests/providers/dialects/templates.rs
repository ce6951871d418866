//! Conversations with local servers whose templates are strict.

use agentcore::model::{Stability, SystemPrompt, ThinkingMode};
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::{Message, Messages, Model, ModelRequest, ToolCall};
use serde_json::json;

use crate::kit::doubles::chat::{Check, Double};
use crate::kit::doubles::template::{check_body, llama_cpp, lm_studio, vllm};

fn servers() -> [(Dialect, Check); 4] {
    [
        (Dialect::vllm(), vllm),
        (Dialect::llama_cpp(), llama_cpp),
        (Dialect::lm_studio(), lm_studio),
        // An unknown local server.
        (Dialect::compatible(), llama_cpp),
    ]
}

#[test]
fn double_refuses_what_the_templates_refuse() {
    let message = |role: &str| json!({"role": role, "content": "x"});
    let refusal = |roles: &[&str]| {
        let messages: Vec<_> = roles.iter().map(|role| message(role)).collect();
        check_body(&json!({"messages": messages}), &[])
            .err()
            .unwrap_or_default()
    };
    assert_eq!(
        refusal(&[
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "user"
        ]),
        ""
    );
    for roles in [
        &["system", "system", "user"][..],
        &["user", "assistant", "system"],
    ] {
        assert!(refusal(roles).contains("must be at the beginning"));
    }
    for roles in [
        &["user", "user"][..],
        &["assistant", "user"],
        &["user", "assistant", "assistant"],
    ] {
        assert!(refusal(roles).contains("must alternate"));
    }
    let body = json!({"messages": [{"role": "user", "content": [{"type": "file"}]}]});
    assert!(
        check_body(&body, &["text"])
            .unwrap_err()
            .contains("unsupported")
    );
}

#[tokio::test]
async fn later_system_message_becomes_text_of_the_user() {
    let mut system = SystemPrompt::new();
    system.set("a", "stable", Stability::Stable);
    system.set("b", "volatile", Stability::Volatile);
    let history = Messages::new()
        .system("first")
        .human("Hi")
        .with(Message::system("after the user"))
        .ai_calling("", [ToolCall::new("c1", "t", json!({}))])
        .tool("c1", "t", "seen")
        .with(Message::system("after the result"))
        .with(Message::ai("Yes."))
        .human("And?");
    for (dialect, check) in servers() {
        let (double, server) = Double::start(check, []).await;
        let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
        let request = ModelRequest::new(history.clone()).with_system(system.clone());
        model.call(request).await.unwrap();
        assert!(
            double.refusals().is_empty(),
            "{dialect:?}: {:?}",
            double.refusals()
        );
        let body = server.requests().pop().unwrap().json();
        let messages = &body["messages"];
        assert_eq!(messages[0]["content"], "stable\n\nfirst\n\nvolatile");
        assert_eq!(
            messages[1]["content"],
            "Hi\n\n<system>\nafter the user\n</system>"
        );
        let behind_result = "<system>\nafter the result\n</system>";
        assert_eq!(
            messages[4],
            json!({"role": "user", "content": behind_result})
        );
    }
}

#[tokio::test]
async fn later_system_message_stays_where_servers_take_it() {
    let history = Messages::from("Hi")
        .with(Message::ai("Yes."))
        .with(Message::system("now"))
        .human("And?");
    for dialect in [
        Dialect::openai(),
        Dialect::deepseek(),
        Dialect::openrouter(),
    ] {
        let (_, server) = Double::start(|_, _| Ok(()), []).await;
        let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
        model
            .call(ModelRequest::new(history.clone()))
            .await
            .unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_eq!(
            body["messages"][2],
            json!({"role": "system", "content": "now"})
        );
    }
}

#[tokio::test]
async fn thinking_is_switched_by_the_template() {
    let switch = |thinks: bool| json!({"enable_thinking": thinks});
    for (mode, kwargs, effort) in [
        (ThinkingMode::Disabled, switch(false), json!(null)),
        (
            ThinkingMode::Effort("none".into()),
            switch(false),
            json!(null),
        ),
        (ThinkingMode::Adaptive, switch(true), json!(null)),
        (
            ThinkingMode::Effort("low".into()),
            json!(null),
            json!("low"),
        ),
    ] {
        for dialect in [Dialect::vllm(), Dialect::llama_cpp()] {
            let (_, server) = Double::start(vllm, []).await;
            let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
            let mut request = ModelRequest::new("Hi");
            request.settings.thinking = Some(mode.clone());
            model.call(request).await.unwrap();
            let body = server.requests().pop().unwrap().json();
            assert_eq!(body["chat_template_kwargs"], kwargs, "{dialect:?} {mode:?}");
            assert_eq!(body["reasoning_effort"], effort, "{dialect:?} {mode:?}");
        }
    }
}
