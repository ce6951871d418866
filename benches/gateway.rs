//! The load of a gateway: many concurrent sessions with messages that are processed in order.
//!
//! `0 ms` measures the gateway and the loop alone. With `20 ms`, the model takes this time for each
//! message, so that 20 messages of a session take at least 400 ms.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::time::Duration;

use agentcore::gateway::{Gateway, InProcessBus, InboundMessage, MessageBus};
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, ModelEvent, ModelStream, StopReason};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::StreamExt;

const SESSIONS: usize = 1_000;
const MESSAGES: usize = 20;

fn model(delay: Duration) -> FunctionModel {
    FunctionModel::stream(move |_request| async move {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let events = [
            Ok(ModelEvent::Text("ok".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ];
        Ok::<ModelStream, _>(futures::stream::iter(events).boxed())
    })
}

/// Processes all messages of all sessions.
async fn load(delay: Duration) {
    let bus = InProcessBus::new(SESSIONS * MESSAGES);
    let builder = Gateway::builder(AgentBuilder::new(model(delay))).bus(bus.clone());
    let builder = builder.parallel_sessions(SESSIONS).summaries(None);
    let gateway = builder.build().unwrap();
    let chat = async {
        for number in 0..MESSAGES {
            for session in 0..SESSIONS {
                let id = format!("{session}-{number}");
                let message = InboundMessage::new("tg", session.to_string(), "u1", "hi");
                bus.publish_inbound(message.with_id(id)).await.unwrap();
            }
        }
        for _ in 0..SESSIONS * MESSAGES {
            let delivery = bus.consume_outbound("tg").await.unwrap().unwrap();
            delivery.ack().await.unwrap();
        }
        gateway.stop();
    };
    let (outcome, ()) = tokio::join!(gateway.run(), chat);
    outcome.unwrap();
}

fn loads(criterion: &mut Criterion) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    let mut group = criterion.benchmark_group("gateway");
    group.sample_size(10);
    group.throughput(Throughput::Elements((SESSIONS * MESSAGES) as u64));
    for millis in [0, 20] {
        let id = BenchmarkId::new("1000 sessions of 20 messages", format!("{millis} ms"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| runtime.block_on(load(Duration::from_millis(millis))));
        });
    }
    group.finish();
}

criterion_group!(benches, loads);
criterion_main!(benches);
