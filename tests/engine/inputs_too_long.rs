//! Inputs that are too long, which fail their run but not their session.

use std::sync::{Arc, Mutex};

use agentcore::message::Media;
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, Decision, Error, ErrorKind, ExitReason, FuncTool, Message, Messages, ModelEvent,
    ModelRequest, OnUnanswered, Part, Result, RunContext, StopReason, ThreadStore, ToolCall,
    async_trait, hook,
};
use serde_json::json;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::kit::keys::listen;
use crate::kit::{agent, any_object, asking, roles, stored, warnings, watch};

const WINDOW: usize = 1_000;

/// A model that answers `ok`, makes a call or fails, as `f` returns for each request.
fn answering(f: impl Fn(&ModelRequest) -> Result<Part> + Send + Sync + 'static) -> FunctionModel {
    FunctionModel::new(move |request| match f(&request) {
        Ok(Part::ToolCall(call)) => vec![
            Ok(ModelEvent::ToolCall(call)),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ],
        Ok(_) => vec![
            Ok(ModelEvent::Text("ok".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ],
        Err(error) => vec![Err(error)],
    })
}

fn too_long() -> Error {
    Error::new(ErrorKind::ContextTooLong, "too many tokens")
}

/// A model with a window of 1,000 characters that accepts neither images nor documents.
fn small() -> FunctionModel {
    answering(|request| {
        let sent = request.messages.iter();
        let pictures = sent.clone().flat_map(|message| message.content().parts());
        if pictures
            .clone()
            .any(|part| matches!(part, Part::Document(_)))
        {
            return Err(Error::new(ErrorKind::InvalidRequest, "no documents here"));
        }

        if pictures.clone().any(|part| matches!(part, Part::Image(_))) {
            return Err(Error::new(ErrorKind::RequestTooLarge, "413"));
        }

        match sent.map(|message| message.text().len()).sum::<usize>() {
            0..WINDOW => Ok(Part::text("ok")),
            _ => Err(too_long()),
        }
    })
}

fn long() -> String {
    "x".repeat(2 * WINDOW)
}

async fn is_alive(agent: &Agent) {
    let output = agent.session("s").run("hi").await.unwrap();
    assert_eq!(output.text, "ok");
}

#[tokio::test]
async fn too_long_input_is_removed_and_the_error_explains_it() {
    let agent = agent(small()).build().unwrap();
    agent.session("s").run("first").await.unwrap();
    let (messages, output) = watch(agent.session("s").run(long())).await;
    let error = output.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContextTooLong);
    let text = error.to_string();
    for part in [
        "too many tokens",
        "input was removed",
        "shorten",
        "compactor",
        "context_window",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }

    let partial_messages = &error.partial().unwrap().messages;
    assert_eq!(
        roles(partial_messages),
        "user assistant",
        "the history before it"
    );
    assert_eq!(warnings(&messages), [""; 0]);
    assert_eq!(roles(&stored(&agent, "s").await), "user assistant");
    is_alive(&agent).await;
}

#[tokio::test]
async fn too_long_first_input_leaves_an_empty_session() {
    let agent = agent(small()).keep_refused(true).build().unwrap();
    agent.session("s").run(long()).await.unwrap_err();
    assert!(stored(&agent, "s").await.is_empty());
    is_alive(&agent).await;
}

#[cfg(all(feature = "jsonl", feature = "sqlite"))]
#[tokio::test]
async fn too_long_input_is_removed_from_durable_stores() {
    use agentcore::SessionStore;
    use agentcore::session::{JsonlStore, SqliteStore};

    async fn check<S: SessionStore>(open: impl Fn() -> S) {
        let first = agent(small()).store(open()).build().unwrap();
        first.session("s").run("first").await.unwrap();
        first
            .session("s")
            .input_id("i")
            .run(long())
            .await
            .unwrap_err();
        drop(first);
        let again = agent(small()).store(open()).build().unwrap();
        assert_eq!(roles(&stored(&again, "s").await), "user assistant");
        let output = again.session("s").input_id("i").run("short").await.unwrap();
        assert_eq!((&*output.text, output.turns), ("ok", 1));
    }

    let folder = tempfile::tempdir().unwrap();
    check(|| JsonlStore::open(folder.path().join("a")).unwrap()).await;
    check(|| SqliteStore::open(folder.path().join("b.db")).unwrap()).await;
}

#[tokio::test]
async fn id_of_a_removed_input_may_be_used_again() {
    let agent = agent(small()).build().unwrap();
    let session = agent.session("s").input_id("i");
    session.clone().run(long()).await.unwrap_err();
    let output = session.clone().run("short").await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
    assert_eq!(session.run("again").await.unwrap().turns, 0);
}

#[tokio::test]
async fn rejected_media_and_too_large_requests_remove_the_input() {
    let agent = agent(small()).build().unwrap();
    let media = || Media::base64("image/png", "AAAA");
    for (part, kind) in [
        (Part::Image(media()), ErrorKind::RequestTooLarge),
        (Part::Document(media()), ErrorKind::InvalidRequest),
    ] {
        let input = Message::human([Part::text("Look"), part]);
        let error = agent.session("s").run(input).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains("input was removed"), "{error}");
        is_alive(&agent).await;
    }
}

