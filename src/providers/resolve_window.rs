//! Models by name, with the context windows that their servers report.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::error::Result;
use crate::model::Model;

use super::ollama::Ollama;
use super::openai::{OpenAi, OpenAiAuto};
use super::resolve::{provider_and_name, resolve};
use super::responses::OpenAiResponses;
use super::servers::SERVERS;

/// The time limit of all requests to a server.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Creates the model that `spec` names, as [`resolve`] does, with the context window that its
/// server reports. The window is requested for `vllm:`, `llamacpp:`, `lmstudio:` and `ollama:`, and
/// for `openai:`, `openai-chat:` and `openai-responses:` at an address of an unknown server (see
/// [`Dialect::of`](super::openai::Dialect::of)). Other servers receive no request.
///
/// Takes at most two seconds. If the server cannot be reached, answers too late, refuses the key or
/// reports no window, the model has the window from [`resolve`]; a fault of the server or of the
/// key is then the error of its first request. Dropping the future cancels the requests.
///
/// ```no_run
/// # async fn example() -> agentcore::Result<()> {
/// let model = agentcore::providers::resolve_with_window("llamacpp:qwen3").await?;
/// println!("{} tokens", model.profile().context_window);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns the errors of [`resolve`].
pub async fn resolve_with_window(spec: &str) -> Result<Arc<dyn Model>> {
    let model = resolve(spec)?;
    let (provider, name) = provider_and_name(spec)?;
    match timeout(TIME_LIMIT, with_window(provider, name)).await {
        Ok(Ok(Some(sized))) => Ok(sized),
        Ok(Ok(None) | Err(_)) | Err(_) => Ok(model),
    }
}

/// Returns the model with the window that its server reports; `None` if it reports none.
async fn with_window(provider: &str, name: &str) -> Result<Option<Arc<dyn Model>>> {
    if provider == "ollama" {
        let model = Ollama::new(name);
        let tokens = model.read_context_window().await?;
        return Ok(tokens.map(|tokens| Arc::new(model.context_window(tokens)) as Arc<dyn Model>));
    }

    let server = SERVERS.iter().find(|server| server.prefix == provider);
    let chat = match (provider, server) {
        ("openai" | "openai-chat" | "openai-responses", _) => OpenAi::from_env(name)?,
        (_, Some(server)) if server.is_local() => server.chat_model(name)?,
        _ => return Ok(None),
    };
    let Some(tokens) = chat.read_context_window().await? else {
        return Ok(None);
    };

    let chat = chat.context_window(tokens);
    let responses = || OpenAiResponses::from_env(name).map(|one| one.context_window(tokens));
    Ok(Some(match provider {
        "openai" => Arc::new(OpenAiAuto::new(chat, responses()?)),
        "openai-responses" => Arc::new(responses()?),
        _ => Arc::new(chat),
    }))
}
