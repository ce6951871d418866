//! Fallbacks between models, and models by name.

use std::sync::{Arc, Mutex};

use agentcore::model::{ModelCard, ModelProfile, ModelStream, ResponseHead, StopReason};
use agentcore::providers::{FallbackModel, resolve};
use agentcore::{Error, ErrorKind, Model, ModelEvent, ModelRequest, Result};
use futures::{StreamExt, stream};

/// A model with one script per request; a script is an error or a stream.
struct Scripted {
    id: &'static str,
    scripts: Mutex<Vec<Script>>,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

type Script = Result<Vec<Result<ModelEvent, ErrorKind>>, ErrorKind>;

#[agentcore::async_trait]
impl Model for Scripted {
    fn id(&self) -> &str {
        self.id
    }

    fn profile(&self) -> &ModelProfile {
        static PROFILE: std::sync::LazyLock<ModelProfile> =
            std::sync::LazyLock::new(ModelProfile::default);
        &PROFILE
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        self.asked.lock().expect("no panic").push(self.id);

        // Each model must receive its own cache, not that of another model.
        if let Some(memory) = request.provider_cache().take::<&'static str>() {
            assert_eq!(*memory, self.id);
        }

        request.provider_cache().put(Box::new(self.id));
        let script = self.scripts.lock().expect("no panic").remove(0);
        let events = script.map_err(|kind| Error::new(kind, self.id))?;
        let id = self.id;
        let events = events
            .into_iter()
            .map(move |event| event.map_err(|kind| Error::new(kind, id)));
        Ok(stream::iter(events.collect::<Vec<_>>()).boxed())
    }
}

/// The fallback of models `a`, `b` ... with these scripts, and the order of their requests.
fn models(all: Vec<Vec<Script>>) -> (FallbackModel, Arc<Mutex<Vec<&'static str>>>) {
    let asked: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let scripted = ["a", "b", "c"]
        .into_iter()
        .zip(all)
        .map(|(id, scripts)| Scripted {
            id,
            scripts: Mutex::new(scripts),
            asked: asked.clone(),
        });
    (FallbackModel::new(scripted), asked)
}

fn text(text: &str) -> Result<ModelEvent, ErrorKind> {
    Ok(ModelEvent::Text(text.to_owned()))
}

fn stop(reason: StopReason) -> Result<ModelEvent, ErrorKind> {
    Ok(ModelEvent::stop(reason))
}

fn good(answer: &str) -> Script {
    Ok(vec![text(answer), stop(StopReason::EndTurn)])
}

#[tokio::test]
async fn next_model_is_called_after_provider_errors_only() {
    use ErrorKind::*;
    for kind in [
        Connect,
        Dns,
        Tls,
        Proxy,
        Timeout,
        Auth,
        PermissionDenied,
        NotFound,
        RateLimited,
        QuotaExhausted,
        Overloaded,
        Server,
        StreamTruncated,
        Refused,
    ] {
        let (model, asked) = models(vec![vec![Err(kind)], vec![good("b")]]);
        let answer = model.call(ModelRequest::new("x")).await.expect("an answer");
        assert_eq!(answer.text(), "b", "{kind:?}");
        assert_eq!(*asked.lock().expect("no panic"), ["a", "b"]);
    }

    for kind in [
        InvalidRequest,
        ContextTooLong,
        RequestTooLarge,
        InvalidMessages,
        Config,
    ] {
        let (model, asked) = models(vec![vec![Err(kind)], vec![good("b")]]);
        let error = model
            .call(ModelRequest::new("x"))
            .await
            .expect_err("an error");
        assert_eq!(error.kind(), kind);
        assert_eq!(*asked.lock().expect("no panic"), ["a"]);
    }
}

#[tokio::test]
async fn fallback_emits_a_restart_after_partial_output() {
    let broken = Ok(vec![text("half"), Err(ErrorKind::Overloaded)]);
    let refusal = Ok(vec![text("I"), stop(StopReason::Refusal)]);
    let (model, _) = models(vec![vec![broken], vec![refusal], vec![good("whole")]]);
    let stream = model
        .stream(ModelRequest::new("x"))
        .await
        .expect("a stream");
    let events: Vec<ModelEvent> = stream.map(|event| event.expect("no error")).collect().await;
    let head_of = |id: &str| {
        let mut head = ResponseHead::default();
        head.answered_by = Some(Box::new(ModelCard::new(id, ModelProfile::default())));
        ModelEvent::Start(Box::new(head))
    };

    assert_eq!(
        events,
        [
            ModelEvent::Text("half".into()),
            ModelEvent::Restart,
            head_of("b"),
            ModelEvent::Text("I".into()),
            ModelEvent::Restart,
            head_of("c"),
            ModelEvent::Text("whole".into()),
            ModelEvent::stop(StopReason::EndTurn),
        ]
    );
}

