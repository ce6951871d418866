//! The error that a body or an event of a server contains.

use std::time::Duration;

use serde_json::Value;

use super::super::http::{REQUEST_ID_LIMIT, Secrets};
use super::google::{Details, MAX_DELAY};

/// The maximum length of a provider's message, in characters.
const MESSAGE_LIMIT: usize = 1_000;

/// The maximum length of a code, in characters.
const CODE_LIMIT: usize = 100;

/// The error that a server sent.
#[derive(Default)]
pub(super) struct Refusal {
    /// Types and codes, the most telling first: words, then numbers.
    pub(super) codes: Vec<String>,
    pub(super) message: String,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    /// True if the input was found harmful: it has a list of reasons (OpenRouter).
    pub(super) is_flagged: bool,
}

impl Refusal {
    /// Reads `{"error":{"type","code","message","details":{"error_code"}}}`, `{"error":"text"}`,
    /// `{"response":{"error"}}`, `{"message"}` and `{"detail"}`. The message of a web page has its
    /// title, and that of anything else is its beginning. The error of another provider in
    /// `{"error":{"metadata":{"raw"}}}` is added to the message (OpenRouter).
    pub(super) fn of_body(body: &str, secrets: &Secrets) -> Self {
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
        let error = [body.get("error"), body.pointer("/response/error")]
            .into_iter()
            .flatten()
            .find(|error| error.is_object() || error.is_string())
            .unwrap_or(body);

        let details = Details::of_json(error.get("details"));
        let code_values = [
            error.pointer("/details/error_code"),
            error.get("type"),
            error.get("code"),
            error.get("status"),
        ];
        let own_codes = code_values
            .into_iter()
            .flatten()
            .filter_map(|code| match code {
                Value::String(code) if !matches!(&**code, "" | "error") => Some(code.clone()),
                Value::Number(code) => Some(code.to_string()),
                _ => None,
            });
        let mut codes: Vec<_> = own_codes.chain(details.codes).collect();
        codes.sort_by_key(|code| code.starts_with(|c: char| c.is_ascii_digit()));

        let mut message = error
            .as_str()
            .or_else(|| text_of(error, &["message", "detail", "error", "msg"]))
            .or_else(|| text_of(body, &["message", "detail"]))
            .map_or_else(|| body.to_string(), str::to_owned);
        if !details.fields.is_empty() {
            message.push_str(&format!(" ({})", details.fields.join("; ")));
        }

        if let Some(answer) = text_of(error, &["failed_generation"]) {
            message.push_str(&format!(" (the model wrote: {answer})"));
        }

        if let Some(reason) = error.pointer("/metadata/raw").and_then(reason_of)
            && !message.contains(&*reason)
        {
            message.push_str(&format!(" ({reason})"));
        }

        let seconds = error.pointer("/metadata/retry_after_seconds");
        let reasons = error.pointer("/metadata/reasons");
        Self {
            codes,
            message,
            request_id: text_of(body, &["request_id"]).map(str::to_owned),
            retry_after: details.retry_after.or_else(|| delay(seconds?)),
            is_flagged: reasons.is_some_and(Value::is_array),
        }
    }

    pub(super) fn has_code(&self, test: impl Fn(&str) -> bool) -> bool {
        self.codes.iter().any(|code| test(code))
    }
}

fn text_of<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| value.get(*key)?.as_str())
}

/// Returns the reason in an error of another provider, which OpenRouter passes on as the text of
/// its JSON or as plain text.
fn reason_of(raw: &Value) -> Option<String> {
    let text = raw.as_str()?;
    let parsed = serde_json::from_str::<Value>(text).unwrap_or_default();
    let body = parsed.get(0).unwrap_or(&parsed);
    let error = body.get("error").unwrap_or(body);
    let reason = error
        .as_str()
        .or_else(|| text_of(error, &["message", "detail"]))
        .or_else(|| text_of(body, &["message", "detail"]))
        .unwrap_or(text);
    Some(reason.to_owned()).filter(|reason| !reason.is_empty())
}

/// Returns the duration in a number of seconds.
fn delay(seconds: &Value) -> Option<Duration> {
    let delay = Duration::try_from_secs_f64(seconds.as_f64()?).ok()?;
    Some(delay.min(MAX_DELAY))
}

/// Returns a description of a web page with its title; any other text is returned as it is.
fn plain_text(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return body.to_owned();
    }
    let title = body
        .split_once("<title>")
        .and_then(|(_, page)| page.split_once("</title>"))
        .map_or("", |(title, _)| title.trim());
    format!("a web page {title:?} instead of an API answer")
}
