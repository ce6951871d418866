//! The default store of an agent: which sessions it keeps, and how many.

use std::sync::{Arc, Mutex, OnceLock};

use agentcore::hook::Phases;
use agentcore::session::{PendingCall, Record, SessionStore};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, AgentState, Decision, ErrorKind, ExitReason, FuncTool, Hook, Message, Messages,
    OnUnanswered, Result, RunContext, ThreadStore, ToolCall, async_trait,
};
use serde_json::json;

use crate::kit::{agent, any_object, asking, roles};

fn echoing() -> Agent {
    agent(FunctionModel::text(|_| "ok".to_owned()))
        .build()
        .unwrap()
}

async fn ids(agent: &Agent) -> Vec<String> {
    let sessions = agent.sessions().await.unwrap();
    sessions.iter().map(|info| info.id.to_string()).collect()
}

#[tokio::test]
async fn run_without_a_session_is_not_kept() {
    let agent = echoing();
    let output = agent.run("Hi").await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
    assert!(ids(&agent).await.is_empty());
    assert!(agent.run(Messages::new()).await.is_err());
    assert!(ids(&agent).await.is_empty());
}

#[tokio::test]
async fn run_without_a_session_is_not_stored_while_it_is_in_progress() {
    let agent = agent(ScriptedModel::new().hang().say("Hello."))
        .build()
        .unwrap();
    let mut run = agent.run("Hi");
    let id = run.session_id().clone();
    while futures::poll!(run.next()).is_ready() {}
    assert!(ids(&agent).await.is_empty());
    assert!(agent.session(id.clone()).state().await.unwrap().is_none());

    // The id is in use nevertheless.
    assert!(agent.handle(&id).is_some());
    let error = agent.session(id.clone()).run("Hi").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
    drop(run);
    assert!(ids(&agent).await.is_empty());
    assert!(agent.handle(&id).is_none());
    let output = agent.session(id).run("Hi").await.unwrap();
    assert_eq!(output.text, "Hello.");
}

/// The number of stored pending calls, and whether the session is leased.
type Seen = (Option<usize>, bool);

/// Reads the agent's store at the end of a run.
#[derive(Clone, Default)]
struct StoreReader {
    agent: Arc<OnceLock<Agent>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[async_trait]
impl Hook for StoreReader {
    fn name(&self) -> &str {
        "store-reader"
    }

    fn phases(&self) -> Phases {
        Phases::AFTER_AGENT
    }

    async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let store = self.agent.get().unwrap().store();
        let stored = store.load(cx.session_id()).await?;
        let pending = stored.map(|stored| stored.state.pending.len());
        let is_leased = store.is_leased(cx.session_id()).await?;
        self.seen.lock().unwrap().push((pending, is_leased));
        Ok(state)
    }
}

#[tokio::test]
async fn run_without_a_session_is_leased_and_stored_once_it_has_pending_calls() {
    let reader = StoreReader::default();
    let model = ScriptedModel::new()
        .say("Nothing to pay.")
        .call("pay", json!({}))
        .call("pay", json!({}));
    let pay = FuncTool::new("pay", "Pays", any_object(), |_, _| async { "paid" });
    let agent = agent(model)
        .tool(pay)
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .hook(reader.clone())
        .build()
        .unwrap();
    reader.agent.set(agent.clone()).ok().unwrap();
    let reports = || std::mem::take(&mut *reader.seen.lock().unwrap());

    agent.run("Pay?").await.unwrap();
    assert_eq!(reports(), [(None, false)]);
    let output = agent.run("Pay").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    assert_eq!(reports(), [(Some(1), true)]);
    let store = agent.store();
    assert!(!store.is_leased(&output.session_id).await.unwrap());
    let stored = store.load(&output.session_id).await.unwrap().unwrap();
    assert_eq!(roles(&stored.state.messages), "user assistant");
    let list = agent.sessions().await.unwrap();
    assert_eq!(list[0].title.as_deref(), Some("Pay"));

    // The run is dropped after the question is stored.
    let mut run = agent.run("Pay again");
    while reader.seen.lock().unwrap().is_empty() {
        run.next().await.unwrap();
    }
    let id = run.session_id().clone();
    drop(run);
    let pending = agent.session(id).pending().await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!(ids(&agent).await.len(), 2);
}

