//! Threads: lists, states, forks, titles and removal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[cfg(feature = "docker")]
use agentcore::config::{AgentConfig, BackendCfg};
#[cfg(feature = "docker")]
use agentcore::registry::Registry;
use agentcore::server::{RunLimits, Server, ServerLimits};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Error, ErrorKind, FuncTool, SessionStore, ThreadStore, async_trait};
use futures::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::agents::{Gate, caller, echo, input_in, login};
use crate::http::TestServer;
use crate::kit::spied_store::{Spied, Spy};

async fn server() -> TestServer {
    TestServer::start(Server::new().agent("default", echo())).await
}

#[tokio::test]
async fn list_has_the_threads_page_by_page() {
    let server = server().await;
    for thread in ["th_1", "th_2", "th_3"] {
        let body = input_in(thread, &format!("Hello from {thread}"));
        server.post("/agents/invoke", body).send().await.ok(200);
    }
    let mut ids = Vec::new();
    let mut path = "/agents/default/threads?limit=2".to_owned();
    loop {
        let page = server.get(&path).send().await.ok(200);
        for thread in page["threads"].as_array().unwrap() {
            assert_eq!(
                (&thread["messages"], &thread["running"]),
                (&json!(2), &json!(false))
            );
            assert_eq!(thread["pending"], 0);
            assert!(
                thread["updated_at"].as_u64().unwrap() >= thread["created_at"].as_u64().unwrap()
            );
            let id = thread["id"].as_str().unwrap().to_owned();
            assert_eq!(thread["title"], format!("Hello from {id}"));
            ids.push(id);
        }
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/agents/default/threads?limit=2&after={next}");
    }
    ids.sort();
    assert_eq!(ids, ["th_1", "th_2", "th_3"]);
}

#[tokio::test]
async fn list_with_invalid_parameters_is_a_400() {
    let server = server().await;
    for query in ["limit=0", "limit=201", "limit=x", "after=x"] {
        let path = format!("/agents/default/threads?{query}");
        server.get(&path).send().await.error(400);
    }
    server.get("/agents/other/threads").send().await.error(404);
}

#[tokio::test]
async fn thread_reports_its_state_and_its_run() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    assert_eq!(
        (&thread["running"], &thread["interrupted"]),
        (&json!(true), &json!(false))
    );
    let list = server.get("/agents/default/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["running"], true);

    gate.open();
    stream.events().await;
    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    assert_eq!(
        (&thread["thread_id"], &thread["running"]),
        (&json!("th"), &json!(false))
    );
    assert_eq!(thread["messages"].as_array().unwrap().len(), 4);
    assert_eq!(thread["interrupted"], false);
}

#[tokio::test]
async fn forks_count_toward_the_bytes_that_a_user_uploads_within_a_day() {
    let limits = ServerLimits::default().with_upload_bytes_per_day(10_000);
    let server = Server::new().agent("default", echo()).limits(limits);
    let server = TestServer::start(server).await;
    let input = input_in("th", "one");
    server.post("/agents/invoke", input).send().await.ok(200);
    let fork = || server.post("/agents/default/threads/th/fork", json!({}));
    fork().send().await.ok(201);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        statuses.push(fork().open().await.status);
    }
    assert_eq!(statuses.last(), Some(&429));
}

#[tokio::test]
async fn fork_copies_a_thread_or_its_beginning() {
    let server = server().await;
    for text in ["one", "two"] {
        server
            .post("/agents/invoke", input_in("th", text))
            .send()
            .await
            .ok(200);
    }
    let path = "/agents/default/threads/th/fork";
    for (body, count) in [(json!({}), 4), (json!({"at": 2}), 2)] {
        let reply = server.post(path, body).send().await.ok(201);
        let id = reply["thread_id"].as_str().unwrap();
        let copy = server
            .get(&format!("/agents/default/threads/{id}"))
            .send()
            .await
            .ok(200);
        assert_eq!(copy["messages"].as_array().unwrap().len(), count);
    }
    server.request("POST", path).send().await.ok(201);
    server.post(path, json!({"at": 9})).send().await.error(400);
    server
        .post("/agents/default/threads/none/fork", json!({}))
        .send()
        .await
        .error(404);
}

