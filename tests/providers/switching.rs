//! Conversations that continue with a model of another provider, and return to the first.

use std::cell::Cell;
use std::sync::Arc;

use agentcore::message::Media;
use agentcore::providers::openai;
use agentcore::providers::{Anthropic, FallbackModel, Gemini, Ollama, OpenAi, OpenAiResponses};
use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    Agent, BoxError, Content, FuncTool, Message, Messages, Model, Part, SessionStore, ThreadStore,
    ToolOutput,
};
use proptest::collection;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::faults_kit::{Api, assert_accepted, list};
use crate::kit::doubles::{
    azure, bedrock, chat, deepseek, gemini, gemini_chat, groq, mistral, openai_chat, openrouter,
    responses, template, xai,
};
use crate::kit::{agent, any_object};
use crate::switching_rounds::{
    anthropic_round, args, bedrock_claude_round, bedrock_gpt_round, gemini_round, ids,
    ollama_round, openai_round, responses_round,
};

/// A part of all texts that only the provider of an answer may receive again.
const CANARY: &str = "canary";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    Anthropic,
    OpenAi,
    Ollama,
    Responses,
    Gemini,
    Vertex,
    OpenRouter,
    Mistral,
    Groq,
    GeminiChat,
    /// OpenAI's own server.
    Official,
    /// Bedrock's endpoint for the Responses API.
    BedrockGpt,
    /// Bedrock's endpoint for the Messages API.
    BedrockClaude,
    /// A server of [`ROWS`].
    Row(&'static str),
}

use Dialect::{Anthropic as A, Gemini as G, Ollama as L, OpenAi as O, Responses as R, Vertex as V};
use Dialect::{BedrockClaude, BedrockGpt, GeminiChat, Groq, Mistral, Official, OpenRouter, Row};

const ALL: [Dialect; 20] = [
    A,
    O,
    L,
    R,
    G,
    V,
    OpenRouter,
    Mistral,
    Groq,
    GeminiChat,
    Official,
    Row("deepseek"),
    Row("xai"),
    Row("azure"),
    Row("vllm"),
    Row("llamacpp"),
    Row("lmstudio"),
    BedrockGpt,
    BedrockClaude,
    GPT_OSS,
];

/// Bedrock's endpoint for Chat Completions, whose models accept no images.
const GPT_OSS: Dialect = Row("bedrock");

/// The text that replaces an image.
const LEFT_OUT: &str = "[image left out: image/png]";

type ChatRow = (
    &'static str,
    fn() -> openai::Dialect,
    &'static str,
    chat::Check,
    &'static [&'static str],
);

/// Servers whose answers have their thinking in `reasoning_content`: the name, the dialect, the
/// model, the rules of the double, and the texts of an own answer that are sent back.
const ROWS: &[ChatRow] = &[
    (
        "deepseek",
        openai::Dialect::deepseek,
        "m",
        deepseek::check_request,
        THOUGHT,
    ),
    ("xai", openai::Dialect::xai, "grok-4.5", xai::check, THOUGHT),
    ("azure", openai::Dialect::azure, "dep", azure::check, &[]),
    ("vllm", openai::Dialect::vllm, "m", template::vllm, THOUGHT),
    (
        "llamacpp",
        openai::Dialect::llama_cpp,
        "m",
        template::llama_cpp,
        THOUGHT,
    ),
    (
        "lmstudio",
        openai::Dialect::lm_studio,
        "m",
        template::lm_studio,
        THOUGHT,
    ),
    (
        "bedrock",
        openai::Dialect::bedrock,
        "openai.gpt-oss-120b",
        bedrock::check_chat,
        THOUGHT,
    ),
];

const THOUGHT: &[&str] = &["canary-thought"];

/// A server that checks each request.
struct Server {
    dialect: Dialect,
    server: FaultServer,
    strict: Strict,
    /// The number of requests that were checked.
    checked: Cell<usize>,
}

enum Strict {
    Responses(Arc<responses::Double>),
    Gemini(Arc<gemini::Double>),
    Chat(Arc<chat::Double>),
    /// A scripted server, whose requests [`Dialect::assert_accepted`] checks.
    Scripted,
}

