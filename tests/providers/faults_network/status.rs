//! Answers whose status is not a success.

use super::*;

#[tokio::test]
async fn n04_to_n08_and_n10_to_n12_status_becomes_kind_request_id_and_text() {
    let html = "<html><head><title>Sorry</title></head><body>no JSON here</body></html>";
    let body = |kind: &str, message: &str| {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message} {KEY}"}}}}"#)
    };

    let cases = [
        (
            400,
            body("invalid_request_error", "bad"),
            ErrorKind::InvalidRequest,
            false,
        ),
        (
            422,
            body("invalid_request_error", "bad"),
            ErrorKind::InvalidRequest,
            false,
        ),
        (
            400,
            body(
                "invalid_request_error",
                "prompt is too long: 2 tokens > 1 maximum",
            ),
            ErrorKind::ContextTooLong,
            false,
        ),
        (
            400,
            body("context_length_exceeded", "too much"),
            ErrorKind::ContextTooLong,
            false,
        ),
        (
            401,
            body("authentication_error", "bad key"),
            ErrorKind::Auth,
            false,
        ),
        (
            403,
            body("permission_error", "no"),
            ErrorKind::PermissionDenied,
            false,
        ),
        (
            404,
            body("not_found_error", "no such model"),
            ErrorKind::NotFound,
            false,
        ),
        (413, html.to_owned(), ErrorKind::RequestTooLarge, false),
        (
            429,
            body("rate_limit_error", "slow"),
            ErrorKind::RateLimited,
            true,
        ),
        (
            429,
            body("insufficient_quota", "pay"),
            ErrorKind::QuotaExhausted,
            false,
        ),
        (408, String::new(), ErrorKind::Timeout, true),
        (409, body("conflict", "later"), ErrorKind::Conflict, true),
        (500, html.to_owned(), ErrorKind::Server, true),
        (502, html.to_owned(), ErrorKind::Server, true),
        (503, html.to_owned(), ErrorKind::Overloaded, true),
        (504, String::new(), ErrorKind::Server, true),
        (
            529,
            body("overloaded_error", "busy"),
            ErrorKind::Overloaded,
            true,
        ),
    ];
    for api in ALL {
        for (status, body, kind, retryable) in &cases {
            let reply = Reply::json(*status, body.clone()).header("x-request-id", "req_7");
            let error = error(api, reply).await;
            assert_eq!(error.kind(), *kind, "{api:?} {status} {error}");
            assert_eq!(error.is_retryable(), *retryable, "{api:?} {status} {error}");
            assert_eq!(error.status(), Some(*status));
            assert_eq!(error.request_id(), Some("req_7"));
            assert!(!error.text().contains("<body>"), "{error}");
        }
    }
}

#[tokio::test]
async fn n09_and_n13_retry_headers_of_the_server_are_in_the_error() {
    for api in ALL {
        let busy = || Reply::json(429, r#"{"error":{"message":"slow"}}"#);
        let seconds = error(api, busy().header("retry-after", "7")).await;
        assert_eq!(
            seconds.retry_after(),
            Some(Duration::from_secs(7)),
            "{api:?}"
        );
        let both = busy()
            .header("retry-after", "7")
            .header("retry-after-ms", "250");
        let millis = error(api, both).await;
        assert_eq!(millis.retry_after(), Some(Duration::from_millis(250)));
        let future = "Fri, 31 Dec 9999 23:59:59 GMT";
        let dated = error(api, busy().header("retry-after", future)).await;
        assert!(dated.retry_after().unwrap() > Duration::from_secs(86_400));
        let past = "Thu, 01 Jan 1970 00:00:01 GMT";
        let dated = error(api, busy().header("retry-after", past)).await;
        assert_eq!(dated.retry_after(), Some(Duration::ZERO));
        let odd = error(api, busy().header("retry-after", "soon")).await;
        assert_eq!(odd.retry_after(), None);
        let never = error(
            api,
            Reply::json(503, "{}").header("x-should-retry", "false"),
        )
        .await;
        assert!(!never.is_retryable(), "{api:?}");
    }
}
