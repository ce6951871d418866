//! What a provider's refusal means: HTTP statuses, error bodies and errors inside a stream.
//!
//! The words and codes below are those of the Anthropic and OpenAI API references and of the
//! sources of llama.cpp's server, vLLM and Ollama.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::error::{Error, ErrorKind};

use super::http::{REQUEST_ID_LIMIT, Secrets};

/// How much of a provider's message is kept, in characters.
const MESSAGE_LIMIT: usize = 1_000;

/// How much of a code is kept, in characters.
const CODE_LIMIT: usize = 100;

/// How much of something unreadable is shown, in characters.
const EXCERPT_LIMIT: usize = 200;

/// The error for an answer whose status is not a success.
pub(crate) fn from_response(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    request_id: Option<&str>,
    secrets: &Secrets,
) -> Error {
    let refusal = Refusal::of_body(&String::from_utf8_lossy(body), secrets);
    let kind = kind(Some(status), &refusal);
    let label = refusal.codes.first().map(String::as_str).unwrap_or("HTTP");
    let text = match &*refusal.message {
        "" => format!("{label} {status}"),
        message => format!("{label} {status}: {message}"),
    };

    let mut error = Error::new(kind, text).with_status(status);
    if let Some(id) = request_id.or(refusal.request_id.as_deref()) {
        error = error.with_request_id(id);
    }

    if let Some(wait) = retry_after(headers) {
        error = error.with_retry_after(wait);
    }

    match header(headers, "x-should-retry") {
        _ if kind == ErrorKind::QuotaExhausted => error.with_retryable(false),
        Some("true") => error.with_retryable(true),
        Some("false") => error.with_retryable(false),
        _ if matches!(status, 408 | 409) => error.with_retryable(true),
        _ => error,
    }
}

/// The error for an `error` event in a stream that began well: the error the event's code names.
pub(crate) fn from_event(event: &str, secrets: &Secrets) -> Error {
    let refusal = Refusal::of_body(event, secrets);
    let kind = kind(None, &refusal);
    let label = refusal.codes.first().map(String::as_str).unwrap_or("error");
    let error = Error::new(kind, format!("{label} in the stream: {}", refusal.message));
    match refusal.request_id {
        Some(id) => error.with_request_id(id),
        None => error,
    }
}

/// The beginning of `text` without secrets, to show what came instead of the expected.
pub(crate) fn excerpt(text: &str, secrets: &Secrets) -> String {
    secrets.head(text, EXCERPT_LIMIT)
}

/// What an error body says.
#[derive(Default)]
struct Refusal {
    /// Types and codes, the most telling first.
    codes: Vec<String>,
    message: String,
    request_id: Option<String>,
}

impl Refusal {
    /// Reads `{"error":{"type","code","message","details":{"error_code"}}}`, `{"error":"text"}`,
    /// `{"message"}` and `{"detail"}`; of anything else, web pages among it, the beginning is the
    /// message.
    fn of_body(body: &str, secrets: &Secrets) -> Self {
        let mut refusal = match serde_json::from_str::<Value>(body) {
            Ok(body) => Self::of_json(&body),
            Err(_) => Self {
                message: plain_text(body),
                ..Self::default()
            },
        };

        refusal.message = secrets.head(&refusal.message, MESSAGE_LIMIT);
        for code in &mut refusal.codes {
            *code = secrets.head(code, CODE_LIMIT);
        }

        refusal.request_id = refusal
            .request_id
            .map(|id| secrets.head(&id, REQUEST_ID_LIMIT));
        refusal
    }

    fn of_json(body: &Value) -> Self {
        // Some servers wrap the object in an array of one.
        let body = body.get(0).unwrap_or(body);
        let error = match body.get("error") {
            Some(error @ (Value::Object(_) | Value::String(_))) => error,
            _ => body,
        };

        let details = error.get("details");
        let codes = [
            details.and_then(|details| details.get("error_code")),
            error.get("type"),
            error.get("code"),
            error.get("status"),
        ];
        let codes = codes.into_iter().flatten().filter_map(|code| match code {
            Value::String(code) if !matches!(&**code, "" | "error") => Some(code.clone()),
            Value::Number(code) => Some(code.to_string()),
            _ => None,
        });

        let message = error
            .as_str()
            .or_else(|| text_of(error, &["message", "detail", "error", "msg"]))
            .or_else(|| text_of(body, &["message", "detail"]));
        Self {
            codes: codes.collect(),
            message: match message {
                Some(message) => message.to_owned(),
                None => body.to_string(),
            },
            request_id: text_of(body, &["request_id"]).map(str::to_owned),
        }
    }

