//! The body of a request to the Gemini API.

use std::borrow::Cow;
use std::mem;

use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{HostedTool, ModelRequest, ResponseFormat, ToolChoice};

use super::super::encode::{Encoded, Items, KeptBody, encode};
use super::super::fields::BodyFields;
use super::super::gemini_family::{Family, ThinkingControl};
use super::super::hosted::with_hosted;
use super::super::schema::gemini::declared;
use super::super::schema::{any_object, instruction};
use super::chunks::PROVIDER;
use super::contents::{Backend, ContentWire, write_text_part};
use super::thinking::thinking_config;

/// The maximum seed: the API has 32 bits for it.
const MAX_SEED: u64 = i32::MAX as u64;

/// The data that a body depends on in addition to the request.
pub(super) struct Options<'a> {
    pub(super) model: &'a str,
    pub(super) kept_body: &'a KeptBody,
    pub(super) family: Family,
    pub(super) backend: Backend,
    pub(super) takes_images: bool,
    /// The output limit that is sent, if one is.
    pub(super) max_output_tokens: Option<u32>,
}

/// The kinds of tools that a request has.
struct Tools {
    has_functions: bool,
    has_hosted: bool,
}

/// Returns the body, and warnings about settings that it omits.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for settings that the model does not have.
pub(super) fn body(
    request: &ModelRequest,
    options: &Options<'_>,
) -> Result<(Encoded, Vec<String>)> {
    // The API's choice of tools concerns functions only, so hosted tools are omitted.
    let hosted_tools: &[HostedTool] = match request.tool_choice {
        ToolChoice::None => &[],
        _ => &request.hosted_tools,
    };
    let tools = Tools {
        has_functions: !request.tools.is_empty(),
        has_hosted: hosted_tools.iter().any(|tool| &*tool.provider == PROVIDER),
    };
    check_tools(&tools, options)?;
    let family = options.family;
    let wire = ContentWire {
        backend: options.backend,
        is_modern: family.is_modern,
        takes_images: options.takes_images,
        thinks: family.thinking != ThinkingControl::None,
    };

    let mut extra = request.extra.clone();
    let form = answer_form(request, &tools, family);
    let (config, mut warnings) = generation_config(request, options, &form, &mut extra)?;
    let kept_body = options.kept_body;
    let encoded = encode(&wire, kept_body, request, &extra, |fields, sections| {
        if let AnswerForm::Instruction(text) = &form {
            fields.raw("systemInstruction", &with_text(sections.system, text)?)?;
        } else if !sections.system.is_empty() {
            fields.raw("systemInstruction", sections.system)?;
        }

        let (list, warning) = with_hosted(sections.tools, hosted_tools, Some(PROVIDER))?;
        warnings.extend(warning);
        if !list.is_empty() {
            fields.raw("tools", &list)?;
        }

        put_tool_config(request, &tools, options, fields)?;
        if !config.is_empty() {
            fields.put("generationConfig", &config)?;
        }

        Ok(Cow::default())
    })?;

    Ok((encoded, warnings))
}

fn check_tools(tools: &Tools, options: &Options<'_>) -> Result<()> {
    if options.family.is_modern || !tools.has_functions || !tools.has_hosted {
        return Ok(());
    }

    Err(Error::new(
        ErrorKind::Config,
        format!(
            "the model {} does not combine functions with the provider's own tools; remove one of \
             them, or use a model from Gemini 3 on",
            options.model
        ),
    ))
}

fn put_tool_config(
    request: &ModelRequest,
    tools: &Tools,
    options: &Options<'_>,
    fields: &mut BodyFields<'_>,
) -> Result<()> {
    let mut config = Map::new();
    // The API refuses a choice without functions.
    if let Some(choice) = choose_tool(&request.tool_choice).filter(|_| tools.has_functions) {
        config.insert("functionCallingConfig".to_owned(), choice);
    }

    // Vertex AI does not have the field.
    if tools.has_hosted && options.family.is_modern && options.backend == Backend::GeminiApi {
        config.insert("includeServerSideToolInvocations".to_owned(), true.into());
    }

    if config.is_empty() {
        return Ok(());
    }
    fields.put("toolConfig", &config)
}

fn choose_tool(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [&**name]}),
    })
}

/// The way in which the form of the answer is set.
enum AnswerForm<'a> {
    Free,
    /// Any JSON.
    Json,
    Schema(&'a Value),
    /// The text of the instruction, for models that do not combine JSON with tools.
    Instruction(String),
}

fn answer_form<'a>(request: &'a ModelRequest, tools: &Tools, family: Family) -> AnswerForm<'a> {
    let has_tools = tools.has_functions || tools.has_hosted;
    let can_require_json = family.is_modern || !has_tools;
    match &request.response_format {
        None => AnswerForm::Free,
        Some(ResponseFormat::JsonObject) if can_require_json => AnswerForm::Json,
        Some(ResponseFormat::JsonObject) => AnswerForm::Instruction(instruction(&any_object())),
        Some(ResponseFormat::JsonSchema { schema, .. }) if can_require_json => {
            AnswerForm::Schema(schema)
        }
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            AnswerForm::Instruction(instruction(schema))
        }
    }
}

/// Returns the field `generationConfig`, in which the fields of `extra` take precedence, and
/// warnings about settings that it omits.
fn generation_config(
    request: &ModelRequest,
    options: &Options<'_>,
    form: &AnswerForm<'_>,
    extra: &mut Map<String, Value>,
) -> Result<(Map<String, Value>, Vec<String>)> {
    let settings = &request.settings;
    let (thinking, warning) = thinking_config(request, options.model, options.family.thinking)?;
    let stop = (!request.stop.is_empty()).then(|| json!(&*request.stop));
    let (mime_type, schema) = match form {
        AnswerForm::Free | AnswerForm::Instruction(_) => (None, None),
        AnswerForm::Json => (Some("application/json"), None),
        AnswerForm::Schema(schema) => (Some("application/json"), Some(declared(schema))),
    };

    let mut config = Map::new();
    for (name, value) in [
        (
            "maxOutputTokens",
            options.max_output_tokens.map(Value::from),
        ),
        ("temperature", request.temperature.map(Value::from)),
        ("topP", settings.top_p.map(Value::from)),
        ("topK", settings.top_k.map(Value::from)),
        (
            "seed",
            settings.seed.map(|seed| Value::from(seed & MAX_SEED)),
        ),
        ("stopSequences", stop),
        ("responseMimeType", mime_type.map(Value::from)),
        ("responseJsonSchema", schema),
        ("thinkingConfig", thinking),
    ] {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    }

    if let Some(Value::Object(own)) = extra.get_mut("generationConfig") {
        config.extend(mem::take(own));
        config.retain(|_, value| !value.is_null());
        extra.remove("generationConfig");
    }

    Ok((config, warning.into_iter().collect()))
}

/// Returns the system instruction with a text at its end.
fn with_text(system: &[u8], text: &str) -> Result<Vec<u8>> {
    let mut out = match system.strip_suffix(b"]}") {
        Some(start) => [start, b","].concat(),
        None => b"{\"parts\":[".to_vec(),
    };
    write_text_part(text, &mut Items::new(&mut out))?;
    out.extend_from_slice(b"]}");
    Ok(out)
}
