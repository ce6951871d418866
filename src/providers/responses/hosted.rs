//! Tools that the server runs.

use serde_json::json;

use crate::model::HostedTool;

use super::PROVIDER;

/// Returns a search of the internet, whose sources are the citations of the answer.
pub fn web_search() -> HostedTool {
    HostedTool::new(PROVIDER, json!({"type": "web_search"}))
}

/// Returns an interpreter of Python in its own container.
pub fn code_interpreter() -> HostedTool {
    let container = json!({"type": "auto"});
    HostedTool::new(
        PROVIDER,
        json!({"type": "code_interpreter", "container": container}),
    )
}

/// Returns a search of the files in these vector stores.
pub fn file_search<S: Into<String>>(stores: impl IntoIterator<Item = S>) -> HostedTool {
    let stores: Vec<String> = stores.into_iter().map(Into::into).collect();
    HostedTool::new(
        PROVIDER,
        json!({"type": "file_search", "vector_store_ids": stores}),
    )
}