impl Dialect {
    async fn start(self) -> Server {
        let (server, strict) = match self {
            R => {
                let (double, server) = responses::Double::start([]).await;
                (server, Strict::Responses(double))
            }
            BedrockGpt => {
                let gate = bedrock::check_responses;
                let (double, server) = responses::Double::start_behind(gate, []).await;
                (server, Strict::Responses(double))
            }
            G | V => {
                let (double, server) = gemini::Double::start([]).await;
                (server, Strict::Gemini(double))
            }
            OpenRouter | Mistral | Groq | GeminiChat | Official | Row(_) => {
                let (double, server) = chat::Double::start(self.chat_rules(), []).await;
                (server, Strict::Chat(double))
            }
            A | O | L | BedrockClaude => (FaultServer::start().await.unwrap(), Strict::Scripted),
        };
        Server {
            dialect: self,
            server,
            strict,
            checked: Cell::default(),
        }
    }

    fn chat_rules(self) -> chat::Check {
        match self {
            OpenRouter => openrouter::check,
            Mistral => mistral::check,
            Groq => groq::check,
            Official => openai_chat::check,
            Row(name) => row(name).3,
            _ => gemini_chat::check,
        }
    }

    fn model(self, url: &str) -> Arc<dyn Model> {
        let chat = |dialect| Arc::new(OpenAi::compatible(url, "gemini-3.8-flash").dialect(dialect));
        match self {
            OpenRouter => chat(openai::Dialect::openrouter()),
            Mistral => chat(openai::Dialect::mistral()),
            Groq => chat(openai::Dialect::groq()),
            GeminiChat => chat(openai::Dialect::gemini()),
            Official => {
                let model = OpenAi::new("gpt-5.4-mini", openai_chat::KEY).base_url(url);
                Arc::new(model.dialect(openai::Dialect::openai()))
            }
            GPT_OSS => {
                let (_, dialect, model, ..) = row("bedrock");
                let model = OpenAi::compatible(format!("{url}/v1"), *model);
                Arc::new(model.dialect(dialect()).key(bedrock::KEY))
            }
            BedrockGpt => {
                let url = format!("{url}/openai/v1");
                let model = OpenAiResponses::compatible(url, "openai.gpt-5.4");
                Arc::new(model.provider("bedrock").key(bedrock::KEY))
            }
            BedrockClaude => {
                let model = Anthropic::new("anthropic.claude-sonnet-5-5", "");
                let model = model.base_url(format!("{url}/anthropic"));
                Arc::new(model.hosted_tools(false).bearer(bedrock::KEY))
            }
            Row(name) => {
                let (_, dialect, model, ..) = row(name);
                let model = OpenAi::compatible(format!("{url}/openai/v1"), *model);
                Arc::new(model.dialect(dialect()).key(azure::KEY))
            }
            A => Arc::new(Anthropic::new("claude-opus-4-6", "key").base_url(url)),
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
            A | BedrockClaude => Reply::anthropic_text(text),
            O => Reply::openai_text(text),
            _ => Reply::ollama_text(text),
        }
    }

    /// An answer with thinking, a call of a hosted tool if the provider has one, a text and two
    /// calls, whose ids end with this number.
    fn round(self, number: usize) -> Reply {
        match self {
            A => anthropic_round(number),
            BedrockClaude => bedrock_claude_round(number),
            BedrockGpt => responses::stream(&bedrock_gpt_round(number)),
            O => openai_round(number),
            L => ollama_round(),
            R => responses::stream(&responses_round(number)),
            G | V => gemini::stream(&gemini_round(number)),
            OpenRouter | Mistral | Groq | GeminiChat | Official | Row(_) => {
                chat::stream(&self.chat_round(number))
            }
        }
    }

