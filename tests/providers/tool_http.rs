//! Tools that call an address, with a server on the loopback interface.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::tool::SideEffect;
use agentcore::{HttpTool, Tool, ToolContext};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers every request with the reply for its path.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

#[derive(Clone, Default)]
struct Request {
    line: String,
    head: String,
    body: Value,
}

impl Server {
    async fn start(reply: impl Fn(&str) -> String + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let log = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, reply.clone(), log.clone()));
            }
        });
        Self {
            url,
            seen: requests,
        }
    }

    fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    reply: impl Fn(&str) -> String,
    log: Arc<Mutex<Vec<Request>>>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }

        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };

    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse::<usize>().unwrap())
    });

    let total = end + length.unwrap_or(0);
    while bytes.len() < total {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }

    let line = head.lines().next().unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&bytes[end..]).unwrap_or_default();
    let response = reply(&line);
    log.lock().unwrap().push(Request { line, head, body });
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

fn http(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn ok(body: &str) -> String {
    http("200 OK", "content-type: application/json\r\n", body)
}

fn tool(url: &str) -> HttpTool {
    HttpTool::new("lookup", "Looks up", json!({"type": "object"}), url).unwrap()
}

async fn call(tool: &HttpTool) -> Result<String, String> {
    match tool
        .execute(ToolContext::detached(), json!({"order": 7}))
        .await
    {
        Ok(output) => Ok(output.content.text().into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn call_of(reply: String) -> Result<String, String> {
    let server = Server::start(move |_| reply.clone()).await;
    call(&tool(&server.url)).await
}

#[tokio::test]
async fn call_is_posted_to_the_callback_address() {
    let server = Server::start(|_| ok(r#"{"result": "found"}"#)).await;
    for (callback, line) in [
        ("", "POST /tools/lookup HTTP/1.1"),
        ("/", "POST /tools/lookup HTTP/1.1"),
        ("/base", "POST /base/tools/lookup HTTP/1.1"),
        ("/base/?key=1", "POST /base/tools/lookup?key=1 HTTP/1.1"),
    ] {
        let tool = tool(&format!("{}{callback}", server.url));
        assert_eq!(call(&tool).await.as_deref(), Ok("found"));
        let request = server.seen().pop().unwrap();
        assert_eq!(request.line, line);
        assert_eq!(
            request.body,
            json!({"name": "lookup", "args": {"order": 7}})
        );
        assert!(
            request.head.contains("content-type: application/json\r\n"),
            "{}",
            request.head
        );
    }
}

#[tokio::test]
async fn reply_result_becomes_text() {
    for (reply, expected) in [
        (r#"{"result": "plain"}"#, "plain"),
        (r#"{"result": "plain", "error": ""}"#, "plain"),
        (r#"{"result": "plain", "error": null}"#, "plain"),
        (r#"{"result": {"a": [1, 2]}}"#, r#"{"a":[1,2]}"#),
        (r#"{"result": 5}"#, "5"),
        (r#"{"result": null}"#, ""),
        (r#"{}"#, ""),
    ] {
        assert_eq!(call_of(ok(reply)).await.as_deref(), Ok(expected), "{reply}");
    }
}

#[tokio::test]
async fn errors_name_the_tool() {
    for (reply, expected) in [
        (
            http("500 Oops", "", "it broke"),
            "http_tool: lookup returned 500: it broke",
        ),
        (
            http("404 Not Found", "", "none\n"),
            "http_tool: lookup returned 404: none",
        ),
        (
            http("201 Created", "", "{}"),
            "http_tool: lookup returned 201: {}",
        ),
        (
            http("303 See Other", "location: /x\r\n", ""),
            "http_tool: lookup returned 303: ",
        ),
        (
            http("302 Found", "", "nowhere"),
            "http_tool: lookup returned 302: nowhere",
        ),
        (
            ok(r#"{"error": "no such order"}"#),
            "http_tool: lookup: no such order",
        ),
        (
            ok(r#"{"result": "x", "error": {"code": 4}}"#),
            r#"http_tool: lookup: {"code":4}"#,
        ),
    ] {
        assert_eq!(call_of(reply).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn reply_that_is_not_the_protocol_is_an_error() {
    for body in ["", "plain", "[]", "\"text\"", "{\"result\": "] {
        let error = call_of(ok(body)).await.unwrap_err();
        let start = r#"http_tool: lookup: the reply is not {"result", "error"} in JSON: "#;
        assert!(error.starts_with(start) && error.ends_with(body), "{error}");
    }

    let incomplete = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"result\"".to_owned();
    assert!(
        call_of(incomplete)
            .await
            .unwrap_err()
            .starts_with("http_tool: lookup: ")
    );
    assert!(
        call_of("nonsense\r\n\r\n".to_owned())
            .await
            .unwrap_err()
            .starts_with("http_tool: lookup: ")
    );
}

#[tokio::test]
async fn reply_bodies_are_limited() {
    let error = call_of(http("500 Oops", "", &"x".repeat(100_000)))
        .await
        .unwrap_err();
    assert!(
        error.len() < 2_100 && error.ends_with("x..."),
        "{}",
        error.len()
    );
    let huge = format!(r#"{{"result": "{}"}}"#, "x".repeat(5 * 1024 * 1024));
    let error = call_of(ok(&huge)).await.unwrap_err();
    assert_eq!(
        error,
        "http_tool: lookup: the reply is longer than 4194304 bytes"
    );
    let list = format!(r#"{{"result": [{}0]}}"#, "0,".repeat(50_000));
    assert_eq!(
        call_of(ok(&list)).await.unwrap_err(),
        "http_tool: lookup: the reply has more than 50000 JSON values; return a large result as \
         a string"
    );
    let text = json!({"result": "0,".repeat(100_000)}).to_string();
    assert_eq!(call_of(ok(&text)).await.unwrap().len(), 200_000);
}

#[tokio::test]
async fn redirect_on_the_same_host_repeats_the_request() {
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let server = Server::start(move |line| match line {
            "POST /tools/lookup HTTP/1.1" => http(status, "location: /elsewhere\r\n", ""),
            _ => ok(r#"{"result": "here"}"#),
        })
        .await;
        let tool = tool(&server.url).bearer("a-token").unwrap();
        assert_eq!(call(&tool).await.as_deref(), Ok("here"), "{status}");
        let last = server.seen().pop().unwrap();
        assert_eq!(last.line, "POST /elsewhere HTTP/1.1");
        assert_eq!(last.body["args"], json!({"order": 7}));
        assert!(last.head.contains("authorization: Bearer a-token\r\n"));
    }
}

#[tokio::test]
async fn redirect_to_another_host_is_not_followed() {
    let other = Server::start(|_| ok(r#"{"result": "stolen"}"#)).await;
    let by_name = other.url.replace("127.0.0.1", "localhost");
    for target in [
        other.url.clone(),
        by_name,
        "https://127.0.0.1/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let location = format!("location: {target}/tools/lookup\r\n");
        let error = call_of(http("307 Temporary", &location, ""))
            .await
            .unwrap_err();
        assert_eq!(
            error,
            "http_tool: lookup: redirected to another host, which is not followed"
        );
    }

    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn redirect_loop_ends_after_five_redirects() {
    let server = Server::start(|_| http("307 Temporary", "location: /again\r\n", "")).await;
    let error = call(&tool(&server.url)).await.unwrap_err();
    assert_eq!(error, "http_tool: lookup: redirected more than 5 times");
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn value_of_a_public_header_is_no_secret() {
    let server = Server::start(|_| ok(r#"{"result": "as application/vnd.example+json"}"#)).await;
    let tool = tool(&server.url)
        .header("Accept", "application/vnd.example+json")
        .unwrap();
    let text = call(&tool).await.unwrap();
    assert_eq!(text, "as application/vnd.example+json");
    let head = server.seen().pop().unwrap().head;
    assert!(head.contains("accept: application/vnd.example+json\r\n"));
}

#[tokio::test]
async fn secrets_are_sent_and_redacted_from_errors() {
    let echo = r#"{"error": "bad token tok-12345 and key key-67890"}"#;
    let server = Server::start(move |_| ok(echo)).await;
    let url = server.url.replace("http://", "http://user:pass-word@");
    let tool = tool(&url)
        .bearer("tok-12345")
        .unwrap()
        .header("X-Api-Key", "key-67890")
        .unwrap();
    let error = call(&tool).await.unwrap_err();
    assert_eq!(
        error,
        "http_tool: lookup: bad token [redacted] and key [redacted]"
    );
    let head = server.seen().pop().unwrap().head;
    assert!(
        head.contains("authorization: Bearer tok-12345\r\n"),
        "{head}"
    );
    assert!(head.contains("x-api-key: key-67890\r\n"), "{head}");
    let debug = format!("{tool:?}");
    for secret in ["tok-12345", "key-67890", "pass-word"] {
        assert!(!debug.contains(secret), "{debug}");
    }
}

#[tokio::test]
async fn closed_port_is_an_error_without_the_address() {
    // No process listens on port 1, which the system never assigns by itself.
    let error = call(&tool("http://127.0.0.1:1/?key=secret-query"))
        .await
        .unwrap_err();
    assert!(error.starts_with("http_tool: lookup: "), "{error}");
    assert!(
        error.contains("refused") && !error.contains("secret-query"),
        "{error}"
    );
}

#[tokio::test]
async fn silent_peer_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tool = tool(&url).timeout(Duration::from_millis(50));
    assert_eq!(
        call(&tool).await.unwrap_err(),
        "http_tool: lookup: no reply within 50ms"
    );
    drop(listener);
}

#[test]
fn invalid_callback_addresses_and_headers_are_rejected_at_construction() {
    for url in ["", "nowhere", "ftp://host/", "file:///x", "http://"] {
        let error = HttpTool::new("lookup", "", json!({}), url).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("http_tool: lookup: the callback address"),
            "{error}"
        );
    }

    let make = || tool("http://127.0.0.1:1");
    assert!(make().bearer("two\nlines").is_err());
    assert!(make().header("no name", "x").is_err());
}

#[test]
fn tool_timeout_is_longer_than_the_request_timeout() {
    let tool = tool("http://127.0.0.1:1");
    assert_eq!(Tool::timeout(&tool), Some(Duration::from_secs(125)));
    assert_eq!(Tool::side_effect(&tool), SideEffect::Network);
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn peer_without_tls_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(ok("{}").as_bytes()).await.unwrap();
        }
    });
    let error = call(&tool(&url)).await.unwrap_err();
    assert!(error.starts_with("http_tool: lookup: "), "{error}");
}
