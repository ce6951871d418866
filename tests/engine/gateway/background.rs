//! The summaries, the last chat, and the heartbeat of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::gateway::{Gateway, Heartbeat, InProcessBus, StateManager, Summaries};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{AgentBuilder, ThreadStore};
use tokio::time::{Instant, sleep};

use super::{gateway_of, read_none, read_text, run_with, write};

#[tokio::test(start_paused = true)]
async fn session_over_twenty_messages_is_summarised_in_the_background() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(FunctionModel::text(|_| "ok".into())).store(store.clone());
    let summarizer = FunctionModel::text(|_| "<summary>They greeted.</summary>".into());
    let gateway = Gateway::builder(agent)
        .bus(bus.clone())
        .summaries(Summaries::new().with_model(summarizer))
        .build()
        .unwrap();
    run_with(&gateway, async {
        for number in 0..10 {
            write(&bus, &number.to_string(), "hi").await;
            read_text(&bus).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert!(store.get("tg:1").unwrap().compaction.is_none());
        write(&bus, "10", "hi").await;
        read_text(&bus).await;
        sleep(Duration::from_secs(1)).await;
    })
    .await;
    let state = store.get("tg:1").unwrap();
    assert_eq!(state.messages.len(), 22);
    assert_eq!(state.compaction.unwrap().through_message, 18);
}

#[tokio::test(start_paused = true)]
async fn session_of_direct_turns_is_summarised_while_the_gateway_does_not_run() {
    let store = ThreadStore::new();
    let agent = AgentBuilder::new(FunctionModel::text(|_| "ok".into())).store(store.clone());
    let summaries = Arc::new(AtomicUsize::new(0));
    let count = summaries.clone();
    let summarizer = FunctionModel::text(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        "<summary>They greeted.</summary>".into()
    });
    // The messages fit into one request to the summarizer.
    let summary = Summaries::new().with_model(summarizer).with_max_messages(6);
    let gateway = Gateway::builder(agent).summaries(summary).build().unwrap();
    for number in 1..=4 {
        assert_eq!(summaries.load(Ordering::Relaxed), 0, "before turn {number}");
        assert_eq!(gateway.process_direct("hi", "s").await.unwrap(), "ok");
    }
    assert_eq!(summaries.load(Ordering::Relaxed), 1);
    let compaction = store.get("s").unwrap().compaction;
    assert_eq!(compaction.unwrap().through_message, 4);
}

#[tokio::test(start_paused = true)]
async fn stop_drops_a_summary_after_ten_seconds() {
    let (builder, bus) = gateway_of(FunctionModel::text(|_| "ok".into()));
    let summaries = Summaries::new()
        .with_model(ScriptedModel::new().hang())
        .with_max_messages(6);
    let gateway = builder.summaries(summaries).build().unwrap();
    let chat = async {
        for number in 0..4 {
            write(&bus, &number.to_string(), "hi").await;
            read_text(&bus).await;
        }
        sleep(Duration::from_secs(1)).await;
        gateway.stop();
        Instant::now()
    };
    let (outcome, stopped_at) = tokio::join!(gateway.run(), chat);
    outcome.unwrap();
    assert_eq!(stopped_at.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn last_chat_of_a_person_is_recorded_and_reports_of_the_heartbeat_go_there() {
    let workspace = MemoryBackend::new();
    workspace
        .write("HEARTBEAT.md", b"- Is the build green?")
        .await
        .unwrap();
    let model = ScriptedModel::new()
        .say("Hello.")
        .say("The build is red.")
        .say("HEARTBEAT_OK");
    let (builder, bus) = gateway_of(model.clone());
    let gateway = builder
        .state(StateManager::load(workspace.clone()).await.unwrap())
        .heartbeat(Heartbeat::new(workspace.clone()))
        .build()
        .unwrap();
    assert_eq!(gateway.last_channel(), None);
    run_with(&gateway, async {
        write(&bus, "m1", "Hi").await;
        assert_eq!(read_text(&bus).await, "Hello.");
        assert_eq!(gateway.last_channel().as_deref(), Some("tg:1"));
        sleep(Duration::from_secs(31 * 60)).await;
        assert_eq!(read_text(&bus).await, "The build is red.");
        sleep(Duration::from_secs(29 * 60)).await;
        read_none(&bus).await;
    })
    .await;
    model.verify().unwrap();
    let state = StateManager::load(workspace).await.unwrap();
    assert_eq!(state.last_channel().as_deref(), Some("tg:1"));
}