    /// The deltas of such an answer, for the dialects of Chat Completions.
    fn chat_round(self, number: usize) -> Vec<Value> {
        let mut ids = ids(number);
        if self == Mistral {
            ids = ["echo", "fail"].map(|name| format!("{name}{number:05}"));
        }

        let text = json!({"content": "Hello."});
        let signed = || gemini_chat::signed("c2lnLWNhbmFyeQ==");
        let mut deltas = match self {
            OpenRouter => vec![
                openrouter::thought(0, "canary-thought"),
                openrouter::signature(0, "canary-signature"),
                text,
            ],
            Mistral => vec![
                json!({"content": [mistral::thinking("canary-thought")]}),
                text,
            ],
            Groq => vec![json!({"reasoning": "canary-thought"}), text],
            Official => vec![text],
            Row(_) => vec![json!({"reasoning_content": "canary-thought"}), text],
            _ => vec![json!({"content": "Hello.", "extra_content": signed()})],
        };

        let names = ["echo", "broken"].into_iter().zip(args());
        let calls = ids.iter().zip(names).enumerate();
        deltas.extend(calls.map(|(index, (id, (name, args)))| {
            let function = json!({"name": name, "arguments": args.to_string()});
            let mut call = json!({"index": index, "id": id, "function": function});
            if self == GeminiChat && index == 0 {
                call["extra_content"] = signed();
            }
            json!({"tool_calls": [call]})
        }));
        deltas
    }

