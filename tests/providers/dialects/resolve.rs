//! Models of other servers from the environment, which a process of its own has.

use std::process::Command;

use agentcore::providers::resolve;
use agentcore::{Model, ModelRequest};

use crate::kit::doubles::azure::{KEY, check};
use crate::kit::doubles::chat::Double;
use crate::kit::doubles::{anthropic, bedrock, responses};

/// Set in the process that also sends a request.
const CALL: &str = "AGENTCORE_TEST_RESOLVE_CALL";

/// Set in the process that resolves a name and prints the result.
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

#[test]
fn prefix_without_its_variable_names_it() {
    if let Ok(name) = std::env::var(CHILD) {
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
            "Config: groq: the base URL has the scheme \"ftp\"",
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
