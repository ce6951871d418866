//! The choice of the model.

use std::path::Path;
use std::sync::Arc;

use agentcore::model::{ModelProfile, ModelStream};
use agentcore::providers::{Anthropic, Gemini, Ollama, OpenAi, OpenAiAuto, OpenAiResponses};
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, Error, ErrorKind, Model, ModelRequest, async_trait, providers};

use super::script;

/// The model of `spec`, else of the environment: `AGENTCORE_MODEL`, or one of the provider whose
/// key is set. Its context window is `window`, else the one that its server reports, else that of
/// the table of models.
///
/// # Errors
///
/// Returns an error if no model is named, or it cannot be used. The error names the variable to
/// set.
pub(crate) async fn choose(
    spec: Option<&str>,
    window: Option<u64>,
) -> Result<Arc<dyn Model>, Error> {
    let spec = spec.map(str::to_owned);
    let spec = spec.or_else(AgentBuilder::model_from_env);
    match spec.as_deref() {
        Some(spec) if window.is_some() && spec.starts_with("scripted") => {
            let text = "--context-window needs the model of a provider";
            Err(Error::new(ErrorKind::Config, text))
        }
        Some("scripted") => Ok(Arc::new(echo())),
        Some(spec) if spec.starts_with("scripted:") => {
            script::model(Path::new(&spec["scripted:".len()..]))
        }
        Some(spec) => with_window(spec, window).await,
        None => Err(Error::new(
            ErrorKind::Config,
            "no model: give --model provider:model or set AGENTCORE_MODEL, or set \
             ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY; `--model scripted` needs none",
        )),
    }
}

/// The model with this context window, else with the one that its server reports.
async fn with_window(spec: &str, window: Option<u64>) -> Result<Arc<dyn Model>, Error> {
    let Some(window) = window else {
        return providers::resolve_with_window(spec).await;
    };

    let model = providers::resolve(spec)?;
    let (provider, name) = model.id().split_once(':').unwrap_or_default();
    // The id names the API, and the prefix the server.
    let prefix = spec.split_once(':').map_or(provider, |(prefix, _)| prefix);
    Ok(match prefix.trim() {
        "openai" => Arc::new(OpenAiAuto::new(
            OpenAi::from_env(name)?.context_window(window),
            OpenAiResponses::from_env(name)?.context_window(window),
        )),
        "openai-chat" => Arc::new(OpenAi::from_env(name)?.context_window(window)),
        "openai-responses" => Arc::new(OpenAiResponses::from_env(name)?.context_window(window)),
        "gemini" | "google" => Arc::new(Gemini::from_env(name)?.context_window(window)),
        "ollama" => Arc::new(Ollama::new(name).context_window(window)),
        "anthropic" => Arc::new(Anthropic::from_env(name)?.context_window(window)),
        _ => Arc::new(WithWindow {
            profile: model.profile().with_context_window(window),
            model,
        }),
    })
}

/// A model of another server, with a context window of its own.
struct WithWindow {
    model: Arc<dyn Model>,
    profile: ModelProfile,
}

#[async_trait]
impl Model for WithWindow {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, Error> {
        self.model.stream(request).await
    }

    async fn count_tokens(&self, request: ModelRequest) -> Result<Option<u64>, Error> {
        self.model.count_tokens(request).await
    }
}

/// Checks that the price of a model is known, which a budget of money needs.
///
/// # Errors
///
/// Returns an error if the price is unknown.
pub(crate) fn check_price(model: &dyn Model) -> Result<(), Error> {
    if model.profile().prices.is_some() {
        return Ok(());
    }
    let text = format!(
        "--max-budget-usd needs a model whose price is known, and that of {:?} is not",
        model.id()
    );
    Err(Error::new(ErrorKind::Config, text))
}

/// A model that repeats its input.
fn echo() -> FunctionModel {
    FunctionModel::text(|request| request.messages.last_content().into_owned())
        .with_id("scripted:echo")
}
