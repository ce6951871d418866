//! Sessions: they are stored between runs, used by one run at a time, and valid after any
//! interruption.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::model::Compaction;
use agentcore::session::{Lease, Record, SessionStore};
use agentcore::testing::{FunctionModel, ScriptedModel, Step, StrictModel};
use agentcore::{
    Agent, AgentState, Error, ErrorKind, ExitReason, Message, ModelEvent, Result, RunHandle,
    SdkMessage, Session, StopReason, ThreadStore, Todo, ToolCall, Usage, async_trait,
};
use futures::StreamExt;
use serde_json::json;

use crate::kit::spied_store::{Spied, Spy};
use crate::kit::{
    Log, agent, echo, kinds, logged, result_texts, roles, sleep, stored, stuck, warnings, watch,
};

fn hour() -> Duration {
    Duration::from_secs(3600)
}

#[tokio::test(start_paused = true)]
async fn session_expires_an_hour_after_its_last_access() {
    let store = ThreadStore::new();
    store.save("a", AgentState::new("a"));
    store.save("b", AgentState::new("b"));
    tokio::time::advance(hour() - Duration::from_secs(1)).await;
    assert!(store.get("a").is_some(), "this is an access");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(store.get("a").is_some());
    assert!(store.get("b").is_none());
    tokio::time::advance(hour()).await;
    assert_eq!((store.sweep(), store.len()), (1, 0));
    assert!(store.get("a").is_none());
}

