//! Models that are resolved from environment variables, in child processes.

use std::process::Command;

use agentcore::providers::{resolve, resolve_with_window};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Model, ModelRequest};
use serde_json::{Value, json};

use crate::kit::doubles::azure::{KEY, check};
use crate::kit::doubles::chat::Double;
use crate::kit::doubles::{anthropic, azure, bedrock, responses};

/// The variable of a process that also sends a request.
const CALL: &str = "AGENTCORE_TEST_RESOLVE_CALL";

/// The variable of a process that prints the context window that the server reports; `paused`
/// pauses the clock.
const WINDOW: &str = "AGENTCORE_TEST_RESOLVE_WINDOW";

/// The variable of a process that resolves a name and prints the result.
const CHILD: &str = "AGENTCORE_TEST_RESOLVE";

fn resolved(name: &str, variables: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "dialects::resolve::prefix_without_its_variable_names_it",
        ])
        .args(["--nocapture", "--test-threads=1"])
        .env_clear()
        .env(CHILD, name);
    let output = child.envs(variables.iter().copied()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = printed
        .lines()
        .find_map(|line| Some(line.split_once('@')?.1));
    line.unwrap_or_else(|| panic!("{printed}")).to_owned()
}

/// Returns the context window of a model, or the error of resolving it.
fn reported_window(name: &str, is_paused: bool) -> String {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(is_paused).build();
    match runtime.unwrap().block_on(resolve_with_window(name)) {
        Ok(model) => {
            let profile = model.profile();
            let (window, limit) = (profile.context_window, profile.max_output_tokens);
            format!("{} {window} {limit}", model.id())
        }
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

#[test]
fn prefix_without_its_variable_names_it() {
    if let Ok(name) = std::env::var(CHILD) {
        if let Ok(clock) = std::env::var(WINDOW) {
            println!("@{}", reported_window(&name, clock == "paused"));
            return;
        }

        match resolve(&name) {
            Ok(model) if std::env::var_os(CALL).is_some() => {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                let answer = runtime.block_on(model.call(ModelRequest::new("Hi")));
                println!("@{}", answer.unwrap().text());
            }
            Ok(model) => println!("@{}", model.id()),
            Err(error) => println!("@{:?}: {error}", error.kind()),
        }

        return;
    }

    let azure = ("AZURE_BASE_URL", "https://res.openai.azure.com");
    let region = ("AWS_REGION", "eu-west-1");
    let token = ("AWS_BEARER_TOKEN_BEDROCK", "k");
    for (name, variables, expected) in [
        ("mistral:m", vec![("MISTRAL_API_KEY", "k")], "mistral:m"),
        (
            "mistral:m",
            vec![],
            "Auth: mistral: there is no key; set the environment variable MISTRAL_API_KEY",
        ),
        ("deepseek:m", vec![("DEEPSEEK_API_KEY", "k")], "deepseek:m"),
        (
            "openrouter:a/b:free",
            vec![("OPENROUTER_API_KEY", "k")],
            "openrouter:a/b:free",
        ),
        ("groq:m", vec![("GROQ_API_KEY", "k")], "groq:m"),
        ("xai:m", vec![], "Auth: xai: there is no key; set the"),
        (
            "groq:m",
            vec![("GROQ_API_KEY", "k"), ("GROQ_BASE_URL", "ftp://host")],
            "Config: groq: the base URL has the scheme \"ftp\"; use http or https",
        ),
        ("vllm:qwen3", vec![], "vllm:qwen3"),
        ("llamacpp:qwen3:8b", vec![], "llamacpp:qwen3:8b"),
        ("lmstudio:qwen3", vec![], "lmstudio:qwen3"),
        (
            "azure:d",
            vec![("AZURE_API_KEY", "k")],
            "Config: azure: there is no address; set the environment variable AZURE_BASE_URL",
        ),
        (
            "azure:d",
            vec![azure],
            "Auth: azure: there is no key; set the environment variable AZURE_API_KEY",
        ),
        ("azure:d", vec![azure, ("AZURE_API_KEY", "k")], "azure:d"),
        (
            "azure:gpt-6-luna",
            vec![
                ("AZURE_BASE_URL", "https://res.openai.azure.com/openai/v1"),
                ("AZURE_API_KEY", "k"),
            ],
            "azure:gpt-6-luna",
        ),
        (
            "azure:a/b",
            vec![azure, ("AZURE_API_KEY", "k")],
            "Config: azure: \"a/b\" is no name of a deployment",
        ),
        (
            "bedrock:openai.gpt-oss-120b",
            vec![token],
            "Config: bedrock: there is no address; set the environment variable AWS_REGION or",
        ),
        (
            "bedrock:openai.gpt-oss-120b",
            vec![region],
            "Auth: bedrock: there is no key; set the environment variable BEDROCK_API_KEY",
        ),
        (
            "bedrock:openai.gpt-oss-120b",
            vec![region, token],
            "bedrock:openai.gpt-oss-120b",
        ),
        (
            "bedrock:openai.gpt-5.4",
            vec![region, token],
            "bedrock:openai.gpt-5.4",
        ),
        (
            "bedrock:anthropic.claude",
            vec![region, ("BEDROCK_API_KEY", "k")],
            "anthropic:anthropic.claude",
        ),
        (
            "bedrock:amazon.nova",
            vec![region, token],
            "Config: bedrock: the model \"amazon.nova\" is on none of Bedrock's APIs",
        ),
        (
            "nobody:m",
            vec![],
            "Config: the provider \"nobody\" is not known; write `provider:model` with one of: \
             anthropic, openai, openai-chat, openai-responses, gemini, google, ollama, mistral, \
             deepseek, openrouter, groq, xai, azure, bedrock, vllm, llamacpp, lmstudio",
        ),
    ] {
        let printed = resolved(name, &variables);
        assert!(
            printed.starts_with(expected),
            "{name} {variables:?}: {printed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_prefix_reaches_both_apis() {
    let (double, server) = Double::start(check, []).await;
    for path in ["", "/openai/v1", "/openai/v1/", "/openai/deployments/dep"] {
        let base_url = format!("{}{path}", server.url());
        let variables = [
            ("AZURE_BASE_URL", &*base_url),
            ("AZURE_API_KEY", KEY),
            (CALL, "1"),
        ];
        let printed = tokio::task::block_in_place(|| resolved("azure:dep", &variables));
        assert_eq!(printed, "ok", "{path}: {:?}", double.refusals());
    }
    let paths: Vec<_> = server
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    let current = "/openai/v1/chat/completions";
    let classic = "/openai/deployments/dep/chat/completions?api-version=2024-10-21";
    assert_eq!(paths, [classic, current, current, classic]);
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_deployment_with_a_known_name_is_asked_by_the_api_that_it_needs() {
    let answer = vec![responses::message("msg_1", "ok")];
    let (double, server) = responses::Double::start_behind(azure::check_responses, [answer]).await;
    let base_url = format!("{}/openai/v1", server.url());
    let variables = [
        ("AZURE_BASE_URL", &*base_url),
        ("AZURE_API_KEY", KEY),
        (CALL, "1"),
    ];
    let printed = tokio::task::block_in_place(|| resolved("azure:gpt-5.5-pro", &variables));
    assert_eq!(printed, "ok", "{:?}", double.refusals());
    assert_eq!(server.requests()[0].path, "/openai/v1/responses");
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn bedrock_prefix_reaches_the_api_of_each_model() {
    let (chat, chat_server) = Double::start(bedrock::check_chat, []).await;
    let (claude, claude_server) =
        anthropic::Double::start_behind(bedrock::check_messages, []).await;
    let answer = vec![responses::message("msg_1", "ok")];
    let (gpt, gpt_server) =
        responses::Double::start_behind(bedrock::check_responses, [answer]).await;
    for (name, server, text) in [
        ("bedrock:openai.gpt-oss-120b", &chat_server, "ok"),
        ("bedrock:anthropic.claude-sonnet-5", &claude_server, "Done."),
        ("bedrock:openai.gpt-5.4", &gpt_server, "ok"),
    ] {
        let base_url = server.url();
        let variables = [
            ("BEDROCK_BASE_URL", &*base_url),
            ("AWS_BEARER_TOKEN_BEDROCK", bedrock::KEY),
            (CALL, "1"),
        ];
        let printed = tokio::task::block_in_place(|| resolved(name, &variables));
        let refusals = [chat.refusals(), claude.refusals(), gpt.refusals()];
        assert_eq!(printed, text, "{name}: {refusals:?}");
    }
}

/// Checks the servers of all prefixes, and the variables of their addresses.
#[tokio::test(flavor = "multi_thread")]
async fn context_window_is_read_from_the_server_of_the_prefix() {
    let models = |own: Value| json!({"data": [{"id": "other"}, own]});
    let props = json!({"default_generation_settings": {"n_ctx": 4_096}});
    let vllm = models(json!({"id": "m", "max_model_len": 32_768}));
    let lm_studio = models(json!({"id": "m", "loaded_context_length": 16_384}));
    let ollama = json!({"models": [{"name": "m:latest", "context_length": 2_048}]});
    for (name, variable, end, answer, path, expected) in [
        (
            "llamacpp:m",
            "LLAMACPP_BASE_URL",
            "/v1",
            &props,
            "/props",
            "llamacpp:m 4096 4096",
        ),
        (
            "vllm:m",
            "VLLM_BASE_URL",
            "/v1",
            &vllm,
            "/v1/models",
            "vllm:m 32768 8192",
        ),
        (
            "lmstudio:m",
            "LMSTUDIO_BASE_URL",
            "/v1",
            &lm_studio,
            "/api/v0/models",
            "lmstudio:m 16384 8192",
        ),
        (
            "openai:m",
            "OPENAI_BASE_URL",
            "/v1",
            &props,
            "/props",
            "openai:m 4096 4096",
        ),
        (
            "openai-chat:m",
            "OPENAI_BASE_URL",
            "/v1",
            &props,
            "/props",
            "openai:m 4096 4096",
        ),
        (
            "openai-responses:m",
            "OPENAI_BASE_URL",
            "/v1",
            &props,
            "/props",
            "openai:m 4096 4096",
        ),
        (
            "ollama:m",
            "OLLAMA_HOST",
            "",
            &ollama,
            "/api/ps",
            "ollama:m 2048 2048",
        ),
    ] {
        let server = FaultServer::start().await.unwrap();
        server.reply(Reply::json(200, answer.to_string()));
        let base_url = format!("{}{end}", server.url());
        let variables = [(variable, &*base_url), (WINDOW, "1")];
        let printed = tokio::task::block_in_place(|| resolved(name, &variables));
        assert_eq!(printed, expected, "{name}");
        let paths: Vec<_> = server
            .requests()
            .into_iter()
            .map(|sent| sent.path)
            .collect();
        assert_eq!(paths, [path], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_reports_no_window_leaves_the_known_one() {
    let key = ("VLLM_API_KEY", "key-1234");
    for (reply, clock) in [
        (Reply::json(404, "{}"), "1"),
        (Reply::json(500, "{}"), "1"),
        (Reply::json(401, "{}"), "1"),
        (Reply::json(200, "{not json"), "1"),
        (
            Reply::json(200, r#"{"data":[{"id":"m","max_model_len":-5}]}"#),
            "1",
        ),
        (
            Reply::json(200, format!("\"{}\"", "x".repeat(8_000_000))),
            "1",
        ),
        (Reply::new(200).send("{").stall(), "paused"),
    ] {
        let server = FaultServer::start().await.unwrap();
        server.fallback(reply);
        for (name, variable) in [
            ("vllm:m", "VLLM_BASE_URL"),
            ("llamacpp:m", "LLAMACPP_BASE_URL"),
            ("lmstudio:m", "LMSTUDIO_BASE_URL"),
        ] {
            let base_url = format!("{}/v1", server.url());
            let variables = [(variable, &*base_url), (WINDOW, clock), key];
            let printed = tokio::task::block_in_place(|| resolved(name, &variables));
            assert_eq!(printed, format!("{name} 128000 8192"));
        }
    }

    let nowhere = ("VLLM_BASE_URL", "http://127.0.0.1:1/v1");
    assert_eq!(
        resolved("vllm:m", &[nowhere, (WINDOW, "1")]),
        "vllm:m 128000 8192"
    );
    let wrong = ("VLLM_BASE_URL", "not an address");
    let printed = resolved("vllm:m", &[wrong, (WINDOW, "1")]);
    assert!(printed.starts_with("Config: "), "{printed}");
    // Mistral reports no window, so the model is that of `resolve`.
    let printed = resolved("mistral:m", &[("MISTRAL_API_KEY", "k"), (WINDOW, "1")]);
    assert_eq!(printed, "mistral:m 128000 8192");
    let printed = resolved("nobody:m", &[(WINDOW, "1")]);
    assert!(printed.starts_with("Config: the provider"), "{printed}");
}
