//! Conversations far longer than the context window.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentcore::hooks::{ClearToolResults, SummarizationHook, split_index};
use agentcore::message::EstimateCounter;
use agentcore::model::{CompactionRequest, Compactor, ModelProfile};
use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::{
    Error, ErrorKind, ExitReason, FuncTool, Message, Messages, ModelEvent, ModelRequest, ToolCall,
    Usage,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use crate::kit::{agent, any_object, warnings, watch};

const WINDOW: u64 = 20_000;
const ROUNDS: usize = 1_000;
/// A number of rounds that needs many compactions.
const SOME: usize = 300;

/// The token counts of a server, and the number of requests that it has refused.
#[derive(Clone)]
struct Counting {
    /// The server's tokens for each hundred estimated ones.
    percent: u64,
    reports: bool,
    refused: Arc<AtomicUsize>,
}

/// Returns the response of a server with a window of [`WINDOW`] tokens.
fn serve(
    request: &ModelRequest,
    counting: &Counting,
    answer: ModelEvent,
) -> Vec<agentcore::Result<ModelEvent>> {
    let tokens = request.count_tokens(&EstimateCounter) * counting.percent / 100;
    let longest = u64::from(request.max_output_tokens.unwrap_or(2_000));
    if tokens + longest > WINDOW {
        counting.refused.fetch_add(1, Ordering::Relaxed);
        let text = format!("{tokens} tokens and {longest} of an answer do not fit");
        return vec![Err(Error::new(ErrorKind::ContextTooLong, text))];
    }

    let mut events = vec![Ok(answer)];
    if counting.reports {
        events.insert(0, Ok(ModelEvent::Usage(Usage::new(tokens, 50))));
    }

    events
}

fn profile() -> ModelProfile {
    ModelProfile::default()
        .with_context_window(WINDOW)
        .with_max_output_tokens(2_000)
}

/// Returns the length of a result: from zero to half as much again as the window, mostly short.
fn size(round: usize) -> usize {
    match round % 100 {
        99 => 120_000,
        49 => 40_000,
        9 | 29 | 69 => 8_000,
        n => n * n / 4,
    }
}

/// Runs a conversation of `rounds` calls. The summarizer records its prompts, and its summaries
/// hold nothing of them.
async fn rounds(rounds: usize, percent: u64, reports: bool, clear: bool) {
    let asked = Arc::<AtomicUsize>::default();
    let counting = Counting {
        percent,
        reports,
        refused: Arc::default(),
    };

    let of_summaries = Counting {
        refused: Arc::default(),
        ..counting.clone()
    };

    let model = StrictModel::new(
        FunctionModel::new({
            let (asked, counting) = (asked.clone(), counting.clone());
            move |request| {
                let round = asked.fetch_add(1, Ordering::Relaxed);
                let answer = if round < rounds {
                    let args = json!({"round": round});
                    ModelEvent::ToolCall(ToolCall::new(format!("c{round}"), "look", args))
                } else {
                    ModelEvent::Text("done".into())
                };

                let events = serve(&request, &counting, answer);
                if events[0].is_err() {
                    asked.fetch_sub(1, Ordering::Relaxed);
                }

                events
            }
        })
        .with_profile(profile()),
    );
    let read = Arc::<Mutex<Vec<String>>>::default();
    let summarizer = StrictModel::new(
        FunctionModel::new({
            let read = read.clone();
            move |request| {
                let text = request.messages.last_content().into_owned();
                let summary = format!("<summary>{}</summary>", "They looked. ".repeat(900));
                let events = serve(&request, &of_summaries, ModelEvent::Text(summary));
                if events.iter().all(Result::is_ok) {
                    read.lock().unwrap().push(text);
                }

                events
            }
        })
        .with_profile(profile()),
    );
    let look = FuncTool::new("look", "Looks", any_object(), |_cx, args| async move {
        let round = args["round"].as_u64().unwrap() as usize;
        format!(
            "finding-{round}-end {}",
            "lorem ipsum ".repeat(size(round) / 12)
        )
    });

    let mut builder = agent(model.clone())
        .tool(look)
        .system_prompt("Be brief. ".repeat(100))
        .max_turns(0);
    if clear {
        builder = builder.hook(ClearToolResults::new());
    }

    let agent = builder
        .hook(SummarizationHook::new().with_model(summarizer.clone()))
        .build()
        .unwrap();
    let run = agent
        .session("s")
        .run("Remember: the password is swordfish. Now look.");
    let (messages, output) = watch(run).await;
    let output = output.unwrap();

    assert_eq!((&*output.text, output.end), ("done", ExitReason::EndTurn));
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(summarizer.violations(), Vec::<String>::new());
    assert_eq!(warnings(&messages), Vec::<String>::new());
    assert_eq!(output.turns as usize, rounds + 1);
    let refused = counting.refused.load(Ordering::Relaxed);
    assert_eq!(refused, 0, "no request was over the window");
    assert_eq!(
        output.messages.len(),
        2 * rounds + 2,
        "the history is whole"
    );
    let read = read.lock().unwrap();
    let words: HashSet<&str> = read
        .iter()
        .flat_map(|text| text.split_whitespace())
        .collect();
    assert!(words.contains("swordfish."));
    let covered = output.state.compaction.unwrap().through_message;
    assert!(covered > rounds, "{covered}");
    for round in 0..(covered - 1) / 2 {
        let finding = format!("finding-{round}-end");
        assert!(words.contains(&*finding), "{finding} was never summarized");
    }
}

#[tokio::test]
async fn many_rounds_fit_the_window_with_reported_usage() {
    rounds(ROUNDS, 100, true, false).await;
}

#[tokio::test]
async fn many_rounds_fit_the_window_without_reported_usage() {
    rounds(ROUNDS, 100, false, false).await;
}

#[tokio::test]
async fn many_rounds_fit_the_window_with_cleared_results() {
    rounds(ROUNDS, 100, true, true).await;
}

#[tokio::test]
async fn many_rounds_fit_the_window_when_the_provider_counts_more_tokens() {
    rounds(SOME, 150, true, false).await;
    rounds(SOME, 130, true, true).await;
}

#[tokio::test]
async fn many_rounds_fit_the_window_when_the_provider_counts_fewer_tokens() {
    rounds(SOME, 70, true, false).await;
}

/// A message, or a turn of calls of which some have no result.
#[derive(Clone, Debug)]
enum Entry {
    Human(usize),
    Ai(usize),
    Calls(Vec<Option<usize>>),
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        (1..2_000_usize).prop_map(Entry::Human),
        (1..2_000_usize).prop_map(Entry::Ai),
        prop::collection::vec(prop::option::weighted(0.95, 0..4_000_usize), 1..5)
            .prop_map(Entry::Calls),
    ]
}