#[tokio::test(start_paused = true)]
async fn session_with_a_call_that_can_still_be_decided_does_not_expire() {
    let store = ThreadStore::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = u64::try_from(now.unwrap().as_millis()).unwrap();
    for (id, owner, expiry) in [
        ("open", "open", Some(now_ms + 24 * 3_600_000)),
        ("late", "late", Some(now_ms - 1)),
        ("endless", "endless", None),
        // A fork, whose call waits in the original session.
        ("copy", "open", Some(u64::MAX)),
    ] {
        let mut state = AgentState::new(id);
        let pending = json!({
            "id": id, "session_id": owner, "question": "Sure?", "args_hash": "1",
            "call": {"id": "call_1", "name": "act", "args": {}}, "expires_at_ms": expiry,
        });
        state.pending.push(serde_json::from_value(pending).unwrap());
        store.save(id, state);
    }
    tokio::time::advance(2 * hour()).await;
    assert_eq!((store.sweep(), store.len()), (3, 1));
    assert!(store.get("open").is_some());

    // Over the limit, the session expires like any other.
    tokio::time::advance(2 * hour()).await;
    let store = store.max_bytes(1);
    assert_eq!((store.sweep(), store.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn expired_sessions_are_removed_on_access() {
    let store = ThreadStore::with_ttl(Duration::from_secs(60));
    store.save("a", AgentState::new("a"));
    tokio::time::advance(Duration::from_secs(301)).await;
    assert_eq!(store.len(), 1);
    store.save("b", AgentState::new("b"));
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn expired_session_has_no_revision_before_it_is_swept() {
    let store = ThreadStore::with_ttl(Duration::from_secs(60));
    store.save("a", AgentState::new("a"));
    assert!(store.revision("a").await.unwrap().is_some());
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(store.len(), 1);
    assert_eq!(store.revision("a").await.unwrap(), None);
}

/// An agent with this store that responds to every input.
fn responding(store: ThreadStore) -> Agent {
    let model = FunctionModel::text(|_| "ok".to_owned());
    agent(model).store(store).build().unwrap()
}

/// Runs the session, and returns the warnings of the run.
async fn warnings_of(session: Session) -> Vec<String> {
    let (messages, output) = watch(session.run("Hi")).await;
    assert_eq!(roles(&output.unwrap().messages), "user assistant");
    warnings(&messages)
}

#[tokio::test(start_paused = true)]
async fn run_of_an_expired_session_warns_once_that_its_history_is_gone() {
    let store = ThreadStore::with_ttl(Duration::from_secs(60));
    let agent = responding(store.clone());
    for is_swept in [false, true] {
        assert_eq!(warnings_of(agent.session("s")).await, [""; 0]);
        tokio::time::advance(Duration::from_secs(61)).await;
        if is_swept {
            assert_eq!(store.sweep(), 1);
        }

        let error = agent.session("s").must_exist().run("Hi").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionNotFound);
        let texts = warnings_of(agent.session("s")).await;
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(
            texts[0].contains("\"s\" was dropped from memory"),
            "{texts:?}"
        );
        let (messages, _) = watch(agent.session("s").run("Go on")).await;
        assert_eq!(warnings(&messages), [""; 0]);
        assert!(agent.session("s").delete().await.unwrap());
    }
}

#[tokio::test]
async fn run_of_a_session_that_made_room_for_others_warns_unless_it_was_deleted() {
    let agent = responding(ThreadStore::new().max_sessions(1));
    assert_eq!(warnings_of(agent.session("a")).await, [""; 0]);
    assert_eq!(warnings_of(agent.session("b")).await, [""; 0]);
    assert_eq!(warnings_of(agent.session("a")).await.len(), 1);
    assert!(
        !agent.session("b").delete().await.unwrap(),
        "the session was removed"
    );
    assert_eq!(warnings_of(agent.session("b")).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn dropped_session_of_another_user_causes_no_warning() {
    let agent = responding(ThreadStore::with_ttl(Duration::from_secs(60)));
    for (user, warning_count) in [("bob", 0), ("ann", 1)] {
        let session = |user: &str| agent.session("s").owned_by(user);
        warnings_of(session("ann")).await;
        tokio::time::advance(Duration::from_secs(61)).await;
        let texts = warnings_of(session(user)).await;
        assert_eq!(texts.len(), warning_count, "{user}: {texts:?}");
        agent.session("s").delete().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn leased_session_does_not_expire() {
    let store = ThreadStore::with_ttl(Duration::from_secs(60));
    let model = ScriptedModel::new()
        .say("Hello.")
        .say("Slow.")
        .delayed(Duration::from_secs(600));
    let agent = agent(StrictModel::new(model))
        .store(store.clone())
        .build()
        .unwrap();
    agent.session("s").run("Hi").await.unwrap();
    let sweeper = tokio::spawn({
        let store = store.clone();
        async move {
            sleep(300).await;
            store.sweep()
        }
    });

    let output = agent.session("s").run("More").await.unwrap();
    assert_eq!(sweeper.await.unwrap(), 0);
    assert_eq!(roles(&output.messages), "user assistant user assistant");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(agent.session("s").state().await.unwrap().is_none());
}

#[tokio::test]
async fn second_run_on_a_session_is_session_busy_and_changes_nothing() {
    let agent = agent(ScriptedModel::new().hang()).build().unwrap();
    let mut first = agent.session("s").run("Hi");
    while futures::poll!(first.next()).is_ready() {}
    let (messages, second) = watch(agent.session("s").run("Me too")).await;
    let error = second.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
    assert_eq!(
        kinds(&messages),
        ["system/init", "result/error_during_execution"]
    );
    assert!(
        agent.handle("s").is_some(),
        "the handle of the first run remains"
    );
    assert_eq!(roles(&stored(&agent, "s").await), "user");
    drop(first);
    assert!(agent.handle("s").is_none());
}

#[tokio::test]
async fn sessions_can_be_forked_listed_and_deleted() {
    let agent = agent(FunctionModel::text(|request| {
        request.messages.len().to_string()
    }))
    .build()
    .unwrap();
    agent.session("a").run("Hi").await.unwrap();
    let fork = agent.session("a").fork("b").await.unwrap();
    let output = fork.run("More").await.unwrap();
    assert_eq!((&*output.text, output.messages.len()), ("3", 4));
    assert_eq!(&*output.state.thread_id, "b");
    assert_eq!(stored(&agent, "a").await.len(), 2);
    let list = agent.store().list().await.unwrap();
    let ids: Vec<_> = list.iter().map(|info| (&*info.id, info.messages)).collect();
    assert_eq!(ids, [("b", 4), ("a", 2)]);
    let error = agent.session("a").fork("b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let missing = agent.session("nobody").fork("c").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::SessionNotFound);
    assert!(agent.session("b").delete().await.unwrap());
    assert!(!agent.session("b").delete().await.unwrap());
    assert!(agent.session("b").state().await.unwrap().is_none());
}

#[test]
fn agent_state_json_round_trips() {
    let mut state = AgentState::new("th_1");
    assert_eq!(
        serde_json::to_value(&state).unwrap(),
        json!({"thread_id": "th_1", "messages": []})
    );
    state.user_id = Some("u".into());
    state.messages = agentcore::Messages::from("Hi").ai("Hello.");
    state.todos = Arc::new(vec![Todo::new("1", "Look")]);
    state.files = Arc::new([("a.txt".into(), "text".into())].into());
    state.compaction = Some(Compaction::new("They met.", 1));
    state.values.insert(1_u8);
    let value = serde_json::to_value(&state).unwrap();
    assert_eq!(
        value,
        json!({
            "thread_id": "th_1",
            "user_id": "u",
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello."},
            ],
            "todos": [{"id": "1", "title": "Look", "status": "pending"}],
            "files": {"a.txt": "text"},
            "compaction": {"summary": "They met.", "through_message": 1},
        })
    );
    let read: AgentState = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
}

/// A model that calls `act` and `stuck`, and answers once it has results.
fn busy_model() -> StrictModel<FunctionModel> {
    StrictModel::new(FunctionModel::stream(|request| async move {
        tokio::task::yield_now().await;
        let last = request.messages.last().unwrap().role().to_string();
        let call = |id: &str, name: &str| {
            let id = format!("{id}_{}", request.messages.len());
            Ok(ModelEvent::ToolCall(ToolCall::new(id, name, json!({}))))
        };

        let mut events = match &*last {
            "tool" => vec![Ok(ModelEvent::Text("done".into()))],
            _ => vec![call("a", "act"), call("b", "slow"), call("c", "act")],
        };

        events.push(Ok(ModelEvent::stop(agentcore::StopReason::EndTurn)));
        Ok(futures::stream::iter(events)
            .then(|event| async {
                tokio::task::yield_now().await;
                event
            })
            .boxed())
    }))
}

fn busy_agent(store: impl SessionStore, log: &Log) -> Agent {
    let slow = agentcore::FuncTool::new("slow", "Yields", crate::kit::any_object(), {
        let log = log.clone();
        move |_cx, _args| {
            let log = log.clone();
            async move {
                log.add("slow begun");
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }

                log.add("slow done");
                "slow ran"
            }
        }
    });

    agent(busy_model())
        .tools([slow, logged("act", log).exclusive()])
        .store(store)
        .include_partial_messages(true)
        .build()
        .unwrap()
}

#[tokio::test]
async fn run_dropped_at_any_poll_leaves_a_session_that_can_continue() {
    let mut finished = false;
    let mut counts = [0; 2];
    for polls in 1..200 {
        let log = Log::default();
        let agent = busy_agent(ThreadStore::new(), &log);
        let mut run = agent.session("s").run("Go");
        let mut over = false;
        for _ in 0..polls {
            if let std::task::Poll::Ready(None) = futures::poll!(run.next()) {
                over = true;
                break;
            }

            // Lets tasks that have yielded run.
            tokio::task::yield_now().await;
        }

        drop(run);
        let log = log.take();
        let output = agent.session("s").run("And now?").await.unwrap();
        output.messages.validate_for_model().unwrap();
        assert_eq!(stored(&agent, "s").await, output.messages);
        let first: Vec<_> = result_texts(&output.messages).into_iter().take(3).collect();
        if !over && first.iter().any(|text| text.contains("did not run")) {
            counts[0] += 1;
        }

        if first.iter().any(|text| text.contains("may have run")) {
            counts[1] += 1;
        }

        for (at, ran) in [
            (0, !log.is_empty()),
            (1, log.contains(&"slow begun".into())),
        ] {
            if ran && first.len() == 3 && roles(&output.messages).starts_with("user assistant") {
                assert!(
                    !first[at].contains("did not run"),
                    "{polls}: {log:?} {first:?}"
                );
            }
        }

        if over {
            finished = true;
            break;
        }
    }

    assert!(finished, "the run ends within so many polls");
    assert!(counts.iter().all(|times| *times > 0), "{counts:?}");
}

/// A spy that fails the n-th write.
struct Failing {
    left: AtomicUsize,
    log: Log,
}

impl Failing {
    fn write(&self, what: &str) -> Result<()> {
        self.log.add(what);
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            1 => Err(Error::new(ErrorKind::Io, "disk full")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Spy for Failing {
    async fn append(&self, records: &[Record]) -> Result<()> {
        self.write(match &records[0] {
            Record::ToolStarted { .. } => "append start",
            Record::ToolEnded { .. } => "append end",
            Record::Message { message, .. } => match &**message {
                Message::Tool(_) => "append results",
                _ => "append message",
            },
            _ => "append",
        })
    }

    async fn save(&self, _: &AgentState) -> Result<()> {
        self.write("save")
    }
}

#[tokio::test]
async fn failed_write_is_reported_before_the_run_depends_on_it() {
    let mut failures = Vec::new();
    for n in 1..20 {
        let (ran, writes) = (Log::default(), Log::default());
        let threads = ThreadStore::new();
        let failing = Failing {
            left: AtomicUsize::new(n),
            log: writes.clone(),
        };

        let store = Spied(threads.clone(), failing);
        let agent = busy_agent(store, &ran);
        let (messages, output) = watch(agent.session("s").run("Go")).await;
        let (ran, writes) = (ran.take(), writes.take());
        if writes.len() < n {
            assert!(output.is_ok());
            break;
        }

        let failed = &*writes[n - 1];
        failures.push(failed.to_owned());
        let warned = crate::kit::warnings(&messages)
            .iter()
            .any(|text| text.contains("disk full"));
        match failed {
            "append message" | "append results" => {
                assert_eq!(output.unwrap_err().kind(), ErrorKind::Io);
                if n <= 2 {
                    assert_eq!(ran, [""; 0], "no tool runs before its call is stored");
                }
            }
            "append start" => {
                let texts = result_texts(&output.unwrap().messages);
                let count = texts
                    .iter()
                    .filter(|text| text.contains("disk full"))
                    .count();
                assert_eq!(count, 1, "{texts:?}");
            }
            _ => assert!(output.is_ok() && warned, "the run succeeds with a warning"),
        }

        // A tool that has run is not reported as one that did not.
        let messages = threads.get("s").unwrap_or_default().messages;
        if failed == "append results" {
            assert_eq!(result_texts(&messages)[1], "slow ran");
        }

        let next = agent.session("s").run("And now?").await.unwrap();
        next.messages.validate_for_model().unwrap();
    }

    failures.dedup();
    assert_eq!(
        failures,
        [
            "append message",
            "append end",
            "append start",
            "append end",
            "append start",
            "append results",
            "append message",
            "save"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_run_releases_its_session_and_handle() {
    let agent = agent(ScriptedModel::new().call("stuck", json!({})).say("done"))
        .tools([stuck(), echo()])
        .build()
        .unwrap();
    let mut run = agent.session("s").run("Go");
    while futures::poll!(run.next()).is_ready() {}
    let handle = run.handle();
    drop(run);
    assert_eq!(handle.wait().await, None);
    handle.interrupt();
    let output = agent.session("s").run("And?").await.unwrap();
    assert!(result_texts(&output.messages)[0].contains("may have run"));
}

#[tokio::test]
async fn message_info_of_answers_is_stored() {
    let usage = Usage::new(12, 3);
    let step = |text: &str, reason| Step::text(text).stop(reason).usage(usage);
    let model = ScriptedModel::new()
        .step(step("One, ", StopReason::PauseTurn))
        .step(step("two, ", StopReason::MaxTokens))
        .step(step("three.", StopReason::EndTurn));
    let agent = agent(model).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Count")).await;
    let last_uuid = messages.iter().rev().find_map(|message| match message {
        SdkMessage::Assistant(event) => Some(event.envelope.uuid),
        _ => None,
    });

    assert_eq!(output.unwrap().end, ExitReason::MaxTokens);
    agent.session("s").run("Go on").await.unwrap();
    let state = agent.session("s").state().await.unwrap().unwrap();
    let infos: Vec<_> = state.message_infos().collect();
    assert_eq!(infos.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 3]);
    let first = state.message_info(1).unwrap();
    assert_eq!(Some(first.uuid), last_uuid);
    assert_eq!((&*first.model, first.usage.output_tokens), ("scripted", 6));
    assert_eq!(first.stop_reason, Some(StopReason::MaxTokens));
    assert!(state.message_info(0).is_none() && state.message_info(9).is_none());
    let json = serde_json::to_string(&state).unwrap();
    assert!(!json.contains("aborted"), "{json}");
    let read: AgentState = serde_json::from_str(&json).unwrap();
    assert_eq!(read.message_infos().collect::<Vec<_>>(), infos);
}

#[tokio::test]
async fn rewind_to_continues_from_an_earlier_message() {
    let model = ScriptedModel::new()
        .say("One.")
        .call("echo", json!({"text": "x"}))
        .say("Two.")
        .say("Another two.")
        .say("Edited two.")
        .say("Three.");
    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    let session = agent.session("s");
    let send = |id: &'static str, text: &'static str| session.clone().input_id(id).run(text);
    send("i1", "First").await.unwrap();
    send("i2", "Second").await.unwrap();
    let more = session
        .clone()
        .rewind_to(7)
        .run("Too far")
        .await
        .unwrap_err();
    assert_eq!(more.kind(), ErrorKind::InvalidRequest);
    assert_eq!(stored(&agent, "s").await.len(), 6, "no message was removed");

    let output = session
        .clone()
        .rewind_to(2)
        .run("Other second")
        .await
        .unwrap();
    assert_eq!(output.text, "Another two.");
    assert_eq!(roles(&output.messages), "user assistant user assistant");
    assert_eq!(stored(&agent, "s").await, output.messages);
    let repeated = send("i1", "First").await.unwrap();
    assert_eq!((&*repeated.text, repeated.turns), ("One.", 0));
    let error = send("i2", "Second").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);

    // Repeats the same request, as after a lost connection.
    let edit = || session.clone().rewind_to(2).input_id("i3").run("Edited");
    let output = edit().await.unwrap();
    let again = edit().await.unwrap();
    assert_eq!((&*again.text, again.turns), (&*output.text, 0));
    assert_eq!(again.messages, output.messages);
    let output = session.clone().rewind_to(0).run("Anew").await.unwrap();
    assert_eq!(roles(&output.messages), "user assistant");
}

#[tokio::test]
async fn rewind_to_between_a_call_and_its_results_keeps_the_results() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("One.")
        .say("Other.");
    let agent = agent(StrictModel::new(model)).tool(echo()).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let output = agent.session("s").rewind_to(2).run("Well?").await.unwrap();
    assert_eq!(
        roles(&output.messages),
        "user assistant tool user assistant"
    );
}

#[tokio::test]
async fn session_title_is_set_and_listed() {
    let agent = agent(ScriptedModel::new().say("Hello.").hang())
        .build()
        .unwrap();
    let session = agent.session("s");
    let missing = session.set_title("Nothing").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::SessionNotFound);
    assert!(agent.sessions().await.unwrap().is_empty());
    session.clone().run("Hi there").await.unwrap();
    for (given, listed) in [("Greetings", "Greetings"), (" ", "Hi there")] {
        session.set_title(given).await.unwrap();
        let sessions = agent.sessions().await.unwrap();
        assert_eq!(sessions[0].title.as_deref(), Some(listed));
    }

    let mut run = session.clone().run("Go on");
    while futures::poll!(run.next()).is_ready() {}
    let busy = session.set_title("Busy").await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::SessionBusy);
}

#[tokio::test]
async fn results_of_calls_of_a_dropped_run_are_emitted_in_the_next_run() {
    let model = ScriptedModel::new()
        .calls([("echo", json!({"text": "x"})), ("stuck", json!({}))])
        .say("Well.");
    let agent = agent(StrictModel::new(model))
        .tools([echo(), stuck()])
        .build()
        .unwrap();
    let mut run = agent.session("s").run("Go");
    while futures::poll!(run.next()).is_ready() {}
    drop(run);
    let (messages, output) = watch(agent.session("s").run("And?")).await;
    assert_eq!(kinds(&messages)[..2], ["system/init", "user"]);
    let SdkMessage::User(event) = &messages[1] else {
        panic!("{:?}", messages[1]);
    };

    let texts: Vec<_> = event
        .messages
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, result_texts(&output.unwrap().messages)[..2]);
}

/// Logs at the release of a lease whether the run has ended.
struct Releases(Log, Arc<Mutex<Option<RunHandle>>>);

#[async_trait]
impl Spy for Releases {
    async fn save(&self, state: &AgentState) -> Result<()> {
        assert!(state.response.is_none() && state.usage.is_none());
        assert!(state.output_messages.is_empty() && state.values.get::<u8>().is_none());
        Ok(())
    }

    fn leased(&self, lease: Lease) -> Lease {
        let (log, handle) = (self.0.clone(), self.1.clone());
        Lease::new(lease.session_id().clone(), lease.token(), move || {
            drop(lease);
            let handle = handle.lock().unwrap().take().unwrap();
            log.add(format!(
                "released, over: {}",
                handle.exit_reason().is_some()
            ));
        })
    }
}

#[tokio::test]
async fn lease_is_released_before_the_run_ends() {
    let (log, slot) = (Log::default(), Arc::default());
    let store = Spied(ThreadStore::new(), Releases(log.clone(), Arc::clone(&slot)));
    let agent = agent(ScriptedModel::new().say("Hi."))
        .store(store)
        .build()
        .unwrap();
    let run = agent.session("s").with(1_u8).run("Hello");
    *slot.lock().unwrap() = Some(run.handle());
    run.await.unwrap();
    assert_eq!(log.take(), ["released, over: false"]);
}

#[tokio::test]
async fn input_whose_answer_was_rewound_gets_a_new_answer() {
    let model = ScriptedModel::new().say("One.").say("Other.");
    let agent = agent(StrictModel::new(model)).build().unwrap();
    let session = agent.session("s");
    session.clone().input_id("i1").run("First").await.unwrap();
    let again = session.clone().rewind_to(1).run(agentcore::Messages::new());
    assert_eq!(again.await.unwrap().text, "Other.");
    let output = session.clone().input_id("i1").run("First").await.unwrap();
    assert_eq!((&*output.text, output.turns), ("Other.", 0));
}

#[tokio::test(start_paused = true)]
async fn message_changed_by_after_agent_keeps_message_infos() {
    let redact = agentcore::hook::after_agent("redact", |_, mut state| async move {
        let position = state
            .messages
            .iter()
            .rposition(|message| message.role().is_user_input());
        if let Some(message) = position.and_then(|at| state.messages.get_mut(at)) {
            *message.content_mut() = "[redacted]".into();
        }

        Ok(state)
    });

    let model = ScriptedModel::new()
        .step(Step::text("Once upon a").then_hang())
        .say("Once upon a time.");
    let agent = agent(StrictModel::new(model)).hook(redact).build().unwrap();
    let run = agent.session("s").input_id("i1").run("Tell");
    let handle = run.handle();
    tokio::spawn(async move {
        sleep(1).await;
        handle.interrupt();
    });

    run.await.unwrap();
    let state = agent.session("s").state().await.unwrap().unwrap();
    assert!(state.message_info(1).unwrap().aborted);
    let again = agent.session("s").input_id("i1").run("Tell").await.unwrap();
    assert_eq!(again.text, "Once upon a time.");
}
