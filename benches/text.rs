//! Processing of text and histories: decoding of streams, token counts and repairs.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::hint::black_box;
use std::time::Duration;

use agentcore::message::{EstimateCounter, TokenCounter};
use agentcore::providers::openai;
use agentcore::providers::sse::SseDecoder;
use agentcore::{AssistantMessage, Message, Messages, Part, ToolCall, ToolResult};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::executor::block_on;
use futures::{StreamExt, stream};
use serde_json::json;

const EVENT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n";
const END: &str = "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The number of events of a stream, which then has about a megabyte.
const EVENTS: usize = 8_000;

/// The sizes of the pieces in which a stream arrives, in bytes.
const CHUNKS: [usize; 4] = [64, 1_400, 16 * 1024, 1024 * 1024];

fn sse(criterion: &mut Criterion) {
    let text = EVENT.repeat(EVENTS) + END;
    let bytes = bytes::Bytes::from(text);
    let chunks = |size: usize| -> Vec<_> {
        let starts = (0..bytes.len()).step_by(size);
        starts
            .map(|start| bytes.slice(start..(start + size).min(bytes.len())))
            .collect()
    };

    let mut group = criterion.benchmark_group("sse");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    for size in CHUNKS {
        group.bench_function(BenchmarkId::new("events", size), |bencher| {
            bencher.iter(|| {
                let mut decoder = SseDecoder::new();
                let mut events = 0;
                for chunk in chunks(size) {
                    decoder.feed(chunk);
                    while let Some(event) = decoder.next_event().unwrap() {
                        black_box(event.data);
                        events += 1;
                    }
                }

                assert_eq!(events, EVENTS + 2);
            });
        });

        group.bench_function(BenchmarkId::new("answer", size), |bencher| {
            bencher.iter(|| {
                let body = stream::iter(chunks(size)).map(Ok);
                let events = block_on(openai::decode(body).count());
                assert!(events > EVENTS);
            });
        });
    }

    group.finish();
}

/// Returns a history of `len` messages, half of which are calls and results. Every tenth result is
/// missing if it is `broken`.
fn history(len: usize, broken: bool) -> Messages {
    let mut messages = Vec::new();
    for number in 0..len / 4 {
        let call = ToolCall::new(
            format!("call_{number}"),
            "look",
            json!({"path": "src/lib.rs", "line": number}),
        );
        messages.push(Message::human(format!("{number}: what does this line do?")));
        messages.push(Message::Assistant(AssistantMessage::new(Part::from(
            call.clone(),
        ))));
        if !broken || number % 10 != 0 {
            let result = ToolResult::ok(&call, "pub fn look(at: &Path) -> Result<Line>;");
            messages.push(Message::Tool(result));
        }

        messages.push(Message::ai("It declares a function that reads one line."));
    }

    messages.into_iter().collect()
}

fn tokens(criterion: &mut Criterion) {
    let history = history(10_000, false);
    let mut group = criterion.benchmark_group("tokens");
    group.throughput(Throughput::Elements(history.len() as u64));
    group.bench_function("estimate", |bencher| {
        bencher.iter(|| EstimateCounter.count_messages(black_box(&history)));
    });
    group.finish();
}

fn repair(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("repair");
    for (name, broken) in [("nothing to do", false), ("missing results", true)] {
        let history = history(10_000, broken);
        group.throughput(Throughput::Elements(history.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || history.clone(),
                |mut history| history.repair(),
                BatchSize::LargeInput,
            );
        });
    }

    group.finish();
}

criterion_group! {
    name = text;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = sse, tokens, repair
}
criterion_main!(text);
