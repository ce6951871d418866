//! Gateways on one NATS server that are killed during turns: every message is answered exactly
//! once, in the order of its session.
//!
//! The gateways are child processes of this test binary, configured by variables. They need
//! `AGENTCORE_TEST_NATS` and `AGENTCORE_TEST_POSTGRES` or `AGENTCORE_TEST_REDIS`.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agentcore::gateway::{Gateway, InboundMessage, MessageBus, NatsBus, NatsOptions};
use agentcore::session::{PostgresStore, RedisStore, ServerOptions};
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, ModelEvent, ModelStream, SessionStore, StopReason};
use futures::StreamExt;
use futures::stream;
use tokio::time::{sleep, timeout};

use crate::nats_bus::{new_prefix, remove_streams, server};
use crate::session_stores::crash::runtime;

const PREFIX: &str = "AGENTCORE_GATEWAY_PREFIX";
const STORE: &str = "AGENTCORE_GATEWAY_STORE";
/// The variable with the number of kills, for longer tests by hand.
const KILLS: &str = "AGENTCORE_GATEWAY_KILLS";
/// The number of kills from which the test has 200 sessions and 5,000 messages.
const ALL_KILLS: usize = 50;

/// The size of a test.
struct Load {
    sessions: usize,
    messages: usize,
    kills: usize,
}

impl Load {
    fn of_environment() -> Self {
        let kills = std::env::var(KILLS).ok();
        let kills = kills.map_or(4, |text| text.parse().expect("a number of kills"));
        let is_whole = kills >= ALL_KILLS;
        Self {
            sessions: if is_whole { 200 } else { 20 },
            messages: if is_whole { 25 } else { 10 },
            kills,
        }
    }

    fn count(&self) -> usize {
        self.sessions * self.messages
    }
}

fn store_options(prefix: &str) -> ServerOptions {
    let prefix = prefix.replace('-', "");
    // The length of table names is limited.
    let prefix = format!("t{}", &prefix[prefix.len() - 20..]);
    ServerOptions::default()
        .prefix(prefix)
        .lease_time(Duration::from_secs(1))
        .timeout(Duration::from_secs(5))
}

fn store_at(url: &str, prefix: &str) -> Arc<dyn SessionStore> {
    let options = store_options(prefix);
    if url.starts_with("redis") {
        Arc::new(RedisStore::with_options(url, options).unwrap())
    } else {
        Arc::new(PostgresStore::with_options(url, options).unwrap())
    }
}

async fn bus(prefix: &str) -> NatsBus {
    let options = NatsOptions::default()
        .prefix(prefix)
        .max_bytes(64 << 20)
        .ack_wait(Duration::from_secs(2));
    let url = server().expect("the parent has checked it");
    NatsBus::with_options(url, options).await.unwrap()
}

/// A model that answers with the last input after a pause, in which the process may be killed.
fn model() -> FunctionModel {
    FunctionModel::stream(|request| {
        let text = format!("re: {}", request.messages.last_content());
        async move {
            sleep(Duration::from_millis(20)).await;
            let events = [
                Ok(ModelEvent::Text(text)),
                Ok(ModelEvent::stop(StopReason::EndTurn)),
            ];
            Ok::<ModelStream, _>(stream::iter(events).boxed())
        }
    })
}

/// Runs the gateway if this process is one, until it is killed.
#[test]
fn gateway_of_the_test() {
    let variable = |name| std::env::var(name).ok();
    let (Some(prefix), Some(url)) = (variable(PREFIX), variable(STORE)) else {
        return;
    };
    runtime().block_on(async {
        let agent = AgentBuilder::new(model()).store(store_at(&url, &prefix));
        let gateway = Gateway::builder(agent).bus(bus(&prefix).await).build();
        gateway.unwrap().run().await.unwrap();
    });
}

