//! The fault server: each socket gets the bytes and faults of its script.

use std::sync::Arc;
use std::time::Duration;

use agentcore::testing::fault_server::Framing;
use agentcore::testing::{FaultServer, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn send(server: &FaultServer, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.addr()).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

async fn exchange(server: &FaultServer) -> String {
    let mut socket = send(server, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn fault_server_records_requests_of_one_connection() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(200, "{}"));
    let mut socket = send(
        &server,
        "POST /a?b=1 HTTP/1.1\r\nX-Key: v\r\nContent-Length: 7\r\n\r\n{\"a\":1}\
         POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
    )
    .await;
    server.received(2).await;
    socket.shutdown().await.unwrap();
    server.all_closed().await;
    let requests = server.requests();
    assert_eq!(
        (&*requests[0].method, &*requests[0].path),
        ("POST", "/a?b=1")
    );
    assert_eq!(requests[0].header("x-key"), Some("v"));
    assert_eq!(requests[0].json()["a"], 1);
    assert_eq!(&requests[1].body[..], b"hello");
    assert_eq!(requests[1].connection, 0);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn framings_and_splits_do_not_change_the_body() {
    let server = FaultServer::start().await.unwrap();
    let body = Reply::sse(["data: one\n\n", "data: two\n\n"]);
    server.reply(body.clone().split_at([0, 1, 3, 999]));
    server.reply(body.clone().framing(Framing::ContentLength).every(4));
    server.reply(body.clone().framing(Framing::UntilClose));
    server.reply(Reply::sse(["data: one\n\n", "", "data: two\n\n"]));
    server.reply(body.truncate(12).close());
    let chunked = exchange(&server).await;
    assert!(
        chunked.contains("\r\n\r\n1\r\nd\r\n2\r\nat\r\n13\r\na: one\n\ndata: two\n\n\r\n0\r\n\r\n"),
        "{chunked:?}"
    );
    let counted = exchange(&server).await;
    assert!(counted.contains("content-length: 22\r\n"), "{counted:?}");
    assert!(
        counted.ends_with("\r\n\r\ndata: one\n\ndata: two\n\n"),
        "{counted:?}"
    );
    let closed = exchange(&server).await;
    assert!(
        closed.ends_with("\r\n\r\ndata: one\n\ndata: two\n\n"),
        "{closed:?}"
    );
    let with_empty_event = exchange(&server).await;
    assert!(
        with_empty_event.contains("data: one\n\n\r\nb\r\ndata: two\n\n\r\n0\r\n\r\n"),
        "{with_empty_event:?}"
    );
    let torn = exchange(&server).await;
    assert!(torn.ends_with("c\r\ndata: one\n\nd\r\n"), "{torn:?}");
    assert!(exchange(&server).await.starts_with("HTTP/1.1 500 "));
}

#[tokio::test]
async fn reset_stall_and_garbage_replies_behave_as_scripted() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::raw().reset());
    let mut socket = send(&server, "GET / HTTP/1.1\r\n\r\n").await;
    let error = socket.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    server.reply(Reply::raw().garbage(64, 7));
    server.reply(Reply::raw().garbage(64, 7));
    server.reply(Reply::raw().garbage(64, 8));
    let mut noise = Vec::new();
    for _ in 0..3 {
        let mut socket = send(&server, "GET / HTTP/1.1\r\n\r\n").await;
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        noise.push(bytes);
    }

    assert_eq!(noise[0].len(), 64);
    assert_eq!(noise[0], noise[1]);
    assert_ne!(noise[0], noise[2]);

    let noisy = || Reply::raw().send("ab").garbage(64, 7);
    assert_eq!(noisy().truncate(50).body_len(), 50);
    assert_eq!(noisy().every(16).actions().len(), 5);

    server.reply(Reply::sse(["data: x\n\n"]).stall());
    let mut socket = send(&server, "GET / HTTP/1.1\r\n\r\n").await;
    server.received(5).await;
    let mut head = vec![0; 9];
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!(server.open_connections(), 1);
    drop(socket);
    server.all_closed().await;
}

#[tokio::test]
async fn pause_uses_the_tokio_clock_and_drop_closes_all_connections() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::raw().pause(Duration::from_millis(1)).send("late"));
    let mut socket = send(&server, "GET / HTTP/1.1\r\n\r\n").await;
    let mut late = String::new();
    socket.read_to_string(&mut late).await.unwrap();
    assert_eq!(late, "late");

    server.reply(Reply::raw().stall());
    let mut socket = send(&server, "GET / HTTP/1.1\r\n\r\n").await;
    server.received(2).await;

    // The system accepts this connection; the task of the server does not run before the server is
    // dropped.
    let queued = std::net::TcpStream::connect(server.addr()).unwrap();
    drop(server);

    // The task of the stalled connection has ended and closed its socket.
    assert_eq!(socket.read(&mut [0; 1]).await.unwrap_or(0), 0);

    // The listener is closed too, and with it the connections that it had not accepted. Another
    // process may own its port by now.
    queued.set_nonblocking(true).unwrap();
    let mut queued = TcpStream::from_std(queued).unwrap();
    assert_eq!(queued.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn responder_sees_the_request() {
    let server = Arc::new(FaultServer::start().await.unwrap());
    server.fallback(Reply::new(500));
    let own = Arc::downgrade(&server);
    server.respond(move |request| {
        let count = own.upgrade().unwrap().requests().len();
        Reply::json(200, format!("{} {count}", request.path))
    });
    assert!(exchange(&server).await.ends_with("\r\n\r\n/ 1"));
    assert!(exchange(&server).await.ends_with("\r\n\r\n/ 2"));
}

#[tokio::test]
async fn script_comes_before_the_responder() {
    let server = FaultServer::start().await.unwrap();
    server.respond(|_| Reply::new(404));
    server.reply(Reply::json(200, "{}"));
    assert!(exchange(&server).await.starts_with("HTTP/1.1 200 "));
    assert!(exchange(&server).await.starts_with("HTTP/1.1 404 "));
}

#[tokio::test]
async fn panic_in_a_responder_closes_the_connection() {
    let server = FaultServer::start().await.unwrap();
    server.respond(|_| panic!("the responder fails"));
    assert_eq!(exchange(&server).await, "");
    server.all_closed().await;
    server.respond(|_| Reply::json(200, "{}"));
    assert!(exchange(&server).await.starts_with("HTTP/1.1 200 "));
}
