//! What models think: sent back to its own provider as it came, and to no other.

use agentcore::testing::{FaultServer, Reply};
use agentcore::{Agent, ThreadStore};
use serde_json::{Value, json};

use crate::faults_kit::{Api, BOTH, blocks, list};
use crate::kit::echo;

const SECRET_THOUGHT: &str = "let me see 4711";

fn on(api: Api, server: &FaultServer, store: &ThreadStore) -> Agent {
    let builder = api.agent(server).store(store.clone());
    builder.tool(echo()).build().unwrap()
}

/// What the server was sent last.
fn last(server: &FaultServer) -> Value {
    server.requests().last().unwrap().json()
}

fn thoughts() -> [Value; 3] {
    [
        json!({"type": "thinking", "thinking": SECRET_THOUGHT, "signature": "sig=="}),
        json!({"type": "thinking", "thinking": SECRET_THOUGHT, "signature": ""}),
        json!({"type": "redacted_thinking", "data": "b3BhcXVl"}),
    ]
}

#[tokio::test]
async fn m19_thinking_is_sent_back_as_it_came_signed_or_not() {
    for thought in thoughts() {
        let server = FaultServer::start().await.unwrap();
        let none = json!({"type": "odd_delta"});
        let call = json!({"type": "tool_use", "id": "c1", "name": "echo", "input": {}});
        let args = json!({"type": "input_json_delta", "partial_json": "{\"text\":\"a\"}"});
        let answer = [(thought.clone(), none), (call, args)];
        server.reply(blocks(answer.into_iter(), "tool_use"));
        server.anthropic_text("done");
        server.anthropic_text("again");
        let store = ThreadStore::new();
        let agent = on(Api::Anthropic, &server, &store);
        agent.session("s").run("Go").await.unwrap();
        agent.session("s").run("More").await.unwrap();
        for request in &server.requests()[1..] {
            let content = list(&request.json()["messages"][1]["content"]).to_vec();
            assert_eq!(content[0], thought);
            assert_eq!(content[1]["type"], "tool_use");
        }
    }
}

/// An answer with a thought in front of its text.
fn thinking(api: Api) -> Reply {
    match api {
        Api::Anthropic => {
            let text = json!({"type": "text", "text": ""});
            let said = json!({"type": "text_delta", "text": "Hello."});
            let none = json!({"type": "odd_delta"});
            let [thought, ..] = thoughts();
            blocks([(thought, none), (text, said)].into_iter(), "end_turn")
        }
        Api::OpenAi => {
            let delta = |delta: Value, finish: Option<&str>| {
                let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
                format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
            };
            Reply::sse([
                delta(json!({"reasoning_content": SECRET_THOUGHT}), None),
                delta(json!({"content": "Hello."}), None),
                delta(json!({}), Some("stop")),
                "data: [DONE]\n\n".to_owned(),
            ])
        }
    }
}

#[tokio::test]
async fn m21_another_provider_never_sees_what_one_thought() {
    for own in BOTH {
        let other = if own == Api::Anthropic {
            Api::OpenAi
        } else {
            Api::Anthropic
        };
        let server = FaultServer::start().await.unwrap();
        let store = ThreadStore::new();
        server.reply(thinking(own));
        let output = on(own, &server, &store).session("s").run("Hi").await;
        assert_eq!(output.unwrap().text, "Hello.");
        server.reply(other.text("Good day."));
        let agent = on(other, &server, &store);
        agent.session("s").run("And you?").await.unwrap();
        let sent = last(&server).to_string();
        assert!(sent.contains("Hello."), "{sent}");
        for foreign in [SECRET_THOUGHT, "sig==", "reasoning", "\"thinking\""] {
            assert!(!sent.contains(foreign), "{own:?} to {other:?}: {sent}");
        }
        server.reply(own.text("Back."));
        let agent = on(own, &server, &store);
        agent.session("s").run("Again?").await.unwrap();
        let sent = last(&server).to_string();
        assert!(sent.contains(SECRET_THOUGHT), "{own:?}: {sent}");
    }
}
