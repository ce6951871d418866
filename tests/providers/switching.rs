//! Conversations that go on with a model of another provider, and come back.

use std::sync::Arc;

use agentcore::message::Media;
use agentcore::providers::{Anthropic, FallbackModel, Gemini, Ollama, OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    Agent, BoxError, FuncTool, Message, Messages, Model, Part, ThreadStore, ToolOutput,
};
use serde_json::{Value, json};

use crate::faults_kit::{Api, assert_accepted, blocks, list};
use crate::kit::doubles::{gemini, responses};
use crate::kit::{agent, any_object};

/// Part of all that only the writer of an answer may receive again.
const CANARY: &str = "canary";

/// An id that is longer than some APIs take, with characters that some refuse.
const LONG_ID: &str = "call:2.with/odd+characters-0123456789-0123456789-0123456789-end";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    Anthropic,
    OpenAi,
    Ollama,
    Responses,
    Gemini,
    Vertex,
}

use Dialect::{Anthropic as A, Gemini as G, Ollama as L, OpenAi as O, Responses as R, Vertex as V};

const ALL: [Dialect; 6] = [A, O, L, R, G, V];

/// A server that checks what it receives.
struct Server {
    dialect: Dialect,
    server: FaultServer,
    strict: Strict,
}

enum Strict {
    Responses(Arc<responses::Double>),
    Gemini(Arc<gemini::Double>),
    /// Its bodies are checked by [`Dialect::assert_accepted`].
    Scripted,
}

impl Dialect {
    /// Starts a server whose answers are a round of calls, if there is one, and these texts.
    async fn start(self, has_round: bool, texts: &[&str]) -> Server {
        let (server, strict) = match self {
            R => {
                let round = has_round.then(responses_round);
                let texts = texts.iter().enumerate();
                let texts =
                    texts.map(|(n, text)| vec![responses::message(&format!("msg_{n}"), text)]);
                let answers = round.into_iter().chain(texts);
                let (double, server) = responses::Double::start(answers).await;
                (server, Strict::Responses(double))
            }
            G | V => {
                let round = has_round.then(gemini_round);
                let texts = texts.iter().map(|text| vec![gemini::text(text)]);
                let (double, server) = gemini::Double::start(round.into_iter().chain(texts)).await;
                (server, Strict::Gemini(double))
            }
            A | O | L => {
                let server = FaultServer::start().await.unwrap();
                if has_round {
                    server.reply(self.round());
                }
                for text in texts {
                    server.reply(self.text(text));
                }
                (server, Strict::Scripted)
            }
        };
        Server {
            dialect: self,
            server,
            strict,
        }
    }

    fn model(self, url: &str) -> Arc<dyn Model> {
        match self {
            A => Arc::new(Anthropic::new("m", "key").base_url(url)),
            O => Arc::new(OpenAi::compatible(url, "m")),
            L => Arc::new(Ollama::new("m").base_url(url)),
            R => Arc::new(OpenAiResponses::compatible(url, "gpt-6-luna")),
            G => Arc::new(Gemini::new("gemini-3.8-flash", "key").base_url(url)),
            V => {
                let model = Gemini::vertex("gemini-3.8-flash", "p", "global", "token");
                Arc::new(model.base_url(url))
            }
        }
    }

    fn text(self, text: &str) -> Reply {
        match self {
            A => Reply::anthropic_text(text),
            O => Reply::openai_text(text),
            _ => Reply::ollama_text(text),
        }
    }

    /// An answer with a thought, a call of the provider's own tool where it has one, a text and two
    /// calls.
    fn round(self) -> Reply {
        match self {
            A => anthropic_round(),
            O => openai_round(),
            L => ollama_round(),
            R => responses::stream(&responses_round()),
            G | V => gemini::stream(&gemini_round()),
        }
    }

