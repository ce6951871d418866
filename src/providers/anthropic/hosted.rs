//! Tools that the server runs.

use serde_json::{Value, json};

use crate::model::{HostedTool, ModelRequest};

use super::PROVIDER;

/// Returns the tool that searches the internet. Its sources are the citations of the answer. For
/// models from 4.6 on.
pub fn web_search() -> HostedTool {
    // A search that the model calls from code has no citations.
    let tool = json!({
        "type": "web_search_20260318",
        "name": "web_search",
        "allowed_callers": ["direct"],
    });
    HostedTool::new(PROVIDER, tool)
}

/// Returns the tool that reads web pages. Their texts are the citations of the answer. For models
/// from 4.6 on.
pub fn web_fetch() -> HostedTool {
    let tool = json!({
        "type": "web_fetch_20260318",
        "name": "web_fetch",
        "allowed_callers": ["direct"],
        "citations": {"enabled": true},
    });
    HostedTool::new(PROVIDER, tool)
}

/// Returns the tool that runs code in a sandbox. All answers of a run share the sandbox.
pub fn code_execution() -> HostedTool {
    let tool = json!({"type": "code_execution_20260521", "name": "code_execution"});
    HostedTool::new(PROVIDER, tool)
}

/// Returns the tools of a request that this provider runs.
pub(super) fn own_tools(request: &ModelRequest) -> impl Iterator<Item = &Value> {
    let tools = request.hosted_tools.iter();
    tools.filter_map(|tool| (&*tool.provider == PROVIDER).then_some(&*tool.raw))
}