fn history(all: &[Entry]) -> Messages {
    let mut messages = Messages::new();
    for (at, entry) in all.iter().enumerate() {
        match entry {
            Entry::Human(len) => messages.push(Message::human("h".repeat(*len))),
            Entry::Ai(len) => messages.push(Message::ai("a".repeat(*len))),
            Entry::Calls(results) => {
                let id = |n: usize| format!("{at}-{n}");
                let calls = (0..results.len()).map(|n| ToolCall::new(id(n), "f", json!({})));
                messages.push(Message::ai_calling("", calls));
                for (n, result) in results.iter().enumerate() {
                    if let Some(len) = result {
                        messages.push(Message::tool(id(n), "f", "r".repeat(*len)));
                    }
                }
            }
        }
    }

    messages
}

/// Checks that the first `cut` messages contain a result exactly for each of their calls.
fn splits_no_turn(messages: &Messages, cut: usize) -> bool {
    let (before, after) = messages.as_slice().split_at(cut);
    let calls: HashSet<_> = before
        .iter()
        .flat_map(|message| message.tool_calls())
        .map(|call| call.id.clone())
        .collect();
    let results: HashSet<_> = before
        .iter()
        .filter_map(|message| message.as_tool_result())
        .map(|result| result.tool_call_id.clone())
        .collect();
    let orphan = after
        .first()
        .is_some_and(|next| next.as_tool_result().is_some());
    calls == results && !orphan
}

#[test]
fn compaction_never_separates_a_call_from_its_result() {
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(crate::kit::effort::cases(200))
    };

    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let strategy = (
        prop::collection::vec(entry(), 0..40),
        0.0..1.0_f64,
        100..20_000_u64,
    );
    let property = |(all, keep, window): (Vec<Entry>, f64, u64)| {
        let messages = history(&all);
        let split = split_index(&messages, window / 4, &EstimateCounter);
        prop_assert!(split <= messages.len());
        let whole = split == messages.len() && messages.is_empty();
        prop_assert!(whole || splits_no_turn(&messages, split));

        let model = FunctionModel::text(|_| "short".into());
        let hook = SummarizationHook::new()
            .with_context_window(window)
            .with_keep(keep);
        let request = CompactionRequest::new(messages.clone(), model);
        let outcome = futures::executor::block_on(async {
            // Timers need a runtime, although none of them fires.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build();
            let _guard = runtime.as_ref().unwrap().enter();
            hook.compact(request).await
        });

        if let Some(compaction) = outcome.unwrap() {
            let through = compaction.through_message;
            prop_assert!(through > 0 && through + 2 <= messages.len());
            prop_assert!(splits_no_turn(&messages, through), "cut at {through}");
        }

        Ok(())
    };

    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(&strategy, property) {
        panic!("{failure}");
    }
}