#[tokio::test]
async fn warning_of_the_first_model_does_not_restart_the_answer() {
    let warned = Ok(vec![
        Ok(ModelEvent::Warning("no seed".into())),
        Err(ErrorKind::Overloaded),
    ]);
    let (model, _) = models(vec![vec![warned], vec![good("whole")]]);
    let stream = model
        .stream(ModelRequest::new("x"))
        .await
        .expect("a stream");
    let events: Vec<ModelEvent> = stream.map(|event| event.expect("no error")).collect().await;
    assert!(!events.contains(&ModelEvent::Restart), "{events:?}");
    assert!(events.contains(&ModelEvent::Warning("no seed".into())));
}

#[tokio::test]
async fn last_refusal_is_returned_as_the_answer() {
    let refusal = || Ok(vec![stop(StopReason::Refusal)]);
    let (model, _) = models(vec![vec![refusal()], vec![refusal()]]);
    let answer = model.call(ModelRequest::new("x")).await.expect("an answer");
    assert_eq!(answer.stop_reason, Some(StopReason::Refusal));
}

#[tokio::test]
async fn retryable_error_is_preferred_over_a_permanent_one() {
    let (model, _) = models(vec![
        vec![Err(ErrorKind::Overloaded)],
        vec![Err(ErrorKind::Auth)],
    ]);
    let error = model
        .call(ModelRequest::new("x"))
        .await
        .expect_err("an error");
    assert_eq!((error.kind(), error.text()), (ErrorKind::Overloaded, "a"));

    let (model, _) = models(vec![
        vec![Err(ErrorKind::Auth)],
        vec![Err(ErrorKind::Timeout)],
    ]);
    let error = model
        .call(ModelRequest::new("x"))
        .await
        .expect_err("an error");
    assert_eq!(error.text(), "b");
}

#[tokio::test]
async fn each_request_starts_with_the_first_model() {
    let (model, asked) = models(vec![
        vec![
            Err(ErrorKind::Overloaded),
            good("a"),
            Err(ErrorKind::Server),
        ],
        vec![good("b"), good("b")],
    ]);
    let request = ModelRequest::new("x");
    for expected in ["b", "a", "b"] {
        let answer = model.call(request.clone()).await.expect("an answer");
        assert_eq!(answer.text(), expected);
    }

    assert_eq!(*asked.lock().expect("no panic"), ["a", "b", "a", "a", "b"]);
    assert_eq!(model.id(), "a");
}

#[tokio::test]
async fn fallback_without_models_is_a_config_error_and_then_adds_one() {
    let (model, _) = models(vec![]);
    let error = model
        .call(ModelRequest::new("x"))
        .await
        .expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Config);

    let (other, _) = models(vec![vec![good("a")]]);
    let answer = model.then(other).call(ModelRequest::new("x")).await;
    assert_eq!(answer.expect("an answer").text(), "a");
}

#[test]
fn unresolvable_model_names_are_config_errors_with_a_hint() {
    for spec in ["llama", "nobody:llama", "anthropic:", "", ":x"] {
        let error = resolve(spec).map(|_| ()).expect_err(spec);
        assert_eq!(error.kind(), ErrorKind::Config, "{spec}");
        assert!(error.text().contains("anthropic"), "{error}");
    }

    let long_name = "x".repeat(10_000);
    for spec in [
        long_name.clone(),
        format!("{long_name}:x"),
        format!("{long_name}:"),
    ] {
        let error = resolve(&spec).map(|_| ()).expect_err(&spec);
        assert!(error.text().len() < 1_000, "{}", error.text().len());
    }

    // The environment may or may not have a key; both outcomes are checked.
    for spec in ["claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"] {
        match resolve(spec) {
            Ok(model) => assert_eq!(model.id(), "anthropic:claude-sonnet-4-5"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Auth);
                assert!(error.text().contains("ANTHROPIC_API_KEY"), "{error}");
            }
        }
    }
}
