//! What models think: sent back to its own provider as it came, and to no other.

use agentcore::providers::{Anthropic, Ollama, OpenAi};
use agentcore::testing::fault_server::Action;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Agent, Message, Messages, Part, ThreadStore, hook};
use serde_json::{Value, json};

use crate::faults_kit::{Api, assert_accepted, blocks, list};
use crate::kit::{agent, echo};

const SECRET_THOUGHT: &str = "let me see 4711";

/// What the server was sent last.
fn last(server: &FaultServer) -> String {
    String::from_utf8(server.requests().pop().unwrap().body.to_vec()).unwrap()
}

fn thoughts() -> [Value; 3] {
    [
        json!({"type": "thinking", "thinking": SECRET_THOUGHT, "signature": "sig=="}),
        json!({"type": "thinking", "thinking": SECRET_THOUGHT, "signature": ""}),
        json!({"type": "redacted_thinking", "data": "b3BhcXVl"}),
    ]
}

#[tokio::test]
async fn m19_thinking_is_sent_back_unchanged_with_and_without_signature() {
    for thought in thoughts() {
        let server = FaultServer::start().await.unwrap();
        let none = json!({"type": "odd_delta"});
        let call = json!({"type": "tool_use", "id": "c1", "name": "echo", "input": {}});
        let args = json!({"type": "input_json_delta", "partial_json": "{\"text\":\"a\"}"});
        let answer = [(thought.clone(), none), (call, args)];
        server.reply(blocks(answer.into_iter(), "tool_use"));
        server.anthropic_text("done");
        server.anthropic_text("again");
        let agent = Api::Anthropic.agent(&server).tool(echo()).build().unwrap();
        agent.session("s").run("Go").await.unwrap();
        agent.session("s").run("More").await.unwrap();
        for request in &server.requests()[1..] {
            let content = list(&request.json()["messages"][1]["content"]).to_vec();
            assert_eq!(content[0], thought);
            assert_eq!(content[1]["type"], "tool_use");
        }
    }
}

/// A block as a server might write it: nobody else would put the same bytes.
const AS_WRITTEN: &str =
    r#"{ "data":"b3Bh\/cXVl",  "type" : "redacted_thinking", "n":1.50, "é":"\u00e9" }"#;

#[tokio::test]
async fn m19_thinking_bytes_are_unchanged_by_hooks_and_storage() {
    let frames = blocks(
        [
            (json!({"type": "KEPT"}), json!({"type": "odd_delta"})),
            (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": "Hello."}),
            ),
        ]
        .into_iter(),
        "end_turn",
    );
    let server = FaultServer::start().await.unwrap();
    let written = frames.actions().iter().map(|action| match action {
        Action::Send(frame) => {
            String::from_utf8_lossy(frame).replace(r#"{"type":"KEPT"}"#, AS_WRITTEN)
        }
        other => panic!("{other:?}"),
    });

    // Nothing is added to such a block.
    let written = written.filter(|frame| !frame.contains("odd_delta"));
    server.reply(Reply::sse(written));
    server.fallback(Reply::anthropic_text("Good."));

    // A hook that edits every answer has no business with what was thought.
    let edits = hook::modify_request("edits", |_cx, messages: Messages| async move {
        Ok(messages
            .iter()
            .map(|message| {
                let mut message = Message::clone(message);
                for part in message.content_mut().parts_mut() {
                    if let Part::Text(text) = part {
                        text.make_ascii_uppercase();
                    }
                }

                message
            })
            .collect())
    });

    let first = Api::Anthropic.agent(&server).build().unwrap();
    first.session("s").run("Hi").await.unwrap();
    first.session("s").run("More").await.unwrap();
    assert!(last(&server).contains(AS_WRITTEN), "{}", last(&server));
    let history = first.session("s").state().await.unwrap().unwrap().messages;
    let read = serde_json::to_string(&history).unwrap();
    let history: Messages = serde_json::from_str(&read).unwrap();
    let second = Api::Anthropic.agent(&server).hook(edits).build().unwrap();
    second.run(history.human("And more")).await.unwrap();
    let sent = last(&server);
    assert!(sent.contains(AS_WRITTEN), "{sent}");
    assert!(sent.contains("HELLO."), "{sent}");
}

/// All that is spoken; each keeps what its models think in a form of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    Anthropic,
    OpenAi,
    Ollama,
}

use Dialect::{Anthropic as A, Ollama as L, OpenAi as O};

impl Dialect {
    fn on(self, server: &FaultServer, store: &ThreadStore) -> Agent {
        let url = server.url();
        let builder = match self {
            A => agent(Anthropic::new("m", "key").base_url(url)),
            O => agent(OpenAi::compatible(url, "m")),
            L => agent(Ollama::new("m").base_url(url)),
        };
        builder.store(store.clone()).tool(echo()).build().unwrap()
    }