#[tokio::test]
async fn text_input_rejected_as_invalid_is_kept() {
    let model = answering(|_| Err(Error::new(ErrorKind::InvalidRequest, "bad option")));
    let agent = agent(model).build().unwrap();
    agent.session("s").run("hi").await.unwrap_err();
    assert_eq!(roles(&stored(&agent, "s").await), "user");
}

#[tokio::test]
async fn unanswered_input_of_a_dropped_run_is_removed_when_it_is_the_longer_one() {
    let store = ThreadStore::new();
    let stuck = agent(ScriptedModel::new().hang())
        .store(store.clone())
        .build()
        .unwrap();
    let mut run = stuck.session("s").run(long());
    while futures::poll!(run.next()).is_ready() {}
    drop(run);
    let agent = agent(small()).store(store).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("hi")).await;
    let error = output.unwrap_err();
    assert!(error.to_string().contains("2 messages"), "{error}");
    let warned = warnings(&messages).concat();
    assert!(warned.contains("an earlier run"), "{warned}");
    assert!(stored(&agent, "s").await.is_empty());
    is_alive(&agent).await;
}

#[tokio::test]
async fn shorter_unanswered_input_of_an_earlier_run_is_kept() {
    let store = ThreadStore::new();
    let down = answering(|_| Err(Error::new(ErrorKind::Auth, "no key")));
    let down = agent(down).store(store.clone()).build().unwrap();
    down.session("s").run("short").await.unwrap_err();
    let agent = agent(small()).store(store).build().unwrap();
    agent.session("s").run(long()).await.unwrap_err();
    assert_eq!(stored(&agent, "s").await, Messages::from("short"));
    is_alive(&agent).await;
}

#[tokio::test]
async fn answered_messages_are_kept_and_the_error_suggests_rewind_to() {
    let read = FuncTool::new("read", "Reads", any_object(), |_, _| async { long() });
    let model = answering(|request| {
        let sent = request.messages.iter().map(|message| message.text().len());
        match (
            sent.sum::<usize>(),
            request.messages.last_content().as_ref(),
        ) {
            (0..WINDOW, "read") => {
                let call = ToolCall::new("c", "read", json!({}));
                Ok(Part::ToolCall(call))
            }
            (0..WINDOW, _) => Ok(Part::text("ok")),
            _ => Err(too_long()),
        }
    });

    let agent = agent(model).tool(read).build().unwrap();
    agent.session("s").run("first").await.unwrap();
    let error = agent.session("s").run("read").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("rewind_to(2)"), "{text}");
    assert!(!text.contains("input was removed"), "{text}");
    assert_eq!(
        roles(&stored(&agent, "s").await),
        "user assistant user assistant tool"
    );
    let output = agent.session("s").rewind_to(2).run("hi").await.unwrap();
    assert_eq!(output.text, "ok");
}

