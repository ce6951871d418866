//! Tokens, hosts, origins, users and secrets.

use agentcore::hooks::TracingHook;
use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Error, ErrorKind, FuncTool, Secret, ToolContext};
use serde_json::{Value, json};

use crate::agents::{AskAlways, Gate, caller, echo, input, input_in, login};
use crate::http::{TOKEN, TestServer};

async fn server() -> TestServer {
    TestServer::start(Server::new().agent("default", echo())).await
}

async fn server_with_users(agent: AgentBuilder) -> TestServer {
    TestServer::start_with_own_login(Server::new().agent("default", agent).users(login)).await
}

#[tokio::test]
async fn every_route_but_two_needs_the_token() {
    let server = server().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            if matches!(&**path, "/" | "/healthz") {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let request = server.request(&method.to_uppercase(), &path);
            let reply = request.without("authorization").send().await;
            reply.error(401);
            assert_eq!(
                reply.header("www-authenticate"),
                Some("Bearer"),
                "{method} {path}"
            );
        }
    }
    server
        .get("/nothing")
        .without("authorization")
        .send()
        .await
        .error(401);
}

#[tokio::test]
async fn wrong_token_is_a_401_and_a_token_in_the_query_is_none() {
    let server = server().await;
    let long = format!("Bearer {TOKEN}x");
    for value in ["Bearer", "Bearer ", "Bearer wrong", TOKEN, "Basic x", &long] {
        let reply = server
            .get("/agents/")
            .header("authorization", value)
            .send()
            .await;
        reply.error(401);
    }
    let path = format!("/agents/?token={TOKEN}");
    server
        .get(&path)
        .without("authorization")
        .send()
        .await
        .error(401);
    let value = format!("bearer  {TOKEN} ");
    server
        .get("/agents/")
        .header("authorization", value)
        .send()
        .await
        .ok(200);
}

#[tokio::test]
async fn random_token_is_in_the_fragment_of_the_address() {
    let listening = Server::new()
        .agent("default", echo())
        .port(0)
        .listen()
        .await
        .unwrap();
    let url = listening.url_with_token();
    let (page, token) = url.split_once("/#token=").unwrap();
    assert_eq!(page, format!("http://{}", listening.address()));
    assert_eq!(token.len(), 64);
    assert!(!format!("{listening:?}").contains(token));
}

#[tokio::test]
async fn foreign_host_is_a_403() {
    let server = Server::new()
        .agent("default", echo())
        .allow_host("agents.example");
    let server = TestServer::start(server).await;
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8000",
        "127.0.0.1:8000.evil.example",
        "localhost:8000@evil.example",
        "",
    ] {
        let reply = server.get("/agents/").header("host", host).send().await;
        assert!(reply.error(403).contains("allow_host"), "{host}");
    }
    // The host is checked before the token, which may be missing.
    let request = server.get("/").header("host", "evil.example");
    request.without("authorization").send().await.error(403);
    for host in [
        "localhost",
        "localhost:1",
        "127.0.0.1",
        "[::1]:8000",
        "Agents.Example:443",
    ] {
        server
            .get("/agents/")
            .header("host", host)
            .send()
            .await
            .ok(200);
    }
}

#[tokio::test]
async fn foreign_origin_is_a_403_and_an_allowed_one_may_read() {
    let server = Server::new()
        .agent("default", echo())
        .allow_origin("https://app.example");
    let server = TestServer::start(server).await;
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.evil.example",
        "app.example",
    ] {
        let reply = server
            .post("/agents/invoke", input("Hi"))
            .header("origin", origin)
            .send()
            .await;
        assert!(reply.error(403).contains("allow_origin"), "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    let own = format!("http://{}", server.address);
    server
        .get("/agents/")
        .header("origin", own)
        .send()
        .await
        .ok(200);

    let reply = server
        .get("/agents/")
        .header("origin", "https://app.example")
        .send()
        .await;
    reply.ok(200);
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        reply.header("access-control-expose-headers"),
        Some("retry-after, x-thread-id")
    );
    let request = server
        .request("OPTIONS", "/agents/invoke")
        .without("authorization");
    let request = request.header("origin", "https://app.example");
    let reply = request
        .header("access-control-request-method", "POST")
        .send()
        .await;
    assert_eq!(reply.status, 204);
    assert!(
        reply
            .header("access-control-allow-headers")
            .unwrap()
            .contains("authorization")
    );
}

#[tokio::test]
async fn login_that_fails_is_a_401_or_a_403_with_its_text() {
    let server = server_with_users(echo()).await;
    let reply = server.get("/agents/").without("authorization").send().await;
    assert_eq!(reply.error(401), "log in first");
    // Without this header, the page does not ask for a token.
    assert_eq!(reply.header("www-authenticate"), None);
    let reply = server.get("/agents/").of_user("banned").send().await;
    assert_eq!(reply.error(403), "you are banned");
    server.get("/agents/").of_user("ann").send().await.ok(200);
    server
        .get("/healthz")
        .without("authorization")
        .send()
        .await
        .ok(200);
}