#[tokio::test]
async fn title_is_shown_in_lists() {
    let server = server().await;
    server
        .post("/agents/invoke", input_in("th", "Hi"))
        .send()
        .await
        .ok(200);
    let path = "/agents/default/threads/th/title";
    let reply = server
        .post(path, json!({"title": "Greetings"}))
        .send()
        .await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let list = server.get("/agents/default/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["title"], "Greetings");
    server
        .post(path, json!({"title": 7}))
        .send()
        .await
        .error(400);
    server
        .post(path, json!({"title": "x".repeat(5_000)}))
        .send()
        .await
        .error(400);
    let path = "/agents/default/threads/none/title";
    server
        .post(path, json!({"title": "x"}))
        .send()
        .await
        .error(404);
}

#[tokio::test]
async fn delete_removes_a_thread() {
    let server = server().await;
    server
        .post("/agents/invoke", input_in("th", "Hi"))
        .send()
        .await
        .ok(200);
    let path = "/agents/default/threads/th";
    assert_eq!(server.request("DELETE", path).send().await.status, 204);
    assert_eq!(
        server.get(path).send().await.error(404),
        "thread \"th\" not found"
    );
    server.request("DELETE", path).send().await.error(404);
    server
        .get("/agents/default/threads/a%20b")
        .send()
        .await
        .error(400);
}

#[tokio::test]
async fn change_of_a_thread_with_a_run_is_a_409() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let _stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    let reply = server
        .request("DELETE", "/agents/default/threads/th")
        .send()
        .await;
    let error = reply.error(409);
    assert!(error.contains("the thread has a run already"), "{error}");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let path = "/agents/default/threads/th/title";
    server
        .post(path, json!({"title": "x"}))
        .send()
        .await
        .error(409);
}

#[tokio::test]
async fn deleted_thread_has_no_log_and_no_trace() {
    let server = server().await;
    let reply = server.post("/agents/invoke", input_in("th", "Hi"));
    let reply = reply.send().await.ok(200);
    let trace = format!("/agents/traces/{}", reply["trace_id"].as_str().unwrap());
    server.get(&trace).send().await.ok(200);
    let path = "/agents/default/threads/th";
    let request = server.request("DELETE", path);
    assert_eq!(request.send().await.status, 204);
    server.get(&trace).send().await.error(404);
    let events = server.get(&format!("{path}/events"));
    events.send().await.error(404);
}

#[tokio::test]
async fn folder_of_a_thread_is_shown_to_admins_alone() {
    let agent = echo().cwd("/srv/agents/ann");
    let server = Server::new().agent("default", agent).users(login);
    let server = TestServer::start_with_own_login(server).await;
    for (user, cwd) in [("ann", json!(null)), ("admin", json!("/srv/agents/ann"))] {
        let run = server.post("/agents/invoke", input_in(user, "Hi"));
        run.of_user(user).send().await.ok(200);
        let path = format!("/agents/default/threads/{user}");
        let thread = server.get(&path).of_user(user).send().await;
        assert_eq!(thread.ok(200)["cwd"], cwd, "{user}");
        for format in ["sdk", "ndjson"] {
            let path = format!("/agents/stream?format={format}");
            let run = server.post(&path, input_in(user, "Hi"));
            let text = run.of_user(user).send().await.text();
            assert!(text.contains("\"subtype\":\"init\""), "{text}");
            assert_eq!(text.contains("/srv/agents"), user == "admin", "{text}");
        }
    }
}

#[tokio::test]
async fn thread_without_a_response_is_interrupted_whatever_ended_its_run() {
    let schema = json!({"type": "object"});
    let act = FuncTool::new("act", "Acts", schema, |_, _| async { "acted" });
    let failing = ScriptedModel::new().fail(Error::new(ErrorKind::Auth, "no"));
    let server = Server::new()
        .agent("limited", caller("act", json!({})).tool(act).max_turns(1))
        .agent("failing", AgentBuilder::new(failing))
        .agent("default", echo());
    let server = TestServer::start(server).await;
    for (agent, is_interrupted) in [("limited", true), ("failing", true), ("default", false)] {
        let run = server.post(&format!("/agents/{agent}/stream"), input_in(agent, "Hi"));
        run.open().await.events().await;
        let path = format!("/agents/{agent}/threads/{agent}");
        let thread = server.get(&path).send().await.ok(200);
        assert_eq!(thread["interrupted"], is_interrupted, "{agent}");
    }
}

