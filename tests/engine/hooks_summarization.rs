//! `SummarizationHook` in runs.

use std::time::Duration;

use agentcore::hooks::SummarizationHook;
use agentcore::message::{EstimateCounter, TokenCounter};
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile, Prices, Stability};
use agentcore::sdk::{CompactBoundary, CompactTrigger, SystemKind};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{
    Error, ErrorKind, ExitReason, FuncTool, Messages, ModelRequest, SdkMessage, Usage, hook,
};
use serde_json::json;

use crate::hook_texts::assert_text;
use crate::hooks_summaries::{store, turns};
use crate::kit::{agent, any_object, echo, kind, kinds, roles, stored, warnings, watch};

fn boundaries(messages: &[SdkMessage]) -> Vec<&CompactBoundary> {
    let boundaries = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::CompactBoundary(boundary) => Some(&**boundary),
            _ => None,
        },
        _ => None,
    });
    boundaries.collect()
}

fn summary_of(request: &ModelRequest) -> String {
    request.messages.get(0).unwrap().text().into_owned()
}

#[tokio::test]
async fn summarization_is_triggered_by_reported_usage() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "one"}))
        .with_usage(Usage::new(108_790, 900))
        .expect(|request| {
            assert!(request.messages.last_content().contains("<conversation>"));
            assert!(request.tools.is_empty() && request.system.is_empty());
            assert_eq!(request.max_output_tokens, Some(6_000));
        })
        .say("<summary>They said one.</summary>")
        .with_usage(Usage::new(40, 4))
        .expect(|request| {
            assert_eq!(roles(&request.messages), "user assistant tool");
            assert_eq!(
                summary_of(request),
                "[Summary of the conversation so far]\n\nThey said one."
            );
        })
        .say("done");

    // The call and its result take the request over the threshold.
    let hook = SummarizationHook::new();
    let store = store(turns(3));
    let agent = agent(model.clone()).tool(echo()).hook(hook).store(store);
    let agent = agent.build().unwrap();
    let (messages, output) = watch(agent.session("s").run("say one ".repeat(400))).await;
    let output = output.unwrap();
    model.assert_finished();
    assert_eq!((&*output.text, output.turns), ("done", 2));
    let all = boundaries(&messages);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].trigger, CompactTrigger::Auto);
    assert!(all[0].pre_tokens > 108_800, "{:?}", all[0]);
    assert!(all[0].post_tokens.unwrap() < 200, "{:?}", all[0]);
    assert!(all[0].duration_ms.is_some());
    assert_eq!(
        output.usage.input_tokens, 108_830,
        "the summary is paid for"
    );
    assert_eq!(stored(&agent, "s").await.len(), 10, "the store has it all");
    let through = output.state.compaction.unwrap().through_message;
    assert_eq!(
        through, 7,
        "the call, its result and the answer were not there yet"
    );
}

#[tokio::test]
async fn compact_boundary_names_the_preserved_messages() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "one"}))
        .with_usage(Usage::new(900, 10))
        .say("They said one.")
        .say("done");
    let hook = SummarizationHook::new().with_context_window(1_000);
    let agent = agent(model).tool(echo()).hook(hook).build().unwrap();
    let (messages, _) = watch(agent.run("say one")).await;
    let ids: Vec<_> = messages
        .iter()
        .filter(|message| matches!(message, SdkMessage::Assistant(_) | SdkMessage::User(_)))
        .map(SdkMessage::uuid)
        .collect();
    let at = messages
        .iter()
        .position(|message| kind(message) == "system/compact_boundary")
        .unwrap();
    let preserved = boundaries(&messages)[0].preserved_messages.clone().unwrap();
    assert_eq!(preserved.anchor_uuid, messages[at].uuid());
    assert_eq!(preserved.uuids, ids[..2], "the call and its result");
    let around = &kinds(&messages)[at - 2..=at];
    assert_eq!(
        around,
        ["system/status", "system/status", "system/compact_boundary"]
    );
}

#[tokio::test]
async fn summarization_without_reported_usage_is_triggered_by_estimates() {
    for (prompt, due) in [("", false), ("You are helpful. ", true)] {
        let model = if due {
            ScriptedModel::new()
                .say("<summary>Small talk.</summary>")
                .say("hi")
        } else {
            ScriptedModel::new().say("hi")
        };

        let hook = SummarizationHook::new().with_context_window(300);
        let agent = agent(model.clone())
            .system_prompt(prompt.repeat(60))
            .hook(hook)
            .store(store(turns(10)))
            .build()
            .unwrap();
        let (messages, output) = watch(agent.session("s").run("And now?")).await;
        assert_eq!(output.unwrap().text, "hi");
        assert_eq!(boundaries(&messages).len(), usize::from(due), "{prompt:?}");
        model.assert_finished();
    }
}