#[tokio::test]
async fn run_with_pending_calls_is_kept_until_and_after_the_answer() {
    let model = ScriptedModel::new()
        .call("pay", json!({}))
        .say("Paid.")
        .say("Yes.");
    let pay = FuncTool::new("pay", "Pays", any_object(), |_, _| async { "paid" });
    let agent = agent(model)
        .tool(pay)
        .permissions(asking())
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    let output = agent.run("Pay").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let session = agent.session(output.session_id);
    let pending = session.pending().await.unwrap();
    let paid = session
        .clone()
        .resume([Decision::allow(&pending[0])])
        .await
        .unwrap();
    assert_eq!(paid.text, "Paid.");
    assert_eq!(session.run("Sure?").await.unwrap().messages.len(), 6);
}

#[tokio::test]
async fn named_sessions_and_sessions_with_an_empty_id_are_kept() {
    let agent = echoing();
    agent.session("s").run("Hi").await.unwrap();
    assert_eq!(ids(&agent).await, ["s"]);
    let first = agent.session("").run("Hi").await.unwrap();
    let second = agent.session(first.session_id).run("Hi").await.unwrap();
    assert_eq!(second.messages.len(), 4);
    assert_eq!(ids(&agent).await.len(), 2);
}

#[tokio::test]
async fn runs_on_an_explicit_store_are_kept() {
    let model = FunctionModel::text(|_| "ok".to_owned());
    let agent = agent(model).store(ThreadStore::new()).build().unwrap();
    agent.run("Hi").await.unwrap();
    assert_eq!(ids(&agent).await.len(), 1);
}

fn saying(text: &str) -> AgentState {
    let mut state = AgentState::new("");
    state.messages = text.into();
    state
}

/// Returns the ids of all sessions, sorted.
async fn remaining_ids(store: &ThreadStore) -> String {
    let list = store.list().await.unwrap();
    let mut ids: Vec<_> = list.iter().map(|info| &*info.id).collect();
    ids.sort_unstable();
    ids.concat()
}

#[tokio::test]
async fn least_recently_used_sessions_are_dropped_over_the_limit() {
    let store = ThreadStore::new().max_sessions(3);
    for id in ["a", "b", "c"] {
        store.save(id, saying("x"));
    }
    assert!(store.get("a").is_some(), "this is a use");
    store.save("d", saying("x"));
    assert_eq!(remaining_ids(&store).await, "acd");
    let store = store.max_sessions(1);
    assert_eq!((&*remaining_ids(&store).await, store.len()), ("d", 1));
    let store = store.max_sessions(0);
    assert_eq!(
        remaining_ids(&store).await,
        "d",
        "the session used last stays"
    );
}

#[tokio::test]
async fn leased_sessions_and_those_with_pending_calls_are_not_dropped() {
    let store = ThreadStore::new().max_sessions(2);
    store.save("h", saying("x"));
    let held = store.lease("h").await.unwrap();
    let mut waiting = saying("x");
    waiting.pending = vec![pending("w")];
    store.save("w", waiting);
    for id in ["a", "b", "c"] {
        store.save(id, saying("x"));
    }

    assert_eq!(remaining_ids(&store).await, "chw");
    drop(held);
    store.save("w", saying("x"));
    assert_eq!(remaining_ids(&store).await, "hw");
}

#[tokio::test]
async fn sessions_with_pending_calls_are_dropped_over_twice_a_limit() {
    let waiting = |id: &str, text: &str| {
        let mut state = saying(text);
        state.pending = vec![pending(id)];
        state
    };
    let store = ThreadStore::new().max_sessions(2);
    for id in ["a", "b", "c", "d"] {
        store.save(id, waiting(id, "x"));
    }
    assert_eq!(remaining_ids(&store).await, "abcd");
    assert!(store.get("a").is_some(), "this is a use");
    let held = store.lease("b").await.unwrap();
    store.save("e", waiting("e", "x"));
    assert_eq!(remaining_ids(&store).await, "abde");
    drop(held);
    store.save("f", saying("x"));
    assert_eq!(remaining_ids(&store).await, "abef");

    let store = ThreadStore::new().max_bytes(100_000);
    for number in 0..20 {
        let id = number.to_string();
        store.save(&id, waiting(&id, &"x".repeat(30_000)));
    }
    assert_eq!(store.len(), 6);
    assert!(store.bytes() < 200_000, "{}", store.bytes());
}

