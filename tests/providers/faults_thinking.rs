//! Thinking blocks, which are sent back to their provider unchanged.

use agentcore::testing::fault_server::Action;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Message, Messages, Part, hook};
use serde_json::{Value, json};

use crate::faults_kit::{Api, blocks, list};
use crate::kit::echo;

const SECRET_THOUGHT: &str = "let me see 4711";

/// Returns the body of the last request.
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

/// A block with bytes that a JSON encoder would not write.
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
    let frames_as_written = frames.actions().iter().map(|action| match action {
        Action::Send(frame) => {
            String::from_utf8_lossy(frame).replace(r#"{"type":"KEPT"}"#, AS_WRITTEN)
        }
        other => panic!("{other:?}"),
    });

    // The block in `AS_WRITTEN` has no delta.
    let frames_as_written = frames_as_written.filter(|frame| !frame.contains("odd_delta"));
    server.reply(Reply::sse(frames_as_written));
    server.fallback(Reply::anthropic_text("Good."));

    // A hook that edits the texts of all answers does not change their thinking.
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
    let body = last(&server);
    assert!(body.contains(AS_WRITTEN), "{body}");
    assert!(body.contains("HELLO."), "{body}");
}
