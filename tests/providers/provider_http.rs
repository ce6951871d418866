//! Faults between a provider and its server.

use std::error::Error as _;
use std::time::Duration;

use agentcore::providers::Anthropic;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Error, ErrorKind, Model, ModelEvent, ModelRequest};
use futures::StreamExt;

use crate::kit::serving::{events, last, serve, status};

const ANSWER: &str = include_str!("../data/anthropic/text.sse");
const KEY: &str = "sk-canary-0123456789";

fn model(server: &FaultServer) -> Anthropic {
    Anthropic::new("m", KEY).base_url(server.url())
}

async fn failure(replies: impl IntoIterator<Item = Reply>) -> Error {
    let server = serve(replies).await;
    let error = model(&server)
        .call(ModelRequest::new("x"))
        .await
        .expect_err("a failure");
    assert_no_key(&error);
    error
}

fn assert_no_key(error: &Error) {
    let mut all = format!("{error} {error:?} {error:#?}");
    let mut next = error.source();
    while let Some(cause) = next {
        all.push_str(&format!("{cause} {cause:?}"));
        next = cause.source();
    }
    assert!(!all.contains("canary"), "{all}");
}

fn api_error(code: &str, message: &str) -> String {
    serde_json::json!({"type": "error", "error": {"type": code, "message": message}}).to_string()
}

#[tokio::test]
async fn http_status_becomes_an_error_kind() {
    use ErrorKind::*;
    let cases = [
        (400, "invalid_request_error", InvalidRequest, false),
        (401, "authentication_error", Auth, false),
        (402, "billing_error", QuotaExhausted, false),
        (403, "permission_error", PermissionDenied, false),
        (404, "not_found_error", NotFound, false),
        (407, "", Proxy, false),
        (408, "", Timeout, true),
        (409, "", Conflict, true),
        (413, "request_too_large", RequestTooLarge, false),
        (418, "", InvalidRequest, false),
        (422, "", InvalidRequest, false),
        (429, "rate_limit_error", RateLimited, true),
        (500, "api_error", Server, true),
        (502, "", Server, true),
        (503, "", Overloaded, true),
        (504, "", Server, true),
        (529, "overloaded_error", Overloaded, true),
    ];
    for (code, name, kind, retryable) in cases {
        let body = api_error(name, &format!("no, not with {KEY}"));
        let error = failure([status(code, "request-id: req_7\r\n", &body)]).await;
        assert_eq!(
            (error.kind(), error.is_retryable(), error.status()),
            (kind, retryable, Some(code))
        );
        assert_eq!(error.request_id(), Some("req_7"));
        assert!(error.text().contains("no, not with [redacted]"), "{error}");
        assert!(error.text().contains(&code.to_string()), "{error}");
    }
}

