//! A bare client for comparison: the same traffic with reqwest, serde_json and a loop.
//!
//! It does what a careful program without a library would do: deltas are typed and borrowed, each
//! message is encoded once, and a request is a copy of the bytes so far. It has no detailed errors,
//! no retries, no hooks, no budget, no session and no validation.

mod anthropic;
mod gemini;
mod openai;
mod responses;

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use futures::future::join_all;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::ours::{CITY, tool_names, tool_schema};
use crate::traffic::Dialect;

/// A conversation: its address, and its messages as bytes.
pub struct Conversation {
    dialect: Dialect,
    url: String,
    headers: HeaderMap,
    /// The body up to the end of the last message.
    body: Vec<u8>,
}

/// A call of an answer.
#[derive(Default)]
struct Call {
    id: String,
    name: String,
    args: String,
}

/// An answer that was read to its end.
#[derive(Default)]
struct Answer {
    text: String,
    calls: Vec<Call>,
    /// The items that are sent back unchanged, in APIs that require it.
    items: Vec<String>,
    input_tokens: u64,
    output_tokens: u64,
    done: bool,
}

fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(Duration::from_secs(300))
            .pool_idle_timeout(Duration::from_secs(90))
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(60))
            .user_agent("bare");
        #[cfg(feature = "tls")]
        let builder = {
            let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder.tls_backend_preconfigured(config)
        };

        builder.build().unwrap()
    })
}

impl Conversation {
    pub fn new(dialect: Dialect, base: &str, history: &[(&str, String)], tools: bool) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let path = match dialect {
            Dialect::OpenAi => {
                headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer key"));
                "/v1/chat/completions"
            }
            Dialect::Anthropic => {
                headers.insert("x-api-key", HeaderValue::from_static("key"));
                headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
                "/v1/messages"
            }
            Dialect::Responses => {
                headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer key"));
                "/v1/responses"
            }
            Dialect::Gemini => {
                headers.insert("x-goog-api-key", HeaderValue::from_static("key"));
                "/v1beta/models/bench-model:streamGenerateContent?alt=sse"
            }
        };

        let mut body = match dialect {
            Dialect::OpenAi => openai::opening(tools),
            Dialect::Anthropic => anthropic::opening(tools),
            Dialect::Responses => responses::opening(tools),
            Dialect::Gemini => gemini::opening(tools),
        };

        for (role, text) in history {
            push_message(dialect, &mut body, role, text);
        }

        Self {
            dialect,
            url: format!("{base}{path}"),
            headers,
            body,
        }
    }

    /// Sends requests and runs calls until an answer has no calls. Returns the number of turns.
    pub async fn run(&mut self, input: &str) -> usize {
        push_message(self.dialect, &mut self.body, "user", input);
        let mut turns = 0;
        loop {
            turns += 1;
            let answer = self.ask().await;
            black_box((answer.input_tokens, answer.output_tokens));
            if answer.calls.is_empty() {
                push_message(self.dialect, &mut self.body, "assistant", &answer.text);
                return turns;
            }

            let results = join_all(answer.calls.iter().map(|call| async {
                let args: Value = serde_json::from_str(&call.args).unwrap();
                run_tool(&call.name, &args)
            }));

            let results = results.await;
            match self.dialect {
                Dialect::OpenAi => openai::push_calls(&mut self.body, &answer, &results),
                Dialect::Anthropic => anthropic::push_calls(&mut self.body, &answer, &results),
                Dialect::Responses => responses::push_calls(&mut self.body, &answer, &results),
                Dialect::Gemini => gemini::push_calls(&mut self.body, &answer, &results),
            }
        }
    }

    async fn ask(&self) -> Answer {
        let mut body = Vec::with_capacity(self.body.len() + 2);
        body.extend_from_slice(&self.body);
        body.extend_from_slice(b"]}");
        let request = client()
            .post(&self.url)
            .headers(self.headers.clone())
            .body(body);
        let mut response = request.send().await.unwrap().error_for_status().unwrap();
        let mut answer = Answer::default();
        let mut rest = Vec::new();
        while let Some(chunk) = response.chunk().await.unwrap() {
            rest.extend_from_slice(&chunk);
            let mut start = 0;
            while let Some(len) = memchr::memchr(b'\n', &rest[start..]) {
                let line = &rest[start..start + len];
                start += len + 1;
                if let Some(data) = line.strip_prefix(b"data: ") {
                    match self.dialect {
                        Dialect::OpenAi => openai::event(data, &mut answer),
                        Dialect::Anthropic => anthropic::event(data, &mut answer),
                        Dialect::Responses => responses::event(data, &mut answer),
                        Dialect::Gemini => gemini::event(data, &mut answer),
                    }
                }
            }

            rest.drain(..start);
        }

        assert!(answer.done, "the answer was cut off");
        answer
    }
}

/// Appends a delta of text to the answer, and passes it to `black_box` instead of a display.
fn show(answer: &mut Answer, text: &str) {
    answer.text.push_str(text);
    black_box(text);
}

fn run_tool(name: &str, args: &Value) -> String {
    assert!(tool_names().any(|known| known == name));
    let city = args["city"].as_str().unwrap_or_default();
    format!("{CITY}: {city}, day {}", args["day"])
}

fn push_message(dialect: Dialect, body: &mut Vec<u8>, role: &str, text: &str) {
    match dialect {
        Dialect::Gemini => gemini::push_text(body, role, text),
        _ => push_text(body, role, text),
    }
}

fn push_text(body: &mut Vec<u8>, role: &str, text: &str) {
    separate(body);
    body.extend_from_slice(b"{\"role\":\"");
    body.extend_from_slice(role.as_bytes());
    body.extend_from_slice(b"\",\"content\":");
    json(body, text);
    body.push(b'}');
}

fn separate(body: &mut Vec<u8>) {
    if body.last() != Some(&b'[') {
        body.push(b',');
    }
}

fn json(body: &mut Vec<u8>, value: impl serde::Serialize) {
    serde_json::to_writer(body, &value).unwrap();
}

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(tool_schema)
}

/// A string that is borrowed if possible.
#[derive(Default, serde::Deserialize)]
#[serde(transparent)]
struct Str<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);
