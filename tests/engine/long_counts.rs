//! Token counts of long histories, which run on a thread where they block no other task.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use agentcore::hooks::{CompactionHook, SummarizationHook};
use agentcore::message::TokenCounter;
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, Message, Messages, ToolCall};
use futures::FutureExt;
use serde_json::json;
use tokio::sync::Notify;

use crate::kit::agent;

/// The length of texts whose tokens take long to count.
const LONG: usize = 300_000;
/// The length of texts whose tokens are counted at once.
const SHORT: usize = 100;

/// Counts one token for each four bytes, and records the bytes that each thread has counted.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<(ThreadId, usize)>>>);

impl Watched {
    /// Returns the bytes counted on this thread, and those counted on other threads.
    fn bytes(&self) -> (usize, usize) {
        let counted = self.0.lock().unwrap();
        let bytes = |is_own: bool| {
            let own = thread::current().id();
            let counted = counted.iter().filter(|(id, _)| (*id == own) == is_own);
            counted.map(|(_, len)| len).sum()
        };
        (bytes(true), bytes(false))
    }
}

impl TokenCounter for Watched {
    fn count_text(&self, text: &str) -> u64 {
        let mut counted = self.0.lock().unwrap();
        counted.push((thread::current().id(), text.len()));
        text.len() as u64 / 4
    }
}

/// Returns a history of eight messages with texts of this length: inputs, answers, calls and
/// results.
fn history(len: usize) -> Messages {
    let text = "word ".repeat(len / 5);
    let call = || ToolCall::new("a", "act", json!({"text": text.as_str()}));
    let turn = Messages::new()
        .human(text.as_str())
        .ai_calling("", [call()])
        .tool("a", "act", text.as_str())
        .ai(text.as_str());
    turn.iter().chain(turn.iter()).cloned().collect()
}

/// Returns agents that count tokens for different reasons.
fn agents() -> Vec<(&'static str, AgentBuilder)> {
    let says = || agent(FunctionModel::text(|_| "Done.".into()));
    let short = CompactionHook::new(50_000, |_, _| async { Ok(Messages::from("Short.")) });
    let summarizer = FunctionModel::text(|_| "<summary>They talked.</summary>".into());
    let long_window = SummarizationHook::new().with_context_window(10_000_000);
    let short_window = SummarizationHook::new()
        .with_context_window(10_000)
        .with_model(summarizer);
    vec![
        ("a limit of tokens", says().max_total_tokens(10_000_000)),
        ("a function that compacts", says().hook(short)),
        ("a window with room", says().hook(long_window)),
        ("a window without room", says().hook(short_window)),
    ]
}

#[tokio::test]
async fn long_history_is_counted_on_other_threads() {
    for (reason, builder) in agents() {
        let counter = Watched::default();
        let agent = builder.token_counter(counter.clone()).build().unwrap();
        let history = history(LONG).human("Go on.");
        agent.run(history).await.unwrap();
        let (own_bytes, other_bytes) = counter.bytes();
        assert!(own_bytes < LONG, "{reason}: {own_bytes}");
        assert!(other_bytes > 6 * LONG, "{reason}: {other_bytes}");
    }
}

#[tokio::test]
async fn short_history_is_counted_at_once() {
    for (reason, builder) in agents() {
        let counter = Watched::default();
        let agent = builder.token_counter(counter.clone()).build().unwrap();
        agent.run(history(SHORT).human("Go on.")).await.unwrap();
        let (own_bytes, other_bytes) = counter.bytes();
        assert!(own_bytes > 6 * SHORT, "{reason}: {own_bytes}");
        assert_eq!(other_bytes, 0, "{reason}");
    }
}

#[tokio::test]
async fn history_is_not_counted_without_a_use_of_its_tokens() {
    let counter = Watched::default();
    let builder = agent(FunctionModel::text(|_| "Done.".into()));
    let agent = builder.token_counter(counter.clone()).build().unwrap();
    agent.run(history(LONG).human("Go on.")).await.unwrap();
    assert_eq!(counter.bytes(), (0, 0));
}

#[tokio::test]
async fn long_answer_without_usage_is_estimated() {
    let counter = Watched::default();
    let model = FunctionModel::text(|_| "word ".repeat(4 * LONG / 5));
    let agent = agent(model).max_total_tokens(10_000_000);
    let agent = agent.token_counter(counter.clone()).build().unwrap();
    let output = agent.run("Go on.").await.unwrap();
    let (own_bytes, other_bytes) = counter.bytes();
    assert!(own_bytes + other_bytes < LONG, "{own_bytes}, {other_bytes}");
    assert!(
        output.usage.output_tokens > LONG as u64 / 2,
        "{:?}",
        output.usage
    );
}

/// A token counter that waits for a permit before it counts its first message.
struct Held {
    is_counting: Arc<Notify>,
    permission: Mutex<Receiver<()>>,
    counted: Arc<Mutex<usize>>,
}

impl TokenCounter for Held {
    fn count_text(&self, text: &str) -> u64 {
        text.len() as u64
    }

    fn count_message(&self, _: &Message) -> u64 {
        *self.counted.lock().unwrap() += 1;
        self.is_counting.notify_one();
        self.permission.lock().unwrap().recv().unwrap();
        1
    }
}

#[tokio::test]
async fn dropped_run_ends_the_count_of_its_history() {
    let (permit, permission) = channel();
    let is_counting = Arc::new(Notify::new());
    let counted = Arc::new(Mutex::new(0));
    let counter = Held {
        is_counting: is_counting.clone(),
        permission: Mutex::new(permission),
        counted: counted.clone(),
    };
    let builder = agent(FunctionModel::text(|_| "Done.".into()));
    let builder = builder.max_total_tokens(10_000_000).token_counter(counter);
    let agent = builder.build().unwrap();
    let mut run = agent
        .run(history(LONG).human("Go on."))
        .into_future()
        .boxed();
    tokio::select! {
        _ = &mut run => panic!("the history cannot be counted yet"),
        () = is_counting.notified() => {}
    }

    drop((run, agent));
    permit.send(()).unwrap();
    // The counting thread is the last owner of the counter.
    while Arc::strong_count(&counted) > 1 {
        thread::yield_now();
    }
    assert_eq!(*counted.lock().unwrap(), 1);
}
