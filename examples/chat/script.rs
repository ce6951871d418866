//! A model without a server.

use std::sync::Arc;

use agentcore::testing::FunctionModel;
use agentcore::{Model, ModelEvent, ModelRequest, ToolCall};
use serde_json::json;

/// The model repeats what it reads. Of `note TEXT`, it makes a file and edits it.
pub(crate) fn model(cwd: &str) -> Arc<dyn Model> {
    let path = format!("{cwd}/agentcore-notes.txt");
    Arc::new(FunctionModel::new(move |request: ModelRequest| {
        let input = request
            .messages
            .user_messages()
            .next_back()
            .map(|input| input.text());
        let input = input.unwrap_or_default();
        let result = request
            .messages
            .last()
            .and_then(|last| last.as_tool_result());
        let (old, new) = (
            "# Notes\n",
            format!("# Notes\n- {}\n", input.trim_start_matches("note ")),
        );
        let call = match result {
            Some(write) if &*write.name == "Write" && !write.is_error => (
                "Edit",
                json!({"file_path": path, "old_string": old, "new_string": new}),
            ),
            None if input.starts_with("note ") => {
                ("Write", json!({"file_path": path, "content": old}))
            }
            Some(result) if result.is_error => {
                return vec![Ok(ModelEvent::Text("No note.".into()))];
            }
            Some(_) => return vec![Ok(ModelEvent::Text("Noted.".into()))],
            None => return vec![Ok(ModelEvent::Text(format!("You wrote: {input}")))],
        };
        let id = format!("call_{}", request.messages.len());
        vec![Ok(ModelEvent::ToolCall(ToolCall::new(id, call.0, call.1)))]
    }))
}