    /// Fails for a body that the server would not accept.
    fn assert_accepted(self, body: &Value) {
        match self {
            A => assert_accepted(Api::Anthropic, body),
            O => assert_accepted(Api::OpenAi, body),
            _ => {
                let messages = list(&body["messages"]);
                let calls = messages.iter().map(|m| list(&m["tool_calls"]).len());
                let results = messages.iter().filter(|m| m["role"] == "tool");
                assert_eq!(calls.sum::<usize>(), results.count(), "{body}");
            }
        }
    }

    /// The texts of an own answer that come back to its server.
    fn own_texts(self) -> &'static [&'static str] {
        match self {
            A => &["canary-thought", "canary-signature", "canary-search"],
            O | L => &["canary-thought"],
            R => &["rs_canary", "ws_canary"],
            G | V => &[
                "canary-thought",
                "canary-code",
                "Y2FuYXJ5",
                "c2lnLWNhbmFyeQ==",
            ],
        }
    }
}

fn args() -> [Value; 2] {
    [json!({"text": "a"}), json!({})]
}

fn anthropic_round() -> Reply {
    let none = || json!({"type": "odd_delta"});
    let [first, second] =
        args().map(|args| json!({"type": "input_json_delta", "partial_json": args.to_string()}));
    let call =
        |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let all = [
        (
            json!({"type": "thinking", "thinking": "canary-thought", "signature": "canary-signature"}),
            none(),
        ),
        (
            json!({"type": "server_tool_use", "id": "srv", "name": "web_search",
                "input": {"query": "canary-search"}}),
            none(),
        ),
        (
            json!({"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}),
            none(),
        ),
        (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "Hello."}),
        ),
        (call("call.1:x", "echo"), first),
        (call(LONG_ID, "broken"), second),
    ];
    blocks(all.into_iter(), "tool_use")
}