#[tokio::test]
async fn error_codes_and_texts_refine_the_kind() {
    use ErrorKind::*;
    let details = r#"{"error":{"type":"rate_limit_error","message":"m",
        "details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    let cases: &[(u16, &str, ErrorKind)] = &[
        (429, details, QuotaExhausted),
        (
            429,
            r#"{"error":{"code":"insufficient_quota","message":"m"}}"#,
            QuotaExhausted,
        ),
        (
            429,
            r#"{"error":{"code":"project_spend_limit_exceeded"}}"#,
            QuotaExhausted,
        ),
        (
            429,
            r#"{"error":{"type":"exceeded_current_quota_error","message":"m"}}"#,
            QuotaExhausted,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)","type":"invalid_request_error"}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#,
            ContextTooLong,
        ),
        (
            429,
            r#"{"error":{"code":"credit_balance_exhausted"}}"#,
            QuotaExhausted,
        ),
        (
            400,
            r#"{"error":{"message":"Your credit balance is too low to"}}"#,
            QuotaExhausted,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified workspace API usage limits. You will regain access on 2026-04-01 at 00:00 UTC."}}"#,
            QuotaExhausted,
        ),
        (
            400,
            r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":{"code":400,"type":"exceed_context_size_error"}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":{"code":"string_above_max_length","message":"Invalid 'messages[0].content': too long"}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":{"code":"string_above_max_length","message":"Invalid 'input[5].call_id': too long"}}"#,
            InvalidRequest,
        ),
        (
            400,
            r#"{"message":"This model's maximum context length is 8 tokens."}"#,
            ContextTooLong,
        ),
        (
            500,
            r#"{"error":{"message":"context size has been exceeded"}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."}}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"code":"invalid-argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":"Trying to keep the first 10136 tokens when context the overflows."}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"error":"prompt too long; exceeded max context length by 17 tokens"}"#,
            ContextTooLong,
        ),
        (
            400,
            r#"{"message":"Input is too long for requested model."}"#,
            ContextTooLong,
        ),
        (
            404,
            r#"{"error":"model \"x\" not found, try pulling it first"}"#,
            NotFound,
        ),
        (
            413,
            "<html><title>413 Request Entity Too Large</title></html>",
            RequestTooLarge,
        ),
        (502, "<html><head><title>Bad gateway</title>", Server),
        (500, "", Server),
        (503, "\u{FFFD}\0 not json", Overloaded),
    ];
    for (code, body, kind) in cases {
        let error = failure([status(*code, "", body)]).await;
        assert_eq!(error.kind(), *kind, "{body}: {error}");
    }

    let error = failure([status(502, "", "<title> Bad gateway </title>")]).await;
    assert!(error.text().contains("Bad gateway"), "{error}");
    let error = failure([status(400, "", &"long ".repeat(50_000))]).await;
    assert!(error.text().len() < 1_200);
}

#[tokio::test]
async fn retry_after_headers_are_parsed() {
    let secs = |seconds| Some(Duration::from_secs_f64(seconds));
    let cases = [
        ("retry-after: 20\r\n", secs(20.0)),
        ("retry-after: 0.5\r\n", secs(0.5)),
        ("retry-after: 20\r\nretry-after-ms: 1500\r\n", secs(1.5)),
        ("retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n", secs(0.0)),
        ("retry-after: soon\r\n", None),
        ("retry-after: -3\r\n", None),
        ("retry-after: NaN\r\n", None),
        ("retry-after: 99999999999999999999\r\n", Some(Duration::MAX)),
        ("retry-after-ms: 1e300\r\n", Some(Duration::MAX)),
        ("", None),
    ];
    for (header, wait) in cases {
        let error = failure([status(429, header, "{}")]).await;
        assert_eq!(error.retry_after(), wait, "{header}");
    }

    let future = failure([status(
        429,
        "retry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\n",
        "{}",
    )]);
    assert!(future.await.retry_after() > secs(1e9));
}

#[tokio::test]
async fn x_should_retry_overrides_retries_except_for_exhausted_quota() {
    let no = "x-should-retry: false\r\n";
    let yes = "x-should-retry: true\r\n";
    assert!(!failure([status(500, no, "{}")]).await.is_retryable());
    assert!(failure([status(400, yes, "{}")]).await.is_retryable());
    let quota = r#"{"error":{"code":"insufficient_quota"}}"#;
    assert!(!failure([status(429, yes, quota)]).await.is_retryable());
}

#[tokio::test]
async fn redirect_is_a_protocol_error() {
    let elsewhere = serve([events(ANSWER)]).await;
    let location = format!("location: {}/v1/messages\r\n", elsewhere.url());
    let error = failure([status(307, &location, "")]).await;
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn web_page_is_a_protocol_error() {
    let page = status(200, "content-type: text/html\r\n", "<html>Log in</html>");
    let error = failure([page]).await;
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.text().contains("Log in"), "{error}");
}

#[tokio::test]
async fn connection_lost_before_and_during_the_answer_differ_in_kind() {
    let before = failure([Reply::raw().close()]).await;
    assert_eq!(before.kind(), ErrorKind::Connect);
    assert!(before.is_retryable());

    let half = &ANSWER[..ANSWER.len() / 2];
    let during = events(half).close();
    assert_eq!(failure([during]).await.kind(), ErrorKind::StreamTruncated);

    let short = events(half);
    assert_eq!(failure([short]).await.kind(), ErrorKind::StreamTruncated);

    let no_http = Reply::raw().send("SSH-2.0-OpenSSH\r\n").close();
    assert!(failure([no_http]).await.kind() == ErrorKind::Connect);
}