    /// Panics if the server would not accept the request.
    fn assert_accepted(self, request: &Received) {
        let body = &request.json();
        match self {
            BedrockClaude => {
                assert_eq!(chat::text_of(bedrock::check_messages(request)), "");
                assert_accepted(Api::Anthropic, body);
            }
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

    /// The texts of an own answer that are sent back to its server.
    fn own_texts(self) -> &'static [&'static str] {
        match self {
            A => &["canary-thought", "canary-signature", "canary-search"],
            BedrockClaude => &["canary-thought", "canary-signature"],
            BedrockGpt => &["rs_canary"],
            O | L | Mistral | Groq => &["canary-thought"],
            OpenRouter => &["canary-thought", "canary-signature"],
            GeminiChat => &["c2lnLWNhbmFyeQ=="],
            // OpenAI's Chat Completions show no thinking.
            Official => &[],
            Row(name) => row(name).4,
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

fn row(name: &str) -> &'static ChatRow {
    ROWS.iter().find(|row| row.0 == name).unwrap()
}

impl Server {
    /// Adds answers: one with calls if `round` has a number, and a text.
    fn answer(&self, round: Option<usize>, number: usize, text: &str) {
        match &self.strict {
            Strict::Responses(double) => {
                let id = format!("msg_{number}");
                let text = vec![responses::message(&id, text)];
                let round = round.map(|number| match self.dialect {
                    BedrockGpt => bedrock_gpt_round(number),
                    _ => responses_round(number),
                });
                for answer in round.into_iter().chain([text]) {
                    double.push(answer);
                }
            }
            Strict::Gemini(double) => {
                let text = vec![gemini::text(text)];
                for answer in round.map(gemini_round).into_iter().chain([text]) {
                    double.push(answer);
                }
            }
            Strict::Chat(double) => {
                let round = round.map(|number| self.dialect.chat_round(number));
                let text = vec![json!({"content": text})];
                for answer in round.into_iter().chain([text]) {
                    double.push(answer);
                }
            }
            Strict::Scripted => {
                let round = round.map(|number| self.dialect.round(number));
                for reply in round.into_iter().chain([self.dialect.text(text)]) {
                    self.server.reply(reply);
                }
            }
        }
    }

    fn agent(&self, store: &ThreadStore) -> Agent {
        with_tools(self.dialect.model(&self.server.url()), store)
    }

    /// Checks all requests, and returns the last body.
    fn last(&self) -> String {
        let refusals = match &self.strict {
            Strict::Responses(double) => double.refusals(),
            Strict::Gemini(double) => double.refusals(),
            Strict::Chat(double) => double.refusals(),
            Strict::Scripted => {
                let requests = self.server.requests();
                let checked = self.checked.replace(requests.len());
                for request in &requests[checked..] {
                    self.dialect.assert_accepted(request);
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

/// An input with a picture, if the model accepts one.
fn input(dialect: Dialect) -> Messages {
    let picture = Part::Image(Media::bytes("image/png", b"png"));
    let picture = (dialect != GPT_OSS).then_some(picture);
    let parts = [Part::text("Hi")].into_iter().chain(picture);
    Messages::new().with(Message::human(parts.collect::<Content>()))
}

/// Panics if a body for `other`, after an answer of `own`, has text that only `own` may receive.
/// Claude's thinking is valid on each of its platforms.
fn assert_neutral(own: Dialect, other: Dialect, body: &str) {
    let pair = format!("{own:?} to {other:?}");
    let claude = [A, BedrockClaude];
    let foreign: &[&str] = if claude.contains(&own) && claude.contains(&other) {
        &["canary-search"]
    } else {
        &[CANARY, "Y2FuYXJ5", "c2lnLWNhbmFyeQ=="]
    };
    for foreign in foreign {
        assert!(!body.contains(foreign), "{pair}: {foreign} in {body}");
    }
}

#[tokio::test]
async fn m21_conversation_goes_on_with_every_other_provider_and_comes_back() {
    for own in ALL {
        let store = ThreadStore::new();
        let writer = own.start().await;
        writer.answer(Some(1), 1, "That was a.");
        let output = writer.agent(&store).session("s").run(input(own)).await;
        assert_eq!(output.unwrap().text, "That was a.", "{own:?}");

        let others = ALL.into_iter().filter(|other| *other != own);
        for (number, other) in others.enumerate() {
            let pair = format!("{own:?} to {other:?}");
            let id = format!("fork_{number}");
            store.fork("s", &id).await.unwrap();
            let reader = other.start().await;
            reader.answer(None, 3, "Good day.");
            let output = reader.agent(&store).session(&*id).run("And you?").await;
            assert_eq!(output.unwrap().text, "Good day.", "{pair}");
            let body = reader.last();
            assert_neutral(own, other, &body);
            let pictures = match other {
                GPT_OSS => LEFT_OUT,
                // The input had no picture, so this is the one of the result.
                _ if own == GPT_OSS => "c2Vlbg==",
                _ => "cG5n",
            };
            let shared = [
                "Hello.",
                "echo",
                "Shown.",
                "no such city",
                "That was a.",
                "And you?",
                pictures,
            ];
            for shared in shared {
                assert!(body.contains(shared), "{pair}: no {shared} in {body}");
            }

            writer.answer(None, 2, "Back.");
            let output = writer.agent(&store).session(&*id).run("Again?").await;
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
            writer.reply(own.round(1));
            writer.fallback(Reply::json(529, r#"{"error":{"message":"overloaded"}}"#));
            let reader = other.start().await;
            reader.answer(None, 3, "Good day.");
            let models = [own.model(&writer.url()), other.model(&reader.server.url())];
            let agent = with_tools(FallbackModel::new(models), &ThreadStore::new());
            let output = agent.run(input(own)).await;
            assert_eq!(output.unwrap().text, "Good day.", "{pair}");
            assert_eq!(writer.requests().len(), 2, "{pair}");
            assert_neutral(own, other, &reader.last());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: crate::kit::effort::cases(20),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// Each number is a provider, and whether its answer begins with calls.
    #[test]
    fn any_order_of_providers_is_accepted(steps in collection::vec(0..2 * ALL.len(), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(walk(&steps));
    }
}

async fn walk(steps: &[usize]) {
    let store = ThreadStore::new();
    let mut servers = Vec::new();
    for dialect in ALL {
        servers.push(dialect.start().await);
    }

    for (number, step) in steps.iter().enumerate() {
        let server = &servers[step / 2];
        let text = format!("Answer {number}.");
        server.answer((step % 2 == 0).then_some(number), number, &text);
        let input = input(server.dialect);
        let output = server.agent(&store).session("s").run(input).await;
        assert_eq!(output.unwrap().text, text);
        let body = server.last();
        for earlier in 0..number {
            assert!(body.contains(&format!("Answer {earlier}.")), "{body}");
        }
    }
}
