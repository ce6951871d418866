//! Tools that the server runs.

use serde_json::json;

use crate::model::HostedTool;

use super::PROVIDER;

/// Returns the tool that searches the internet. Its sources are the citations of the answer.
pub fn web_search() -> HostedTool {
    HostedTool::new(PROVIDER, json!({"type": "web_search"}))
}

/// Returns the tool that runs Python in a separate container.
pub fn code_interpreter() -> HostedTool {
    let container = json!({"type": "auto"});
    HostedTool::new(
        PROVIDER,
        json!({"type": "code_interpreter", "container": container}),
    )
}

/// Returns the tool that searches the files in these vector stores.
pub fn file_search<S: Into<String>>(stores: impl IntoIterator<Item = S>) -> HostedTool {
    let stores: Vec<String> = stores.into_iter().map(Into::into).collect();
    HostedTool::new(
        PROVIDER,
        json!({"type": "file_search", "vector_store_ids": stores}),
    )
}
