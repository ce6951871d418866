//! Which model answers.

use std::env;
use std::path::Path;
use std::sync::Arc;

use agentcore::testing::FunctionModel;
use agentcore::{Error, ErrorKind, Model, providers};

use super::script;

/// The model of `spec`, else of the environment: `AGENTCORE_MODEL`, or one of the provider whose
/// key is set.
///
/// # Errors
///
/// When nothing names a model, or what names it cannot be used; the text says what to set.
pub(crate) fn choose(spec: Option<&str>) -> Result<Arc<dyn Model>, Error> {
    let var = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
    let spec = spec
        .map(str::to_owned)
        .or_else(|| var("AGENTCORE_MODEL"))
        .or_else(|| var("ANTHROPIC_API_KEY").map(|_| "anthropic:claude-sonnet-4-5".to_owned()))
        .or_else(|| var("OPENAI_API_KEY").map(|_| "openai:gpt-5-mini".to_owned()));
    match spec.as_deref() {
        Some("scripted") => Ok(Arc::new(echo())),
        Some(spec) if spec.starts_with("scripted:") => {
            script::model(Path::new(&spec["scripted:".len()..]))
        }
        Some(spec) => providers::resolve(spec),
        None => Err(Error::new(
            ErrorKind::Config,
            "no model: give --model provider:model or set AGENTCORE_MODEL, or set \
             ANTHROPIC_API_KEY or OPENAI_API_KEY; `--model scripted` needs neither",
        )),
    }
}

/// A budget of money needs to know what the model costs.
///
/// # Errors
///
/// When it does not.
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

/// A model that repeats what it was told.
fn echo() -> FunctionModel {
    FunctionModel::text(|request| request.messages.last_content().into_owned())
        .with_id("scripted:echo")
}
