//! Media that each server accepts, and media that are an error before sending.

use agentcore::message::{Media, Message, Messages, Part};
use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, Ollama, OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Model, ModelRequest};
use serde_json::{Value, json};

/// Every dialect, and whether documents and audio are sent.
fn dialects() -> [(Dialect, bool, bool); 13] {
    [
        // The model has no audio.
        (Dialect::openai(), true, false),
        (Dialect::compatible(), true, true),
        (Dialect::azure(), false, true),
        (Dialect::openrouter(), true, true),
        (Dialect::deepseek(), false, false),
        // The model has no audio.
        (Dialect::mistral(), true, false),
        (Dialect::groq(), false, false),
        (Dialect::xai(), false, false),
        (Dialect::gemini(), false, true),
        (Dialect::bedrock(), false, false),
        (Dialect::vllm(), false, true),
        (Dialect::llama_cpp(), false, true),
        (Dialect::lm_studio(), false, false),
    ]
}

fn request(part: Part) -> ModelRequest {
    ModelRequest::new(Messages::new().with(Message::human([Part::text("Look:"), part])))
}

fn audio(kind: &str) -> Part {
    Part::Audio(Media::bytes(kind, b"wav"))
}

/// Returns the second part of the message that is sent, or the text of the error before sending.
async fn sent(dialect: Dialect, part: Part) -> Result<Value, String> {
    sent_to("m", dialect, part).await
}

async fn sent_to(name: &str, dialect: Dialect, part: Part) -> Result<Value, String> {
    let server = FaultServer::start().await.unwrap();
    server.openai_text("ok");
    let model = OpenAi::compatible(server.url(), name).dialect(dialect);
    match model.call(request(part)).await {
        Ok(_) => {
            let body = server.requests().remove(0).json();
            Ok(body["messages"][0]["content"][1].clone())
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
            assert!(server.requests().is_empty());
            Err(error.text().to_owned())
        }
    }
}

