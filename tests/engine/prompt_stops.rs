//! Stops of runs whose models, tools and hooks are always ready, or never.
//!
//! All sources of events are finite, so that a run that is not stopped ends regularly and its test
//! fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agentcore::model::ModelStream;
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::{
    AgentBuilder, Error, ExitReason, FuncTool, Message, Model, ModelEvent, ModelRequest,
    ModelResponse, RunHandle, Secret, StopReason, ToolCall, Usage, hook,
};
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, timeout};

use crate::kit::{agent, any_object, sleep, warnings, watch};

/// Far more events than are read before a stop.
const MANY: usize = 2_000_000;

/// A time longer than any run of these tests takes.
const HOUR: Duration = Duration::from_secs(3_600);

/// A model whose events are always ready.
fn always_ready(event: ModelEvent) -> FunctionModel {
    FunctionModel::stream(move |_| {
        let events = stream::repeat(event.clone()).take(MANY).map(Ok);
        let end = ModelEvent::stop(StopReason::EndTurn);
        let events = events.chain(stream::iter([Ok(end)])).boxed();
        async { Ok::<ModelStream, Error>(events) }
    })
}

fn small_events() -> Vec<ModelEvent> {
    vec![
        ModelEvent::Text(String::new()),
        ModelEvent::Text("a".into()),
        ModelEvent::PartEnd,
        ModelEvent::Usage(Usage::new(1, 1)),
        ModelEvent::ToolCallDelta {
            index: 7,
            json: String::new(),
        },
    ]
}

/// Spawns a task on the same thread that interrupts the run after ten turns of the scheduler.
fn stop_from_aside(handle: RunHandle) {
    tokio::spawn(async move {
        for _ in 0..10 {
            yield_now().await;
        }
        handle.interrupt();
    });
}

#[tokio::test]
async fn always_ready_stream_is_interrupted() {
    for event in small_events() {
        for shown in [false, true] {
            let builder = agent(always_ready(event.clone())).include_partial_messages(shown);
            let run = builder.build().unwrap().run("Go");
            stop_from_aside(run.handle());
            let output = run.await.unwrap();
            assert_eq!(output.end, ExitReason::Interrupted, "{event:?}");
        }
    }
}

/// A redactor of answers holds pieces back, so that the run emits nothing for them.
#[tokio::test]
async fn always_ready_stream_is_interrupted_while_a_key_is_known() {
    let _known = Secret::new("k-always-0123456789");
    for event in small_events() {
        let run = agent(always_ready(event.clone()))
            .build()
            .unwrap()
            .run("Go");
        stop_from_aside(run.handle());
        let output = run.await.unwrap();
        assert_eq!(output.end, ExitReason::Interrupted, "{event:?}");
    }
}

#[tokio::test]
async fn always_ready_stream_is_interrupted_without_tokio_coop_budget() {
    let agent = agent(always_ready(ModelEvent::PartEnd)).build().unwrap();
    let run = agent.run("Go");
    stop_from_aside(run.handle());
    let output = unconstrained(run.finish()).await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
}

#[tokio::test]
async fn always_ready_stream_ends_at_the_time_limit() {
    for event in small_events() {
        let agent = agent(always_ready(event))
            .max_duration(Duration::from_millis(20))
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(output.end, ExitReason::MaxDuration);
    }
}

/// The stop takes effect at the very next event.
#[tokio::test]
async fn stream_that_interrupts_its_run_ends_after_the_current_event() {
    let handle = Arc::new(OnceLock::<RunHandle>::new());
    let stopping = handle.clone();
    let model = FunctionModel::stream(move |_| {
        let handle = stopping.clone();
        let events = (0..50).map(move |at| {
            if at == 20 {
                handle.get().unwrap().interrupt();
            }

            Ok(ModelEvent::Text("a".into()))
        });

        async { Ok::<ModelStream, Error>(stream::iter(events).boxed()) }
    });

    let run = agent(model).build().unwrap().run("Go");
    handle.set(run.handle()).unwrap();
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    assert_eq!(output.text, "a".repeat(21));
}

