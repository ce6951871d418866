//! Keys, which must not be in anything that a program prints, stores or sends, except to the
//! provider.

use std::fmt::{Debug, Write as _};

use agentcore::agent::RetryPolicy;
use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAi, resolve};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Agent, AgentBuilder, Model, Secret};

use crate::kit::keys::{Logged, assert_no_leak, listen};
use crate::kit::watch;

const KEY: &str = "sk-canary-0123456789abcdef";

fn push_debug(what: &dyn Debug, into: &mut String) {
    writeln!(into, "{what:?}\n{what:#?}").unwrap();
}

/// Returns everything that a run on `model` shows a program.
async fn everything(model: impl Model + Debug) -> String {
    let logged = Logged::default();
    let _listening = listen(logged.clone());
    let mut all = String::new();
    push_debug(&model, &mut all);
    let builder: AgentBuilder = AgentBuilder::new(model)
        .include_partial_messages(true)
        .retry(RetryPolicy::default().with_max_retries(1));
    push_debug(&builder, &mut all);
    let agent: Agent = builder.build().unwrap();
    push_debug(&agent, &mut all);
    push_debug(&agent.info(), &mut all);
    let (messages, output) = watch(agent.session("s").run("Hi")).await;
    for message in &messages {
        push_debug(message, &mut all);
        all.push_str(&serde_json::to_string(message).unwrap());
    }

    match output {
        Ok(output) => push_debug(&output, &mut all),
        Err(error) => {
            push_debug(&error, &mut all);
            push_debug(&error.partial(), &mut all);
            let mut next: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = next {
                writeln!(all, "{error}\n{error:?}").unwrap();
                next = error.source();
            }
        }
    }

    let state = agent.session("s").state().await.unwrap();
    all.push_str(&serde_json::to_string(&state).unwrap());
    all.push_str(&logged.text());
    all
}

/// Replies that repeat the key, as servers were observed to do.
fn replies() -> Vec<Reply> {
    let echo = format!("Incorrect API key provided: {KEY}.");
    let json = format!(
        r#"{{"type":"error","error":{{"type":"authentication_error","message":"{echo}"}}}}"#
    );
    vec![
        Reply::json(401, json.clone()),
        Reply::json(400, json.clone()),
        Reply::json(529, json.clone()),
        Reply::json(403, format!("<html>{echo}</html>")),
        Reply::json(302, "").header("location", format!("http://127.0.0.1:1/?key={KEY}")),
        Reply::sse([format!("event: error\ndata: {json}\n\n")]),
        Reply::sse([format!("data: {{\"broken {KEY}\n\n")]),
        Reply::ndjson([format!("{{\"error\":\"{echo}\"}}\n")]),
        Reply::sse(["event: ping\ndata: {}\n\n"]).reset(),
    ]
}

#[tokio::test]
async fn key_appears_in_no_output_or_error() {
    for (number, reply) in replies().into_iter().enumerate() {
        let server = FaultServer::start().await.unwrap();
        server.fallback(reply);
        let anthropic = Anthropic::new("claude-sonnet-4-5", KEY)
            .base_url(server.url())
            .header("x-proxy-key", KEY);
        let openai = OpenAi::new("gpt-4o", KEY).base_url(server.url());
        let ollama = Ollama::new("llama3").key(KEY).base_url(server.url());
        let gemini = Gemini::new("gemini-3.8-flash", KEY).base_url(server.url());
        let texts = [
            everything(anthropic).await,
            everything(openai).await,
            everything(ollama).await,
            everything(gemini).await,
        ];
        assert!(!server.requests().is_empty());
        for (text, who) in texts
            .iter()
            .zip(["anthropic", "openai", "ollama", "gemini"])
        {
            let at = text.find("canary").unwrap_or(text.len());
            let around = &text[at.saturating_sub(200)..(at + 40).min(text.len())];
            assert_eq!(at, text.len(), "reply {number}, {who}: ...{around}");
        }
    }
}

#[tokio::test]
async fn key_in_the_address_is_redacted() {
    let url = format!("http://user:{KEY}@127.0.0.1:1/v1?key={KEY}");
    let texts = everything(OpenAi::compatible(&url, "m")).await;
    assert!(!texts.contains("canary"), "{texts}");
}

#[test]
fn debug_output_of_a_secret_is_redacted() {
    let secret = Secret::new(KEY);
    assert_eq!(secret.expose(), KEY);
    assert!(!format!("{secret:?} {secret:#?}").contains("canary"));
    assert!(!format!("{:?}", Some(&[secret])).contains("canary"));
}

#[tokio::test]
async fn part_of_a_key_at_the_end_of_a_broken_body_is_redacted() {
    let secret = Secret::new(KEY);
    let server = FaultServer::start().await.unwrap();
    let part = &secret.expose()[..15];
    let body = format!("{{\"error\":\"bad key {part}");
    let reply = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: 500\r\n\r\n{body}");
    server.reply(Reply::raw().send(reply).close());
    let model = Anthropic::new("m", KEY).base_url(server.url());
    let error = model
        .call(agentcore::ModelRequest::new("x"))
        .await
        .unwrap_err();
    assert!(!error.to_string().contains("sk-canary"), "{error}");
    assert!(error.to_string().contains("bad key"), "{error}");
}

#[test]
fn cut_name_of_a_model_in_an_error_shows_no_part_of_a_key() {
    let _known = Secret::new(KEY);
    for before in (74..100).step_by(2) {
        let name = format!("{}{KEY}", "x".repeat(before));
        let Err(error) = resolve(&name) else {
            panic!("{name} is a model");
        };
        let error = error.to_string();
        assert!(error.contains("xxxx"), "{error}");
        assert_no_leak(&error, KEY, &format!("{before}"));
    }
}
