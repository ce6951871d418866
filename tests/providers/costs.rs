//! Costs of runs: the usage of every call is recorded for the model that answered it.

use std::sync::Arc;

use agentcore::message::TokenCounter;
use agentcore::model::{
    Compaction, CompactionRequest, Compactor, ModelProfile, Prices, StopReason,
};
use agentcore::providers::{FallbackModel, OpenAi, resolve};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, Error, ErrorKind, ExitReason, FnHook, Messages, Model, ModelEvent, ModelRequest, Result,
    RunOutput, StopDecision, Usage, async_trait, hook,
};

use serde_json::json;

use crate::kit::{agent, echo, watch};

fn priced(id: &str, dollars: f64) -> ScriptedModel {
    let prices = Prices::new(dollars, dollars);
    ScriptedModel::new()
        .with_id(id)
        .with_profile(ModelProfile::default().with_prices(prices))
}

/// Runs `agent`. Returns the total cost and the cost of each model, in millionths of a dollar.
async fn bill(agent: Agent) -> (Option<u64>, Vec<(String, u64, Option<u64>)>) {
    let micros = |usd: f64| (usd * 1e6).round() as u64;
    let (messages, output) = watch(agent.run("Hi")).await;
    let cost = match &output {
        Ok(RunOutput { cost, .. }) => *cost,
        Err(error) => error.partial().unwrap().cost,
    };

    let result = messages.last().unwrap().as_result().unwrap();
    assert_eq!(result.total_cost_usd, cost);
    let models = result.model_usage.iter().map(|(id, usage)| {
        let tokens = usage.input_tokens + usage.output_tokens;
        (id.to_string(), tokens, usage.cost_usd.map(micros))
    });

    (cost.map(micros), models.collect())
}

#[tokio::test]
async fn cost_is_recorded_for_the_model_that_answered() {
    let first = priced("a:dear", 100.0).fail(Error::new(ErrorKind::Auth, "no key"));
    let second = priced("b:cheap", 1.0)
        .say("Hello.")
        .with_usage(Usage::new(10, 10));
    let model = FallbackModel::new([first, second]);
    let (cost, models) = bill(agent(model).build().unwrap()).await;
    assert_eq!(cost, Some(20));
    assert_eq!(models, [("b:cheap".to_owned(), 20, Some(20))]);
}

#[tokio::test]
async fn usage_of_each_fallback_attempt_is_recorded_for_its_model() {
    let text_event = |text: &str| Ok(ModelEvent::Text(text.into()));
    let used = |tokens| Ok(ModelEvent::Usage(Usage::new(tokens, 0)));
    let first = priced("a:dear", 100.0).events(vec![
        used(3),
        text_event("Hal"),
        Ok(ModelEvent::stop(StopReason::Refusal)),
    ]);
    let second = priced("b:middle", 10.0).events(vec![
        used(5),
        text_event("Hel"),
        Err(Error::new(ErrorKind::Server, "broke")),
    ]);
    let third = priced("c:cheap", 1.0).events(vec![
        text_event("Hello."),
        used(7),
        Ok(ModelEvent::stop(StopReason::EndTurn)),
    ]);
    let inner = FallbackModel::new([second, third]);
    let model = FallbackModel::new([first]).then(inner);
    let (cost, models) = bill(agent(model).build().unwrap()).await;
    assert_eq!(cost, Some(357));
    let expected = [
        ("a:dear", 3, Some(300)),
        ("b:middle", 5, Some(50)),
        ("c:cheap", 7, Some(7)),
    ];
    assert_eq!(models, expected.map(|(id, n, usd)| (id.to_owned(), n, usd)));
}

#[tokio::test]
async fn interrupted_answer_is_recorded_for_its_model() {
    let first = priced("a:dear", 100.0).fail(Error::new(ErrorKind::Auth, "no key"));
    let profile = ModelProfile::default().with_prices(Prices::new(1.0, 1.0));
    let second = FunctionModel::stream(|_| async {
        use futures::StreamExt as _;
        let events = [
            Ok(ModelEvent::Usage(Usage::new(5, 0))),
            Ok(ModelEvent::Text("Hal".into())),
        ];
        let endless = futures::stream::iter(events).chain(futures::stream::pending());
        Ok(endless.boxed())
    })
    .with_id("b:cheap")
    .with_profile(profile);
    let model = FallbackModel::new([first]).then(second);
    let agent = agent(model).include_partial_messages(true).build().unwrap();
    let mut run = agent.run("Hi");
    let handle = run.handle();
    while let Some(message) = futures::StreamExt::next(&mut run).await {
        if matches!(message, agentcore::SdkMessage::Partial(_)) {
            handle.interrupt();
        }
    }

    let output = run.into_output().unwrap();
    assert_eq!(output.text, "Hal");
    let names: Vec<_> = handle.stats().by_model.into_keys().collect();
    assert_eq!(names, [Arc::from("b:cheap")]);
}