fn pending(session: &str) -> PendingCall {
    let call = ToolCall::new("c", "pay", json!({}));
    let json = json!({
        "id": "p", "session_id": session, "call": call, "question": "Pay?", "args_hash": "",
    });
    serde_json::from_value(json).unwrap()
}

#[tokio::test]
async fn sessions_are_dropped_over_the_byte_limit() {
    let store = ThreadStore::new().max_bytes(100_000);
    let long = "x".repeat(30_000);
    for id in ["a", "b", "c", "d"] {
        store.save(id, saying(&long));
    }

    assert_eq!(remaining_ids(&store).await, "bcd");
    assert!(
        (90_000..100_000).contains(&store.bytes()),
        "{}",
        store.bytes()
    );
    let held = store.lease("c").await.unwrap();
    for _ in 0..3 {
        let message = Message::human(long.as_str()).into();
        let record = Record::Message {
            message,
            input_id: None,
        };

        store.append(&held, vec![record]).await.unwrap();
    }

    drop(held);
    assert_eq!(
        remaining_ids(&store).await,
        "c",
        "it exceeds the limit alone, but was used last"
    );
    store.save("e", saying("x"));
    assert_eq!(remaining_ids(&store).await, "e");
    assert!(store.bytes() < 2_000, "{}", store.bytes());
    assert!(ThreadStore::delete(&store, "e"));
    assert_eq!(store.bytes(), 0);
}

#[tokio::test]
async fn store_size_follows_answered_calls() {
    let store = ThreadStore::new();
    let calls: Vec<_> = (0..9)
        .map(|n| {
            let mut call = pending("a");
            call.id = format!("p{n}").into();
            call.question = "x".repeat(1_000);
            call
        })
        .collect();
    let save = |calls: Vec<PendingCall>| {
        let mut state = saying("x");
        state.pending = calls;
        store.save("a", state);
        store.bytes()
    };

    let rest = |indexes: &[usize]| indexes.iter().map(|n| calls[*n].clone()).collect();
    for (answered, left) in [
        (&["p0"][..], &[1, 2, 3, 4, 5, 6, 7, 8][..]),
        (&["p2", "p4"], &[0, 1, 3, 5, 6, 7, 8]),
        (&["p1", "p0", "p8", "unknown"], &[2, 3, 4, 5, 6, 7]),
    ] {
        let expected_bytes = save(rest(left));
        save(calls.clone());
        let held = store.lease("a").await.unwrap();
        let ids = answered.iter().map(|id| (*id).into()).collect();
        let record = Record::Answered { ids };
        store.append(&held, vec![record]).await.unwrap();
        drop(held);
        assert_eq!(store.get("a").unwrap().pending, rest(left));
        assert_eq!(store.bytes(), expected_bytes);
    }
}

#[tokio::test]
async fn store_size_follows_replacements_and_deletes() {
    let store = ThreadStore::new();
    let held = store.lease("a").await.unwrap();
    let record = |path: &str, content: Option<&str>| Record::File {
        path: path.into(),
        content: content.map(Into::into),
    };

    let long = "x".repeat(10_000);
    for _ in 0..5 {
        store
            .append(&held, vec![record("f", Some(&long))])
            .await
            .unwrap();
    }

    assert!(
        (10_000..12_000).contains(&store.bytes()),
        "{}",
        store.bytes()
    );
    store.append(&held, vec![record("f", None)]).await.unwrap();
    assert!(store.bytes() < 2_000, "{}", store.bytes());
    assert!(ThreadStore::delete(&store, "a"), "also while it is leased");
    assert_eq!(store.len(), 0);
    drop(held);
    assert_eq!((store.len(), store.bytes()), (0, 0));
}

#[tokio::test]
async fn default_store_keeps_a_thousand_named_sessions() {
    let agent = echoing();
    for n in 0..1_010 {
        agent.session(n.to_string()).run("Hi").await.unwrap();
    }
    let ids = ids(&agent).await;
    assert_eq!((ids.len(), &*ids[0], &*ids[999]), (1_000, "1009", "10"));
}

#[tokio::test(start_paused = true)]
async fn expired_sessions_are_swept_when_a_run_ends() {
    let store = ThreadStore::new();
    store.save("a", saying("x"));
    let held = store.lease("b").await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
    assert_eq!(store.len(), 1);
    drop(held);
    assert_eq!(store.len(), 0);
}