    fn has_code(&self, test: impl Fn(&str) -> bool) -> bool {
        self.codes.iter().any(|code| test(code))
    }
}

fn text_of<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| value.get(*key)?.as_str())
}

/// Of a web page the title, else the text itself.
fn plain_text(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return body.to_owned();
    }
    let title = body
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"))
        .map_or("", |(title, _)| title.trim());
    format!("a web page {title:?} instead of an API answer")
}

/// A spend limit or a quota is used up: waiting does not help.
fn is_quota(refusal: &Refusal) -> bool {
    let by_code = refusal.has_code(|code| {
        matches!(
            code,
            "insufficient_quota"
                | "credit_balance_exhausted"
                | "billing_hard_limit_reached"
                | "billing_not_active"
                | "billing_error"
                | "enforced_spend_limit_reached"
                | "organization_usage_limit_exceeded"
                | "402"
        ) || code.ends_with("_spend_limit_exceeded")
    });

    by_code || contains_any(&refusal.message, &["credit balance is too low"])
}

/// The prompt does not fit into the context window.
fn is_context(refusal: &Refusal) -> bool {
    let by_code = refusal.has_code(|code| {
        matches!(
            code,
            "context_length_exceeded" | "exceed_context_size_error" | "string_above_max_length"
        )
    });

    by_code
        || contains_any(
            &refusal.message,
            &[
                "prompt is too long",
                "exceed context limit",
                "maximum context length",
                "maximum model length",
                "exceeds the available context size",
                "exceeds the context window",
                "exceeds the context length",
                "exceeds context length",
                "context length exceeded",
                "context size has been exceeded",
                "context window is full",
                "larger than the context",
                "longer than the model's context",
            ],
        )
}

fn contains_any(text: &str, needles: &[&str]) -> bool {
    let text = text.to_lowercase();
    needles.iter().any(|needle| text.contains(needle))
}

fn kind(status: Option<u16>, refusal: &Refusal) -> ErrorKind {
    if status == Some(402) || is_quota(refusal) {
        return ErrorKind::QuotaExhausted;
    }

    if matches!(status, None | Some(400 | 413 | 422 | 500)) && is_context(refusal) {
        return ErrorKind::ContextTooLong;
    }

    match status {
        Some(status) => kind_of_status(status),
        None => refusal
            .codes
            .iter()
            .find_map(|code| kind_of_code(code))
            .unwrap_or(ErrorKind::Server),
    }
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 => ErrorKind::Auth,
        403 => ErrorKind::PermissionDenied,
        404 => ErrorKind::NotFound,
        407 => ErrorKind::Proxy,
        408 => ErrorKind::Timeout,
        409 => ErrorKind::Conflict,
        413 => ErrorKind::RequestTooLarge,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        400..=499 => ErrorKind::InvalidRequest,
        500..=599 => ErrorKind::Server,
        // A redirect among others: not followed, because it would carry the key elsewhere.
        _ => ErrorKind::Protocol,
    }
}

fn kind_of_code(code: &str) -> Option<ErrorKind> {
    Some(match code {
        "invalid_request_error" => ErrorKind::InvalidRequest,
        "authentication_error" | "invalid_api_key" => ErrorKind::Auth,
        "permission_error" => ErrorKind::PermissionDenied,
        "not_found_error" | "model_not_found" => ErrorKind::NotFound,
        "request_too_large" => ErrorKind::RequestTooLarge,
        "rate_limit_error" | "rate_limit_exceeded" | "requests" | "tokens" => {
            ErrorKind::RateLimited
        }
        "timeout_error" => ErrorKind::Timeout,
        "overloaded_error" | "unavailable_error" => ErrorKind::Overloaded,
        "api_error" | "server_error" | "internal_error" => ErrorKind::Server,
        number => match number.parse() {
            Ok(status @ 400..=599) => kind_of_status(status),
            _ => return None,
        },
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// `retry-after-ms`, else `retry-after` in seconds or as a date. A date in the past is zero, and a
/// number too large for a duration is the longest one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |text: &str, unit: f64| {
        let value: f64 = text.parse().ok()?;
        let is_wait = value >= 0.0;
        is_wait.then(|| Duration::try_from_secs_f64(value * unit).unwrap_or(Duration::MAX))
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
