//! Token counts of the provider for requests near the limit of a compactor.

use std::panic::panic_any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::message::TokenCounter;
use agentcore::model::{
    Compaction, CompactionRequest, Compactor, HostedTool, ModelProfile, ModelStream,
};
use agentcore::testing::ScriptedModel;
use agentcore::{
    AgentBuilder, Error, ErrorKind, ExitReason, FuncTool, Messages, Model, ModelRequest, Result,
    RunOutput, SdkMessage, Usage, async_trait,
};
use futures::FutureExt;
use futures::future::{BoxFuture, pending, ready};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::{agent, any_object, echo, kinds, warnings, watch};

/// The tokens above which a request is too long.
const LIMIT: u64 = 1_000;
/// Numbers of letters on both sides of the limit, and near it.
const NEAR: [usize; 2] = [900, 1_100];
/// Numbers of letters on both sides of the limit, and far from it.
const FAR: [usize; 2] = [600, 1_500];

type Count = Result<Option<u64>>;

/// A scripted model whose server counts tokens.
#[derive(Clone)]
struct Counting {
    inner: ScriptedModel,
    count: Arc<dyn Fn() -> BoxFuture<'static, Count> + Send + Sync>,
    counted: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Counting {
    fn new(
        inner: ScriptedModel,
        count: impl Fn() -> BoxFuture<'static, Count> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            count: Arc::new(count),
            counted: Arc::default(),
        }
    }

    /// Creates a model that reports `tokens` for every request.
    fn fixed(inner: ScriptedModel, tokens: u64) -> Self {
        Self::new(inner, move || ready(Ok(Some(tokens))).boxed())
    }

    /// Returns the number of counts so far.
    fn counts(&self) -> usize {
        self.counted.lock().unwrap().len()
    }
}

#[async_trait]
impl Model for Counting {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn profile(&self) -> &ModelProfile {
        self.inner.profile()
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream> {
        request.provider_cache().put(Box::new("sent"));
        self.inner.stream(request).await
    }