#[tokio::test]
async fn recordings_and_documents_are_sent_or_refused() {
    let pdf = || Part::Document(Media::bytes("application/pdf", b"pdf").with_name("a.pdf"));
    let file = json!({"type": "file", "file": {"filename": "a.pdf",
        "file_data": "data:application/pdf;base64,cGRm"}});
    let wav = json!({"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}});
    let address = json!({"type": "document_url", "document_name": "a.pdf",
        "document_url": "data:application/pdf;base64,cGRm"});
    for (dialect, has_documents, has_audio) in dialects() {
        let is_mistral = dialect == Dialect::mistral();
        let cases = [
            (
                pdf(),
                if is_mistral { &address } else { &file },
                has_documents,
                "document in this form (application/pdf)",
            ),
            (
                audio("audio/wav"),
                &wav,
                has_audio,
                "audio in this form (audio/wav)",
            ),
        ];
        for (part, expected, is_taken, refusal) in cases {
            match sent(dialect, part).await {
                Ok(part) => assert!(is_taken && part == *expected, "{dialect:?}: {part}"),
                Err(text) => assert!(!is_taken && text.contains(refusal), "{dialect:?}: {text}"),
            }
        }
    }
}

#[tokio::test]
async fn recording_has_one_of_two_formats() {
    for (kind, format) in [
        ("audio/wav", Some("wav")),
        ("audio/x-wav", Some("wav")),
        ("audio/mpeg", Some("mp3")),
        ("audio/mp3", Some("mp3")),
        ("audio/ogg", None),
        ("", None),
    ] {
        let part = sent_to("gpt-audio", Dialect::openai(), audio(kind)).await;
        let part = part.ok();
        let sent_format = part.map(|part| part["input_audio"]["format"].clone());
        assert_eq!(sent_format, format.map(Value::from), "{kind}");
    }
    let address = Part::Audio(Media::url("https://x/y.wav"));
    let text = sent_to("gpt-audio", Dialect::openai(), address).await;
    let text = text.unwrap_err();
    assert!(text.contains("(an address)"), "{text}");
}

#[tokio::test]
async fn recording_of_an_old_message_or_a_result_is_sent_or_named() {
    for (dialect, is_taken) in [(Dialect::compatible(), true), (Dialect::groq(), false)] {
        let server = FaultServer::start().await.unwrap();
        server.openai_text("ok");
        let history = Messages::new()
            .with(Message::human([Part::text("Listen:"), audio("audio/wav")]))
            .with(Message::ai("Yes."))
            .human("And?");
        let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
        model.call(ModelRequest::new(history)).await.unwrap();
        let body = server.requests().remove(0).json().to_string();
        assert_eq!(body.contains("input_audio"), is_taken, "{body}");
        assert_eq!(body.contains("[audio]"), !is_taken, "{body}");
    }
}

#[tokio::test]
async fn recordings_are_sent_to_models_with_audio() {
    for (name, dialect, is_taken) in [
        ("gpt-4o-audio-preview", Dialect::openai(), true),
        ("gpt-5.4-mini", Dialect::openai(), false),
        ("gpt-audio", Dialect::azure(), true),
        ("gpt-5.4-mini", Dialect::azure(), false),
        // A deployment may have any model.
        ("dep", Dialect::azure(), true),
    ] {
        match sent_to(name, dialect, audio("audio/wav")).await {
            Ok(part) => assert!(is_taken, "{name}: {part}"),
            Err(text) => {
                assert!(!is_taken, "{name}: {text}");
                assert!(text.contains(name), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn openai_takes_pdf_and_the_ids_of_its_own_files() {
    let by_id = Part::Document(Media::file("openai", "file-1"));
    let part = sent(Dialect::openai(), by_id.clone()).await.unwrap();
    assert_eq!(part, json!({"type": "file", "file": {"file_id": "file-1"}}));
    for (dialect, part) in [
        (Dialect::compatible(), by_id),
        (
            Dialect::openai(),
            Part::Document(Media::file("anthropic", "file-1")),
        ),
        (
            Dialect::openai(),
            Part::Document(Media::bytes("application/msword", b"doc")),
        ),
        (
            Dialect::openai(),
            Part::Document(Media::url("https://x/y.pdf")),
        ),
    ] {
        let text = sent(dialect, part).await.unwrap_err();
        assert!(text.contains("takes no document"), "{text}");
    }
}

#[tokio::test]
async fn claude_takes_media_of_its_types() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::anthropic_text("ok"));
    let model = Anthropic::new("claude-sonnet-5", "k").base_url(server.url());
    let image = |kind: &str| Part::Image(Media::bytes(kind, b"x"));
    let document = |kind: &str| Part::Document(Media::bytes(kind, b"x"));
    for (part, is_taken) in [
        (image("image/jpeg"), true),
        (image("image/png"), true),
        (image("image/gif"), true),
        (image("image/webp"), true),
        (image("image/bmp"), false),
        (document("application/pdf"), true),
        (document("text/plain"), true),
        (document("text/csv"), true),
        (document("application/msword"), false),
    ] {
        let count = server.requests().len();
        let answer = model.call(request(part.clone())).await;
        assert_eq!(answer.is_ok(), is_taken, "{part:?}");
        assert_eq!(server.requests().len() > count, is_taken, "{part:?}");
        if let Err(error) = answer {
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        }
    }
}

#[tokio::test]
async fn recording_is_refused_by_every_other_api() {
    let server = FaultServer::start().await.unwrap();
    let models: [Box<dyn Model>; 3] = [
        Box::new(Anthropic::new("m", "k").base_url(server.url())),
        Box::new(Ollama::new("m").base_url(server.url())),
        Box::new(OpenAiResponses::compatible(server.url(), "m")),
    ];
    for model in models {
        let error = model.call(request(audio("audio/wav"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert!(error.text().contains("takes no audio"), "{error}");
    }
    assert!(server.requests().is_empty());
}
