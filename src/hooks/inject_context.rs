//! A message in front of every request.

use std::sync::Arc;

use crate::hook::{self, FnHook};
use crate::message::{Content, Message};

/// Creates a hook that adds a user message with this content as the first message of every request.
/// It is not added to the history, where each run would add it again. Empty content is omitted.
///
/// If there are several such hooks, the message of the last added hook is first in the request.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::hooks::inject_context;
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let model = ScriptedModel::new()
///     .expect(|request| assert_eq!(request.messages.len(), 2))
///     .say("Rust 2024.");
/// let agent = AgentBuilder::new(model)
///     .hook(inject_context("The project uses Rust 2024."))
///     .build()?;
/// let output = agent.run("Which edition do we use?").await?;
/// assert_eq!(output.messages.len(), 2, "the question and the answer");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn inject_context(content: impl Into<Content>) -> FnHook {
    let content = content.into();
    let has_content = !content.is_empty();

    // The same `Arc` in every request, because providers cache the encoding of a message.
    let message = Arc::new(Message::human(content));
    hook::modify_request_with(
        "inject_context",
        message,
        move |message, _cx, mut messages| async move {
            if has_content {
                messages.insert(0, message);
            }

            Ok(messages)
        },
    )
}
