//! Faults of the network and of servers, for every provider.

mod connection;
mod dns;
mod proxy;
mod status;
mod stream;
#[cfg(all(feature = "tls", target_os = "linux"))]
mod tls;

use std::process::Command;
use std::time::Duration;

use agentcore::model::{ModelEvent, ModelResponse};
use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAi};
use agentcore::testing::fault_server::Framing;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Error, ErrorKind, Model, ModelRequest, Result};
use futures::StreamExt;

use crate::kit::doubles::gemini;

const KEY: &str = "sk-test-0123456789abcdef";

/// A timeout that is long enough for a busy machine, and that no test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Api {
    Anthropic,
    OpenAi,
    Ollama,
    Gemini,
}

use Api::{Anthropic as A, Gemini as G, Ollama as L, OpenAi as O};

const ALL: [Api; 4] = [A, O, L, G];

impl Api {
    fn model(self, url: &str, idle: Duration) -> Box<dyn Model> {
        match self {
            A => Box::new(Anthropic::new("m", KEY).base_url(url).idle_timeout(idle)),
            O => Box::new(OpenAi::compatible(url, "m").key(KEY).idle_timeout(idle)),
            L => Box::new(Ollama::new("m").base_url(url).key(KEY).idle_timeout(idle)),
            G => Box::new(Gemini::new("m", KEY).base_url(url).idle_timeout(idle)),
        }
    }

    fn text(self, text: &str) -> Reply {
        match self {
            A => Reply::anthropic_text(text),
            O => Reply::openai_text(text),
            L => Reply::ollama_text(text),
            G => gemini::stream(&gemini::words(text)),
        }
    }

    /// Returns `true` if the API sends server-sent events, and `false` for JSON lines.
    fn is_sse(self) -> bool {
        self != L
    }

    fn request(self) -> ModelRequest {
        ModelRequest::new("hello")
    }
}

async fn ask(api: Api, server: &FaultServer) -> Result<ModelResponse> {
    api.model(&server.url(), PATIENCE).call(api.request()).await
}

/// Runs the test of this path in a process of its own with these variables; an empty value unsets
/// one.
async fn run_alone(path: &str, variables: &[(&str, &str)]) {
    let (_, name) = path.split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]);
    for (variable, value) in variables {
        match *value {
            "" => command.env_remove(variable),
            value => command.env(variable, value),
        };
    }

    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{errors}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// Calls a model that receives `reply`. Returns the events before the error, and the error.
async fn outcome(api: Api, reply: Reply) -> (Vec<ModelEvent>, Option<Error>) {
    let server = FaultServer::start().await.unwrap();
    server.reply(reply);
    outcome_at(api, &server.url(), PATIENCE).await
}

async fn outcome_at(api: Api, url: &str, idle: Duration) -> (Vec<ModelEvent>, Option<Error>) {
    let mut events = Vec::new();
    let mut stream = match api.model(url, idle).stream(api.request()).await {
        Ok(stream) => stream,
        Err(error) => return (events, Some(error)),
    };

    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(
                    stream.next().await.is_none(),
                    "{api:?}: an item after an error"
                );
                return (events, Some(error));
            }
        }
    }

    (events, None)
}

async fn error(api: Api, reply: Reply) -> Error {
    let (_, error) = outcome(api, reply).await;
    let error = error.unwrap_or_else(|| panic!("{api:?}: no error"));
    assert_no_key(&error);
    error
}

fn assert_no_key(error: &Error) {
    let mut all = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        all.push_str(&format!("{cause} {cause:?}"));
        source = cause.source();
    }
    assert!(!all.contains("0123456789abcdef"), "{all}");
}

fn text(events: &[ModelEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn stopped(events: &[ModelEvent]) -> bool {
    events
        .iter()
        .any(|event| matches!(event, ModelEvent::Stop { .. }))
}

/// The frames of the usual answer that are complete in its first `len` bytes.
fn keep_frames(api: Api, len: usize) -> Reply {
    let answer = api.text("some words here");
    let mut reply = answer.clone().truncate(0);
    let mut sum = 0;
    for action in frames(&answer) {
        sum += action.len();
        if sum > len {
            break;
        }
        reply = reply.send(action);
    }
    reply
}

fn frames(reply: &Reply) -> Vec<bytes::Bytes> {
    let sends = reply.actions().iter().filter_map(|action| match action {
        agentcore::testing::fault_server::Action::Send(bytes) => Some(bytes.clone()),
        _ => None,
    });
    sends.collect()
}
