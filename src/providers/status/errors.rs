//! Errors from what a server sent instead of an answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};

use crate::error::{Error, ErrorKind};

use super::super::http::Secrets;
use super::kinds::kind_of;
use super::refusal::Refusal;

/// The maximum length of an excerpt, in characters.
const EXCERPT_LIMIT: usize = 200;

/// The statuses with which servers reply, without a reason, if they do not know the path or the
/// model.
const UNKNOWN_ADDRESS: [u16; 4] = [400, 404, 405, 418];
/// The advice about a path or a model that a server does not know.
const CHECK_ADDRESS: &str = "check the base URL and the name of the model";

/// Returns the reason why a status of 100 to 199 or of 300 to 399 is an error, and the remedy.
fn without_answer(status: u16, location: &str) -> String {
    match (status, location) {
        (300.., "") => "the server redirects to another address without naming it; set the base \
                        URL to the final address"
            .to_owned(),
        (300.., location) => format!(
            "the server redirects to {location}, and redirects are not followed; set the base URL \
             to the final address"
        ),
        _ => {
            "the server switches to another protocol; set the base URL to the address of a model's \
              API"
            .to_owned()
        }
    }
}

/// The types and codes that a server gave with an error.
struct Codes(Vec<String>);

/// Returns `true` if the server gave this type or code with the error.
pub(crate) fn has_code(error: &Error, code: &str) -> bool {
    let codes = error.attachment::<Codes>();
    codes.is_some_and(|codes| codes.0.iter().any(|own| own == code))
}

/// The error for an answer whose status is not a success.
pub(crate) fn from_response(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    request_id: Option<&str>,
    secrets: &Secrets,
) -> Error {
    let refusal = Refusal::of_body(&String::from_utf8_lossy(body), secrets);
    let kind = kind_of(Some(status), &refusal);
    let label = refusal.codes.first().map(String::as_str).unwrap_or("HTTP");
    let text = match &*refusal.message {
        _ if (100..400).contains(&status) => {
            let location = header(headers, LOCATION.as_str()).unwrap_or_default();
            format!(
                "HTTP {status}: {}",
                without_answer(status, &excerpt(location, secrets))
            )
        }
        "" if UNKNOWN_ADDRESS.contains(&status) => {
            format!("{label} {status} without a reason; {CHECK_ADDRESS}")
        }
        "" => format!("{label} {status} without a reason"),
        message if is_unknown_path(status, message) => {
            format!("{label} {status}: {message}; {CHECK_ADDRESS}")
        }
        message => format!("{label} {status}: {message}"),
    };

    let mut error = Error::new(kind, text).with_status(status);
    if let Some(id) = request_id.or(refusal.request_id.as_deref()) {
        error = error.with_request_id(id);
    }

    if let Some(delay) = retry_after(headers).or(refusal.retry_after) {
        error = error.with_retry_after(delay);
    }

    error = error.attach(Arc::new(Codes(refusal.codes)));
    match header(headers, "x-should-retry") {
        _ if kind == ErrorKind::QuotaExhausted => error.with_retryable(false),
        Some("true") => error.with_retryable(true),
        Some("false") => error.with_retryable(false),
        _ if matches!(status, 408 | 409) => error.with_retryable(true),
        _ => error,
    }
}

/// Returns `true` if the server does not know the path. A message about an unknown model has the
/// word `model`.
fn is_unknown_path(status: u16, message: &str) -> bool {
    matches!(status, 404 | 405) && !message.to_ascii_lowercase().contains("model")
}

/// Returns the error for an `error` event in a stream that began well: the error the event's code
/// names.
pub(crate) fn from_event(event: &str, secrets: &Secrets) -> Error {
    let refusal = Refusal::of_body(event, secrets);
    let kind = kind_of(None, &refusal);
    let label = refusal.codes.first().map(String::as_str).unwrap_or("error");
    let mut error = Error::new(kind, format!("{label} in the stream: {}", refusal.message));
    if let Some(id) = refusal.request_id {
        error = error.with_request_id(id);
    }

    if let Some(delay) = refusal.retry_after {
        error = error.with_retry_after(delay);
    }

    // A conflict is retried, as after the status 409.
    if kind == ErrorKind::Conflict {
        error = error.with_retryable(true);
    }

    error.attach(Arc::new(Codes(refusal.codes)))
}

