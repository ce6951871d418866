//! Providers with the real servers that environment variables name.
//!
//! Each variable holds an address and a model, `ADDRESS MODEL`:
//!
//! * `AGENTCORE_TEST_OPENAI`, such as `http://127.0.0.1:8080/v1 smollm2`: any server of Chat
//!   Completions, for example llama.cpp's `llama-server -m MODEL.gguf --port 8080`.
//! * `AGENTCORE_TEST_ANTHROPIC`, such as `http://127.0.0.1:8080 smollm2`: any server of the
//!   Messages API; llama.cpp has it too.
//! * `AGENTCORE_TEST_RESPONSES`, such as `http://127.0.0.1:8080/v1 smollm2`: any server of the
//!   Responses API; llama.cpp and aimock have it.
//! * `AGENTCORE_TEST_GEMINI`, such as `http://127.0.0.1:4010/v1beta gemini-3.8-flash`: a server
//!   of the Gemini API, with its version.
//! * `AGENTCORE_TEST_OLLAMA`, such as `http://127.0.0.1:11434 llama3.1:8b`.
//!
//! `AGENTCORE_TEST_DIALECTS` has further dialects, such as `llamacpp vllm`, for the server of
//! `AGENTCORE_TEST_OPENAI`.
//!
//! Without its variable, a test prints that it is skipped, and passes.

use std::time::Duration;

use agentcore::hooks::SummarizationHook;
use agentcore::model::ModelProfile;
use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAi, OpenAiAuto, OpenAiResponses};
use agentcore::testing::{StrictModel, conformance};
use agentcore::{AgentBuilder, ExitReason, Model};

/// Returns the address and the model that `variable` names.
fn server(variable: &str) -> Option<(String, String)> {
    let Ok(value) = std::env::var(variable) else {
        eprintln!("skipped: set {variable} to \"ADDRESS MODEL\" to run this test");
        return None;
    };
    let (address, model) = value.split_once(' ').expect("ADDRESS MODEL");
    Some((address.to_owned(), model.to_owned()))
}

/// Runs a session twice, and checks the model with the conformance suite.
async fn converse<M: Model>(make: impl Fn() -> M) {
    let agent = AgentBuilder::new(StrictModel::new(make()))
        .system_prompt("Answer in one short sentence.")
        .max_output_tokens(40)
        .include_partial_messages(true)
        .build()
        .unwrap();
    for prompt in ["What is the capital of France?", "And of Italy?"] {
        let output = agent.session("talk").run(prompt).await.unwrap();
        let expected = [ExitReason::EndTurn, ExitReason::MaxTokens];
        assert!(expected.contains(&output.end), "{}", output.end);
        assert!(!output.text.trim().is_empty());
        assert!(output.usage.output_tokens > 0, "{:?}", output.usage);
        output.messages.validate_for_model().unwrap();
    }

    conformance::model(make).await.unwrap();
}

#[tokio::test]
async fn real_openai() {
    if let Some((address, model)) = server("AGENTCORE_TEST_OPENAI") {
        converse(|| OpenAi::compatible(&address, model.as_str()).max_output_tokens(40)).await;
    }
}

/// Runs thirty turns in a window that holds about a third of them. The server must accept every
/// request, also those after a summary.
#[tokio::test]
async fn real_openai_through_compaction() {
    let Some((address, model)) = server("AGENTCORE_TEST_OPENAI") else {
        return;
    };

    // Answers and summaries are short, because the server may be slow.
    let profile = ModelProfile::default()
        .with_context_window(1_200)
        .with_max_output_tokens(80);
    let model = OpenAi::compatible(&address, model.as_str()).with_profile(profile);
    let agent = AgentBuilder::new(StrictModel::new(model))
        .system_prompt("Answer in one short sentence.")
        .max_output_tokens(20)
        .hook(SummarizationHook::new().with_timeout(Duration::from_secs(600)))
        .build()
        .unwrap();
    let mut summaries = Vec::new();
    for turn in 0..30 {
        let prompt = format!(
            "Tell me something about the number {turn}. {}",
            "Please. ".repeat(20)
        );
        let output = agent.session("long").run(prompt).await.unwrap();
        assert!(!output.text.trim().is_empty());
        assert_eq!(
            output.messages.len(),
            2 * (turn + 1),
            "the history is whole"
        );
        output.messages.validate_for_model().unwrap();
        if let Some(made) = output.state.compaction
            && summaries.last() != Some(&made)
        {
            summaries.push(made);
        }
    }

    assert!(summaries.len() > 1, "{summaries:?}");
    let covered = summaries.iter().map(|made| made.through_message);
    assert!(covered.is_sorted_by(|a, b| a < b));
    assert!(summaries.iter().all(|made| !made.summary.trim().is_empty()));
}

#[tokio::test]
async fn real_anthropic() {
    if let Some((address, model)) = server("AGENTCORE_TEST_ANTHROPIC") {
        converse(|| {
            Anthropic::new(model.as_str(), "no-key")
                .base_url(&address)
                .max_output_tokens(40)
        })
        .await;
    }
}

/// Returns the dialect of this name, as the prefix of a model spells it.
fn dialect(name: &str) -> Dialect {
    match name {
        "openai" => Dialect::openai(),
        "azure" => Dialect::azure(),
        "openrouter" => Dialect::openrouter(),
        "deepseek" => Dialect::deepseek(),
        "mistral" => Dialect::mistral(),
        "groq" => Dialect::groq(),
        "xai" => Dialect::xai(),
        "gemini" => Dialect::gemini(),
        "bedrock" => Dialect::bedrock(),
        "vllm" => Dialect::vllm(),
        "llamacpp" => Dialect::llama_cpp(),
        "lmstudio" => Dialect::lm_studio(),
        name => panic!("no dialect {name:?}"),
    }
}

#[tokio::test]
async fn real_dialects() {
    let Ok(names) = std::env::var("AGENTCORE_TEST_DIALECTS") else {
        eprintln!("skipped: set AGENTCORE_TEST_DIALECTS to names of dialects to run this test");
        return;
    };
    let Some((address, model)) = server("AGENTCORE_TEST_OPENAI") else {
        return;
    };
    for name in names.split_whitespace() {
        eprintln!("{name}");
        converse(|| {
            OpenAi::compatible(&address, model.as_str())
                .dialect(dialect(name))
                .key("no-key")
                .max_output_tokens(40)
        })
        .await;
    }
}

#[tokio::test]
async fn real_responses() {
    let Some((address, model)) = server("AGENTCORE_TEST_RESPONSES") else {
        return;
    };
    let responses = || {
        OpenAiResponses::compatible(&address, model.as_str())
            .key("no-key")
            .max_output_tokens(40)
    };
    converse(responses).await;
    // A server of the Responses API also has Chat Completions.
    let chat = || {
        OpenAi::compatible(&address, model.as_str())
            .key("no-key")
            .max_output_tokens(40)
    };
    converse(|| OpenAiAuto::new(chat(), responses())).await;
}

#[tokio::test]
async fn real_gemini() {
    if let Some((address, model)) = server("AGENTCORE_TEST_GEMINI") {
        converse(|| {
            Gemini::new(model.as_str(), "no-key")
                .base_url(&address)
                .max_output_tokens(40)
        })
        .await;
    }
}

#[tokio::test]
async fn real_ollama() {
    if let Some((address, model)) = server("AGENTCORE_TEST_OLLAMA") {
        converse(|| {
            Ollama::new(model.as_str())
                .base_url(&address)
                .max_output_tokens(40)
        })
        .await;
    }
}
