//! The order of turns, busy sessions, and many sessions at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::gateway::{Gateway, InProcessBus};
use agentcore::session::StoredSession;
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{AgentBuilder, ModelEvent, SdkMessage, SessionStore, ThreadStore};
use tokio::time::{Instant, sleep};

use crate::kit::effort::cases;
use crate::kit::spied_store::{Spied, Spy};

use super::{answer, gateway_of, read, read_text, run_with, write, write_as};

/// A model that repeats the last input after a time.
fn slow_echo(millis: u64) -> FunctionModel {
    FunctionModel::stream(move |request| {
        let text = request.messages.last_content().into_owned();
        async move {
            sleep(Duration::from_millis(millis)).await;
            Ok(answer(ModelEvent::Text(format!("re: {text}"))))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_session_wait_for_each_other_and_sessions_do_not() {
    let (builder, bus) = gateway_of(slow_echo(1_000));
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        let start = Instant::now();
        for (chat, id, text) in [("1", "a", "one"), ("1", "b", "two"), ("2", "c", "three")] {
            write_as(&bus, chat, "u1", id, text).await;
        }
        let mut texts = vec![read_text(&bus).await, read_text(&bus).await];
        texts.sort();
        assert_eq!(texts, ["re: one", "re: three"]);
        assert_eq!(start.elapsed().as_secs(), 1);
        assert_eq!(read_text(&bus).await, "re: two");
        assert_eq!(start.elapsed().as_secs(), 2);
    })
    .await;
    assert_eq!(gateway.active_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn parallel_sessions_are_limited() {
    let (builder, bus) = gateway_of(slow_echo(1_000));
    let gateway = builder.parallel_sessions(2).build().unwrap();
    run_with(&gateway, async {
        let start = Instant::now();
        for chat in ["1", "2", "3"] {
            write_as(&bus, chat, "u1", chat, "hi").await;
        }
        for seconds in [1, 1, 2] {
            read(&bus).await;
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn session_that_another_process_holds_is_tried_again_in_order() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(slow_echo(10)).store(store.clone());
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    let lease = store.lease("tg:1").await.unwrap();
    run_with(&gateway, async {
        for text in ["one", "two", "three"] {
            write(&bus, text, text).await;
        }
        sleep(Duration::from_secs(3)).await;
        drop(lease);
        for text in ["re: one", "re: two", "re: three"] {
            assert_eq!(read_text(&bus).await, text);
        }
    })
    .await;
}

/// Counts the loads of sessions.
#[derive(Clone, Default)]
struct CountLoads(Arc<AtomicUsize>);

impl Spy for CountLoads {
    fn loaded(&self, stored: Option<StoredSession>) -> Option<StoredSession> {
        self.0.fetch_add(1, Ordering::Relaxed);
        stored
    }
}

#[tokio::test(start_paused = true)]
async fn session_that_another_process_holds_is_not_loaded() {
    let (store, loads) = (ThreadStore::new(), CountLoads::default());
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(slow_echo(10)).store(Spied(store.clone(), loads.clone()));
    let gateway = Gateway::builder(agent).bus(bus.clone()).build().unwrap();
    let lease = store.lease("tg:1").await.unwrap();
    run_with(&gateway, async {
        write(&bus, "a", "one").await;
        sleep(Duration::from_secs(3)).await;
        assert_eq!(loads.0.load(Ordering::Relaxed), 0);
        drop(lease);
        assert_eq!(read_text(&bus).await, "re: one");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn direct_turn_after_a_retried_message_is_processed() {
    let store = ThreadStore::new();
    let bus = InProcessBus::default();
    let agent = AgentBuilder::new(slow_echo(10)).store(store.clone());
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder.parallel_sessions(1).build().unwrap();
    let lease = store.lease("tg:1").await.unwrap();
    run_with(&gateway, async {
        // Both wait for the only permit; the message is the first of its lane.
        let other_turn = gateway.process_direct("hi", "other");
        let chat = async {
            write(&bus, "a", "one").await;
            sleep(Duration::from_millis(5)).await;
            let direct_turn = gateway.process_direct("two", "tg:1");
            let (reply, ()) = tokio::join!(direct_turn, async {
                sleep(Duration::from_millis(100)).await;
                drop(lease);
            });
            assert_eq!(reply.unwrap(), "re: two");
            assert_eq!(read_text(&bus).await, "re: one");
        };
        let (reply, ()) = tokio::join!(other_turn, chat);
        assert_eq!(reply.unwrap(), "re: hi");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn observer_sees_the_messages_of_all_runs() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let (builder, bus) = gateway_of(ScriptedModel::new().say("Hello."));
    let builder = builder.observe(move |message: &SdkMessage| {
        let id = message.envelope().session_id.to_string();
        log.lock()
            .unwrap()
            .push((id, message.text().as_deref().map(str::to_owned)));
    });
    let gateway = builder.build().unwrap();
    run_with(&gateway, async {
        write(&bus, "a", "Hi").await;
        read(&bus).await;
    })
    .await;
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&("tg:1".to_owned(), Some("Hello.".to_owned()))));
}

#[tokio::test(start_paused = true)]
async fn observer_that_panics_ends_nothing() {
    let (builder, bus) = gateway_of(slow_echo(1_000));
    let gateway = builder.observe(|_: &SdkMessage| panic!("no observer"));
    let gateway = gateway.build().unwrap();
    run_with(&gateway, async {
        for chat in ["1", "2"] {
            write_as(&bus, chat, "u1", chat, "hi").await;
        }
        for _ in 0..2 {
            assert_eq!(read_text(&bus).await, "re: hi");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_sessions_keep_their_order_and_none_waits_for_another() {
    // The full load takes a minute, so it runs only if the environment asks for it.
    let (sessions, messages) = if cases(0) > 0 { (1_000, 20) } else { (400, 5) };
    let bus = InProcessBus::new(sessions * messages);
    let store = ThreadStore::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let model = FunctionModel::stream(move |request| {
        count.fetch_add(1, Ordering::Relaxed);
        let text = request.messages.last_content().into_owned();
        async move {
            sleep(Duration::from_millis(20)).await;
            Ok(answer(ModelEvent::Text(text)))
        }
    });
    let agent = AgentBuilder::new(model).store(store.clone());
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder
        .parallel_sessions(sessions)
        .summaries(None)
        .build()
        .unwrap();
    let start = Instant::now();
    let ends = run_with(&gateway, async {
        for number in 0..messages {
            for chat in 0..sessions {
                let id = format!("{chat}-{number}");
                write_as(&bus, &chat.to_string(), "u1", &id, &number.to_string()).await;
            }
        }
        let mut next: HashMap<String, usize> = HashMap::new();
        let mut ends = Vec::new();
        for _ in 0..sessions * messages {
            let reply = read(&bus).await;
            let number = next.entry(reply.chat_id.to_string()).or_default();
            assert_eq!(*reply.content, number.to_string(), "chat {}", reply.chat_id);
            *number += 1;
            if *number == messages {
                ends.push(start.elapsed());
            }
        }
        ends
    })
    .await;
    assert_eq!(calls.load(Ordering::Relaxed), sessions * messages);
    assert_eq!((ends.len(), gateway.active_sessions()), (sessions, 0));
    let (median, slowest) = (ends[sessions / 2], ends[sessions - 1]);
    assert!(slowest <= 2 * median, "{slowest:?} and {median:?}");
}
