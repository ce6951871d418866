//! The limits of a model in the headless agent: options, and values of the server.

use std::process::Output;

use agentcore::testing::{FaultServer, Reply};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::agent_cli::{agent, text};

const ANSWER: &str = r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#;

/// Starts a server that sends `replies` and then always answers `Hi`.
fn server(replies: impl IntoIterator<Item = (u16, Value)>) -> (Runtime, FaultServer) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(FaultServer::start()).unwrap();
    for (status, body) in replies {
        server.reply(Reply::json(status, body.to_string()));
    }
    server.fallback(Reply::sse([
        format!("data: {ANSWER}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ]));
    (runtime, server)
}

fn run(server: &FaultServer, options: &[&str]) -> Output {
    let mut command = agent(&["--model", "openai:m", "--tools", "none", "Go"]);
    let output = command
        .args(options)
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

/// Returns the context window in the result of a run.
fn window(output: &Output) -> Value {
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let models = result["modelUsage"].as_object().unwrap();
    models.values().next().unwrap()["contextWindow"].clone()
}

#[test]
fn max_tokens_option_is_sent() {
    let (_runtime, server) = server([]);
    let options = ["--max-tokens", "77", "--context-window", "4096"];
    let output = run(&server, &options);
    assert_eq!(text(&output.stdout), "Hi\n");
    let sent = server.requests().remove(0).json();
    let limits = [&sent["max_tokens"], &sent["max_completion_tokens"]];
    assert!(limits.contains(&&json!(77)), "{sent}");
}

#[test]
fn context_window_option_is_used_without_querying_the_server() {
    let (_runtime, server) = server([]);
    let output = run(&server, &["--context-window", "4096", "--output", "json"]);
    assert_eq!(window(&output), 4_096);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn context_window_option_keeps_the_server_of_the_prefix() {
    let bedrock = "bedrock:anthropic.claude-sonnet-5";
    for (spec, server_name, path) in [
        ("vllm:m", "VLLM", "/v1/chat/completions"),
        ("mistral:m", "MISTRAL", "/v1/chat/completions"),
        (bedrock, "BEDROCK", "/v1/anthropic/v1/messages"),
    ] {
        let (_runtime, server) = server([]);
        if spec == bedrock {
            server.anthropic_text("Hi");
        }
        let options = ["--context-window", "4096", "--output", "json", "Go"];
        let output = agent(&["--model", spec, "--tools", "none"])
            .args(options)
            .env(
                format!("{server_name}_BASE_URL"),
                format!("{}/v1", server.url()),
            )
            .env(format!("{server_name}_API_KEY"), "key-1234")
            .output()
            .unwrap();
        assert!(output.status.success(), "{spec}: {}", text(&output.stderr));
        assert_eq!(window(&output), 4_096, "{spec}");
        assert_eq!(server.requests().remove(0).path, path);
    }
}

#[test]
fn context_window_is_read_from_the_server() {
    let props = json!({"default_generation_settings": {"n_ctx": 8_192}});
    let (_runtime, server) = server([(200, props)]);
    let output = run(&server, &["--output", "json"]);
    assert_eq!(window(&output), 8_192);
    let paths: Vec<String> = server
        .requests()
        .iter()
        .map(|sent| sent.path.clone())
        .collect();
    assert_eq!(paths, ["/props", "/v1/chat/completions"]);
}

#[test]
fn context_window_is_read_from_the_server_of_the_prefix() {
    let list = |field: &str| {
        let mut own = json!({"id": "m"});
        own[field] = 8_192.into();
        json!({"data": [own]})
    };
    let props = json!({"default_generation_settings": {"n_ctx": 8_192}});
    for (prefix, variable, answer, path) in [
        ("llamacpp", "LLAMACPP_BASE_URL", props, "/props"),
        ("vllm", "VLLM_BASE_URL", list("max_model_len"), "/v1/models"),
        (
            "lmstudio",
            "LMSTUDIO_BASE_URL",
            list("loaded_context_length"),
            "/api/v0/models",
        ),
    ] {
        let (_runtime, server) = server([(200, answer)]);
        let spec = format!("{prefix}:m");
        let output = agent(&["--model", &spec, "--tools", "none"])
            .args(["--output", "json", "Go"])
            .env(variable, format!("{}/v1", server.url()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{spec}: {}", text(&output.stderr));
        assert_eq!(window(&output), 8_192, "{spec}");
        let sent = server.requests();
        let paths: Vec<_> = sent.iter().map(|sent| &*sent.path).collect();
        assert_eq!(paths, [path, "/v1/chat/completions"]);
    }
}

#[test]
fn server_without_a_context_window_still_answers() {
    let (_runtime, server) = server([(404, json!({})), (500, json!({}))]);
    let output = run(&server, &[]);
    assert_eq!(text(&output.stdout), "Hi\n");
}

#[test]
fn invalid_limits_exit_with_code_2() {
    for arguments in [
        ["--max-tokens", "0", "Go"],
        ["--max-tokens", "-1", "Go"],
        ["--context-window", "0", "Go"],
        ["--context-window", "many", "Go"],
    ] {
        let output = agent(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }

    let scripted = ["--model", "scripted", "--context-window", "4096", "Go"];
    let output = agent(&scripted).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