/// A hook that requests another model of the same provider.
fn instead(name: &'static str) -> FnHook {
    hook::wrap_model_call("instead", move |mut request, next| async move {
        request.model = Some(name.into());
        next.run(request).await
    })
}

fn sonnet() -> ScriptedModel {
    let profile = ModelProfile::default().with_prices(Prices::new(3.0, 15.0));
    ScriptedModel::new()
        .with_id("anthropic:claude-sonnet-4-5")
        .with_profile(profile)
}

#[tokio::test]
async fn model_set_by_a_hook_has_its_own_price() {
    let model = sonnet().say("Hello.").with_usage(Usage::new(1000, 100));
    let agent = agent(model).hook(instead("claude-haiku-4-5"));
    let (cost, models) = bill(agent.build().unwrap()).await;
    assert_eq!(
        cost,
        Some(1500),
        "the prices are 1 and 5 dollars per million tokens"
    );
    assert_eq!(models[0].0, "anthropic:claude-haiku-4-5");
}

#[tokio::test]
async fn model_set_to_its_own_name_keeps_its_price() {
    let model = sonnet().say("Hello.").with_usage(Usage::new(1000, 100));
    let agent = agent(model).hook(instead("claude-sonnet-4-5"));
    let (cost, models) = bill(agent.build().unwrap()).await;
    assert_eq!(cost, Some(4500));
    assert_eq!(models[0].0, "anthropic:claude-sonnet-4-5");
}

#[tokio::test]
async fn unpriced_model_set_by_a_hook_is_an_error_under_a_budget() {
    let model = sonnet();
    let agent = agent(model.clone())
        .max_budget_usd(1.0)
        .hook(instead("claude-nobody-knows"))
        .build()
        .unwrap();
    let error = agent.run("Hi").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("claude-nobody-knows"), "{error}");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn budget_reserves_the_price_of_the_requested_model() {
    // At 15 dollars per million tokens the budget would lower the limit to about 130 tokens; at 5
    // dollars it does not.
    let model = sonnet().say("Hello.");
    let agent = agent(model.clone())
        .max_budget_usd(0.002)
        .max_output_tokens(350)
        .hook(instead("claude-haiku-4-5"))
        .build()
        .unwrap();
    let output = agent.run("Hi").await.unwrap();
    assert_eq!(output.text, "Hello.");
    assert_eq!(model.requests()[0].max_output_tokens, Some(350));
}

#[tokio::test]
async fn budget_reserves_the_price_of_the_most_expensive_fallback() {
    // An answer of the first model could be much longer within the budget; for one of the second
    // model, the budget covers less than 200 tokens.
    let busy = || Error::new(ErrorKind::Auth, "no key");
    let cheap = priced("a:cheap", 1.0).fail(busy());
    let dear = priced("b:dear", 100.0)
        .say("Hello.")
        .with_usage(Usage::new(1, 190));
    let inner = FallbackModel::new([priced("c:middle", 10.0).fail(busy()), dear.clone()]);
    let model = FallbackModel::new([cheap.clone()]).then(inner);
    let agent = agent(model).max_budget_usd(0.02).max_output_tokens(5000);
    let (cost, models) = bill(agent.build().unwrap()).await;
    assert_eq!(models[0].0, "b:dear");
    assert!(cost.unwrap() <= 20_000, "{cost:?}");
    for asked in [&cheap, &dear] {
        let cap = asked.requests()[0].max_output_tokens.unwrap();
        assert!((150..200).contains(&cap), "{cap}");
    }
}

/// A model that fails after a prompt that cost a cent.
fn broken_off(error: ErrorKind) -> ScriptedModel {
    priced("a:broken", 100.0).events(vec![
        Ok(ModelEvent::Usage(Usage::new(100, 0))),
        Ok(ModelEvent::Text("Hel".into())),
        Err(Error::new(error, "broke")),
    ])
}

