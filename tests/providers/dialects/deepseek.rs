//! Conversations with a strict DeepSeek server.

use agentcore::AgentBuilder;
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::{FaultServer, Reply};
use serde_json::{Value, json};

use crate::kit::doubles::deepseek::check;
use crate::kit::echo;

fn call(id: &str, reasoning: &str) -> Value {
    let function = json!({"name": "echo", "arguments": "{\"text\":\"a\"}"});
    let call = json!({"index": 0, "id": id, "type": "function", "function": function});
    json!({"reasoning_content": reasoning, "content": null, "tool_calls": [call]})
}

async fn server(answers: Vec<Value>) -> FaultServer {
    let server = FaultServer::start().await.unwrap();
    let answers = std::sync::Mutex::new(answers.into_iter());
    server.respond(move |request| match check(&request.json()) {
        Ok(()) => {
            let message = answers.lock().unwrap().next().unwrap();
            let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
            Reply::json(200, json!({"id": "1", "choices": [choice]}).to_string())
        }
        Err(text) => Reply::json(400, json!({"error": {"message": text}}).to_string()),
    });
    server
}

#[test]
fn double_refuses_what_the_server_refuses() {
    let refusal = |body: Value| check(&body).err().unwrap_or_default();
    let answer = json!({"role": "assistant", "content": "ok"});
    let with_call = json!({"role": "assistant", "tool_calls": [], "reasoning_content": ""});
    assert_eq!(refusal(json!({"messages": [answer]})), "");
    let mixed = refusal(json!({"messages": [with_call, answer]}));
    assert!(mixed.contains("must be passed back"), "{mixed}");
    let with_tools = json!({"messages": [answer], "tools": []});
    assert!(refusal(with_tools.clone()).contains("must be passed back"));
    let mut disabled = with_tools;
    disabled["thinking"] = json!({"type": "disabled"});
    assert_eq!(refusal(disabled), "");
    let forced = json!({"messages": [], "tool_choice": "required"});
    assert!(refusal(forced).contains("tool_choice"));
    let format = json!({"messages": [], "response_format": {"type": "json_schema"}});
    assert!(refusal(format).contains("response_format"));
}

#[tokio::test]
async fn deepseek_history_without_reasoning_is_accepted() {
    let answers = vec![
        call("c1", "let me see"),
        call("c2", ""),
        json!({"content": "Done."}),
        json!({"content": "Again."}),
    ];
    let server = server(answers).await;
    let model = OpenAi::compatible(server.url(), "m").dialect(Dialect::deepseek());
    let agent = AgentBuilder::new(model).tool(echo()).build().unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.text, "Done.");
    let output = agent.session("s").run("Once more").await.unwrap();
    assert_eq!(output.text, "Again.");

    let body = server.requests().pop().unwrap().json();
    let messages = body["messages"].as_array().unwrap();
    let reasoning: Vec<_> = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message["reasoning_content"].as_str().unwrap())
        .collect();
    assert_eq!(reasoning, ["let me see", "", ""]);
}
