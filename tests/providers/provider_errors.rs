//! Kinds and retry delays of errors, as the APIs of providers report them.

use std::time::Duration;

use agentcore::providers::OpenAi;
use agentcore::testing::Reply;
use agentcore::{Error, ErrorKind, Model, ModelRequest};
use serde_json::{Value, json};

use crate::kit::serving::{events, serve, status};

async fn failure(reply: Reply) -> Error {
    let server = serve([reply]).await;
    let model = OpenAi::compatible(server.url(), "m");
    let answer = model.call(ModelRequest::new("x")).await;
    answer.expect_err("a failure")
}

async fn http_error(code: u16, body: &Value) -> Error {
    failure(status(code, "", &body.to_string())).await
}

async fn error_in_stream(body: &Value) -> Error {
    failure(events(&format!("data: {body}\n\n"))).await
}

#[tokio::test]
async fn status_without_a_reason_is_an_error_with_a_remedy() {
    let final_address = "location: https://other.example/v1\r\n";
    let cases = [
        (307, final_address, "redirects to https://other.example/v1,"),
        (301, "", "redirects to another address"),
        (
            101,
            "connection: upgrade\r\nupgrade: x\r\n",
            "another protocol",
        ),
        (404, "", "HTTP 404 without a reason"),
        (418, "", "HTTP 418 without a reason"),
    ];
    for (code, headers, reason) in cases {
        let error = failure(status(code, headers, "")).await;
        assert_eq!(error.status(), Some(code), "{error}");
        assert!(error.text().contains(reason), "{code}: {error}");
        assert!(error.text().contains("the base URL"), "{code}: {error}");
    }
    for code in [401, 429, 503] {
        let error = failure(status(code, "", "")).await;
        let text = error.text();
        assert!(
            text.ends_with(&format!("HTTP {code} without a reason")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn redirect_shows_no_secret_and_the_beginning_of_its_address() {
    let key = agentcore::Secret::new("hunter-of-this-test-0123456789");
    let long_path = "r/".repeat(4_000);
    let location = format!(
        "location: http://x/?key={}&to={long_path}\r\n",
        key.expose()
    );
    let error = failure(status(302, &location, "")).await;
    let text = error.text();
    assert!(text.contains("http://x/?key=[redacted]&to=r/r/"), "{text}");
    assert!(text.len() < 600, "{}", text.len());
}

#[tokio::test]
async fn stream_that_breaks_its_protocol_is_an_error_with_a_remedy() {
    for stream in ["data: [1]\n\n", "data: \u{1}\n\n", "nothing of a stream"] {
        let error = failure(events(stream)).await;
        assert_eq!(error.kind(), ErrorKind::Protocol, "{stream:?}: {error}");
        assert!(error.text().contains("; check the base URL"), "{error}");
    }
    let page = status(200, "content-type: text/html\r\n", "<html>Sign in</html>");
    let error = failure(page).await;
    assert!(error.text().contains("; set the base URL"), "{error}");
}

/// An error in Google's format.
fn google(code: u16, word: &str, details: &Value) -> Value {
    json!({"error": {"code": code, "status": word, "message": "no", "details": details}})
}

fn retry_info(delay: &Value) -> Value {
    json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}])
}

fn quota_failure(ids: &[&str]) -> Value {
    let violations: Vec<_> = ids.iter().map(|id| json!({"quotaId": id})).collect();
    json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}])
}

#[tokio::test]
async fn words_of_google_become_error_kinds() {
    use ErrorKind::*;
    let cases = [
        (400, "INVALID_ARGUMENT", InvalidRequest),
        (400, "FAILED_PRECONDITION", InvalidRequest),
        (400, "OUT_OF_RANGE", InvalidRequest),
        (401, "UNAUTHENTICATED", Auth),
        (403, "PERMISSION_DENIED", PermissionDenied),
        (404, "NOT_FOUND", NotFound),
        (409, "ABORTED", Conflict),
        (409, "ALREADY_EXISTS", Conflict),
        (429, "RESOURCE_EXHAUSTED", RateLimited),
        (499, "CANCELLED", Timeout),
        (500, "INTERNAL", Server),
        (500, "UNKNOWN", Server),
        (500, "DATA_LOSS", Server),
        (501, "UNIMPLEMENTED", Server),
        (503, "UNAVAILABLE", Overloaded),
    ];
    for (code, word, kind) in cases {
        let body = google(code, word, &json!([]));
        let array = json!([body]);
        for error in [
            http_error(code, &body).await,
            http_error(code, &array).await,
            error_in_stream(&body).await,
            error_in_stream(&json!({"error": {"status": word}})).await,
        ] {
            assert_eq!(error.kind(), kind, "{word}: {error}");
            assert!(error.text().contains(&format!(": {word} ")), "{error}");
        }
    }

    let late = google(504, "DEADLINE_EXCEEDED", &json!([]));
    assert_eq!(http_error(504, &late).await.kind(), Server);
    assert_eq!(error_in_stream(&late).await.kind(), Timeout);
}

