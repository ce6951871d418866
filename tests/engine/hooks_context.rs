//! Hooks that change requests, session hooks, and the usage log.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::hooks::{
    ClearToolResults, CompactionHook, UsageLogger, inject_context, session_hooks,
};
use agentcore::model::{ModelProfile, Prices};
use agentcore::session::{Damage, DamageKind, StoredSession};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    AgentState, Content, Error, ErrorKind, FuncTool, Hook, Messages, Model, ModelRequest, Part,
    Result, RunContext, SessionStore, ThreadStore, Todo, ToolCall, Usage, async_trait, hook,
};
use serde_json::json;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::hook_texts::assert_text;
use crate::kit::keys::listen;
use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{Log, agent, any_object, echo, result_texts, roles, stored, warnings, watch};

fn lens(request: &ModelRequest) -> Vec<usize> {
    let results = result_texts(&request.messages);
    results.iter().map(|text| text.chars().count()).collect()
}

/// A model that asks `times` times for a result of 2,000 characters.
fn asks(times: usize) -> ScriptedModel {
    let mut model = ScriptedModel::new();
    for n in 0..times {
        model = model.call("long", json!({"n": n}));
    }
    model.say("done")
}

fn long() -> FuncTool {
    FuncTool::new("long", "Long", any_object(), |_cx, args| async move {
        format!("{:04}{}", args["n"].as_u64().unwrap(), "é".repeat(1_996))
    })
}

#[tokio::test]
async fn old_tool_results_are_shortened_in_steps_of_ten() {
    let model = asks(41);
    let agent = agent(model.clone())
        .tool(long())
        .hook(ClearToolResults::new())
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let requests = model.requests();
    let short = 200 + "\n... [output truncated]".len();
    for (results, request) in requests.iter().enumerate() {
        let lens = lens(request);
        let cut = lens.iter().take_while(|len| **len == short).count();
        assert_eq!(cut, results.saturating_sub(10) / 10 * 10, "of {results}");
        assert!(lens[cut..].iter().all(|len| *len == 2_000));
    }

    // A message is sent again unchanged, except where ten more results are shortened.
    let changes = requests.windows(2).filter(|pair| {
        let shared = pair[1].messages.shared_prefix(&pair[0].messages);
        shared < pair[0].messages.len()
    });

    assert_eq!(changes.count(), 3);
    assert_text(
        "cleared_result.txt",
        &result_texts(&requests[20].messages)[3],
    );
    assert!(
        result_texts(&output.messages)
            .iter()
            .all(|text| text.len() > 2_000)
    );
}

#[tokio::test]
async fn only_long_results_before_the_kept_ones_are_shortened() {
    let model = ScriptedModel::new().say("done");
    let mut history = Messages::new().human("Go");
    let picture = Part::Image(agentcore::message::Media::bytes("image/png", b"png"));
    let contents: [Content; 4] = [
        "x".repeat(1_001).into(),
        "y".repeat(1_000).into(),
        vec![picture.clone(), Part::text("z".repeat(3_000))]
            .into_iter()
            .collect(),
        "kept".repeat(1_000).into(),
    ];
    for (n, content) in contents.into_iter().enumerate() {
        let id = format!("c{n}");
        history = history
            .ai_calling("", [ToolCall::new(id.as_str(), "long", json!({"n": n}))])
            .tool(id, "long", content);
    }

    let agent = agent(model.clone())
        .hook(ClearToolResults::new().with_keep(1).with_step(1))
        .build()
        .unwrap();
    agent.run(history).await.unwrap();
    let request = &model.requests()[0];
    assert_eq!(lens(request), [223, 1_000, 223, 4_000]);
    let third = request.messages.get(6).unwrap();
    assert!(third.content().parts().contains(&picture));
}