#[tokio::test]
async fn next_fallback_is_called_only_when_the_budget_covers_both() {
    for (budget, is_asked) in [(0.04, true), (0.02, false)] {
        let second = priced("b:next", 100.0);
        let second = if is_asked {
            second.say("Hello.").with_usage(Usage::new(10, 100))
        } else {
            second
        };

        let model = FallbackModel::new([broken_off(ErrorKind::Refused), second.clone()]);
        let agent = agent(model).max_budget_usd(budget).max_output_tokens(100);
        let output = agent.build().unwrap().run("Hi").await.unwrap();
        assert_eq!(second.requests().len(), usize::from(is_asked));
        assert!(output.cost.unwrap() <= budget, "{:?}", output.cost);
        let end = if is_asked {
            ExitReason::EndTurn
        } else {
            ExitReason::MaxBudget
        };

        assert_eq!(output.end, end);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_is_limited_to_the_remaining_budget() {
    let model = broken_off(ErrorKind::Server)
        .say("Hello.")
        .with_usage(Usage::new(1, 80));
    let agent = agent(model.clone())
        .max_budget_usd(0.02)
        .max_output_tokens(120);
    let (cost, _) = bill(agent.build().unwrap()).await;
    assert!(cost.unwrap() <= 20_000, "{cost:?}");
    let caps: Vec<_> = model
        .requests()
        .iter()
        .map(|asked| asked.max_output_tokens)
        .collect();
    assert_eq!(caps[0], Some(120));
    assert!((80..100).contains(&caps[1].unwrap()), "{caps:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_call_is_not_retried_without_remaining_budget() {
    let model = broken_off(ErrorKind::Server);
    let agent = agent(model.clone())
        .max_budget_usd(0.0105)
        .max_output_tokens(50);
    let output = agent.build().unwrap().run("Hi").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxBudget);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn budget_applies_to_a_model_that_reports_no_usage() {
    let words = "word ".repeat(1000);
    let endless = || {
        let words = words.clone();
        FunctionModel::text(move |_| words.clone())
            .with_profile(ModelProfile::default().with_prices(Prices::new(1.0, 1.0)))
    };

    let again = || {
        hook::before_stop("again", |_, _| async {
            Ok(StopDecision::continue_with("More."))
        })
    };

    let limited = agent(endless()).hook(again()).max_budget_usd(0.02);
    let output = limited.build().unwrap().run("Hi").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxBudget);
    assert!(output.cost > Some(0.001), "{:?}", output.cost);
    let limited = agent(endless()).hook(again()).max_total_tokens(20_000);
    let output = limited.build().unwrap().run("Hi").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxBudget);
    assert!(output.usage.total_tokens() > 1000, "{:?}", output.usage);

    // Each stream that fails before its usage report has cost its prompt.
    let broken = || {
        vec![
            Ok(ModelEvent::Text("Hel".into())),
            Err(Error::new(ErrorKind::StreamTruncated, "broke")),
        ]
    };

    let model = priced("a:broken", 1.0)
        .events(broken())
        .events(broken())
        .say("Hello.");
    let limited = agent(model).max_budget_usd(1.0).build().unwrap();
    let long = limited.run(&*words).await.unwrap();
    assert!(long.cost > Some(0.003), "{:?}", long.cost);
}

#[tokio::test(start_paused = true)]
async fn partial_output_of_a_failed_attempt_counts_toward_the_budget() {
    let piece = "word ".repeat(2000);
    let start = || ModelEvent::ToolCallStart {
        index: 0,
        id: "c".into(),
        name: "write".into(),
    };

    let prompt = || ModelEvent::Usage(Usage::new(10, 1));
    let broke = || Err(Error::new(ErrorKind::StreamTruncated, "broke"));
    let thought = vec![Ok(ModelEvent::Thinking(piece.clone())), broke()];
    let json = piece.clone();
    let call_events = vec![
        Ok(start()),
        Ok(ModelEvent::ToolCallDelta { index: 0, json }),
        broke(),
    ];
    let text_events = vec![Ok(prompt()), Ok(ModelEvent::Text(piece.clone())), broke()];
    for events in [thought, call_events, text_events] {
        let model = priced("a:broken", 1.0).events(events).say("Hello.");
        let limited = agent(model).max_budget_usd(1.0).build().unwrap();
        let output = limited.run("Hi").await.unwrap();
        assert!(output.usage.output_tokens > 2000, "{:?}", output.usage);
    }

    // Without a limit, only reported usage counts.
    let model = priced("a:broken", 1.0)
        .events(vec![Ok(ModelEvent::Thinking(piece)), broke()])
        .say("Hello.");
    let output = agent(model).build().unwrap().run("Hi").await.unwrap();
    assert_eq!(output.usage, Usage::default());
}

#[tokio::test]
async fn impossible_usage_counts_saturate() {
    let most = u64::MAX;
    let model = priced("a:liar", 1.0)
        .say("Hello.")
        .with_usage(Usage::new(most, most).with_cache(most, most));
    let agent = agent(model).max_total_tokens(1_000_000).build().unwrap();
    let session = agent.session("s");
    let output = session.clone().run("Hi").await.unwrap();
    assert_eq!(output.text, "Hello.");
    assert_eq!(output.usage.total_tokens(), most);
}

#[tokio::test]
async fn token_counter_that_returns_the_maximum_saturates() {
    struct Most;

    impl TokenCounter for Most {
        fn count_text(&self, _text: &str) -> u64 {
            u64::MAX
        }
    }

    let model = ScriptedModel::new().call("echo", json!({"text": "x"}));
    let free = agent(model.say("Done.")).tool(echo()).token_counter(Most);
    let output = free.build().unwrap().run("Hi").await.unwrap();
    assert_eq!(output.text, "Done.");
    let limited = agent(ScriptedModel::new())
        .token_counter(Most)
        .max_total_tokens(1_000);
    let output = limited.build().unwrap().run("Hi").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxBudget);
}

