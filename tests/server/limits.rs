//! Limits on bodies, heads, connections, runs and readers.

use std::sync::Arc;
use std::time::Duration;

use agentcore::server::{RunLimits, Server, ServerLimits};
use agentcore::{ThreadStore, async_trait};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::agents::{Gate, caller, echo, input, input_in, login};
use crate::http::{Response, TOKEN, TestServer, patiently};
use crate::kit::spied_store::{Spied, Spy};

async fn server() -> TestServer {
    TestServer::start(Server::new().agent("default", echo())).await
}

#[tokio::test]
async fn body_over_the_limit_is_a_413_with_and_without_a_length() {
    let server = server().await;
    let request = server
        .post("/agents/invoke", json!({}))
        .body(vec![b' '; 1024 * 1024 + 1]);
    assert!(request.send().await.error(413).contains("1048576 bytes"));

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /agents/invoke HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("20000\r\n{}\r\n", " ".repeat(0x20000));
    for _ in 0..9 {
        // The server may close the connection before it has received everything.
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    Response::read(stream).await.whole().await.error(413);
}

#[tokio::test]
async fn body_that_is_no_json_is_a_400_or_a_415() {
    let server = server().await;
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    for (body, text) in [
        (b"{".to_vec(), "invalid"),
        (b"".to_vec(), "invalid"),
        (b"\"\xff\"".to_vec(), "not UTF-8 at byte 1"),
        (b"{} x".to_vec(), "trailing"),
        (
            format!("{{\"messages\": {deep}}}").into_bytes(),
            "deeper than 128",
        ),
        (
            format!("{{\"unknown\": {deep}}}").into_bytes(),
            "deeper than 128",
        ),
    ] {
        let reply = server
            .post("/agents/invoke", json!({}))
            .body(body)
            .send()
            .await;
        assert!(reply.error(400).contains(text), "{}", reply.text());
    }
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "application/jsonx",
    ] {
        let request = server.post("/agents/invoke", input("Hi"));
        let reply = request.header("content-type", content_type).send().await;
        reply.error(415);
    }
    server
        .post("/agents/invoke", input("Hi"))
        .without("content-type")
        .send()
        .await
        .error(415);
    let request = server.post("/agents/invoke", input("Hi"));
    request
        .header("content-type", "Application/JSON; charset=utf-8")
        .send()
        .await
        .ok(200);
}

#[tokio::test]
async fn head_over_its_limits_is_a_431() {
    let server = server().await;
    let request = server
        .get("/agents/")
        .header("x-long", "x".repeat(20 * 1024));
    assert_eq!(request.open().await.status, 431);
    let mut request = server.get("/agents/");
    for index in 0..70 {
        request = request.header(&format!("x-{index}"), "1");
    }
    assert_eq!(request.open().await.status, 431);
}

#[tokio::test]
async fn slow_head_and_slow_body_end_the_request() {
    let limits = ServerLimits::default().with_header_timeout(Duration::from_millis(50));
    let server = Server::new().agent("default", echo()).limits(limits);
    let server = TestServer::start(server).await;

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    patiently(stream.read_to_end(&mut rest)).await.unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /agents/invoke HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    Response::read(stream).await.whole().await.error(408);
}

#[tokio::test]
async fn bodies_of_a_user_over_their_space_wait_for_others() {
    let server = server().await;
    let head = format!(
        "POST /agents/invoke HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: 1048576\r\n\r\n{{",
        server.address
    );
    let mut streams = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let request = || server.post("/agents/invoke", input("hi")).send();
    // The first requests may arrive before the heads.
    patiently(async {
        while let Ok(reply) = timeout(Duration::from_millis(300), request()).await {
            reply.ok(200);
        }
    })
    .await;
    // A body that is too large is refused without waiting for space.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let large_head = head.replace("1048576", "1048577");
    stream.write_all(large_head.as_bytes()).await.unwrap();
    Response::read(stream).await.whole().await.error(413);
    drop(streams);
    patiently(request()).await.ok(200);
}

/// A store whose loads wait for a permit.
struct SlowLoads(Arc<Semaphore>);

#[async_trait]
impl Spy for SlowLoads {
    async fn load(&self) {
        let _permit = self.0.acquire().await.unwrap();
    }
}

