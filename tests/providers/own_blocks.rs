//! Blocks of answers, which only the server that sent them may receive, among servers of one API.

use agentcore::message::{Media, ProviderBlock};
use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, Gemini, OpenAi, OpenAiAuto, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Message, Messages, Model, ModelRequest, Part};
use serde_json::json;

use crate::faults_kit::blocks;

/// Returns a history that continues after an answer of `model`.
async fn continued(model: &impl Model) -> Messages {
    let answer = model.call(ModelRequest::new("Hi")).await.unwrap();
    Messages::from("Hi")
        .with(Message::ai(answer.content))
        .human("And?")
}

/// Sends a request with this history, and returns its body.
async fn sent(model: &impl Model, server: &FaultServer, history: &Messages) -> String {
    let request = ModelRequest::new(history.clone());
    model.call(request).await.unwrap();
    let last = server.requests().pop().unwrap();
    String::from_utf8(last.body.to_vec()).unwrap()
}

fn chat_answer() -> Reply {
    let extra = json!({"google": {"thought_signature": "canary-signature"}});
    let function = json!({"name": "f", "arguments": "{}"});
    let call = json!({"index": 0, "id": "c1", "function": function, "extra_content": extra});
    let chunk = |delta: serde_json::Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        format!("data: {}\n\n", json!({"id": "c", "choices": [choice]}))
    };
    let end = json!({"id": "c", "choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    Reply::sse([
        chunk(json!({"reasoning_content": "canary-thought"})),
        chunk(json!({"tool_calls": [call]})),
        format!("data: {end}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ])
}

#[tokio::test]
async fn unknown_servers_of_different_names_share_no_reasoning() {
    let server = FaultServer::start().await.unwrap();
    let named = |name: &str| OpenAi::compatible(server.url(), "m").provider(name);
    let nameless = OpenAi::compatible(server.url(), "m");
    for (writer, reader, is_own) in [
        (named("a"), named("a"), true),
        (named("a"), named("b"), false),
        (named("a"), nameless.clone(), false),
        (nameless.clone(), named("a"), false),
        (nameless.clone(), nameless.clone(), true),
        // The name does not matter if one of the servers has a dialect of its own.
        (
            named("mistral"),
            nameless.clone().dialect(Dialect::mistral()),
            false,
        ),
        (
            named("a").dialect(Dialect::vllm()),
            nameless.clone().dialect(Dialect::vllm()),
            true,
        ),
    ] {
        server.reply(chat_answer());
        let mut history = continued(&writer).await;
        history = history.as_slice()[..2]
            .iter()
            .cloned()
            .collect::<Messages>();
        let history = history.tool("c1", "f", "ok").human("And?");
        server.reply(Reply::openai_text("ok"));
        let body = sent(&reader, &server, &history).await;
        for canary in ["canary-thought", "canary-signature"] {
            assert_eq!(
                body.contains(canary),
                is_own,
                "{} to {}: {body}",
                writer.id(),
                reader.id()
            );
        }
    }
}

#[tokio::test]
async fn thinking_of_compatible_servers_does_not_reach_claude() {
    let server = FaultServer::start().await.unwrap();
    let model = |name: &str| Anthropic::new(name, "k").base_url(server.url());
    for (writer, reader, is_own) in [
        ("qwen3", "qwen3", true),
        ("qwen3", "claude-opus-4-6", false),
        ("claude-opus-4-6", "qwen3", false),
        ("claude-opus-4-6", "anthropic.claude-sonnet-4-6", true),
    ] {
        let thinking = json!({"type": "thinking", "thinking": "canary", "signature": "s"});
        let none = || json!({"type": "odd_delta"});
        let text = json!({"type": "text", "text": "Hello."});
        let both = [(thinking, none()), (text, none())];
        server.reply(blocks(both.into_iter(), "end_turn"));
        let history = continued(&model(writer)).await;
        server.reply(Reply::anthropic_text("ok"));
        let body = sent(&model(reader), &server, &history).await;
        assert_eq!(
            body.contains("canary"),
            is_own,
            "{writer} to {reader}: {body}"
        );
    }

    // The model that the request names decides.
    let mut request = ModelRequest::new("Hi");
    request.model = Some("claude-opus-4-6".into());
    server.fallback(Reply::anthropic_text("ok"));
    let block = json!({"type": "thinking", "thinking": "canary", "signature": "s"});
    let block = serde_json::value::to_raw_value(&block).unwrap();
    let thought = Part::Thinking(ProviderBlock::new("anthropic", block));
    request.messages = Messages::from("Hi")
        .with(Message::ai([thought, Part::text("Hello.")]))
        .human("And?");
    model("qwen3").call(request).await.unwrap();
    let body = server.requests().pop().unwrap().json().to_string();
    assert!(body.contains("canary"), "{body}");
}

#[tokio::test]
async fn file_goes_only_to_the_server_that_has_it() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let responses = || OpenAiResponses::compatible(server.url(), "gpt-6-luna");
    let claude = |name: &str| Anthropic::new(name, "k").base_url(server.url());
    let gemini = || Gemini::new("gemini-3.8-flash", "k").base_url(server.url());
    let vertex = || {
        let model = Gemini::vertex("gemini-3.8-flash", "p", "global", "token");
        model.base_url(server.url())
    };
    let auto = |name: &str| {
        let chat = OpenAi::compatible(server.url(), "gpt-6-luna").provider(name);
        let chat = chat.dialect(Dialect::azure());
        OpenAiAuto::new(chat, responses().provider(name))
    };
    let file = |owner: &str| Media::file(owner, "file-1");
    let address = Media::url("https://generativelanguage.googleapis.com/v1beta/files/a");
    let cases: [(Box<dyn Model>, Media, bool); 17] = [
        (Box::new(responses()), file("openai"), true),
        (Box::new(responses().provider("azure")), file("azure"), true),
        (
            Box::new(responses().provider("azure")),
            file("openai"),
            false,
        ),
        (
            Box::new(responses().provider("bedrock")),
            file("openai"),
            false,
        ),
        (Box::new(auto("azure")), file("azure"), true),
        (Box::new(auto("azure")), file("openai"), false),
        (Box::new(gemini()), file("gemini"), true),
        (Box::new(gemini()), file("google-vertex"), false),
        (Box::new(vertex()), file("gemini"), false),
        (Box::new(vertex()), file("google-vertex"), true),
        (Box::new(gemini()), address.clone(), true),
        (Box::new(vertex()), address, false),
        (Box::new(claude("claude-sonnet-5")), file("anthropic"), true),
        (
            Box::new(claude("claude-sonnet-5").hosted_tools(false)),
            file("anthropic"),
            false,
        ),
        (Box::new(claude("qwen3")), file("anthropic"), false),
        (Box::new(claude("claude-sonnet-5")), file("openai"), false),
        (Box::new(vertex()), Media::url("https://x/y.png"), true),
    ];
    for (model, media, is_taken) in cases {
        for part in [Part::Image, Part::Document] {
            let input = Message::human([Part::text("Look:"), part(media.clone())]);
            let request = ModelRequest::new(Messages::new().with(input));
            let former = server.requests().len();
            let error = model.call(request).await.unwrap_err();
            let what = format!("{} {media:?}: {error}", model.id());
            let is_sent = server.requests().len() > former;
            assert_eq!(is_sent, is_taken, "{what}");
            let kind = if is_taken {
                ErrorKind::Auth
            } else {
                ErrorKind::InvalidRequest
            };
            assert_eq!(error.kind(), kind, "{what}");
        }
    }
}

#[tokio::test]
async fn type_that_a_model_does_not_take_is_an_error_before_sending() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let gemini = || Box::new(Gemini::new("gemini-3.8-flash", "k").base_url(server.url()));
    let responses = |name: &str| Box::new(OpenAiResponses::compatible(server.url(), name));
    let chat = |dialect: Dialect| Box::new(OpenAi::compatible(server.url(), "m").dialect(dialect));
    let image = |kind: &str| Part::Image(Media::bytes(kind, b"x"));
    let document = |kind: &str| Part::Document(Media::bytes(kind, b"x"));
    let cases: [(Box<dyn Model>, Part, bool); 20] = [
        (gemini(), image("image/heic"), true),
        (gemini(), image(""), true),
        (gemini(), image("image/bmp"), false),
        (gemini(), image("image/svg+xml"), false),
        (gemini(), document("application/pdf"), true),
        (gemini(), document("text/csv"), true),
        (gemini(), document("video/mp4"), true),
        (gemini(), document("application/msword"), false),
        (
            gemini(),
            Part::Audio(Media::bytes("audio/flac", b"x")),
            true,
        ),
        (
            gemini(),
            Part::Audio(Media::bytes("application/ogg", b"x")),
            false,
        ),
        (responses("gpt-6-luna"), image("image/gif"), true),
        (responses("gpt-6-luna"), image("image/bmp"), false),
        (responses("gpt-6-luna"), image("image/svg+xml"), false),
        (
            responses("gpt-6-luna"),
            document("application/msword"),
            true,
        ),
        (responses("qwen3-vl"), image("image/bmp"), true),
        (chat(Dialect::openai()), image("image/webp"), true),
        (chat(Dialect::openai()), image("image/bmp"), false),
        (chat(Dialect::azure()), image("image/tiff"), false),
        (chat(Dialect::compatible()), image("image/bmp"), true),
        (chat(Dialect::llama_cpp()), image("image/bmp"), true),
    ];
    for (model, part, is_taken) in cases {
        let input = Message::human([Part::text("Look:"), part.clone()]);
        let request = ModelRequest::new(Messages::new().with(input));
        let former = server.requests().len();
        let error = model.call(request).await.unwrap_err();
        let is_sent = server.requests().len() > former;
        assert_eq!(is_sent, is_taken, "{} {part:?}: {error}", model.id());
    }

    // In an older message, a text replaces the picture.
    let history = Messages::new()
        .with(Message::human([Part::text("Look:"), image("image/bmp")]))
        .with(Message::ai("I see."))
        .human("And?");
    let models: [Box<dyn Model>; 3] = [gemini(), responses("gpt-6-luna"), chat(Dialect::openai())];
    for model in models {
        model
            .call(ModelRequest::new(history.clone()))
            .await
            .unwrap_err();
        let body = server.requests().pop().unwrap().json().to_string();
        assert!(body.contains("[image]") && !body.contains("bmp"), "{body}");
    }
}
