//! Fingerprints that distinguish requests without keeping them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::message::Message;
use crate::model::{ModelRequest, ResponseFormat, Stability, ThinkingMode, ToolChoice};
use crate::util::hash::fnv1a;

use super::wire::WirePart;

/// Hashes of a request's pieces. They do not contain its text, but a short text can be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    /// The stable sections: volatile ones (a clock) change by nature.
    system: String,
    tools: String,
    settings: String,
    messages: Vec<String>,
}

impl Fingerprint {
    pub(super) fn of(request: &ModelRequest) -> Self {
        let tools = request
            .tools
            .iter()
            .map(|tool| json!({"n": &*tool.name, "d": &*tool.description, "p": &*tool.parameters}));
        let hosted_tools = request
            .hosted_tools
            .iter()
            .map(|tool| json!({"provider": &*tool.provider, "raw": &*tool.raw}));
        Self {
            system: hash(&request.system.text_of(Stability::Stable).into()),
            tools: hash(&tools.chain(hosted_tools).collect()),
            settings: hash(&settings(request)),
            messages: request.messages.iter().map(|m| hash(&message(m))).collect(),
        }
    }

    /// Returns the differences from `recorded`, as text.
    pub(super) fn differences(&self, recorded: &Self) -> String {
        let mut out = Vec::new();
        for (what, own, other) in [
            ("the system prompt", &self.system, &recorded.system),
            ("the tools", &self.tools, &recorded.tools),
            ("the settings", &self.settings, &recorded.settings),
        ] {
            if own != other {
                out.push(format!("{what} changed"));
            }
        }

        let pairs = self.messages.iter().zip(&recorded.messages);
        if let Some(index) = pairs.clone().position(|(own, other)| own != other) {
            out.push(format!("message[{index}] changed"));
        }

        if self.messages.len() != recorded.messages.len() {
            out.push(format!(
                "there are {} messages, recorded were {}",
                self.messages.len(),
                recorded.messages.len()
            ));
        }

        out.join(", ")
    }
}

fn message(message: &Message) -> Value {
    let parts = message.content().parts().iter().map(|part| {
        // Raw arguments and further fields are excluded: equal calls may differ in them.
        match serde_json::to_value(WirePart::from(part)) {
            Ok(mut value) => {
                if let Some(call) = value.get_mut("call").and_then(Value::as_object_mut) {
                    call.remove("raw");
                    call.remove("extra");
                }

                value
            }
            Err(error) => error.to_string().into(),
        }
    });

    let parts: Value = parts.collect();
    match message.as_tool_result() {
        Some(result) => json!({
            "role": "tool",
            "parts": parts,
            "id": &*result.tool_call_id,
            "name": &*result.name,
            "is_error": result.is_error,
        }),
        None => json!({"role": message.role().as_str(), "parts": parts}),
    }
}

fn settings(request: &ModelRequest) -> Value {
    let settings = &request.settings;
    let thinking = settings.thinking.as_ref().map(|mode| match mode {
        ThinkingMode::Disabled => json!("disabled"),
        ThinkingMode::Budget(tokens) => json!(tokens),
        ThinkingMode::Adaptive => json!("adaptive"),
        ThinkingMode::Effort(effort) => json!({"effort": &**effort}),
    });

    let choice = match &request.tool_choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"tool": &**name}),
    };

    let format = request.response_format.as_ref().map(|format| match format {
        ResponseFormat::JsonObject => json!("object"),
        ResponseFormat::JsonSchema { name, schema } => json!([&**name, &**schema]),
    });

    let mut fields = json!({
        "model": request.model.as_deref(),
        "max_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "stop": &*request.stop,
        "tool_choice": choice,
        "response_format": format,
        "thinking": thinking,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "seed": settings.seed,
        "parallel": settings.parallel_tool_calls,
        "extra": request.extra,
    });
    // Only what is set: earlier recordings, which lack these settings, stay valid for requests that
    // do not set them.
    for (name, setting) in [
        ("prompt_cache", settings.prompt_cache),
        ("long_prompt_cache", settings.long_prompt_cache),
        ("show_thinking", settings.show_thinking),
    ] {
        if let Some(setting) = setting {
            fields[name] = setting.into();
        }
    }
    fields
}

/// Returns a hash of the canonical JSON: the same in every build and on every machine.
fn hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    format!("{:016x}", fnv1a([text.as_bytes()]))
}

/// Writes JSON with sorted keys, regardless of the order of this build's map type.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }

            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }

            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HostedTool, ModelSettings};

    #[test]
    fn request_without_newer_settings_has_the_fingerprint_of_older_recordings() {
        let mut request = ModelRequest::new("x");
        let fields = settings(&request);
        assert!(fields.get("show_thinking").is_none());
        assert!(fields.get("long_prompt_cache").is_none());

        let plain = Fingerprint::of(&request);
        request.hosted_tools = [HostedTool::new("gemini", json!({"googleSearch": {}}))].into();
        request.settings = ModelSettings::new().with_show_thinking(false);
        let differences = Fingerprint::of(&request).differences(&plain);
        assert_eq!(differences, "the tools changed, the settings changed");
    }
}
