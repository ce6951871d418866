//! The agent loop without a network: the cost of a turn, a hook and a run.
//!
//! A sample is a complete run; `README.md` explains the numbers.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::time::Duration;

use agentcore::testing::FunctionModel;
use agentcore::tool::SideEffect;
use agentcore::{
    Agent, AgentBuilder, BoxError, FuncTool, Message, Messages, ModelEvent, Role, ToolCall, hook,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::future::join_all;
use serde_json::json;
use tokio::runtime::Runtime;

/// The number of turns with tools in a long run, before its answer.
const TURNS: usize = 50;

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// A model that calls a tool `turns` times, then answers. The id of a call has the length of the
/// history, so that each id is unique.
fn model(turns: usize) -> FunctionModel {
    FunctionModel::new(move |request| {
        let messages = request.messages.as_slice();
        let results = messages
            .iter()
            .rev()
            .take_while(|message| message.role() != Role::User)
            .count()
            / 2;
        if results >= turns {
            return vec![Ok(ModelEvent::Text("done".into()))];
        }

        let number = messages.len();
        let call = ToolCall::new(format!("call_{number}"), "look", json!({"at": number}));
        vec![Ok(ModelEvent::ToolCall(call))]
    })
}

fn builder(turns: usize) -> AgentBuilder {
    let schema = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    let look = FuncTool::new("look", "Looks", schema, |_, args| async move {
        Ok::<_, BoxError>(format!("seen at {}", args["at"]))
    });
    AgentBuilder::new(model(turns))
        .tool(look.side_effect(SideEffect::ReadOnly))
        .max_turns(0)
}

fn run(runtime: &Runtime, agent: &Agent, input: impl Into<Messages>) -> u32 {
    runtime.block_on(agent.run(input).finish()).unwrap().turns
}

fn loop_overhead(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("loop");
    for turns in [0, TURNS] {
        let agent = builder(turns).build().unwrap();
        group.throughput(Throughput::Elements(turns as u64 + 1));
        group.bench_function(BenchmarkId::new("turns", turns + 1), |bencher| {
            bencher.iter(|| assert_eq!(run(&runtime, &agent, "Go"), turns as u32 + 1));
        });
    }
    group.finish();
}

fn onion_depth(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("onion");
    group.throughput(Throughput::Elements(TURNS as u64 + 1));
    for depth in [0, 1, 4, 16, 32] {
        let hooks = (0..depth).map(|number| {
            hook::wrap_model_call(format!("hook {number}"), |request, next| async move {
                next.run(request).await
            })
        });

        let agent = builder(TURNS).hooks(hooks).build().unwrap();
        group.bench_function(BenchmarkId::new("hooks", depth), |bencher| {
            bencher.iter(|| run(&runtime, &agent, "Go"));
        });
    }

    group.finish();
}

/// Measures turns after a history of 2,000 messages, and the same turns alone.
fn long_history(criterion: &mut Criterion) {
    let runtime = runtime();
    let agent = builder(TURNS).build().unwrap();
    let text = "A sentence of a conversation that has gone on for some time. ".repeat(16);
    let mut group = criterion.benchmark_group("history");
    group.throughput(Throughput::Elements(TURNS as u64 + 1));
    for len in [0, 2_000] {
        let history: Messages = (0..len)
            .map(|number| match number % 2 {
                0 => Message::human(text.as_str()),
                _ => Message::ai(text.as_str()),
            })
            .chain([Message::human("Go")])
            .collect();
        group.bench_function(BenchmarkId::new("messages", len), |bencher| {
            bencher.iter(|| run(&runtime, &agent, history.clone()));
        });
    }

    group.finish();
}

fn concurrent_runs(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("at once");
    group.sample_size(10);
    for runs in [1, 1_000, 10_000] {
        let agent = builder(1).build().unwrap();
        group.throughput(Throughput::Elements(runs));
        group.bench_function(BenchmarkId::new("runs", runs), |bencher| {
            bencher.iter(|| {
                let all = (0..runs).map(|_| agent.run("Go").finish());
                let turns = runtime.block_on(join_all(all));
                assert!(turns.into_iter().all(|output| output.unwrap().turns == 2));
            });
        });
    }

    group.finish();
}

criterion_group! {
    name = engine;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = loop_overhead, onion_depth, long_history, concurrent_runs
}
criterion_main!(engine);