#[tokio::test]
async fn invalid_price_is_a_config_error_under_a_budget() {
    for price in [f64::NAN, f64::INFINITY, -1.0] {
        let limited = agent(priced("a:odd", price)).max_budget_usd(1.0);
        let error = limited.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("a:odd"), "{error}");
        let free = agent(priced("a:odd", price).say("Hello.")).build().unwrap();
        assert_eq!(free.run("Hi").await.unwrap().text, "Hello.");
    }
}

#[tokio::test]
async fn fallback_without_a_price_is_a_config_error_under_a_budget() {
    let nameless = || ScriptedModel::new().with_id("b:nameless");
    let unpriced = FallbackModel::new([priced("a:known", 1.0), nameless()]);
    let error = agent(unpriced).max_budget_usd(1.0).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("b:nameless"), "{error}");
    let first = priced("a:known", 1.0).fail(Error::new(ErrorKind::Auth, "no key"));
    let model = FallbackModel::new([first, nameless().say("Hello.")]);
    let lenient = agent(model).max_budget_usd(1.0).allow_unpriced();
    let output = lenient.build().unwrap().run("Hi").await.unwrap();
    assert_eq!((&*output.text, output.cost), ("Hello.", None));
}

/// A compactor that always calls a model, and returns this compaction.
struct Costly(Option<Compaction>, Option<Arc<dyn Model>>);

#[async_trait]
impl Compactor for Costly {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        true
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let model = self.1.as_ref().unwrap_or(&request.model);
        let ask = ModelRequest::new(request.messages.clone());
        request.call(model, ask).await?;
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn cost_of_a_compaction_is_counted_with_any_result() {
    let empty = Compaction::new("", 0);
    let valid = Compaction::new("Nothing was said.", 0);
    for compaction in [None, Some(empty), Some(valid)] {
        let model = priced("a:model", 1.0)
            .say("A summary.")
            .with_usage(Usage::new(1000, 0))
            .say("Hello.")
            .with_usage(Usage::new(1, 1));
        let agent = agent(model).compactor(Costly(compaction.clone(), None));
        let (cost, models) = bill(agent.build().unwrap()).await;
        assert_eq!(cost, Some(1002), "{compaction:?}");
        assert_eq!(models, [("a:model".to_owned(), 1002, Some(1002))]);
    }

    let small = priced("b:small", 0.1)
        .say("A summary.")
        .with_usage(Usage::new(1000, 0));
    let model = priced("a:model", 1.0)
        .say("Hello.")
        .with_usage(Usage::new(1, 1));
    let agent = agent(model).compactor(Costly(None, Some(Arc::new(small))));
    let (cost, models) = bill(agent.build().unwrap()).await;
    assert_eq!((cost, models.len()), (Some(102), 2));
    let small = models.iter().find(|(id, ..)| id == "b:small");
    assert_eq!(small, Some(&("b:small".to_owned(), 1000, Some(100))));
}

#[test]
fn provider_of_a_compatible_server_sets_its_prices_unless_they_were_set() {
    let model = || OpenAi::compatible("http://127.0.0.1:1", "llama-3.3-70b-versatile");
    assert_eq!(model().profile().prices, None);
    assert!(model().provider("groq").profile().prices.is_some());
    let own = ModelProfile::default().with_context_window(9_000);
    let model = model().with_profile(own).provider("groq");
    assert_eq!(*model.profile(), own);
}

#[test]
fn models_on_local_servers_have_no_price() {
    for (name, window) in [
        ("vllm:gpt-oss-120b", 131_072),
        ("lmstudio:openai/gpt-oss-20b", 131_072),
        ("llamacpp:gpt-4", 8_192),
        ("ollama:gpt-oss-120b", 4_096),
    ] {
        let model = resolve(name).unwrap();
        let profile = model.profile();
        assert_eq!(
            (profile.prices, profile.prompt_cache),
            (None, false),
            "{name}"
        );
        assert_eq!(profile.context_window, window, "{name}");
    }
}