#[tokio::test]
async fn closed_port_is_a_connect_error_without_the_key() {
    // No process listens on port 1, which the system never assigns by itself.
    let error = Anthropic::new("m", KEY)
        .base_url(format!("http://user:{KEY}@127.0.0.1:1"))
        .call(ModelRequest::new("x"))
        .await
        .expect_err("a connection error");
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_no_key(&error);
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn failed_tls_handshake_is_not_retryable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
                .await
                .expect("the client connects");
        }
    });

    let error = Anthropic::new("m", KEY)
        .base_url(format!("https://{address}"))
        .call(ModelRequest::new("x"))
        .await
        .expect_err("a TLS error");
    assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn invalid_model_settings_are_config_errors() {
    let base = || Anthropic::new("m", KEY);
    let broken = [
        base().base_url("not an address"),
        base().base_url("ftp://example.com"),
        base().header("bad name", "x"),
        base().header("name", "bad\nvalue"),
        Anthropic::new("m", "key\nwith a line break"),
    ];
    for model in broken {
        let error = model
            .call(ModelRequest::new("x"))
            .await
            .expect_err("a configuration error");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.text().contains("with a line break"));
    }

    assert!(!format!("{:?}", base()).contains("canary"));
}

#[tokio::test]
async fn silence_ends_at_the_idle_timeout() {
    let stalls = [Reply::raw().stall(), events(&ANSWER[..700]).stall()];
    for stall in stalls {
        let server = serve([stall]).await;
        let error = model(&server)
            .idle_timeout(Duration::from_millis(30))
            .call(ModelRequest::new("x"))
            .await
            .expect_err("silence");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn connections_are_reused() {
    let server = serve([events(ANSWER)]).await;
    // Models with other timeouts have another client, so that connections of other tests do not
    // count.
    let model = model(&server).connect_timeout(Duration::from_secs(9));
    for _ in 0..5 {
        model.call(ModelRequest::new("x")).await.expect("an answer");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn last_event_ends_the_answer_on_an_open_socket() {
    let server = serve([events(ANSWER).stall()]).await;
    let model = model(&server);
    let answer = model.call(ModelRequest::new("x"));
    // Much shorter than the idle timeout, and much longer than the answer takes.
    let answer = tokio::time::timeout(Duration::from_secs(60), answer);
    let response = answer.await.expect("in time").expect("an answer");
    assert_eq!(response.request_id.as_deref(), Some("req_1"));
}

#[tokio::test]
async fn stale_connection_is_replaced() {
    let replies = [events(ANSWER), Reply::raw().close(), events(ANSWER)];
    let server = serve(replies).await;
    let model = model(&server);
    model.call(ModelRequest::new("x")).await.expect("an answer");
    model.call(ModelRequest::new("x")).await.expect("an answer");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn text_deltas_are_joined_without_an_event_tap() {
    let server = serve([events(ANSWER)]).await;
    let texts = async |request: ModelRequest| {
        let stream = model(&server).stream(request).await.expect("a stream");
        let text =
            stream.filter(|event| std::future::ready(matches!(event, Ok(ModelEvent::Text(_)))));
        text.count().await
    };
    assert_eq!(texts(ModelRequest::new("x")).await, 1);
    let watched = ModelRequest::new("x").map_events(Some);
    assert_eq!(texts(watched).await, 3);
}

#[tokio::test]
async fn key_in_a_custom_header_is_redacted() {
    let body = api_error("authentication_error", "unknown token tkn-canary-9");
    let server = serve([status(401, "", &body)]).await;
    let model = model(&server).header("Authorization", "Bearer tkn-canary-9");
    let error = model
        .call(ModelRequest::new("x"))
        .await
        .expect_err("no key");
    assert_no_key(&error);
    assert!(!format!("{model:?}").contains("canary"));
    let request = last(&server);
    assert_eq!(request.header("authorization"), Some("Bearer tkn-canary-9"));
}
