//! The compaction of a session outside any run.

use std::sync::Arc;

use agentcore::hooks::SummarizationHook;
use agentcore::model::{ModelProfile, Prices};
use agentcore::session::Record;
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, AgentBuilder, ErrorKind, Message, SessionStore, ThreadStore, Usage};

use crate::kit::agent;

fn summarizing(summarizer: &ScriptedModel) -> SummarizationHook {
    SummarizationHook::new().with_model(summarizer.clone())
}

/// Appends `messages` messages to a session, half of them answers.
async fn filled(store: &ThreadStore, messages: usize) {
    let lease = store.lease("s").await.unwrap();
    let records = (0..messages).map(|index| Record::Message {
        message: Arc::new(match index % 2 {
            0 => Message::human(format!("question {index}")),
            _ => Message::ai(format!("answer {index}")),
        }),
        input_id: None,
    });
    store.append(&lease, records.collect()).await.unwrap();
}

fn over(store: &ThreadStore, hook: SummarizationHook) -> AgentBuilder {
    agent(ScriptedModel::new()).store(store.clone()).hook(hook)
}

fn summary(text: &str) -> ScriptedModel {
    ScriptedModel::new().say(format!("<summary>{text}</summary>"))
}

#[tokio::test]
async fn session_is_compacted_without_a_run_and_keeps_the_last_messages() {
    let store = ThreadStore::new();
    filled(&store, 21).await;
    let summarizer = summary("old news");
    let agent = over(&store, summarizing(&summarizer).with_keep_last(4));
    let session = agent.build().unwrap().session("s");
    let compaction = session.compact().await.unwrap().unwrap();
    assert_eq!(
        (&*compaction.summary, compaction.through_message),
        ("old news", 17)
    );
    let state = session.state().await.unwrap().unwrap();
    assert_eq!(state.compaction.as_ref(), Some(&compaction));
    assert_eq!(state.messages.len(), 21);
    assert!(
        session.compact().await.unwrap().is_none(),
        "nothing to gain"
    );
}

#[tokio::test]
async fn messages_after_the_last_summary_count_toward_the_limit() {
    for (messages, is_due) in [(20, false), (21, true)] {
        let store = ThreadStore::new();
        // The input of the run is the last message.
        filled(&store, messages - 1).await;
        let summarizer = summary("old news").say("unused");
        summarizer.allow_unused();
        let hook = summarizing(&summarizer)
            .with_max_messages(20)
            .with_keep_last(4);
        let model = ScriptedModel::new().say("one").say("two");
        let agent = agent(model).store(store).hook(hook).build().unwrap();
        let output = agent.session("s").run("And now?").await.unwrap();
        let compaction = output.state.compaction;
        let covered = compaction.map(|compaction| compaction.through_message);
        assert_eq!(covered, is_due.then_some(17), "{messages} messages");
        let output = agent.session("s").run("And then?").await.unwrap();
        let covered = output
            .state
            .compaction
            .map(|compaction| compaction.through_message);
        let expected = if is_due { 17 } else { 18 };
        assert_eq!(covered, Some(expected), "{messages} messages");
    }
}

/// An agent whose summarizer changes the store with `act` before it answers.
fn interfering<F>(
    store: &ThreadStore,
    act: impl Fn(ThreadStore) -> F + Send + Sync + 'static,
) -> Agent
where
    F: Future<Output = ()> + Send + 'static,
{
    let own_store = store.clone();
    let model = agentcore::testing::FunctionModel::stream(move |_request| {
        let act = act(own_store.clone());
        async move {
            act.await;
            let text = "<summary>old</summary>".into();
            let events = vec![
                Ok(agentcore::ModelEvent::Text(text)),
                Ok(agentcore::ModelEvent::stop(agentcore::StopReason::EndTurn)),
            ];
            Ok(futures::StreamExt::boxed(futures::stream::iter(events)))
        }
    });
    let hook = SummarizationHook::new().with_model(model).with_keep_last(2);
    over(store, hook).build().unwrap()
}

#[tokio::test]
async fn messages_that_arrive_meanwhile_are_kept() {
    let store = ThreadStore::new();
    filled(&store, 10).await;
    let agent = interfering(&store, |store| async move {
        let lease = store.lease("s").await.expect("the session is free");
        let message = Arc::new(Message::human("one more"));
        let record = Record::Message {
            message,
            input_id: None,
        };
        store.append(&lease, vec![record]).await.unwrap();
    });
    let session = agent.session("s");
    assert_eq!(session.compact().await.unwrap().unwrap().through_message, 8);
    let state = session.state().await.unwrap().unwrap();
    assert_eq!(state.messages.len(), 11);
    assert!(state.compaction.is_some());
}

#[tokio::test]
async fn summary_of_changed_messages_is_dropped() {
    let store = ThreadStore::new();
    filled(&store, 10).await;
    let agent = interfering(&store, |store| async move {
        let lease = store.lease("s").await.unwrap();
        let record = Record::Truncated { messages: 4 };
        store.append(&lease, vec![record]).await.unwrap();
    });
    let session = agent.session("s");
    let error = session.compact().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(session.state().await.unwrap().unwrap().compaction.is_none());
}

#[tokio::test]
async fn compaction_needs_a_compactor_a_session_and_a_budget() {
    let store = ThreadStore::new();
    let kind = |agent: AgentBuilder| {
        let session = agent.build().unwrap().session("s");
        async move { session.compact().await.unwrap_err().kind() }
    };
    let plain = agent(ScriptedModel::new()).store(store.clone());
    assert_eq!(kind(plain).await, ErrorKind::Config);
    let unused = ScriptedModel::new();
    assert_eq!(
        kind(over(&store, summarizing(&unused))).await,
        ErrorKind::SessionNotFound
    );

    filled(&store, 10).await;
    let profile = ModelProfile::default().with_prices(Prices::new(1.0, 1.0));
    let priced = ScriptedModel::new()
        .with_profile(profile)
        .with_usage(Usage::new(1, 1));
    let poor = agent(ScriptedModel::new().with_profile(profile))
        .store(store)
        .hook(summarizing(&priced))
        .max_budget_usd(0.0);
    assert_eq!(kind(poor).await, ErrorKind::BudgetExhausted);
    assert!(priced.requests().is_empty());
}

#[tokio::test]
async fn session_that_a_run_holds_is_not_summarised() {
    let store = ThreadStore::new();
    filled(&store, 20).await;
    let summarizer = summary("dropped");
    let hook = summarizing(&summarizer).with_keep_last(4);
    let model = ScriptedModel::new().say("done");
    let agent = agent(model).store(store.clone()).hook(hook);
    let agent = agent.build().unwrap();
    let mut run = agent.session("s").run("Go");
    run.next().await.expect("the run has begun");
    let error = agent.session("s").compact().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
    assert_eq!(summarizer.requests().len(), 0);
    assert_eq!(run.await.unwrap().text, "done");
}