#[tokio::test]
async fn injected_content_is_sent_first_and_never_stored() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done")
        .say("again");
    let agent = agent(model.clone())
        .tool(echo())
        .hook(inject_context("The project uses Rust 2024."))
        .hook(inject_context(""))
        .build()
        .unwrap();
    agent.session("s").run("Which edition?").await.unwrap();
    agent.session("s").run("Sure?").await.unwrap();
    for request in model.requests() {
        let first = request.messages.get(0).unwrap();
        assert_eq!(first.text(), "The project uses Rust 2024.");
        let dated = request
            .messages
            .iter()
            .filter(|m| m.text().contains("2024"));
        assert_eq!(dated.count(), 1);
    }

    let history = stored(&agent, "s").await;
    assert_eq!(
        roles(&history),
        "user assistant tool assistant user assistant"
    );
}

/// Returns a function that logs the roles of the history and keeps the last message.
fn shortens(
    log: &Log,
) -> impl Fn(RunContext, Messages) -> futures::future::Ready<Result<Messages>> + use<> {
    let log = log.clone();
    move |_cx, messages| {
        log.add(roles(&messages));
        let last = messages.last().cloned().unwrap();
        let short = Messages::new().human("In short.").with(last);
        futures::future::ready(Ok(short))
    }
}

#[test]
fn compaction_hook_is_due_at_the_threshold() {
    let usage = Usage::new(1_000, 500).with_cache(300, 200);
    assert_eq!(usage.context_tokens(), 1_500);
    assert_eq!(Usage::default().context_tokens(), 0);
    let hook = |threshold| CompactionHook::new(threshold, shortens(&Log::default()));
    assert!(hook(100_000).should_compact(100_001, 10));
    assert!(!hook(100_000).should_compact(50_000, 10));
    assert!(hook(50_000).should_compact(50_000, 10));
    assert!(!hook(100_000).should_compact(150_000, 1));
    assert_eq!(
        hook(1).phases().to_string(),
        "before_agent, wrap_model_call"
    );
}

#[tokio::test]
async fn long_stored_history_is_compacted_before_the_run() {
    let log = Log::default();
    let history = Messages::new().human("x".repeat(400)).ai("y".repeat(400));
    let store = ThreadStore::new();
    let mut state = AgentState::new("s");
    state.messages = history;
    store.save("s", state);
    let model = ScriptedModel::new()
        .expect(|request| assert_eq!(roles(&request.messages), "user assistant user"))
        .say("hi");
    let agent = agent(model)
        .store(store)
        .hook(CompactionHook::new(200, shortens(&log)))
        .build()
        .unwrap();
    agent.session("s").run("Hello").await.unwrap();
    assert_eq!(log.take(), ["user assistant"]);
    let history = stored(&agent, "s").await;
    assert_eq!(history.get(0).unwrap().text(), "In short.");
    assert_eq!(roles(&history), "user assistant user assistant");
}

#[tokio::test]
async fn compaction_within_a_run_uses_reported_usage_and_keeps_the_history() {
    let log = Log::default();
    let fold = {
        let log = log.clone();
        move |_cx: RunContext, messages: Messages| {
            log.add(roles(&messages));
            let mut short = Messages::new().human("In short.");
            short.extend(messages.to_vec().split_off(messages.len() - 2));
            futures::future::ready(Ok(short))
        }
    };

    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .with_usage(Usage::new(50, 40).with_cache(3, 2))
        .call("echo", json!({"text": "b"}))
        .with_usage(Usage::new(20, 5))
        .say("done");
    let agent = agent(model.clone())
        .tool(echo())
        // The first response reported 95 tokens, and the result has 4 without its frame.
        .hook(CompactionHook::new(100, fold))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(log.take(), ["user assistant tool"]);
    let sent: Vec<_> = model
        .requests()
        .iter()
        .map(|r| roles(&r.messages))
        .collect();
    assert_eq!(
        sent,
        [
            "user",
            "user assistant tool",
            "user assistant tool assistant tool"
        ]
    );
    assert_eq!(
        model.requests()[2].messages.get(0).unwrap().text(),
        "In short."
    );
    assert_eq!(output.messages.get(0).unwrap().text(), "Go");
}

