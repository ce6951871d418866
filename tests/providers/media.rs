//! Media that an API or a model does not accept.

use agentcore::message::{Media, Message, Messages, Part};
use agentcore::model::ModelProfile;
use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, Ollama, OpenAi};
use agentcore::testing::FaultServer;
use agentcore::{AgentBuilder, Error, ErrorKind, Model, ModelRequest};

fn wav() -> Part {
    Part::Audio(Media::bytes("audio/wav", b"x"))
}

fn png() -> Part {
    Part::Image(Media::bytes("image/png", b"x"))
}

fn models(server: &FaultServer) -> [Box<dyn Model>; 3] {
    [
        Box::new(Anthropic::new("m", "k").base_url(server.url())),
        Box::new(OpenAi::compatible(server.url(), "m")),
        Box::new(Ollama::new("m").base_url(server.url())),
    ]
}

/// Returns the error of a request that is not sent.
async fn refusal(model: &dyn Model, server: &FaultServer, media: Part) -> Error {
    let input = Message::human([Part::text("Look:"), media]);
    let request = ModelRequest::new(Messages::new().with(input));
    let error = model.call(request).await.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(server.requests().is_empty());
    error
}

#[tokio::test]
async fn recording_for_a_model_without_audio_is_an_error_before_sending() {
    let server = FaultServer::start().await.unwrap();
    let [claude, _, ollama] = models(&server);
    for model in [claude, ollama] {
        let error = refusal(&*model, &server, wav()).await;
        let text = "takes no audio in this form (audio/wav)";
        assert!(error.text().contains(text), "{error}");
    }
}

#[tokio::test]
async fn image_for_a_model_without_images_is_an_error() {
    let server = FaultServer::start().await.unwrap();
    let profile = ModelProfile::default().with_images(false);
    let models: [Box<dyn Model>; 3] = [
        Box::new(
            Anthropic::new("m", "k")
                .base_url(server.url())
                .with_profile(profile),
        ),
        Box::new(OpenAi::compatible(server.url(), "m").with_profile(profile)),
        Box::new(
            Ollama::new("m")
                .base_url(server.url())
                .with_profile(profile),
        ),
    ];
    for model in models {
        let error = refusal(&*model, &server, png()).await;
        assert!(error.text().contains("with_images"), "{error}");
    }
}

#[tokio::test]
async fn file_of_another_provider_is_an_error() {
    let server = FaultServer::start().await.unwrap();
    for model in models(&server) {
        for part in [Part::Image, Part::Document] {
            let file = part(Media::file("gemini", "file-1"));
            let error = refusal(&*model, &server, file).await;
            assert!(error.text().contains("(a file of gemini)"), "{error}");
        }
    }
}

#[tokio::test]
async fn long_type_or_provider_is_cut_in_the_error() {
    let server = FaultServer::start().await.unwrap();
    let [claude, ..] = models(&server);
    let long = "x".repeat(100_000);
    for media in [
        Media::bytes(format!("audio/{long}"), b"x"),
        Media::file(long, "file-1"),
    ] {
        let error = refusal(&*claude, &server, Part::Audio(media)).await;
        assert!(error.text().contains("xxx...); send it"), "{error}");
        assert!(error.text().len() < 300, "{error}");
    }
}

#[tokio::test]
async fn address_where_only_data_is_taken_is_an_error() {
    let server = FaultServer::start().await.unwrap();
    let [_, chat, ollama] = models(&server);
    let address = || Media::url("http://x/y");
    for (model, part) in [
        (&chat, Part::Document(address())),
        (&ollama, Part::Image(address())),
    ] {
        let error = refusal(&**model, &server, part).await;
        assert!(error.text().contains("(an address)"), "{error}");
    }
}

#[tokio::test]
async fn run_continues_with_the_next_input() {
    let server = FaultServer::start().await.unwrap();
    server.openai_text("ok");
    let model = OpenAi::compatible(server.url(), "m").dialect(Dialect::groq());
    let agent = AgentBuilder::new(model).build().unwrap();
    let session = || agent.session("s");
    let input = Messages::new().with(Message::human([Part::text("Listen:"), wav()]));
    let error = session().run(input).await.unwrap_err();
    assert!(error.text().contains("the input was removed"), "{error}");
    assert_eq!(session().run("Hi").await.unwrap().text, "ok");
    let body = server.requests().remove(0).json();
    assert!(!body.to_string().contains("Listen"), "{body}");
}