#[tokio::test(start_paused = true)]
async fn failed_summarization_leaves_the_history_and_warns() {
    let refused = Step::text("I would rather not.").stop(agentcore::StopReason::Refusal);
    let failing = [
        (
            ScriptedModel::new().fail(Error::new(ErrorKind::Auth, "no key")),
            "no key",
        ),
        (ScriptedModel::new().hang(), "took longer than 120s"),
        (
            ScriptedModel::new().say("<summary> </summary>"),
            "returned no text",
        ),
        (ScriptedModel::new().step(Step::new()), "returned no text"),
        (
            ScriptedModel::new().call("echo", json!({"text": "<summary>x</summary>"})),
            "returned no text",
        ),
        (ScriptedModel::new().step(refused), "refused"),
    ];
    for (summarizer, why) in failing {
        let model = ScriptedModel::new()
            .expect(|request| assert_eq!(request.messages.len(), 11))
            .say("hi");
        let hook = SummarizationHook::new()
            .with_context_window(10)
            .with_model(summarizer);
        let agent = agent(model.clone())
            .hook(hook)
            .store(store(turns(5)))
            .build()
            .unwrap();
        let (messages, output) = watch(agent.session("s").run("And now?")).await;
        let output = output.unwrap();
        model.assert_finished();
        assert_eq!((&*output.text, output.end), ("hi", ExitReason::EndTurn));
        assert_eq!(output.state.compaction, None);
        let texts = warnings(&messages);
        assert!(
            texts[0].contains("not compacted") && texts[0].contains(why),
            "{texts:?}"
        );
        assert!(boundaries(&messages).is_empty());
    }
}

struct Endless;

impl TokenCounter for Endless {
    fn count_text(&self, _: &str) -> u64 {
        u64::MAX
    }
}

#[tokio::test]
async fn summarizer_with_a_tiny_window_is_not_asked_without_end() {
    for is_endless in [false, true] {
        let profile = ModelProfile::default().with_context_window(256);
        let summarizer = ScriptedModel::new().with_profile(profile);
        let hook = SummarizationHook::new()
            .with_context_window(u64::MAX)
            .with_model(summarizer);
        let model = ScriptedModel::new().say("1").say("2").say("3");
        let mut agent = agent(model).hook(hook);
        if is_endless {
            agent = agent.token_counter(Endless);
        }

        let agent = agent.build().unwrap();
        let long = "word ".repeat(100_000);
        for input in [&long, "Go on."] {
            agent.session("s").run(input).await.unwrap();
        }
        let run = agent.session("s").run("And now?");
        run.handle().compact();
        let (messages, output) = watch(run).await;
        assert_eq!(output.unwrap().text, "3");
        let text = warnings(&messages).join("\n");
        assert!(text.contains("asked more than 512 times"), "{text}");
    }
}

#[tokio::test]
async fn too_long_prompt_is_summarized_and_sent_once_more() {
    let too_long = || Error::new(ErrorKind::ContextTooLong, "prompt is too long");
    let model = ScriptedModel::new()
        .fail(too_long())
        .say("<summary>Small talk.</summary>")
        .expect(|request| assert_eq!(request.messages.len(), 3))
        .call("echo", json!({"text": "x"}))
        .fail(too_long())
        .say("<summary>More of it.</summary>")
        .expect(|request| assert_eq!(request.messages.len(), 3))
        .say("done");
    let agent = agent(model.clone())
        .tool(echo())
        .max_turns(2)
        .hook(SummarizationHook::new())
        .store(store(turns(5)))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("And now?")).await;
    let output = output.unwrap();
    model.assert_finished();
    assert_eq!((&*output.text, output.turns), ("done", 2));
    assert_eq!(boundaries(&messages).len(), 2, "once a turn");

    let model = ScriptedModel::new()
        .fail(too_long())
        .say("Small talk.")
        .fail(too_long());
    let agent = crate::kit::agent(model.clone())
        .hook(SummarizationHook::new())
        .store(store(turns(5)))
        .build()
        .unwrap();
    let error = agent.session("s").run("And now?").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContextTooLong);
    model.assert_finished();
}

#[tokio::test]
async fn compact_on_the_run_handle_triggers_summarization() {
    let summarizer = ScriptedModel::new().say("Small talk.");
    let model = ScriptedModel::new()
        .expect(|request| assert_eq!(request.messages.len(), 3))
        .say("hi");
    let hook = SummarizationHook::new().with_model(summarizer.clone());
    let agent = agent(model)
        .hook(hook)
        .store(store(turns(5)))
        .build()
        .unwrap();
    let run = agent.session("s").run("And now?");
    run.handle().compact();
    let (messages, output) = watch(run).await;
    assert_eq!(boundaries(&messages)[0].trigger, CompactTrigger::Manual);
    assert_eq!(output.unwrap().state.compaction.unwrap().through_message, 9);
    summarizer.assert_finished();

    let agent = crate::kit::agent(ScriptedModel::new().say("hi"))
        .build()
        .unwrap();
    let run = agent.run("Hello");
    run.handle().compact();
    let (messages, _) = watch(run).await;
    assert!(warnings(&messages)[0].contains("SummarizationHook"));
}

