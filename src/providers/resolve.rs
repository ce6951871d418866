//! The creation of models from their names.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::util::text::truncate_redacted;

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
/// `o` with a digit need no provider.
///
/// The key, and an address other than the provider's own, are read from the environment:
///
/// | provider | type | key | address |
/// |---|---|---|---|
/// | `anthropic` | [`Anthropic`] | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL` |
/// | `openai` | [`OpenAiAuto`] | `OPENAI_API_KEY` | `OPENAI_BASE_URL` |
/// | `openai-chat` | [`OpenAi`] | `OPENAI_API_KEY` | `OPENAI_BASE_URL` |
/// | `openai-responses` | [`OpenAiResponses`] | `OPENAI_API_KEY` | `OPENAI_BASE_URL` |
/// | `gemini`, `google` | [`Gemini`] | `GEMINI_API_KEY` or `GOOGLE_API_KEY` | `GEMINI_BASE_URL` |
/// | `ollama` | [`Ollama`] | | `OLLAMA_HOST` |
/// | the servers below | usually [`OpenAi`] | `NAME_API_KEY` | `NAME_BASE_URL` |
///
/// ```
/// use agentcore::providers::resolve;
///
/// let model = resolve("ollama:llama3.1:8b")?;
/// assert_eq!(model.id(), "ollama:llama3.1:8b");
/// # Ok::<(), agentcore::Error>(())
/// ```
///
/// # Other servers
///
/// The variables of these servers are named after them, such as `MISTRAL_API_KEY`:
///
/// * `mistral`, `deepseek`, `openrouter`, `groq` and `xai` need a key.
/// * `azure` needs a key and an address, and the model is the name of a deployment. At an address
///   with `/openai/v1`, a deployment with the name of one of OpenAI's models is called through both
///   APIs, as with `openai`.
/// * `bedrock` needs a key, or `AWS_BEARER_TOKEN_BEDROCK`, and an address, or `AWS_REGION`. Each
///   model is called through the API that Bedrock has for it.
/// * `vllm`, `llamacpp` and `lmstudio` are local and need neither. Their models have no prices.
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
    if let Some((_, from_env)) = PROVIDERS.iter().find(|(prefix, _)| *prefix == provider) {
        return from_env(name);
    }
    match SERVERS.iter().find(|server| server.prefix == provider) {
        Some(server) => server.resolve(name),
        None => Err(unknown(&format!(
            "the provider {} is not known",
            quote(provider)
        ))),
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
    format!("{:?}", truncate_redacted(name, NAME_CHARS))
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
