//! The body of a request to Ollama's chat API.

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::model::{ModelRequest, ResponseFormat, ToolChoice};

use super::super::encode::{Encoded, KeptBody, encode};
use super::messages::ChatWire;
use super::think::think_value;

/// The data that a body depends on in addition to the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) kept_body: &'a KeptBody,
    pub(super) num_ctx: Option<u64>,
    pub(super) takes_images: bool,
    /// The output limit; `None` leaves it to the server.
    pub(super) max_output_tokens: Option<u32>,
}

/// Returns the body.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) for a mode of thinking that the model
/// does not have.
pub(super) fn body(request: &ModelRequest, defaults: &Options<'_>) -> Result<Encoded> {
    let model = request.model.as_deref().unwrap_or(defaults.model);
    let mode = request.settings.thinking.as_ref();
    let think = mode.map(|mode| think_value(mode, model)).transpose()?;
    let mut extra = request.extra.clone();
    let options = merged_options(request, defaults, &mut extra);
    let wire = ChatWire {
        takes_images: defaults.takes_images,
    };
    let kept_body = defaults.kept_body;
    encode(&wire, kept_body, request, &extra, |fields, sections| {
        fields.put("model", model)?;
        fields.put("stream", &true)?;

        // This API has no choice of tools; the only possible choice is to omit them.
        if !sections.tools.is_empty() && request.tool_choice != ToolChoice::None {
            fields.raw("tools", sections.tools)?;
        }

        fields.option("format", request.response_format.as_ref().map(format))?;
        fields.option("think", think)?;
        if !options.is_empty() {
            fields.put("options", &options)?;
        }

        Ok(sections.system.into())
    })
}

/// Returns the sampling options, where options in `extra` take precedence.
fn merged_options(
    request: &ModelRequest,
    defaults: &Options<'_>,
    extra: &mut Map<String, Value>,
) -> Map<String, Value> {
    let mut out = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(name.to_owned(), value);
        }
    };

    let settings = &request.settings;
    set("num_ctx", defaults.num_ctx.map(Value::from));
    set("num_predict", defaults.max_output_tokens.map(Value::from));
    set("temperature", request.temperature.map(Value::from));
    set("top_p", settings.top_p.map(Value::from));
    set("top_k", settings.top_k.map(Value::from));
    set("seed", settings.seed.map(Value::from));
    set(
        "stop",
        (!request.stop.is_empty()).then(|| json!(&*request.stop)),
    );
    if let Some(Value::Object(own)) = extra.get_mut("options") {
        out.extend(std::mem::take(own));
        extra.remove("options");
    }

    out
}

fn format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::JsonObject => json!("json"),
        ResponseFormat::JsonSchema { schema, .. } => (**schema).clone(),
    }
}