#[tokio::test]
async fn refused_prompt_is_refused_not_invalid() {
    let flagged = json!({"reasons": ["violence"], "flagged_input": "…"});
    let cases = [
        (
            400,
            json!({"error": {"code": "content_filter", "message": "no"}}),
        ),
        (
            400,
            json!({"error": {"code": "bio_policy", "type": "invalid_request_error"}}),
        ),
        (
            403,
            json!({"error": {"code": 403, "message": "no", "metadata": flagged}}),
        ),
    ];
    for (code, body) in cases {
        for error in [http_error(code, &body).await, error_in_stream(&body).await] {
            assert_eq!(error.kind(), ErrorKind::Refused, "{body}");
            assert!(!error.is_retryable());
        }
    }

    let provider = json!({"error": {"code": 403, "metadata": {"provider_name": "x"}}});
    let error = http_error(403, &provider).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn reason_of_the_provider_behind_openrouter_is_reported() {
    use ErrorKind::*;
    let too_long = json!({"type": "error", "error": {"message": "Prompt is too long"}}).to_string();
    let listed = json!([{"error": {"message": "Your credit balance is too low"}}]).to_string();
    let limited = "m is temporarily rate-limited upstream";
    let cases = [
        (413, too_long, "Prompt is too long", ContextTooLong),
        (400, listed, "credit balance is too low", QuotaExhausted),
        (429, limited.to_owned(), limited, RateLimited),
        (
            429,
            json!({"detail": "slow down"}).to_string(),
            "slow down",
            RateLimited,
        ),
        (429, "{broken".to_owned(), "{broken", RateLimited),
    ];
    for (code, raw, reason, kind) in cases {
        let metadata = json!({"raw": raw, "provider_name": "X", "retry_after_seconds": 3.5});
        let error =
            json!({"message": "Provider returned error", "code": code, "metadata": metadata});
        let body = json!({"error": error});
        for error in [http_error(code, &body).await, error_in_stream(&body).await] {
            assert_eq!(error.kind(), kind, "{body}");
            let text = error.text();
            assert!(text.contains("Provider returned error ("), "{text}");
            assert!(text.contains(reason), "{text}");
            assert_eq!(error.retry_after(), Some(Duration::from_millis(3_500)));
        }
    }

    for raw in [
        json!(""),
        json!(null),
        json!({"error": 1}),
        json!("refused"),
    ] {
        let error = json!({"message": "refused", "metadata": {"raw": raw}});
        let error = http_error(400, &json!({"error": error})).await;
        assert!(error.text().ends_with("400: refused"), "{error}");
    }
}

#[tokio::test]
async fn invalid_key_of_google_is_an_auth_error() {
    let reason =
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let body = google(400, "INVALID_ARGUMENT", &reason);
    assert_eq!(http_error(400, &body).await.kind(), ErrorKind::Auth);
    assert_eq!(error_in_stream(&body).await.kind(), ErrorKind::Auth);
}

#[tokio::test]
async fn retry_delay_of_the_body_is_used() {
    let cases = [
        ("30s", Duration::from_secs(30)),
        ("0.5s", Duration::from_millis(500)),
        ("0s", Duration::ZERO),
        ("99999999s", Duration::from_secs(86_400)),
    ];
    for (delay, wait) in cases {
        let body = google(429, "RESOURCE_EXHAUSTED", &retry_info(&json!(delay)));
        for error in [
            http_error(429, &body).await,
            http_error(429, &json!([body])).await,
            error_in_stream(&body).await,
        ] {
            assert_eq!(error.retry_after(), Some(wait), "{delay}");
            assert!(error.is_retryable());
        }
    }

    let body = google(429, "RESOURCE_EXHAUSTED", &retry_info(&json!("30s"))).to_string();
    let error = failure(status(429, "retry-after: 7\r\n", &body)).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn retry_delay_that_is_no_duration_is_ignored() {
    let delays = [
        json!("30"),
        json!("soon"),
        json!("s"),
        json!("-3s"),
        json!("NaNs"),
        json!("infs"),
        json!("1e300s"),
        json!(30),
        json!(null),
    ];
    for delay in delays {
        let body = google(429, "RESOURCE_EXHAUSTED", &retry_info(&delay));
        assert_eq!(http_error(429, &body).await.retry_after(), None, "{delay}");
    }
}

#[tokio::test]
async fn daily_quota_is_not_retried() {
    let minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
    let day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
    let exhausted = google(429, "RESOURCE_EXHAUSTED", &quota_failure(&[minute, day]));
    for error in [
        failure(status(
            429,
            "x-should-retry: true\r\n",
            &exhausted.to_string(),
        ))
        .await,
        error_in_stream(&exhausted).await,
    ] {
        assert_eq!(error.kind(), ErrorKind::QuotaExhausted);
        assert!(!error.is_retryable());
    }

    let limited = google(429, "RESOURCE_EXHAUSTED", &quota_failure(&[minute]));
    let error = http_error(429, &limited).await;
    assert_eq!(error.kind(), ErrorKind::RateLimited);
}

#[tokio::test]
async fn invalid_fields_are_named_in_the_text() {
    let field = |name: &str, description: &str| json!({"field": name, "description": description});
    let fields = [
        field("contents[0]", "must not be empty"),
        json!({"field": "seed"}),
        field("tools", "is unknown"),
        field("a", "is unknown"),
    ];
    let body = google(
        400,
        "INVALID_ARGUMENT",
        &json!([{"fieldViolations": fields}, "odd", 7]),
    );
    let error = http_error(400, &body).await;
    assert_eq!(
        error.text(),
        "openai: INVALID_ARGUMENT 400: no (contents[0]: must not be empty; seed; tools: is unknown)"
    );
}