    async fn count_tokens(&self, request: ModelRequest) -> Count {
        self.counted.lock().unwrap().push(request);
        (self.count)().await
    }
}

/// Counts one token for each letter.
struct Letters;

impl TokenCounter for Letters {
    fn count_text(&self, text: &str) -> u64 {
        text.len() as u64
    }
}

/// Summarizes everything but the last message, or the last call and its result.
struct AtLimit;

#[async_trait]
impl Compactor for AtLimit {
    fn should_compact(&self, _: &Messages, tokens: u64, _: &ModelProfile) -> bool {
        tokens > LIMIT
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let messages = &request.messages;
        let is_result = |at: usize| messages.get(at).unwrap().as_tool_result().is_some();
        let through = messages.len() - 1;
        let through = through - usize::from(is_result(through));
        Ok(Some(Compaction::new("They talked.", through)))
    }
}

fn builder(model: &Counting) -> AgentBuilder {
    agent(model.clone())
        .compactor(AtLimit)
        .token_counter(Letters)
}

/// Returns a history of about `letters` letters.
fn history(letters: usize) -> Messages {
    let text = "y".repeat(letters);
    Messages::new().human(text).ai("I see.").human("Go")
}

async fn run(model: &Counting, letters: usize) -> (Vec<SdkMessage>, RunOutput) {
    let agent = builder(model).tool(echo()).build().unwrap();
    let (messages, output) = watch(agent.run(history(letters))).await;
    (messages, output.unwrap())
}

fn compactions(messages: &[SdkMessage]) -> usize {
    let kinds = kinds(messages);
    let boundaries = kinds.iter().filter(|k| *k == "system/compact_boundary");
    boundaries.count()
}

/// A model that calls a tool in `count` turns, and whose server reports no usage.
fn turns(count: usize) -> ScriptedModel {
    let turns = 0..count;
    let model = turns.fold(ScriptedModel::new(), |model, n| {
        model.call("echo", json!({"text": n.to_string()}))
    });
    model.say("done")
}

/// Checks that the estimate decides on both sides of the limit when the count fails: there is a
/// warning if there is a `reason`, and the next turn does not ask for a count again.
async fn estimate_decides(
    count: impl Fn() -> BoxFuture<'static, Count> + Clone + Send + Sync + 'static,
    reason: Option<&str>,
) {
    for letters in NEAR {
        let model = Counting::new(turns(1), count.clone());
        let (messages, output) = run(&model, letters).await;
        assert_eq!(output.text, "done");
        let is_long = letters as u64 > LIMIT;
        assert_eq!(compactions(&messages), usize::from(is_long), "{letters}");
        assert_eq!(model.counts(), 1, "{letters}");
        let texts = warnings(&messages);
        assert_eq!(texts.len(), usize::from(reason.is_some()), "{texts:?}");
        for (text, reason) in texts.iter().zip(reason) {
            assert!(text.contains(reason), "{text}");
            assert!(text.contains("estimate"), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_count_ends_after_five_seconds_and_the_estimate_decides() {
    let start_time = Instant::now();
    estimate_decides(|| pending().boxed(), Some("5 seconds")).await;
    assert_eq!(start_time.elapsed(), Duration::from_secs(10), "two runs");
}

#[tokio::test(start_paused = true)]
async fn failing_count_leaves_the_estimate() {
    let start_time = Instant::now();
    let count = || {
        let error = Error::new(ErrorKind::RateLimited, "too many counts");
        ready(Err(error)).boxed()
    };
    estimate_decides(count, Some("too many counts")).await;
    assert_eq!(start_time.elapsed(), Duration::ZERO, "it is not repeated");
}

#[tokio::test]
async fn panicking_count_leaves_the_estimate() {
    let now = || -> BoxFuture<'static, Count> { panic!("cannot count") };
    estimate_decides(now, Some("cannot count")).await;
    let later = || async { panic_any("cannot count on") }.boxed();
    estimate_decides(later, Some("cannot count on")).await;
}

#[tokio::test]
async fn missing_count_leaves_the_estimate_without_a_warning() {
    estimate_decides(|| ready(Ok(None)).boxed(), None).await;
    // Zero is no valid count, since no request is empty.
    estimate_decides(|| ready(Ok(Some(0))).boxed(), None).await;
}

/// Panics when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_run_does_not_wait_for_a_count() {
    let count = || {
        async {
            let _fragile = Fragile;
            pending().await
        }
        .boxed()
    };
    let model = Counting::new(ScriptedModel::new(), count);
    let agent = builder(&model).build().unwrap();
    let run = agent.run(history(NEAR[0]));
    let handle = run.handle();
    let start_time = Instant::now();
    let interrupting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.interrupt();
    };
    let ((_, output), ()) = futures::join!(watch(run), interrupting);
    assert_eq!(start_time.elapsed(), Duration::from_secs(1));
    assert_eq!(output.unwrap().end, ExitReason::Interrupted);
    assert_eq!((model.counts(), model.inner.requests().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn count_that_panics_when_it_is_dropped_leaves_the_estimate() {
    let count = || {
        async {
            let _fragile = Fragile;
            pending().await
        }
        .boxed()
    };
    estimate_decides(count, Some("5 seconds")).await;
}

#[tokio::test]
async fn exact_count_above_the_estimate_compacts() {
    // The server would refuse the request, so the agent must not send it.
    let inner = ScriptedModel::new()
        .expect(|request| assert_eq!(request.messages.len(), 2, "a summary and the input"))
        .say("done");
    let model = Counting::fixed(inner, LIMIT + 1);
    let (messages, output) = run(&model, NEAR[0]).await;
    assert_eq!(output.text, "done");
    assert_eq!((compactions(&messages), model.counts()), (1, 1));
    assert_eq!(warnings(&messages), [""; 0]);
    let boundary = messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .find(|value| value["subtype"] == "compact_boundary");
    let metadata = &boundary.unwrap()["compact_metadata"];
    assert_eq!(metadata["pre_tokens"], LIMIT + 1);
}

#[tokio::test]
async fn exact_count_below_the_estimate_does_not_compact() {
    let model = Counting::fixed(ScriptedModel::new().say("done"), LIMIT);
    let (messages, output) = run(&model, NEAR[1]).await;
    assert_eq!(output.text, "done");
    assert_eq!((compactions(&messages), model.counts()), (0, 1));
}

#[tokio::test]
async fn count_is_the_base_of_later_estimates() {
    // Another count is requested once more than a tenth of the tokens is estimated.
    let model = Counting::fixed(turns(12), 850);
    let (messages, output) = run(&model, NEAR[0]).await;
    assert_eq!(output.text, "done");
    let requests = model.inner.requests().len();
    let counts = model.counts();
    assert_eq!((requests, compactions(&messages)), (13, 0));
    assert!((2..=4).contains(&counts), "{counts} counts in 13 turns");
}

#[tokio::test]
async fn count_is_not_asked_far_from_the_limit() {
    for letters in FAR {
        let model = Counting::fixed(turns(2), 1);
        let (messages, output) = run(&model, letters).await;
        assert_eq!(output.text, "done");
        assert_eq!(model.counts(), 0, "{letters}");
        let is_long = letters as u64 > LIMIT;
        assert_eq!(compactions(&messages), usize::from(is_long));
    }
}

#[tokio::test]
async fn count_is_not_asked_without_a_compactor() {
    let model = Counting::fixed(ScriptedModel::new().say("done"), LIMIT + 1);
    let agent = agent(model.clone()).token_counter(Letters).build();
    let run = agent.unwrap().run(history(NEAR[0]));
    assert_eq!(run.await.unwrap().text, "done");
    assert_eq!(model.counts(), 0);
}

#[tokio::test]
async fn count_is_not_asked_when_the_provider_has_just_reported() {
    // The estimate is far from the limit. The reported usage is near it, but less than a tenth of
    // the tokens is estimated.
    let inner = ScriptedModel::new().with_usage(Usage::new(970, 5));
    let inner = inner
        .call("echo", json!({"text": "a"}))
        .call("echo", json!({"text": "b"}))
        .say("done");
    let model = Counting::fixed(inner, LIMIT + 1);
    let (messages, output) = run(&model, FAR[0]).await;
    assert_eq!(output.text, "done");
    assert_eq!((compactions(&messages), model.counts()), (0, 0));
}

#[tokio::test]
async fn only_unreported_tokens_are_uncertain() {
    // 600 tokens are reported, and `letters` more are estimated. For 560 letters, an error of a
    // fifth of the estimated tokens does not matter, although a fifth of all tokens would.
    for (letters, counts) in [(560, 0), (420, 1)] {
        let inner = ScriptedModel::new()
            .call("sized", json!({"n": letters}))
            .with_usage(Usage::new(600, 5))
            .say("done");
        let model = Counting::fixed(inner, LIMIT + 1);
        let sized = FuncTool::new("sized", "Says x", any_object(), |_cx, args| async move {
            "x".repeat(args["n"].as_u64().unwrap_or_default() as usize)
        });
        let agent = builder(&model).tool(sized).build().unwrap();
        let (messages, output) = watch(agent.run("Go")).await;
        assert_eq!(output.unwrap().text, "done");
        assert_eq!((compactions(&messages), model.counts()), (1, counts));
    }
}

#[tokio::test]
async fn compaction_on_request_needs_no_count() {
    let model = Counting::fixed(ScriptedModel::new().say("done"), 1);
    let agent = builder(&model).build().unwrap();
    let run = agent.run(history(NEAR[0]));
    run.handle().compact();
    let (messages, output) = watch(run).await;
    assert_eq!(output.unwrap().text, "done");
    assert_eq!((compactions(&messages), model.counts()), (1, 0));
}

#[tokio::test]
async fn another_model_is_asked_after_one_that_does_not_count() {
    let inner = ScriptedModel::new().call("echo", json!({"text": "a"}));
    let first = Counting::new(inner, || ready(Ok(None)).boxed());
    let second = Counting::fixed(ScriptedModel::new().say("done"), LIMIT + 1);
    let agent = builder(&first).tool(echo()).build().unwrap();
    let mut run = agent.run(history(NEAR[0]));
    let handle = run.handle();
    let mut messages = Vec::new();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::Assistant(_)) && messages.len() < 4 {
            handle.set_model(second.clone());
        }
        messages.push(message);
    }
    assert_eq!(run.into_output().unwrap().text, "done");
    assert_eq!((first.counts(), second.counts()), (1, 1));
    assert_eq!(compactions(&messages), 1);
}

#[tokio::test]
async fn counted_request_is_the_one_that_is_sent() {
    let model = Counting::fixed(turns(1), LIMIT);
    let hosted = HostedTool::new(
        "scripted",
        json!({"type": "web_search", "name": "web_search"}),
    );
    let agent = builder(&model)
        .system_prompt("Be kind.")
        .tool(echo())
        .hosted_tool(hosted)
        .max_output_tokens(70)
        .build()
        .unwrap();
    agent.run(history(NEAR[0])).await.unwrap();
    let counted = model.counted.lock().unwrap().remove(0);
    let sent = model.inner.requests().remove(0);
    assert_eq!(counted.messages, sent.messages);
    assert_eq!(counted.system, sent.system);
    assert_eq!(counted.tools, sent.tools);
    assert_eq!(counted.hosted_tools, sent.hosted_tools);
    assert_eq!(counted.max_output_tokens, Some(70));

    // Hooks change the request after the count, so the two requests must not share an encoded
    // history.
    assert!(sent.provider_cache().take::<&str>().is_some());
    assert!(counted.provider_cache().take::<&str>().is_none());
}

/// A compactor that fails or panics.
struct Failing {
    panics: bool,
}

#[async_trait]
impl Compactor for Failing {
    fn should_compact(&self, _: &Messages, tokens: u64, _: &ModelProfile) -> bool {
        assert!(!self.panics, "no opinion");
        tokens > LIMIT
    }

    async fn compact(&self, _: CompactionRequest) -> Result<Option<Compaction>> {
        Err("no summary".into())
    }
}

#[tokio::test]
async fn count_is_not_asked_after_a_failed_compaction() {
    let model = Counting::fixed(turns(1), LIMIT + 1);
    let agent = agent(model.clone())
        .token_counter(Letters)
        .compactor(Failing { panics: false })
        .tool(echo())
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run(history(NEAR[0]))).await;
    assert_eq!(output.unwrap().text, "done");
    let texts = warnings(&messages);
    assert!(texts[0].contains("no summary"), "{texts:?}");
    assert_eq!((texts.len(), model.counts()), (1, 1));
}

#[tokio::test]
async fn compactor_panic_is_one_warning_per_turn_and_nothing_is_counted() {
    let model = Counting::fixed(ScriptedModel::new().say("done"), LIMIT + 1);
    let agent = agent(model.clone())
        .token_counter(Letters)
        .compactor(Failing { panics: true })
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run(history(NEAR[0]))).await;
    assert_eq!(output.unwrap().text, "done");
    let texts = warnings(&messages);
    assert!(texts[0].contains("no opinion"), "{texts:?}");
    assert_eq!((texts.len(), model.counts()), (1, 0));
}