/// Returns the beginning of `text` without secrets, to show what came instead of the expected.
pub(crate) fn excerpt(text: &str, secrets: &Secrets) -> String {
    secrets.head(text, EXCERPT_LIMIT)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// `retry-after-ms`, else `retry-after` in seconds or as a date. A date in the past is zero, and a
/// number too large for a duration is the longest one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |text: &str, unit: f64| {
        let value: f64 = text.parse().ok()?;
        let is_delay = value >= 0.0;
        is_delay.then(|| Duration::try_from_secs_f64(value * unit).unwrap_or(Duration::MAX))
    };

    let milliseconds = header(headers, "retry-after-ms").and_then(|text| seconds(text, 1e-3));
    milliseconds.or_else(|| {
        let text = header(headers, RETRY_AFTER.as_str())?;
        seconds(text, 1.0).or_else(|| {
            let date = httpdate::parse_http_date(text).ok()?;

            // Before now means that the time is up.
            Some(
                date.duration_since(SystemTime::now())
                    .unwrap_or(Duration::ZERO),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_of_failed_responses_become_error_kinds() {
        use ErrorKind::*;
        let cases = [
            ("server_error", Server),
            ("rate_limit_exceeded", RateLimited),
            ("insufficient_quota", QuotaExhausted),
            ("context_length_exceeded", ContextTooLong),
            ("invalid_prompt", Refused),
            ("bio_policy", Refused),
            ("misalignment_policy_violation", Refused),
            ("image_content_policy_violation", Refused),
            ("invalid_image", InvalidRequest),
            ("invalid_image_format", InvalidRequest),
            ("invalid_base64_image", InvalidRequest),
            ("invalid_image_url", InvalidRequest),
            ("invalid_image_mode", InvalidRequest),
            ("image_too_large", InvalidRequest),
            ("image_too_small", InvalidRequest),
            ("image_parse_error", InvalidRequest),
            ("image_file_too_large", InvalidRequest),
            ("image_file_not_found", InvalidRequest),
            ("unsupported_image_media_type", InvalidRequest),
            ("empty_image_file", InvalidRequest),
            ("failed_to_download_image", InvalidRequest),
            ("data_residency_mismatch", InvalidRequest),
            ("invalid_encrypted_content", InvalidRequest),
            ("vector_store_timeout", Timeout),
            ("unknown", Server),
        ];
        for (code, kind) in cases {
            let error = json!({"code": code, "message": "no"});
            let failure = json!({"type": "response.failed", "response": {"error": error}});
            let event = json!({"type": "error", "code": code, "message": "no", "param": null});
            for body in [failure, event] {
                let error = from_event(&body.to_string(), &Secrets::default());
                assert_eq!(error.kind(), kind, "{body}");
                assert_eq!(error.text(), format!("{code} in the stream: no"));
                assert!(has_code(&error, code), "{body}");
            }
        }
    }

    #[test]
    fn unknown_path_is_reported_with_advice() {
        let text_of = |status, body: &[u8]| {
            let (headers, secrets) = (HeaderMap::new(), Secrets::default());
            let error = from_response(status, &headers, body, None, &secrets);
            error.text().to_owned()
        };
        let path = text_of(404, br#"{"detail":"Not Found"}"#);
        assert!(
            path.ends_with(&format!("Not Found; {CHECK_ADDRESS}")),
            "{path}"
        );
        let model = text_of(
            404,
            br#"{"error":{"message":"The model `x` does not exist"}}"#,
        );
        assert!(model.ends_with("does not exist"), "{model}");
        let other = text_of(429, br#"{"error":{"message":"Slow down"}}"#);
        assert!(other.ends_with("Slow down"), "{other}");
    }

    #[test]
    fn conflict_is_retried_after_a_status_and_in_a_stream() {
        let secrets = Secrets::default();
        for body in [
            json!({"error": {"code": 409, "status": "ABORTED", "message": "try again"}}),
            json!({"error": {"status": "ALREADY_EXISTS", "message": "try again"}}),
            json!({"type": "error", "error": {"type": "conflict_error", "message": "no"}}),
        ] {
            let text = body.to_string();
            let of_event = from_event(&text, &secrets);
            let of_reply = from_response(409, &HeaderMap::new(), text.as_bytes(), None, &secrets);
            for error in [of_event, of_reply] {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(error.is_retryable(), "{error}");
            }
        }
    }

    #[test]
    fn array_of_one_error_is_read() {
        let body = r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"no",
            "details":[{"retryDelay":"1s"}]}}]"#;
        let error = from_event(body, &Secrets::default());
        assert_eq!(error.kind(), ErrorKind::RateLimited);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    }
}