#[tokio::test]
async fn compaction_of_a_request_that_fails_is_used_when_the_request_is_repeated() {
    let log = Log::default();
    let fold = {
        let log = log.clone();
        move |_cx: RunContext, messages: Messages| {
            log.add(roles(&messages));
            let mut short = Messages::new().human("In short.");
            short.extend(messages.to_vec().split_off(messages.len() - 2));
            futures::future::ready(Ok(short))
        }
    };
    let repeating = hook::wrap_model_call("repeat", |request: ModelRequest, next| async move {
        match next.run(request.clone()).await {
            Ok(response) => Ok(response),
            Err(_) => next.run(request).await,
        }
    });

    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .with_usage(Usage::new(100, 5))
        .fail(Error::new(ErrorKind::InvalidRequest, "not today"))
        .say("done");
    let agent = agent(model.clone())
        .tool(echo())
        .hook(repeating)
        .hook(CompactionHook::new(100, fold))
        .build()
        .unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    assert_eq!(log.take(), ["user assistant tool"]);
    let requests = model.requests();
    let last_request = requests.last().unwrap();
    assert_eq!(last_request.messages.get(0).unwrap().text(), "In short.");
    assert_eq!(roles(&last_request.messages), "user assistant tool");
}

#[tokio::test]
async fn error_of_the_compaction_function_ends_the_run() {
    let history = || Messages::new().human("x").ai("y").human("z");
    let hook = CompactionHook::new(1, |_cx, _messages| async { Err("no summary".into()) });
    let agent = agent(ScriptedModel::new()).hook(hook).build().unwrap();
    let error = agent.run(history()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hook);
    let text = error.to_string();
    assert!(
        text.contains("`compaction`") && text.contains("no summary"),
        "{text}"
    );

    let hook = CompactionHook::new(1, |_cx, _messages| async { Ok(Messages::new()) });
    let agent = crate::kit::agent(ScriptedModel::new())
        .hook(hook)
        .build()
        .unwrap();
    let text = agent.run(history()).await.unwrap_err().to_string();
    assert!(text.contains("not valid for a model"), "{text}");
}

#[tokio::test]
async fn compaction_function_may_call_a_model_and_its_cost_is_counted() {
    let profile = ModelProfile::default().with_prices(Prices::new(1.0, 0.0));
    let cheap: Arc<dyn Model> = Arc::new(
        ScriptedModel::new()
            .with_profile(profile)
            .say("They met.")
            .with_usage(Usage::new(1_000_000, 1)),
    );
    let hook = CompactionHook::new(1, move |cx: RunContext, messages| {
        let cheap = cheap.clone();
        async move {
            let answer = cx.call_model(&cheap, messages).await?;
            Ok(Messages::new().human(answer.text().into_owned()))
        }
    });

    let model = FunctionModel::text(|request| request.messages.last_content().into_owned());
    let agent = agent(model.with_profile(profile))
        .hook(hook)
        .build()
        .unwrap();
    let output = agent
        .run(Messages::new().human("x").ai("y").human("z"))
        .await
        .unwrap();
    assert_eq!((&*output.text, output.cost), ("They met.", Some(1.0)));
}

#[tokio::test]
async fn session_hooks_load_save_and_lease_sessions() {
    let store = ThreadStore::new();
    let make = |model| {
        agent(model)
            .hook(session_hooks(store.clone()))
            .build()
            .unwrap()
    };

    let first = make(ScriptedModel::new().say("Hello, Ada."));
    let output = first.session("s").run("I am Ada.").await.unwrap();
    assert_eq!(
        output.text, "Hello, Ada.",
        "a session that is not there is new"
    );
    let stored = store.get("s").unwrap();
    assert_eq!(roles(&stored.messages), "user assistant", "the answer, too");

    let model = ScriptedModel::new().say("Ada.");
    let output = make(model.clone())
        .session("s")
        .run("Who am I?")
        .await
        .unwrap();
    assert_eq!(roles(&model.requests()[0].messages), "user assistant user");
    assert_eq!(output.messages.len(), 4);
    assert_eq!(store.get("s").unwrap().messages.len(), 4);

    let output = make(ScriptedModel::new().say("Who?"))
        .session("")
        .run("Hi")
        .await
        .unwrap();
    let id = output.state.thread_id.clone();
    assert!(!id.is_empty());
    assert_eq!(store.get(&id).unwrap().messages.len(), 2);

    let held = SessionStore::lease(&store, "s").await.unwrap();
    let error = make(ScriptedModel::new())
        .session("s")
        .run("Hi")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(held);
}

