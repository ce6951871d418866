//! The creation of models from their names.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::util::text::truncate;

use super::anthropic::Anthropic;
use super::gemini::Gemini;
use super::ollama::Ollama;
use super::openai::{OpenAi, OpenAiAuto};
use super::responses::OpenAiResponses;
use super::servers::SERVERS;

/// The maximum number of characters of a name that an error quotes.
const NAME_CHARS: usize = 100;

/// A function that creates a model from its name and the environment.
type FromEnv = fn(&str) -> Result<Arc<dyn Model>>;

/// Every provider with its own API: its name before the colon, and the constructor of its models.
const PROVIDERS: &[(&str, FromEnv)] = &[
    ("anthropic", |name| Ok(Arc::new(Anthropic::from_env(name)?))),
    ("openai", |name| Ok(Arc::new(OpenAiAuto::from_env(name)?))),
    ("openai-chat", |name| Ok(Arc::new(OpenAi::from_env(name)?))),
    ("openai-responses", |name| {
        Ok(Arc::new(OpenAiResponses::from_env(name)?))
    }),
    ("gemini", |name| Ok(Arc::new(Gemini::from_env(name)?))),
    ("google", |name| Ok(Arc::new(Gemini::from_env(name)?))),
    ("ollama", |name| Ok(Arc::new(Ollama::new(name)))),
];

/// Creates the model that `spec` names: `provider:model`, split at the first colon, so that
/// `ollama:llama3.1:8b` is the model `llama3.1:8b`. `claude-*`, `gemini-*` and OpenAI's `gpt-*` and
/// `o` with a digit need no provider. `google:` is the same as `gemini:`. `openai:` chooses between
/// OpenAI's two APIs as [`OpenAiAuto`](super::OpenAiAuto) does; `openai-chat:` and
/// `openai-responses:` choose one.
///
/// Keys are read from the environment variables `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`,
/// `GEMINI_API_KEY` or `GOOGLE_API_KEY`, and other addresses from `ANTHROPIC_BASE_URL`,
/// `OPENAI_BASE_URL`, `GEMINI_BASE_URL` and `OLLAMA_HOST`.
///
/// ```
/// use agentcore::providers::resolve;
///
/// let model = resolve("ollama:llama3.1:8b")?;
/// assert_eq!(model.id(), "ollama:llama3.1:8b");
/// # Ok::<(), agentcore::Error>(())
/// ```
///
/// Servers that speak Chat Completions are `mistral:`, `deepseek:`, `openrouter:`, `groq:`, `xai:`,
/// `azure:` (the model is the name of a deployment), `bedrock:`, `vllm:`, `llamacpp:` and
/// `lmstudio:`. Their variables are named after them: `MISTRAL_API_KEY`, and `MISTRAL_BASE_URL` for
/// another address. Azure needs both; at an address with `/openai/v1`, a deployment with the name
/// of one of OpenAI's models is called through both APIs, as with `openai:`. Bedrock also reads
/// `AWS_BEARER_TOKEN_BEDROCK` and `AWS_REGION`; the last three are local and need neither.
///
/// [`resolve_with_window`](super::resolve_with_window) also requests the context window of the
/// model from a local server.
///
/// # Errors
///
/// Returns [`Config`](ErrorKind::Config) for a name without a known provider, and the errors of the
/// provider's `from_env`, such as for a missing variable.
pub fn resolve(spec: &str) -> Result<Arc<dyn Model>> {
    let (provider, name) = provider_and_name(spec)?;
    let server = SERVERS.iter().find(|server| server.prefix == provider);
    match PROVIDERS.iter().find(|(known, _)| *known == provider) {
        Some((_, from_env)) => from_env(name),
        None => match server {
            Some(server) => server.resolve(name),
            None => Err(unknown(&format!(
                "the provider {} is not known",
                quote(provider)
            ))),
        },
    }
}

/// Returns the provider of a specification, which may be unknown, and the model's name.
pub(super) fn provider_and_name(spec: &str) -> Result<(&str, &str)> {
    let spec = spec.trim();
    let (provider, name) = match (bare_provider(spec), spec.split_once(':')) {
        (Some(provider), _) => (provider, spec),
        (None, Some((provider, name))) => (provider, name),
        (None, None) => {
            return Err(unknown(&format!(
                "the model {} names no provider",
                quote(spec)
            )));
        }
    };

    let name = name.trim();
    if name.is_empty() {
        return Err(unknown(&format!("{} names no model", quote(spec))));
    }

    Ok((provider, name))
}

/// Returns the provider of a name without one.
fn bare_provider(name: &str) -> Option<&'static str> {
    let is_o_series = || {
        let mut chars = name.chars();
        chars.next() == Some('o') && chars.next().is_some_and(|c| c.is_ascii_digit())
    };
    if name.starts_with("claude-") {
        Some("anthropic")
    } else if name.starts_with("gpt-") || is_o_series() {
        Some("openai")
    } else if name.starts_with("gemini-") {
        Some("gemini")
    } else {
        None
    }
}

/// Returns a name as an error quotes it: a long name is cut.
fn quote(name: &str) -> String {
    format!("{:?}", truncate(name, NAME_CHARS))
}

fn unknown(problem: &str) -> Error {
    let servers = SERVERS.iter().map(|server| server.prefix);
    let names: Vec<&str> = PROVIDERS
        .iter()
        .map(|(name, _)| *name)
        .chain(servers)
        .collect();
    Error::new(
        ErrorKind::Config,
        format!(
            "{problem}; write `provider:model` with one of: {}",
            names.join(", ")
        ),
    )
}