fn start(prefix: &str, url: &str) -> Child {
    let test = "killed_gateways::gateway_of_the_test";
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs([(PREFIX, prefix), (STORE, url)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

async fn publish(bus: &NatsBus, load: &Load) {
    for number in 0..load.messages {
        let messages = (0..load.sessions).map(|session| {
            let id = format!("{session}-{number}");
            InboundMessage::new("tg", session.to_string(), "u1", number.to_string()).with_id(id)
        });
        let publishing = messages.map(|message| bus.publish_inbound(message));
        let publishing = stream::iter(publishing).buffered(50);
        publishing
            .for_each(|outcome| async { outcome.unwrap() })
            .await;
    }
}

/// Reads all replies, and kills gateways at equal intervals.
async fn read_replies(bus: &NatsBus, load: &Load, kill: &mut impl FnMut()) {
    let mut next: HashMap<String, usize> = HashMap::new();
    let step = (load.count() / (load.kills + 1)).max(1);
    let mut kill_count = 0;
    for count in 1..=load.count() {
        let delivery = timeout(Duration::from_secs(60), bus.consume_outbound("tg")).await;
        let delivery =
            delivery.unwrap_or_else(|_| panic!("{} of {} replies", count - 1, load.count()));
        let delivery = delivery.unwrap().unwrap();
        let reply = &delivery.message;
        let number = next.entry(reply.chat_id.to_string()).or_default();
        // The replies of a session are in order, complete and without repetition.
        assert_eq!(*reply.id, format!("{}-{number}:reply", reply.chat_id));
        assert_eq!(*reply.content, format!("re: {number}"));
        *number += 1;
        delivery.ack().await.unwrap();
        if count.is_multiple_of(step) && kill_count < load.kills {
            kill();
            kill_count += 1;
        }
    }
    let extra = timeout(Duration::from_secs(3), bus.consume_outbound("tg")).await;
    assert!(extra.is_err(), "a reply is repeated");
    assert_eq!(kill_count, load.kills);
}

async fn test(store_variable: &str) {
    let Some(nats_url) = server() else { return };
    let Ok(url) = std::env::var(store_variable) else {
        println!("skipped: {store_variable} names no server");
        return;
    };
    let (prefix, load) = (new_prefix(), Load::of_environment());
    let bus = bus(&prefix).await;
    let mut gateways = [start(&prefix, &url), start(&prefix, &url)];
    let mut index = 0;
    let mut kill = || {
        index = (index + 1) % gateways.len();
        let gateway = &mut gateways[index];
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        *gateway = start(&prefix, &url);
    };
    let replies = read_replies(&bus, &load, &mut kill);
    let outcome =
        std::panic::AssertUnwindSafe(async { tokio::join!(publish(&bus, &load), replies) });
    let outcome = futures::FutureExt::catch_unwind(outcome).await;
    for gateway in &mut gateways {
        gateway.kill().unwrap();
        gateway.wait().unwrap();
    }
    let store = store_at(&url, &prefix);
    let mut histories = Vec::new();
    for session in 0..load.sessions {
        let id = format!("tg:{session}");
        if let Some(stored) = store.load(&id).await.unwrap() {
            histories.push(stored.state.messages);
        }
        remove(&*store, &id).await;
    }
    remove_streams(&nats_url, &prefix).await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }

    assert_eq!(histories.len(), load.sessions);
    for messages in histories {
        messages.validate_for_model().unwrap();
        assert_eq!(messages.user_messages().count(), load.messages);
    }
}

/// Removes a session, whose lease may outlive its gateway for a moment.
async fn remove(store: &dyn SessionStore, id: &str) {
    for _ in 0..50 {
        if store.delete(id).await.is_ok() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn messages_of_killed_gateways_are_answered_once_with_postgres() {
    test("AGENTCORE_TEST_POSTGRES").await;
}

#[tokio::test]
async fn messages_of_killed_gateways_are_answered_once_with_redis() {
    test("AGENTCORE_TEST_REDIS").await;
}