#[tokio::test]
async fn users_of_one_agent_see_no_threads_of_each_other() {
    let server = server_with_users(echo()).await;
    server
        .post("/agents/invoke", input_in("th", "Hi"))
        .of_user("ann")
        .send()
        .await
        .ok(200);
    let path = "/agents/default/threads/th";
    for (method, verb) in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/events"),
        ("POST", "/fork"),
        ("POST", "/interrupt"),
        ("POST", "/compact"),
    ] {
        let request = server
            .request(method, &format!("{path}{verb}"))
            .of_user("ben");
        request.send().await.error(404);
    }
    let post = |verb: &str, body: Value| server.post(&format!("{path}{verb}"), body).of_user("ben");
    post("/title", json!({"title": "mine"}))
        .send()
        .await
        .error(404);
    post("/steer", json!({"content": "x"}))
        .send()
        .await
        .error(404);
    for route in ["invoke", "stream"] {
        let request = server.post(&format!("/agents/{route}"), input_in("th", "Mine?"));
        let error = request.of_user("ben").send().await.error(404);
        assert!(
            error.contains("leave out the id for a new thread"),
            "{error}"
        );
    }
    // A thread that does not exist has the same answer.
    let decision = json!([{"id": "a", "decision": "deny"}]);
    let resume = |thread: &str| json!({"thread_id": thread, "decisions": decision.clone()});
    for thread in ["th", "unused"] {
        let request = server.post("/agents/resume", resume(thread));
        let error = request.of_user("ben").send().await.error(404);
        assert_eq!(error, format!("thread {thread:?} not found"));
    }
    let list = server
        .get("/agents/default/threads")
        .of_user("ben")
        .send()
        .await
        .ok(200);
    assert_eq!(list["threads"], json!([]));
    let thread = server.get(path).of_user("ann").send().await.ok(200);
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);

    let others = "/agents/default/threads?user=ann";
    server.get(others).of_user("ben").send().await.error(403);
    let list = server.get(others).of_user("admin").send().await.ok(200);
    assert_eq!(list["threads"][0]["id"], "th");
}

#[tokio::test]
async fn users_see_no_runs_questions_and_tools_of_each_other() {
    let (_gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool).permissions(AskAlways);
    let server = server_with_users(agent).await;
    let request = server
        .post("/agents/stream", input_in("th", "Go"))
        .of_user("ann");
    let mut stream = request.open().await;
    let event = stream.until("on_permission_request").await;
    let question: Value = serde_json::from_str(&event.data).unwrap();
    let path = format!("/agents/hitl/{}", question["data"]["id"].as_str().unwrap());
    let answer = json!({"answer": "deny"});
    server
        .post(&path, answer.clone())
        .of_user("ben")
        .send()
        .await
        .error(404);
    let events = "/agents/default/threads/th/events";
    server.get(events).of_user("ben").send().await.error(404);

    let tool = json!({"name": "mine", "callback_url": "https://tools.example.com"});
    server
        .post("/agents/tools/register", tool)
        .of_user("ann")
        .send()
        .await
        .ok(200);
    let tools = server
        .get("/agents/tools/available")
        .of_user("ben")
        .send()
        .await
        .ok(200);
    assert!(!tools.to_string().contains("mine"));
    let path_of_tool = "/agents/tools/deregister/mine";
    server
        .request("DELETE", path_of_tool)
        .of_user("ben")
        .send()
        .await
        .error(404);
    server
        .post(&path, answer)
        .of_user("ann")
        .send()
        .await
        .ok(200);
}

#[tokio::test]
async fn panic_of_a_handler_is_a_500_and_the_server_lives() {
    let server = Server::new().agent("default", echo()).users(|parts| {
        assert!(
            parts.headers.contains_key("x-user"),
            "a panic of these tests"
        );
        login(parts)
    });
    let server = TestServer::start_with_own_login(server).await;
    let reply = server.get("/agents/").send().await;
    assert!(!reply.error(500).contains("a panic of these tests"));
    server.get("/agents/").of_user("ann").send().await.ok(200);
}

#[tokio::test]
async fn panic_of_a_tool_or_a_model_leaves_the_server_alive() {
    let tool = FuncTool::new(
        "boom",
        "Panics",
        json!({"type": "object"}),
        |_: ToolContext, _| async {
            panic!("the tool broke");
            #[allow(unreachable_code)]
            ""
        },
    );
    let server =
        TestServer::start(Server::new().agent("default", caller("boom", json!({})).tool(tool)))
            .await;
    let reply = server
        .post("/agents/invoke", input("Go"))
        .send()
        .await
        .ok(200);
    assert!(
        reply["response"]
            .as_str()
            .unwrap()
            .contains("the tool broke")
    );
}

#[tokio::test]
async fn key_appears_in_no_reply() {
    const CANARY: &str = "sk-canary-4f1d9a7b2c";
    let _key = Secret::new(CANARY);
    let leak = FuncTool::new(
        "leak",
        "Leaks",
        json!({"type": "object"}),
        |_: ToolContext, _| async { format!("env: KEY={CANARY}") },
    );
    let agent = caller("leak", json!({}))
        .tool(leak)
        .hook(TracingHook::new().with_content(true));
    let error = Error::new(ErrorKind::Auth, format!("the key {CANARY} was refused"));
    let broken = AgentBuilder::new(ScriptedModel::new().fail(error));
    let server = Server::new()
        .agent("default", agent)
        .agent("broken", broken);
    let server = TestServer::start(server).await;

    let mut replies = Vec::new();
    let reply = server
        .post("/agents/invoke", input_in("th", "Go"))
        .send()
        .await;
    let trace = reply.ok(200)["trace_id"].as_str().unwrap().to_owned();
    replies.push(reply);
    for format in ["events", "sdk", "ndjson"] {
        let path = format!("/agents/stream?format={format}");
        replies.push(server.post(&path, input("Go")).send().await);
    }
    replies.push(
        server
            .post("/agents/broken/invoke", input("Go"))
            .send()
            .await,
    );
    for path in [
        "/agents/default/threads/th",
        "/agents/",
        &format!("/agents/traces/{trace}"),
    ] {
        replies.push(server.get(path).send().await);
    }
    replies.push(server.get(&format!("/agents/{CANARY}")).send().await);
    for reply in replies {
        assert!(!reply.text().contains(CANARY), "{}", reply.text());
    }
    assert!(!format!("{:?} {:?}", server.handle, Server::new().token(CANARY)).contains(CANARY));
}
