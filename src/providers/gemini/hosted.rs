//! Tools that the server runs.

use serde_json::json;

use crate::model::HostedTool;

use super::chunks::PROVIDER;

/// Returns the tool that searches the internet. Its sources are the citations of the answer.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::providers::{Gemini, gemini};
///
/// let model = Gemini::new("gemini-3.8-flash", "key");
/// let agent = AgentBuilder::new(model)
///     .hosted_tool(gemini::google_search())
///     .build()?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub fn google_search() -> HostedTool {
    tool("googleSearch")
}

/// Returns the tool that reads the pages whose addresses are in the prompt.
pub fn url_context() -> HostedTool {
    tool("urlContext")
}

/// Returns the tool that runs Python.
pub fn code_execution() -> HostedTool {
    tool("codeExecution")
}

fn tool(name: &str) -> HostedTool {
    HostedTool::new(PROVIDER, json!({name: {}}))
}
