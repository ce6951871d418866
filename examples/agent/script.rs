//! A model that follows a script.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agentcore::serde_json::{self, Value};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{Error, Model};
use serde::Deserialize;

use super::args::usage;

/// One response of the model: its text and its calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    args: Value,
}

/// The model of a file `[{"text": "..", "calls": [{"name": "Read", "args": {..}}]}, ..]`. Each item
/// is the response to one request, regardless of its content.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or has another form.
pub(crate) fn model(file: &Path) -> Result<Arc<dyn Model>, Error> {
    let script_error = |error: String| usage(format!("the script {}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| script_error(error.to_string()))?;
    let responses: Vec<Response> =
        serde_json::from_str(&text).map_err(|error| script_error(error.to_string()))?;
    let steps = responses.into_iter().map(|response| {
        let step = match response.text.as_str() {
            "" => Step::new(),
            text => Step::text(text),
        };

        let calls = response.calls.into_iter();
        calls.fold(step, |step, call| step.and_call(call.name, call.args))
    });

    let model = steps.fold(ScriptedModel::new(), ScriptedModel::step);
    model.allow_unused();
    Ok(Arc::new(model))
}