/// Without its container engine, an agent cannot run, but its threads are available.
#[cfg(feature = "docker")]
#[tokio::test]
async fn threads_and_tools_of_an_agent_need_no_container() {
    let store = ThreadStore::new();
    let agent = echo().store(store.clone()).build().unwrap();
    let session = agent.session("th").user_id("local");
    session.run("Hi").await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let engine = folder.path().join("no_docker");
    let backend = BackendCfg::docker("image").with_docker_program(engine);
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new().say("Hello.")));
    let config = AgentConfig::new("any-model").with_backend(backend);
    let server = Server::with_registry(registry).agent("default", config);
    let server = TestServer::start(server.store(store)).await;
    let run = server.post("/agents/invoke", input_in("th", "Hi"));
    assert!(run.send().await.status >= 400);

    let path = "/agents/default/threads/th";
    let list = server.get("/agents/default/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["id"], "th");
    let thread = server.get(path).send().await.ok(200);
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);
    let events = server.get(&format!("{path}/events"));
    assert_eq!(events.send().await.status, 204);
    let fork = server.post(&format!("{path}/fork"), json!({}));
    fork.send().await.ok(201);
    let title = server.post(&format!("{path}/title"), json!({"title": "Greetings"}));
    assert_eq!(title.send().await.status, 204);
    let removal = server.request("DELETE", path);
    assert_eq!(removal.send().await.status, 204);

    for path in ["/agents/tools/available", "/agents/default"] {
        let reply = server.get(path).send().await.ok(200);
        assert!(reply["tools"].to_string().contains("read_file"), "{reply}");
    }
    let hooks = server.get("/agents/hooks/available").send().await.ok(200);
    assert!(hooks["hooks"].to_string().contains("filesystem"), "{hooks}");
    let skills = server.get("/agents/skills/available").send().await;
    assert_eq!(skills.ok(200)["skills"], json!([]));
}