#[tokio::test]
async fn cost_of_a_summary_by_another_model_is_counted() {
    let profile = |input| ModelProfile::default().with_prices(Prices::new(input, 0.0));
    let cheap = ScriptedModel::new()
        .with_id("scripted:cheap")
        .with_profile(profile(1.0))
        .say("Small talk.")
        .with_usage(Usage::new(1_000_000, 5));
    let model = ScriptedModel::new()
        .with_profile(profile(10.0))
        .say("hi")
        .with_usage(Usage::new(100_000, 5));
    let hook = SummarizationHook::new().with_model(cheap);
    let agent = agent(model)
        .hook(hook)
        .store(store(turns(5)))
        .build()
        .unwrap();
    let run = agent.session("s").run("And now?");
    let handle = run.handle();
    handle.compact();
    let output = run.await.unwrap();
    assert!(
        (output.cost.unwrap() - 2.0).abs() < 1e-9,
        "{:?}",
        output.cost
    );
    let stats = handle.stats();
    assert_eq!(stats.turns, 1);
    let used = |id: &str| stats.by_model[id].usage.input_tokens;
    assert_eq!(
        (used("scripted:cheap"), used("scripted:model")),
        (1_000_000, 100_000)
    );
}

#[tokio::test]
async fn stored_summary_is_reused_in_the_next_run() {
    let summarizer = ScriptedModel::new().say("Small talk.");
    let model = ScriptedModel::new()
        .say("one")
        .expect(|request| {
            assert_eq!(
                roles(&request.messages),
                "user assistant user assistant user"
            );
        })
        .say("two");
    let hook = SummarizationHook::new()
        .with_context_window(100)
        .with_model(summarizer.clone());
    let agent = agent(model.clone())
        .hook(hook)
        .store(store(turns(12)))
        .build()
        .unwrap();
    agent.session("s").run("And now?").await.unwrap();
    summarizer.assert_finished();
    let output = agent.session("s").run("And then?").await.unwrap();
    assert_eq!(output.text, "two");
    model.assert_finished();
}

#[tokio::test]
async fn system_instructions_are_never_summarized() {
    let summarizer = ScriptedModel::new()
        .expect(|request| {
            let prompt = request.messages.last_content();
            assert!(
                !prompt.contains("Be brief") && !prompt.contains("pirate"),
                "{prompt}"
            );
            assert!(!prompt.contains("volatile"), "{prompt}");
        })
        .say("Small talk.");
    let model = ScriptedModel::new()
        .expect(|request| {
            let system = request.system.text_of(Stability::Stable);
            assert!(
                system.contains("Be brief") && system.contains("pirate"),
                "{system}"
            );
            assert_eq!(request.system.text_of(Stability::Volatile), "volatile");
            assert_eq!(request.messages.len(), 3);
        })
        .say("hi");
    let mut history = Messages::new().system("Talk like a pirate.");
    history.extend(turns(5).to_vec());
    let volatile = hook::modify_request("volatile", |cx, messages| async move {
        cx.system().set("v", "volatile", Stability::Volatile);
        Ok(messages)
    });

    let agent = agent(model.clone())
        .system_prompt("Be brief.")
        .hook(volatile)
        .hook(SummarizationHook::new().with_model(summarizer))
        .store(store(history))
        .build()
        .unwrap();
    let run = agent.session("s").run("And now?");
    run.handle().compact();
    run.await.unwrap();
    model.assert_finished();
}

#[tokio::test]
async fn oversized_result_is_cut_in_the_request_and_stored_whole() {
    let model = ScriptedModel::new()
        .with_profile(ModelProfile::default().with_context_window(2_000))
        .call("count", json!({}))
        .say("<summary>They count.</summary>")
        .expect(|request| {
            let tokens = request.count_tokens(&EstimateCounter);
            let answer = u64::from(request.max_output_tokens.unwrap());
            assert!(tokens + answer <= 2_000, "{tokens} and {answer}");
            let result = request.messages.last_content();
            assert_text("fitted_result.txt", &result);
        })
        .say("done");
    let count = FuncTool::new("count", "Counts", any_object(), |_cx, _args| async {
        "0123456789".repeat(5_000)
    });

    let agent = agent(model.clone())
        .tool(count)
        .hook(SummarizationHook::new())
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.text, "done");
    model.assert_finished();
    let history = stored(&agent, "s").await;
    assert_eq!(history.get(2).unwrap().text().len(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn time_limit_interrupts_a_summary() {
    let hook = SummarizationHook::new().with_model(ScriptedModel::new().hang());
    let agent = agent(ScriptedModel::new())
        .hook(hook)
        .store(store(turns(5)))
        .max_duration(Duration::from_secs(5))
        .build()
        .unwrap();
    let run = agent.session("s").run("And now?");
    run.handle().compact();
    assert_eq!(run.await.unwrap().end, ExitReason::MaxDuration);
}

#[tokio::test]
async fn panicking_compactor_is_a_warning() {
    struct Broken;

    #[agentcore::async_trait]
    impl Compactor for Broken {
        fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
            true
        }

        async fn compact(&self, _: CompactionRequest) -> agentcore::Result<Option<Compaction>> {
            panic!("not today")
        }
    }

    let agent = agent(ScriptedModel::new().say("hi"))
        .compactor(Broken)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Hello")).await;
    assert_eq!(output.unwrap().text, "hi");
    assert!(warnings(&messages)[0].contains("not today"));
}