#[tokio::test]
async fn body_holds_its_space_until_its_run_begins() {
    let open = Arc::new(Semaphore::new(0));
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = Server::new().agent("default", agent);
    let server = server.store(Spied(ThreadStore::new(), SlowLoads(open.clone())));
    // A body without a length reserves the limit, which is the whole space here.
    let limits = ServerLimits::default().with_body_bytes(64 * 1024 * 1024);
    let server = TestServer::start(server.limits(limits)).await;
    let body = input_in("th", "hi").to_string();
    let request = format!(
        "POST /agents/invoke HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n0\r\n\r\n",
        server.address,
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();

    let title = json!({"title": "x".repeat(5_000)});
    let other = || server.post("/agents/default/threads/th/title", title.clone());
    // The first requests may arrive before the body.
    patiently(async {
        while let Ok(reply) = timeout(Duration::from_millis(300), other().send()).await {
            reply.error(400);
        }
    })
    .await;
    open.add_permits(1);
    gate.begun().await;
    other().send().await.error(400);
    gate.open();
    Response::read(stream).await.whole().await.ok(200);
}

#[tokio::test]
async fn id_of_a_client_over_256_bytes_is_a_400() {
    let server = server().await;
    let ag_ui = |run_id: &str, id: &str| {
        let message = json!({"id": id, "role": "user", "content": "hi"});
        let body = json!({"threadId": "th", "runId": run_id, "messages": [message]});
        server.post("/agents/stream?format=ag-ui", body)
    };
    let ai_sdk = |id: &str| {
        let part = json!({"type": "text", "text": "hi"});
        let message = json!({"id": id, "role": "user", "parts": [part]});
        let body = json!({"id": "th", "messages": [message], "trigger": "submit-message"});
        server.post("/agents/stream?format=ai-sdk", body)
    };
    let (longest, too_long) = ("i".repeat(256), "i".repeat(257));
    for request in [
        ag_ui(&too_long, "1"),
        ag_ui("1", &too_long),
        ai_sdk(&too_long),
    ] {
        let error = request.send().await.error(400);
        assert!(error.contains("257 bytes"), "{error}");
    }
    for request in [ag_ui(&longest, &longest), ag_ui("", "")] {
        let response = request.open().await;
        assert_eq!(response.status, 200);
        response.events().await;
    }
}

#[tokio::test]
async fn maximum_timeouts_never_expire() {
    let limits = ServerLimits::default().with_header_timeout(Duration::MAX);
    let server = Server::new().agent("default", echo()).limits(limits);
    let server = TestServer::start(server).await;
    server
        .post("/agents/invoke", input("hi"))
        .send()
        .await
        .ok(200);
    server.handle.shutdown(Duration::MAX).await;
    server.stop().await;
}

#[tokio::test]
async fn uploads_over_the_limit_of_a_user_are_a_429() {
    let server = server().await;
    let head = format!(
        "POST /agents/files/upload HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n",
        server.address
    );
    let begin = async || {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    };
    let mut uploads = Vec::new();
    for _ in 0..2 {
        let mut stream = begin().await;
        // The server requests the body once the upload has begun.
        let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
        let mut interim = vec![0; expected.len()];
        patiently(stream.read_exact(&mut interim)).await.unwrap();
        assert_eq!(interim, expected);
        uploads.push(stream);
    }
    let reply = Response::read(begin().await).await.whole().await;
    assert!(reply.error(429).contains("you have 2 uploads"));
    assert_eq!(reply.header("retry-after"), Some("1"));

    let mut stream = uploads.remove(0);
    stream.write_all(b"{}").await.unwrap();
    Response::read(stream).await.whole().await.error(400);
    let mut stream = begin().await;
    stream.write_all(b"{}").await.unwrap();
    assert_eq!(Response::read(stream).await.status, 100);
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_one_to_end() {
    let limits = ServerLimits::default().with_connections(2);
    let server = Server::new().agent("default", echo()).limits(limits);
    let server = TestServer::start(server).await;
    let busy = [
        server.get("/agents/events").open().await,
        server.get("/agents/events").open().await,
    ];
    let request = server.get("/healthz").header("connection", "close");
    let waiting = tokio::spawn(request.send());
    drop(busy);
    assert_eq!(patiently(waiting).await.unwrap().status, 200);
}

#[tokio::test]
async fn new_connection_takes_the_place_of_the_oldest_without_a_request() {
    // The timeout is longer than the test, so that no connection ends by itself.
    let limits = ServerLimits::default()
        .with_connections(3)
        .with_header_timeout(Duration::from_secs(3_600));
    let server = Server::new().agent("default", echo()).limits(limits);
    let server = TestServer::start(server).await;
    let mut stream = server.get("/agents/events").open().await;
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        connection.write_all(b"GET /healthz HT").await.unwrap();
        idle.push(connection);
    }
    let request = server.get("/healthz").header("connection", "close");
    assert_eq!(patiently(request.send()).await.status, 200);

    let mut rest = Vec::new();
    // The connection is closed, or reset because it has sent bytes that were not read.
    let end = patiently(idle[0].read_to_end(&mut rest)).await;
    assert!(end.is_err() || rest.is_empty());
    let head = format!(
        "TP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        server.address
    );
    idle[1].write_all(head.as_bytes()).await.unwrap();
    patiently(idle[1].read_to_end(&mut rest)).await.unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 200"));
    server.handle.registry().events().publish("tools_changed");
    assert_eq!(stream.event().await.unwrap().data, "tools_changed");
}

#[tokio::test]
async fn limits_may_have_the_largest_values() {
    let limits = ServerLimits::default()
        .with_connections(usize::MAX)
        .with_headers(usize::MAX, usize::MAX)
        .with_header_timeout(Duration::MAX)
        .with_body_bytes(usize::MAX)
        .with_upload_bytes(usize::MAX);
    let server = Server::new().agent("default", echo()).limits(limits);
    let server = TestServer::start(server).await;
    assert_eq!(patiently(server.get("/healthz").send()).await.status, 200);
}

#[tokio::test]
async fn idle_connections_do_not_hinder_others() {
    for limit in [4_096, 16] {
        let limits = ServerLimits::default()
            .with_connections(limit)
            .with_header_timeout(Duration::from_secs(3_600));
        let server = Server::new().agent("default", echo()).limits(limits);
        let server = TestServer::start(server).await;
        let mut idle = Vec::new();
        for _ in 0..200 {
            idle.push(TcpStream::connect(server.address).await.unwrap());
        }
        assert_eq!(patiently(server.get("/healthz").send()).await.status, 200);
    }
}

#[tokio::test]
async fn runs_over_the_limit_of_a_user_or_the_server_are_a_429() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let limits = ServerLimits::default().with_runs(RunLimits::default().with_runs(3, 2));
    let server = Server::new()
        .agent("default", agent)
        .limits(limits)
        .users(login);
    let server = TestServer::start_with_own_login(server).await;
    let run = |user: &'static str, thread: &'static str| {
        server
            .post("/agents/stream", input_in(thread, "Go"))
            .of_user(user)
    };
    let mut streams = Vec::new();
    for (user, thread) in [("ann", "a1"), ("ann", "a2")] {
        streams.push(run(user, thread).open().await);
        gate.begun().await;
    }
    let reply = run("ann", "a3").send().await;
    assert!(reply.error(429).contains("you have 2 runs"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    streams.push(run("ben", "b1").open().await);
    gate.begun().await;
    assert!(
        run("cy", "c1")
            .send()
            .await
            .error(429)
            .contains("the server has 3 runs")
    );
    for _ in &streams {
        gate.open();
    }
    for stream in streams {
        assert_eq!(stream.events().await.last().unwrap().event, "done");
    }
    gate.open();
    let events = run("ann", "a3").open().await.events().await;
    assert_eq!(events.last().unwrap().event, "done");
}

#[tokio::test]
async fn readers_over_the_limit_are_a_429() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let runs = RunLimits::default().with_readers_per_user(2);
    let limits = ServerLimits::default().with_runs(runs);
    let server = TestServer::start(Server::new().agent("default", agent).limits(limits)).await;
    let _first = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    let path = "/agents/default/threads/th/events";
    let _second = server.get(path).open().await;
    let reply = server.get(path).send().await;
    assert!(reply.error(429).contains("2 open streams"));
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn reader_over_the_limit_begins_no_run() {
    let runs = RunLimits::default().with_readers_per_user(1);
    let limits = ServerLimits::default().with_runs(runs);
    let server = TestServer::start(Server::new().agent("default", echo()).limits(limits)).await;
    let _events = server.get("/agents/events").open().await;
    let text = server.get("/agents/events").send().await.error(429);
    assert!(text.contains("1 open streams"), "{text}");
    let user = json!({"id": "m1", "role": "user", "content": "Hi",
        "parts": [{"type": "text", "text": "Hi"}]});
    let ag_ui = json!({"threadId": "th", "runId": "r", "messages": [user]});
    let ai_sdk = json!({"id": "th", "messages": [user]});
    for (format, body) in [
        ("events", input_in("th", "Hi")),
        ("ag-ui", ag_ui),
        ("ai-sdk", ai_sdk),
    ] {
        let path = format!("/agents/stream?format={format}");
        server.post(&path, body).send().await.error(429);
    }
    server
        .get("/agents/default/threads/th")
        .send()
        .await
        .error(404);
}

#[tokio::test]
async fn reader_that_does_not_read_holds_no_run_back() {
    let text = "word ".repeat(60_000);
    let model = agentcore::testing::FunctionModel::text(move |_| text.clone());
    let agent = agentcore::AgentBuilder::new(model);
    let runs = RunLimits::default().with_log(1_000, 64 * 1024);
    let limits = ServerLimits::default().with_runs(runs);
    let server = TestServer::start(Server::new().agent("default", agent).limits(limits)).await;
    let mut slow = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    let thread = loop {
        let reply = server
            .get("/agents/default/threads/th")
            .send()
            .await
            .ok(200);
        if reply["running"] == false {
            break reply;
        }
        // The run must end before the server disconnects the slow reader.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);
    let mut last = slow.event().await.unwrap();
    while let Some(event) = slow.event().await {
        last = event;
    }
    assert_eq!(last.event, "lagged");
}