#[tokio::test]
async fn direct_model_call_with_an_always_ready_stream_can_time_out() {
    for event in small_events() {
        let model = always_ready(event);
        let call = Model::call(&model, ModelRequest::new("Go"));
        timeout(Duration::from_millis(20), call).await.unwrap_err();
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn body_of_comments_only_can_time_out() {
    use agentcore::providers::{anthropic, ollama, openai};
    let body = |chunk: &'static str| {
        stream::repeat(chunk)
            .take(MANY)
            .map(|chunk| Ok(chunk.into()))
    };

    for mut events in [
        anthropic::decode(body(": ping\n\n")),
        openai::decode(body(": ping\n\n")),
        ollama::decode(body(" ")),
    ] {
        let next = events.next();
        timeout(Duration::from_millis(20), next).await.unwrap_err();
    }
}

/// A tool that is ready at once and interrupts the run in its third call.
fn stopping(handle: &Arc<OnceLock<RunHandle>>, calls: &Arc<AtomicUsize>) -> FuncTool {
    let (handle, calls) = (handle.clone(), calls.clone());
    FuncTool::new("act", "Acts", any_object(), move |_, _| {
        if calls.fetch_add(1, Ordering::SeqCst) == 2 {
            handle.get().unwrap().interrupt();
        }
        async { "done" }
    })
}

#[tokio::test]
async fn calls_do_not_start_after_an_interrupt() {
    let exclusive: [fn(FuncTool) -> FuncTool; 2] = [|tool| tool, FuncTool::exclusive];
    for (set, most) in exclusive.into_iter().zip([8, 3]) {
        let handle = Arc::new(OnceLock::new());
        let calls = Arc::new(AtomicUsize::new(0));
        let model = ScriptedModel::new().calls((0..500).map(|n| ("act", json!({"n": n}))));
        let tool = set(stopping(&handle, &calls));
        let run = agent(model).tool(tool).build().unwrap().run("Go");
        handle.set(run.handle()).unwrap();
        let output = run.await.unwrap();
        assert_eq!(output.end, ExitReason::Interrupted);
        assert!(calls.load(Ordering::SeqCst) <= most, "{calls:?}");
        output.messages.validate_for_model().unwrap();
    }
}

#[tokio::test]
async fn always_ready_turns_yield_to_other_tasks() {
    let model = FunctionModel::new(|request| {
        let turns = request.messages.len() / 2;
        let call = ToolCall::new(format!("c{turns}"), "act", json!({"n": turns}));
        vec![Ok(match turns {
            0..2_000 => ModelEvent::ToolCall(call),
            _ => ModelEvent::Text("done".into()),
        })]
    });

    let act = FuncTool::new("act", "Acts", any_object(), |_, args| async move {
        args.to_string()
    });

    let agent = agent(model).tool(act).max_turns(0).build().unwrap();
    let run = agent.run("Go");
    stop_from_aside(run.handle());
    let output = unconstrained(run.finish()).await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
}

fn closing(model: ScriptedModel) -> AgentBuilder {
    let slow = || hook::after_agent("slow", |_, _| std::future::pending());
    let first = hook::after_agent("first", |_, mut state| async move {
        state.messages.push(Message::human("noted"));
        Ok(state)
    });
    agent(model)
        .hook_timeout(None)
        .hook(first)
        .hook(slow())
        .hook(slow())
}

/// Timeouts of hooks: none, the default, and one hour. None of them may lengthen the end of a
/// stopped run.
const HOOK_TIMEOUTS: [Option<Duration>; 3] = [None, Some(Duration::from_secs(60)), Some(HOUR)];

#[tokio::test(start_paused = true)]
async fn after_agent_hooks_get_ten_seconds_after_the_time_limit() {
    for hook_timeout in HOOK_TIMEOUTS {
        let agent = closing(ScriptedModel::new().hang())
            .hook_timeout(hook_timeout)
            .max_duration(Duration::from_secs(1))
            .build()
            .unwrap();
        let began = Instant::now();
        let (messages, output) = timeout(2 * HOUR, watch(agent.run("Go"))).await.unwrap();
        let output = output.unwrap();
        assert_eq!(output.end, ExitReason::MaxDuration);

        // The limit covers both slow hooks together.
        assert_eq!(began.elapsed().as_secs(), 11, "{hook_timeout:?}");
        let slow = warnings(&messages);
        assert_eq!(
            slow.iter().filter(|text| text.contains("`slow`")).count(),
            2
        );

        // The change of the hook before them stays.
        assert_eq!(output.messages.last_content(), "noted");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_during_after_agent_keeps_the_finished_answer() {
    type Stop = fn(RunHandle);
    let stops: [(Stop, Option<u64>); 3] = [
        (|handle| handle.interrupt(), None),
        (|handle| handle.abort(), None),
        (|_| {}, Some(5)),
    ];
    for (stop, limit) in stops {
        let mut builder = closing(ScriptedModel::new().say("done"));
        if let Some(limit) = limit {
            builder = builder.max_duration(Duration::from_secs(limit));
        }

        let began = Instant::now();
        let run = builder.build().unwrap().run("Go");
        let handle = run.handle();
        tokio::spawn(async move {
            sleep(5).await;
            stop(handle);
        });

        let output = timeout(HOUR, run.finish()).await.unwrap().unwrap();
        assert_eq!((output.end, &*output.text), (ExitReason::EndTurn, "done"));
        assert_eq!(began.elapsed().as_secs(), 15);
    }
}

#[tokio::test(start_paused = true)]
async fn after_agent_without_a_timeout_may_run_for_an_hour() {
    let long = hook::after_agent("long", |_, state| async move {
        sleep(3_600).await;
        Ok(state)
    });

    let agent = agent(ScriptedModel::new().say("done"))
        .hook_timeout(None)
        .hook(long)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().end, ExitReason::EndTurn);
    assert_eq!(warnings(&messages), [""; 0]);
}

/// A hook gives up an answer and returns an empty one, so that the model is asked again. An
/// interrupt before the second request must not keep the partial text of the first answer.
#[tokio::test(start_paused = true)]
async fn interrupt_discards_a_partial_answer_that_a_hook_has_replaced() {
    let model = ScriptedModel::new().step(Step::text("half of it").then_hang());
    let replace = hook::wrap_model_call("replace", |request, next| async move {
        match timeout(Duration::from_secs(1), next.run(request)).await {
            Ok(answer) => answer,
            Err(_) => Ok(ModelResponse::new("")),
        }
    });

    let turns = Arc::new(Mutex::new(0));
    let wait = hook::modify_request("wait", move |_cx, messages| {
        let mut turns = turns.lock().unwrap();
        *turns += 1;
        let first = *turns == 1;
        async move {
            if !first {
                std::future::pending::<()>().await;
            }

            Ok(messages)
        }
    });

    let agent = agent(model)
        .hook(replace)
        .hook(wait)
        .hook_timeout(None)
        .build()
        .unwrap();
    let run = agent.run("Go");
    let handle = run.handle();
    tokio::spawn(async move {
        sleep(5).await;
        handle.interrupt();
    });

    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::Interrupted);
    let texts: Vec<_> = output.messages.iter().map(Message::text).collect();
    assert!(texts.iter().all(|text| !text.contains("half")), "{texts:?}");
    assert_eq!(output.messages.len(), 1);
}