    /// An answer that thinks, looks something up on the server, says something and calls a tool.
    fn thinking(self) -> Reply {
        match self {
            A => {
                let none = || json!({"type": "odd_delta"});
                let [thought, ..] = thoughts();
                let search = json!({"type": "server_tool_use", "id": "srv", "name": "web_search",
                    "input": {"query": SECRET_THOUGHT}});
                let found = json!({"type": "web_search_tool_result", "tool_use_id": "srv",
                    "content": []});
                let text = json!({"type": "text", "text": ""});
                let said = json!({"type": "text_delta", "text": "Hello."});
                let call =
                    json!({"type": "tool_use", "id": "call.1:x", "name": "echo", "input": {}});
                let args = json!({"type": "input_json_delta", "partial_json": "{\"text\":\"a\"}"});
                let all = [
                    (thought, none()),
                    (search, none()),
                    (found, none()),
                    (text, said),
                    (call, args),
                ];
                blocks(all.into_iter(), "tool_use")
            }
            O => {
                let delta = |delta: Value, finish: Option<&str>| {
                    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
                    format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
                };

                let function = json!({"name": "echo", "arguments": "{\"text\":\"a\"}"});
                let call = json!({"index": 0, "id": "call.1:x", "type": "function",
                    "function": function});
                Reply::sse([
                    delta(json!({"reasoning_content": SECRET_THOUGHT}), None),
                    delta(json!({"content": "Hello."}), None),
                    delta(json!({"tool_calls": [call]}), None),
                    delta(json!({}), Some("tool_calls")),
                    "data: [DONE]\n\n".to_owned(),
                ])
            }
            L => {
                let call = json!({"function": {"name": "echo", "arguments": {"text": "a"}}});
                let line = |message: Value, done: bool| {
                    json!({"model": "m", "message": message, "done": done}).to_string()
                };

                Reply::ndjson([
                    line(
                        json!({"role": "assistant", "content": "", "thinking": SECRET_THOUGHT}),
                        false,
                    ),
                    line(json!({"role": "assistant", "content": "Hello."}), false),
                    line(
                        json!({"role": "assistant", "content": "", "tool_calls": [call]}),
                        false,
                    ),
                    line(json!({"role": "assistant", "content": ""}), true),
                ])
            }
        }
    }

    fn text(self, text: &str) -> Reply {
        match self {
            A => Reply::anthropic_text(text),
            O => Reply::openai_text(text),
            L => Reply::ollama_text(text),
        }
    }

    /// Fails for a body that the server would not accept.
    fn accept(self, body: &Value) {
        match self {
            A => assert_accepted(Api::Anthropic, body),
            O => assert_accepted(Api::OpenAi, body),
            L => {
                let messages = list(&body["messages"]);
                let calls = messages.iter().map(|m| list(&m["tool_calls"]).len());
                let results = messages.iter().filter(|m| m["role"] == "tool");
                assert_eq!(calls.sum::<usize>(), results.count(), "{body}");
                for call in messages.iter().flat_map(|m| list(&m["tool_calls"])) {
                    assert!(call["function"]["arguments"].is_object(), "{call}");
                }
            }
        }
    }
}

#[tokio::test]
async fn m21_thinking_is_not_sent_to_another_provider() {
    for own in [A, O, L] {
        for other in [A, O, L] {
            if own == other {
                continue;
            }

            let server = FaultServer::start().await.unwrap();
            let store = ThreadStore::new();
            server.reply(own.thinking());
            server.reply(own.text("That was a."));
            let output = own.on(&server, &store).session("s").run("Hi").await;
            assert_eq!(output.unwrap().text, "That was a.", "{own:?}");
            server.reply(other.text("Good day."));
            let agent = other.on(&server, &store);
            agent.session("s").run("And you?").await.unwrap();
            let sent = last(&server);
            other.accept(&serde_json::from_str(&sent).unwrap());
            for kept in ["Hello.", "echo", "That was a.", "And you?"] {
                assert!(sent.contains(kept), "{own:?} to {other:?}: {sent}");
            }

            let foreign = [
                "4711",
                "sig==",
                "reasoning",
                "thinking",
                "web_search",
                "srv",
            ];
            for foreign in foreign {
                assert!(!sent.contains(foreign), "{own:?} to {other:?}: {sent}");
            }

            server.reply(own.text("Back."));
            let agent = own.on(&server, &store);
            agent.session("s").run("Again?").await.unwrap();
            let sent = last(&server);
            own.accept(&serde_json::from_str(&sent).unwrap());
            assert!(sent.contains(SECRET_THOUGHT), "{own:?}: {sent}");
            assert!(sent.contains("Good day."), "{own:?}: {sent}");
        }
    }
}