#[tokio::test]
async fn results_of_approved_calls_are_kept_when_the_request_is_too_long() {
    let read = FuncTool::new("pay", "Pays", any_object(), |_, _| async { long() });
    let model = answering(|request| {
        let sent = request.messages.iter().map(|message| message.text().len());
        match sent.sum::<usize>() {
            0..WINDOW => {
                let call = ToolCall::new("c", "pay", json!({}));
                Ok(Part::ToolCall(call))
            }
            _ => Err(too_long()),
        }
    });

    let agent = agent(model)
        .tool(read)
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.session("s").run("pay").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let pending = agent.session("s").pending().await.unwrap();
    let resumed = agent
        .session("s")
        .resume([Decision::allow(&pending[0])])
        .await;
    assert_eq!(resumed.unwrap_err().kind(), ErrorKind::ContextTooLong);
    assert_eq!(roles(&stored(&agent, "s").await), "user assistant tool");
}

async fn first_title_is_taken_back(agent: &Agent) {
    let title = async || {
        let list = agent.store().list().await.unwrap();
        list.into_iter()
            .find(|info| &*info.id == "s")
            .and_then(|info| info.title)
    };
    agent.session("s").run(long()).await.unwrap_err();
    assert_eq!(title().await, None);
    agent.session("s").run("hi").await.unwrap();
    assert_eq!(title().await.as_deref(), Some("hi"));
}

#[tokio::test]
async fn title_of_a_removed_first_input_is_removed() {
    let agent = || agent(small()).keep_refused(true);
    first_title_is_taken_back(&agent().build().unwrap()).await;
    let store = ThreadStore::new();
    first_title_is_taken_back(&agent().store(store).build().unwrap()).await;
}

#[cfg(all(feature = "jsonl", feature = "sqlite"))]
#[tokio::test]
async fn title_of_a_removed_first_input_is_removed_from_durable_stores() {
    use agentcore::session::{JsonlStore, SqliteStore};

    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(folder.path().join("a")).unwrap();
    first_title_is_taken_back(&agent(small()).store(store).build().unwrap()).await;
    let store = SqliteStore::open(folder.path().join("b.db")).unwrap();
    first_title_is_taken_back(&agent(small()).store(store).build().unwrap()).await;
    let store = SqliteStore::open(folder.path().join("b.db")).unwrap();
    let again = agent(small()).store(store).build().unwrap();
    let list = again.store().list().await.unwrap();
    assert_eq!(list[0].title.as_deref(), Some("hi"));
}

/// Reads the state of a run at every `tracing` event.
#[derive(Clone, Default)]
struct StateReader(Arc<Mutex<Option<RunContext>>>);

impl<S: tracing::Subscriber> Layer<S> for StateReader {
    fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
        let cx = self.0.lock().unwrap().clone();
        if let Some(cx) = cx {
            cx.with_state(|_| ());
        }
    }
}

/// Summarizes every message.
struct Everything;

#[async_trait]
impl Compactor for Everything {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        true
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let count = request.messages.len();
        Ok(Some(Compaction::new("a summary", count)))
    }
}

#[tokio::test]
async fn stale_summary_warning_is_emitted_while_the_state_is_readable() {
    let reader = StateReader::default();
    let subscriber = tracing_subscriber::registry().with(reader.clone());
    let _guard = listen(subscriber);
    let hook = hook::before_agent("keep", move |cx, state| {
        *reader.0.lock().unwrap() = Some(cx);
        async { Ok(state) }
    });

    let model = answering(|_| Err(Error::new(ErrorKind::RequestTooLarge, "413")));
    let agent = agent(model)
        .compactor(Everything)
        .hook(hook)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("hi")).await;
    assert_eq!(output.unwrap_err().kind(), ErrorKind::RequestTooLarge);
    let warned = warnings(&messages).concat();
    assert!(warned.contains("the summary was dropped"), "{warned}");
}
