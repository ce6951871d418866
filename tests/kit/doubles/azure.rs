//! The rules of Azure.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::Refusal;

/// The key that the double accepts.
pub const KEY: &str = "azure-key-1234";

/// The Entra ID token that the double accepts.
pub const TOKEN: &str = "entra-token-1234";

/// Checks the address, the key and the fields of a request. The classic API has the deployment in
/// its path and a version in its query; in the newer API, the model is the deployment.
pub fn check(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let is_classic = path == "/openai/deployments/dep/chat/completions";
    let has_version = query
        .split('&')
        .any(|pair| pair.starts_with("api-version="));
    let is_known = is_classic && has_version || path == "/openai/v1/chat/completions";
    if !is_known {
        return Err(refusal(404, "404", "Resource not found"));
    }
    check_key(request)?;

    let body = request.json();
    if !is_classic && body["model"] != "dep" {
        let text = "The API deployment for this resource does not exist.";
        return Err(refusal(404, "DeploymentNotFound", text));
    }
    for name in ["max_tokens", "top_k", "reasoning_content"] {
        if body.get(name).is_some() {
            let text = format!("Unsupported parameter: '{name}'");
            return Err(refusal(400, "unsupported_parameter", &text));
        }
    }
    if body["messages"].to_string().contains("forbidden words") {
        let text = "The response was filtered due to the prompt triggering Azure OpenAI's content \
                    management policy.";
        let (status, mut body) = refusal(400, "content_filter", text);
        body["error"]["innererror"] = json!({"code": "ResponsibleAIPolicyViolation"});
        return Err((status, body));
    }
    if body["messages"].to_string().contains("\"file\"") {
        let text = "Invalid Value: 'file'. This model does not support file content types.";
        return Err(refusal(400, "invalid_value", text));
    }
    Ok(())
}

/// Checks the address and the key of a request to the Responses API.
pub fn check_responses(request: &Received) -> Result<(), Refusal> {
    if request.path != "/openai/v1/responses" {
        return Err(refusal(404, "404", "Resource not found"));
    }
    check_key(request)
}

fn check_key(request: &Received) -> Result<(), Refusal> {
    let is_allowed = match (request.header("api-key"), request.header("authorization")) {
        (Some(key), None) => key == KEY,
        (None, Some(token)) => token.strip_prefix("Bearer ") == Some(TOKEN),
        _ => false,
    };
    if !is_allowed {
        let text = "Access denied due to invalid subscription key or wrong API endpoint. Make sure to \
                    provide a valid key for an active subscription and use a correct regional API \
                    endpoint for your resource.";
        return Err(refusal(401, "401", text));
    }
    Ok(())
}

fn refusal(status: u16, code: &str, text: &str) -> Refusal {
    (status, json!({"error": {"code": code, "message": text}}))
}
