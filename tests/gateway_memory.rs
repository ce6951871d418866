//! The memory of a gateway under load, and the copies of a long message. The test is a program of
//! its own, because it counts all allocations of the process.
#![cfg(feature = "gateway")]
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::time::Duration;

use agentcore::gateway::{Gateway, InProcessBus, InboundMessage, MessageBus};
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, ModelEvent, ModelStream, StopReason, ThreadStore};
use futures::StreamExt;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SESSIONS: usize = 1_000;
const MESSAGES: usize = 10;
/// The first message from which on memory is flat, because the bus stores a bounded number of ids.
const FIRST: usize = 5;
const MIB: usize = 1_024 * 1_024;

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A model that answers after 20 ms.
fn model() -> FunctionModel {
    FunctionModel::stream(|_request| async {
        sleep(Duration::from_millis(20)).await;
        let events = [
            Ok(ModelEvent::Text("ok".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ];
        Ok::<ModelStream, _>(futures::stream::iter(events).boxed())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// Sends one message to each session, reads the replies, and returns the peak memory.
async fn round(bus: &InProcessBus, number: usize) -> usize {
    for session in 0..SESSIONS {
        let id = format!("{session}-{number}");
        let message = InboundMessage::new("tg", session.to_string(), "u1", "hi").with_id(id);
        bus.publish_inbound(message).await.unwrap();
    }
    let mut peak = 0;
    for _ in 0..SESSIONS {
        let delivery = bus.consume_outbound("tg").await.unwrap().unwrap();
        peak = peak.max(live_bytes());
        delivery.ack().await.unwrap();
    }
    peak
}

/// Asserts that no value exceeds the first by more than a twentieth of `scale`.
fn assert_flat(name: &str, values: &[usize], scale: usize) {
    let first = values[0];
    for value in values {
        assert!(
            value.saturating_sub(first) <= scale / 20,
            "{name}: {value} bytes after {first}, of {scale}: {values:?}"
        );
    }
}

fn gateway_under_load_has_flat_memory() {
    let store = ThreadStore::new();
    let bus = InProcessBus::new(SESSIONS);
    let agent = AgentBuilder::new(model()).store(store.clone());
    let builder = Gateway::builder(agent).bus(bus.clone());
    let gateway = builder.parallel_sessions(SESSIONS).build().unwrap();
    let chat = async {
        let (mut peaks, mut levels) = (Vec::new(), Vec::new());
        for number in 0..MESSAGES {
            let peak = round(&bus, number).await;
            sleep(Duration::from_secs(1)).await;
            assert_eq!(gateway.active_sessions(), 0);
            // The histories belong to the store, and are not counted.
            for session in 0..SESSIONS {
                store.delete(&format!("tg:{session}"));
            }
            if number + 1 >= FIRST {
                peaks.push(peak);
                levels.push(live_bytes());
            }
        }
        gateway.stop();
        (peaks, levels)
    };
    let (outcome, (peaks, levels)) =
        runtime().block_on(async { tokio::join!(gateway.run(), chat) });
    outcome.unwrap();
    assert_flat("in the rounds", &peaks, peaks[0]);
    assert_flat("between the rounds", &levels, peaks[0]);
}

fn long_message_exists_once_apart_from_the_history() {
    const TEXT: usize = 8 * MIB;

    let bus = InProcessBus::default();
    let model = FunctionModel::stream(|_request| async {
        Ok::<ModelStream, _>(futures::stream::pending().boxed())
    });
    let builder = Gateway::builder(AgentBuilder::new(model)).bus(bus.clone());
    let gateway = builder.build().unwrap();
    let before = live_bytes();
    let chat = async {
        let message = InboundMessage::new("tg", "1", "u1", "x".repeat(TEXT));
        bus.publish_inbound(message).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        live_bytes() - before
    };
    let bytes = runtime().block_on(async {
        tokio::select! {
            outcome = gateway.run() => panic!("{outcome:?}"),
            bytes = chat => bytes,
        }
    });
    assert!(bytes < TEXT * 5 / 2, "{} MiB", bytes / MIB);
}

fn direct_turns_without_a_run_have_flat_memory() {
    let store = ThreadStore::new();
    let agent = AgentBuilder::new(model()).store(store.clone());
    let gateway = Gateway::builder(agent).build().unwrap();
    let levels = runtime().block_on(async {
        let mut levels = Vec::new();
        for round in 0..10 {
            for _ in 0..100 {
                gateway.process_direct("hi", "s").await.unwrap();
                store.delete("s");
            }
            if round > 0 {
                levels.push(live_bytes());
            }
        }
        levels
    });
    assert_flat("after a hundred direct turns", &levels, MIB);
}

// A single test, because allocations of other tests at the same time would count too.
#[test]
fn memory_of_a_gateway_is_bounded() {
    long_message_exists_once_apart_from_the_history();
    direct_turns_without_a_run_have_flat_memory();
    gateway_under_load_has_flat_memory();
}