/// A spy that counts the loads in progress.
#[derive(Clone, Default)]
struct Loads {
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

#[async_trait]
impl Spy for Loads {
    async fn load(&self) {
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(open, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn requests_of_a_user_load_at_most_four_threads_at_the_same_time() {
    let loads = Loads::default();
    let store = Spied(ThreadStore::new(), loads.clone());
    let server = Server::new().agent("default", echo()).store(store);
    let server = TestServer::start(server).await;
    let decision = json!({"id": "p", "decision": "allow"});
    let requests = (0..3).flat_map(|number| {
        let path = format!("/agents/default/threads/th_{number}");
        let resume = json!({"thread_id": format!("th_{number}"), "decisions": [decision]});
        [
            server.get(&path),
            server.request("DELETE", &path),
            server.get(&format!("{path}/events")),
            server.post(&format!("{path}/title"), json!({"title": "T"})),
            server.post("/agents/resume", resume),
        ]
    });
    for reply in join_all(requests.map(|request| request.send())).await {
        reply.error(404);
    }
    assert_eq!(loads.most.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn requests_that_wait_for_space_let_others_load_threads() {
    let store = ThreadStore::new();
    let text = "x".repeat(24 * 1024 * 1024);
    let state = json!({
        "thread_id": "th",
        "user_id": "local",
        "messages": [{"role": "user", "content": text}],
    });
    let state = state.to_string();
    store.import("th", state.as_bytes()).await.unwrap();
    let runs = RunLimits::default().with_reader_bytes_per_user(1024 * 1024);
    let limits = ServerLimits::default().with_runs(runs);
    let server = Server::new().agent("default", echo()).store(store.clone());
    let server = TestServer::start(server.limits(limits)).await;
    // The socket buffer cannot hold the reply, so the reply occupies the whole space.
    let path = "/agents/default/threads/th";
    let _unread = server.get(path).open().await;
    let _lease = store.lease("th").await.unwrap();
    for path in [path, &format!("{path}/events")] {
        let pieces = (0..4).map(|_| async { server.get(path).open().await.piece().await });
        let mut pieces = Box::pin(join_all(pieces));
        let is_waiting = timeout(Duration::from_secs(1), &mut pieces).await.is_err();
        assert!(is_waiting, "{path}");
        let run = server.post("/agents/invoke", input_in("other", "hi"));
        let reply = timeout(Duration::from_secs(15), run.send()).await;
        reply.expect(path).ok(200);
    }
}

/// Returns the users and numbers of the threads in [`stored_threads`].
fn threads() -> impl Iterator<Item = (usize, usize)> {
    (0..6).flat_map(|user| (0..4).map(move |number| (user, number)))
}

/// Creates a store with four threads of each of six users.
async fn stored_threads() -> ThreadStore {
    let store = ThreadStore::new();
    for (user, number) in threads() {
        let id = format!("th_{user}_{number}");
        let state = json!({
            "thread_id": id,
            "user_id": format!("user_{user}"),
            "messages": [{"role": "user", "content": "Hi"}],
        });
        let state = state.to_string();
        store.import(&id, state.as_bytes()).await.unwrap();
    }
    store
}

#[tokio::test]
async fn changes_of_threads_are_loads_of_the_server() {
    let loads = Loads::default();
    let store = stored_threads().await;
    let server = Server::new().agent("default", echo()).users(login);
    let server = server.store(Spied(store, loads.clone()));
    let server = TestServer::start_with_own_login(server).await;
    let changes = [
        ("POST", "/title", json!({"title": "T"})),
        ("POST", "/fork", json!({})),
        ("POST", "/fork", json!({"at": 1})),
        ("DELETE", "", json!({})),
    ];
    for (method, path, body) in changes {
        let requests = threads().map(|(user, number)| {
            let path = format!("/agents/default/threads/th_{user}_{number}{path}");
            let request = server.request(method, &path).json(body.clone());
            request.of_user(&format!("user_{user}")).send()
        });
        for reply in join_all(requests).await {
            assert!((200..300).contains(&reply.status), "{}", reply.text());
        }
        // A thread that is removed is loaded a second time under the permit of a list.
        let max = if method == "DELETE" { 18 } else { 16 };
        let most = loads.most.load(Ordering::Relaxed);
        assert!((16..=max).contains(&most), "{method} {path}: {most}");
    }
}

/// A spy that counts the lists in progress and makes them wait for permits.
#[derive(Clone)]
struct Lists {
    open: Arc<AtomicUsize>,
    permits: Arc<Semaphore>,
}

#[async_trait]
impl Spy for Lists {
    async fn list(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let _permit = self.permits.acquire().await;
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn lists_of_a_store_are_few_and_stop_no_loads() {
    let lists = Lists {
        open: Arc::default(),
        permits: Arc::new(Semaphore::new(0)),
    };
    let store = Spied(stored_threads().await, lists.clone());
    let server = Server::new().agent("default", echo()).users(login);
    let server = TestServer::start_with_own_login(server.store(store)).await;
    let requests = threads().filter(|(user, _)| *user < 5);
    let requests = requests.map(|(user, number)| {
        let path = format!("/agents/default/threads/th_{user}_{number}");
        let request = match user {
            4 => server.get("/agents/default/threads"),
            _ => server.request("DELETE", &path),
        };
        request.of_user(&format!("user_{user}")).send()
    });
    let mut requests = Box::pin(join_all(requests));
    let load = async {
        while lists.open.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // By now, all other requests wait.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(lists.open.load(Ordering::Relaxed), 2);
        let request = server.get("/agents/default/threads/th_5_0");
        request.of_user("user_5").send().await
    };
    tokio::select! {
        reply = timeout(Duration::from_secs(20), load) => reply.unwrap().ok(200),
        _ = &mut requests => unreachable!("the lists wait"),
    };
    lists.permits.add_permits(100);
    for reply in requests.await {
        assert!((200..300).contains(&reply.status), "{}", reply.text());
    }
}