fn openai_round() -> Reply {
    let delta = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
    };
    let call = |index: usize, id: &str, name: &str, args: &Value| {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": args.to_string()}})
    };
    let [first, second] = args();
    let calls = [
        call(0, "call.1:x", "echo", &first),
        call(1, LONG_ID, "broken", &second),
    ];
    Reply::sse([
        delta(json!({"reasoning_content": "canary-thought"}), None),
        delta(json!({"content": "Hello."}), None),
        delta(json!({"tool_calls": calls}), None),
        delta(json!({}), Some("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ])
}

fn ollama_round() -> Reply {
    let [first, second] = args();
    let calls = json!([
        {"function": {"name": "echo", "arguments": first}},
        {"function": {"name": "broken", "arguments": second}},
    ]);
    let line = |message: Value, is_last: bool| {
        json!({"model": "m", "message": message, "done": is_last}).to_string()
    };
    let message = |fields: Value| {
        let mut message = json!({"role": "assistant", "content": ""});
        message
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        message
    };
    Reply::ndjson([
        line(message(json!({"thinking": "canary-thought"})), false),
        line(message(json!({"content": "Hello."})), false),
        line(message(json!({"tool_calls": calls})), false),
        line(message(json!({})), true),
    ])
}

fn responses_round() -> Vec<Value> {
    let [first, second] = args().map(|args| args.to_string());
    let search = json!({"type": "web_search_call", "id": "ws_canary", "status": "completed",
        "action": {"type": "search", "query": "tides"}});
    vec![
        responses::reasoning("rs_canary"),
        search,
        responses::message("msg_canary", "Hello."),
        responses::call("call.1:x", "echo", &first),
        responses::call("call:2", "broken", &second),
    ]
}

fn gemini_round() -> Vec<Value> {
    let [first, second] = args();
    vec![
        gemini::thought("canary-thought"),
        json!({"executableCode": {"code": "canary-code", "language": "PYTHON"}}),
        gemini::signed_text("Hello.", "Y2FuYXJ5"),
        gemini::call("call.1:x", "echo", &first, "c2lnLWNhbmFyeQ=="),
        gemini::call(LONG_ID, "broken", &second, ""),
    ]
}

impl Server {
    fn agent(&self, store: &ThreadStore) -> Agent {
        with_tools(self.dialect.model(&self.server.url()), store)
    }

    /// The last body, after a check of all.
    fn last(&self) -> String {
        let refusals = match &self.strict {
            Strict::Responses(double) => double.refusals(),
            Strict::Gemini(double) => double.refusals(),
            Strict::Scripted => {
                for request in self.server.requests() {
                    self.dialect.assert_accepted(&request.json());
                }
                Vec::new()
            }
        };
        assert!(refusals.is_empty(), "{:?}: {refusals:?}", self.dialect);
        let last = self.server.requests().pop().unwrap();
        String::from_utf8(last.body.to_vec()).unwrap()
    }
}

fn with_tools(model: impl Model, store: &ThreadStore) -> Agent {
    let broken = FuncTool::new("broken", "Fails", any_object(), |_cx, _args| async {
        Err::<String, BoxError>("no such city".into())
    });
    let echo = FuncTool::new("echo", "Shows it", any_object(), |_cx, _args| async {
        let image = Part::Image(Media::bytes("image/png", b"seen"));
        ToolOutput::new([Part::text("Shown."), image])
    });
    let builder = agent(model).store(store.clone()).tool(echo).tool(broken);
    builder.build().unwrap()
}

fn input() -> Messages {
    Messages::new().with(Message::human([
        Part::text("Hi"),
        Part::Image(Media::bytes("image/png", b"png")),
    ]))
}

/// Fails if text that only another provider may receive is in a body.
fn assert_neutral(pair: &str, body: &str) {
    let foreign = [CANARY, "Y2FuYXJ5", "c2lnLWNhbmFyeQ=="];
    for foreign in foreign {
        assert!(!body.contains(foreign), "{pair}: {foreign} in {body}");
    }
}

#[tokio::test]
async fn m21_conversation_goes_on_with_every_other_provider_and_comes_back() {
    for own in ALL {
        for other in ALL.into_iter().filter(|other| *other != own) {
            let pair = format!("{own:?} to {other:?}");
            let store = ThreadStore::new();
            let writer = own.start(true, &["That was a.", "Back."]).await;
            let output = writer.agent(&store).session("s").run(input()).await;
            assert_eq!(output.unwrap().text, "That was a.", "{pair}");

            let reader = other.start(false, &["Good day."]).await;
            let output = reader.agent(&store).session("s").run("And you?").await;
            assert_eq!(output.unwrap().text, "Good day.", "{pair}");
            let body = reader.last();
            assert_neutral(&pair, &body);
            let shared = [
                "Hello.",
                "echo",
                "Shown.",
                "no such city",
                "That was a.",
                "And you?",
                "cG5n",
            ];
            for shared in shared {
                assert!(body.contains(shared), "{pair}: no {shared} in {body}");
            }

            let output = writer.agent(&store).session("s").run("Again?").await;
            assert_eq!(output.unwrap().text, "Back.", "{pair}");
            let body = writer.last();
            for text in own.own_texts().iter().chain(&["Good day."]) {
                assert!(body.contains(text), "{pair} and back: no {text} in {body}");
            }
        }
    }
}

#[tokio::test]
async fn fallback_continues_a_round_of_calls() {
    for own in ALL {
        for other in ALL.into_iter().filter(|other| *other != own) {
            let pair = format!("{own:?} to {other:?}");
            let writer = FaultServer::start().await.unwrap();
            writer.reply(own.round());
            writer.fallback(Reply::json(529, r#"{"error":{"message":"overloaded"}}"#));
            let reader = other.start(false, &["Good day."]).await;
            let models = [own.model(&writer.url()), other.model(&reader.server.url())];
            let agent = with_tools(FallbackModel::new(models), &ThreadStore::new());
            let output = agent.run(input()).await;
            assert_eq!(output.unwrap().text, "Good day.", "{pair}");
            assert_eq!(writer.requests().len(), 2, "{pair}");
            assert_neutral(&pair, &reader.last());
        }
    }
}