#[tokio::test]
async fn messages_in_both_stores_are_merged_without_duplicates() {
    let by_hand = ThreadStore::new();
    let model = ScriptedModel::new().say("One.").say("Two.").say("Three.");
    let agent = agent(model)
        .hook(session_hooks(by_hand.clone()))
        .build()
        .unwrap();
    for (id, text) in [("i1", "First"), ("i2", "Second"), ("i3", "Third")] {
        agent.session("s").input_id(id).run(text).await.unwrap();
    }

    let expected = "user assistant user assistant user assistant";
    assert_eq!(roles(&stored(&agent, "s").await), expected);
    let state = by_hand.get("s").unwrap();
    assert_eq!(roles(&state.messages), expected);
    assert_eq!(state.message_infos().count(), 3);
    let earlier_output = agent
        .session("s")
        .input_id("i1")
        .run("First")
        .await
        .unwrap();
    assert_eq!((&*earlier_output.text, earlier_output.turns), ("One.", 0));
}

/// Both stores of a session have the same history, and then one of them gets another task list. It
/// also gets two more messages, unless both histories stay the same.
#[tokio::test]
async fn task_list_is_that_of_the_store_with_the_later_messages() {
    for (is_own_later, adds_messages) in [(true, true), (false, true), (true, false)] {
        let (own, by_hand) = (ThreadStore::new(), ThreadStore::new());
        let model = ScriptedModel::new().say("One.").say("Two.");
        let agent = agent(model)
            .store(own.clone())
            .hook(session_hooks(by_hand.clone()))
            .build()
            .unwrap();
        agent.session("s").run("First").await.unwrap();

        let later = if is_own_later { &own } else { &by_hand };
        let mut state = later.get("s").unwrap();
        if adds_messages {
            state.messages = state.messages.human("Between").ai("Between.");
        }
        state.todos = Arc::new(vec![Todo::new("1", "later")]);
        later.save("s", state);
        let output = agent.session("s").run("Second").await.unwrap();
        assert_eq!(output.messages.len(), if adds_messages { 6 } else { 4 });
        let case = format!("own later: {is_own_later}, adds messages: {adds_messages}");
        assert_eq!(output.state.todos.len(), 1, "{case}");
        assert_eq!(by_hand.get("s").unwrap().todos.len(), 1);
    }
}

/// The store of the hooks has lost two messages before the input.
#[tokio::test]
async fn input_in_session_hooks_does_not_get_the_response_of_another_message() {
    let (own, by_hand) = (ThreadStore::new(), ThreadStore::new());
    let histories = [
        (&own, vec!["First", "Second", "Third"]),
        (&by_hand, vec!["First", "Third"]),
    ];
    for (store, texts) in histories {
        for text in texts {
            let model = ScriptedModel::new().say(format!("{text}."));
            let direct = agent(model).store(store.clone()).build().unwrap();
            let session = direct.session("s").input_id(text);
            session.run(text).await.unwrap();
        }
    }

    let both = agent(ScriptedModel::new().say("Fourth."))
        .store(own)
        .hook(session_hooks(by_hand.clone()))
        .build()
        .unwrap();
    both.session("s").run("Fourth").await.unwrap();
    assert_eq!(by_hand.get("s").unwrap().messages.len(), 8);

    let direct = agent(ScriptedModel::new()).store(by_hand).build().unwrap();
    let first = direct.session("s").input_id("First").run("First");
    assert_eq!(first.await.unwrap().text, "First.");
    let third = direct.session("s").input_id("Third").run("Third");
    assert_eq!(third.await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn messages_that_are_taken_back_are_in_neither_store() {
    for (kept_messages, expected) in [(2, "user assistant user assistant"), (0, "user assistant")] {
        let by_hand = ThreadStore::new();
        let model = ScriptedModel::new().say("One.").say("Two.").say("Other.");
        let agent = agent(model.clone())
            .hook(session_hooks(by_hand.clone()))
            .build()
            .unwrap();
        for text in ["First", "Second"] {
            agent.session("s").run(text).await.unwrap();
        }

        let session = agent.session("s").rewind_to(kept_messages);
        session.run("Edited").await.unwrap();
        let requests = model.requests();
        assert_eq!(requests[2].messages.len(), kept_messages + 1);
        for messages in [
            stored(&agent, "s").await,
            by_hand.get("s").unwrap().messages,
        ] {
            assert_eq!(roles(&messages), expected);
            assert_eq!(messages.last_content(), "Other.");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn run_that_is_dropped_leaves_no_messages_that_it_took_back() {
    let by_hand = ThreadStore::new();
    let model = ScriptedModel::new().say("One.").say("Two.").hang();
    let agent = agent(model)
        .hook(session_hooks(by_hand.clone()))
        .build()
        .unwrap();
    for (id, text) in [("i1", "First"), ("i2", "Second")] {
        agent.session("s").input_id(id).run(text).await.unwrap();
    }

    let mut run = agent.session("s").rewind_to(2).run("Edited");
    let end = async { while run.next().await.is_some() {} };
    timeout(Duration::from_secs(1), end).await.unwrap_err();
    drop(run);
    let messages = by_hand.get("s").unwrap().messages;
    assert_eq!(roles(&messages), "user assistant");
    assert_eq!(messages.last_content(), "One.");

    let direct = crate::kit::agent(ScriptedModel::new()).store(by_hand);
    let direct = direct.build().unwrap();
    let first = direct.session("s").input_id("i1").run("First");
    assert_eq!(first.await.unwrap().text, "One.");
}

/// The agent's own store has another history, whose messages the rewind removes.
#[tokio::test]
async fn history_of_session_hooks_alone_is_not_cut() {
    let by_hand = ThreadStore::new();
    let direct = agent(ScriptedModel::new().say("a").say("b"))
        .store(by_hand.clone())
        .build()
        .unwrap();
    for text in ["A", "B"] {
        direct.session("s").run(text).await.unwrap();
    }

    let own = ThreadStore::new();
    let direct = agent(ScriptedModel::new().say("one").say("two"))
        .store(own.clone())
        .build()
        .unwrap();
    for text in ["One", "Two"] {
        direct.session("s").run(text).await.unwrap();
    }

    let both = agent(ScriptedModel::new().say("other"))
        .store(own)
        .hook(session_hooks(by_hand.clone()))
        .build()
        .unwrap();
    both.session("s").rewind_to(2).run("Other").await.unwrap();
    let messages = by_hand.get("s").unwrap().messages;
    let texts: Vec<_> = messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["A", "a", "B", "b", "One", "one", "Other", "other"]);
}

#[tokio::test]
async fn session_hooks_keep_title_directory_and_input_ids() {
    let store = ThreadStore::new();
    let direct = |model| agent(model).store(store.clone()).build().unwrap();
    let first = direct(ScriptedModel::new().say("One."));
    let first = first.session("s").input_id("in_1").run("1");
    let mut state = first.await.unwrap().state;
    state.title = Some("Numbers".into());
    state.cwd = Some("/began/here".into());
    store.save("s", state);

    let by_hand = agent(ScriptedModel::new().say("Two."))
        .hook(session_hooks(store.clone()))
        .build()
        .unwrap();
    by_hand.session("s").run("2").await.unwrap();
    let stored = store.get("s").unwrap();
    assert_eq!(stored.messages.len(), 4);
    assert_eq!(stored.title.as_deref(), Some("Numbers"));
    assert_eq!(stored.cwd.as_deref(), Some("/began/here"));

    let silent = direct(ScriptedModel::new());
    let again = silent.session("s").input_id("in_1").run("1").await.unwrap();
    assert_eq!(again.text, "One.");
}

/// A store that reports this number of damaged parts of a session.
struct Damaged(usize);

#[async_trait]
impl Spy for Damaged {
    fn loaded(&self, stored: Option<StoredSession>) -> Option<StoredSession> {
        let mut stored = stored.unwrap_or_default();
        stored.damage = vec![Damage::new(DamageKind::Corrupt, 7, 11); self.0];
        Some(stored)
    }
}

#[tokio::test]
async fn damage_in_a_session_loaded_by_session_hooks_is_a_warning() {
    let agent = agent(ScriptedModel::new().say("hi"))
        .hook(session_hooks(Spied(ThreadStore::new(), Damaged(1))))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Hello")).await;
    output.unwrap();
    let texts = warnings(&messages);
    assert!(texts[0].contains("11 bytes at offset 7"), "{texts:?}");
}

#[tokio::test]
async fn many_damaged_parts_cause_few_warnings() {
    let store = || Spied(ThreadStore::new(), Damaged(100));
    let builder = || agent(ScriptedModel::new().say("hi"));
    for builder in [
        builder().store(store()),
        builder().hook(session_hooks(store())),
    ] {
        let agent = builder.build().unwrap();
        let (messages, output) = watch(agent.session("s").run("Hello")).await;
        output.unwrap();
        let texts = warnings(&messages);
        assert_eq!(texts.len(), 21, "{texts:?}");
        assert!(
            texts[20].contains("80 more parts with 880 bytes"),
            "{texts:?}"
        );
    }
}

/// A store whose saves fail.
struct Full;

#[async_trait]
impl Spy for Full {
    async fn save(&self, _: &AgentState) -> Result<()> {
        Err("the disk is full".into())
    }
}

#[tokio::test]
async fn failed_save_by_session_hooks_is_a_warning() {
    let agent = agent(ScriptedModel::new().say("hi"))
        .hook(session_hooks(Spied(ThreadStore::new(), Full)))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Hello")).await;
    assert_eq!(output.unwrap().text, "hi");
    let texts = warnings(&messages);
    assert!(
        texts[0].contains("`session`") && texts[0].contains("the disk is full"),
        "{texts:?}"
    );
}

/// Collects the fields of the `tracing` events of one target.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if !["session_id", "run_id"].contains(&field.name()) {
                    self.0 += &format!(" {}={value:?}", field.name());
                }
            }
        }
        if event.metadata().target() == "agentcore::usage" {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

#[tokio::test]
async fn usage_logger_logs_tokens_and_cost_of_a_run() {
    let events = Events::default();
    let subscriber = tracing_subscriber::registry().with(events.clone());
    let _guard = listen(subscriber);
    let profile = ModelProfile::default().with_prices(Prices::new(1.0, 1.0));
    let model = ScriptedModel::new()
        .with_profile(profile)
        .say("hi")
        .with_usage(Usage::new(1_000, 500).with_cache(300, 200));
    let agent = agent(model).hook(UsageLogger::new()).build().unwrap();
    agent.run("Hello").await.unwrap();
    assert_eq!(
        *events.0.lock().unwrap(),
        [
            "INFO message=generation complete agent=\"agent\" turns=1 input_tokens=1000 \
          output_tokens=500 cache_read_tokens=300 cache_write_tokens=200 cost_usd=0.002"
        ]
    );
    let unpriced = crate::kit::agent(ScriptedModel::new().say("hi")).hook(UsageLogger::new());
    unpriced.build().unwrap().run("Hello").await.unwrap();
    assert!(!events.0.lock().unwrap()[1].contains("cost_usd"));
}
