//! Streams of text, and hooks that run a model call twice if it fails.

use agentcore::hook::{self, FnHook};
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, Error, ErrorKind, ModelEvent, ModelRequest, SdkMessage};

use super::agent;

/// An agent that emits partial messages.
pub fn streaming(model: ScriptedModel, hooks: impl IntoIterator<Item = FnHook>) -> Agent {
    agent(model)
        .hooks(hooks)
        .include_partial_messages(true)
        .build()
        .unwrap()
}

/// The text of all partial messages.
pub fn streamed_text(messages: &[SdkMessage]) -> String {
    messages.iter().filter_map(SdkMessage::text_delta).collect()
}

/// A hook that retries a failed call once; `change` makes the request of both attempts.
pub fn retrying(change: impl Fn(ModelRequest) -> ModelRequest + Send + Sync + 'static) -> FnHook {
    hook::wrap_model_call("retrying", move |request, next| {
        let request = change(request);
        async move {
            match next.run(request.clone()).await {
                Ok(response) => Ok(response),
                Err(_) => next.run(request).await,
            }
        }
    })
}

/// A model whose first answer fails after "Hal", and whose second answer is "Hello".
pub fn fails_midway() -> ScriptedModel {
    ScriptedModel::new()
        .events(vec![
            Ok(ModelEvent::Text("Hal".into())),
            Err(Error::new(ErrorKind::Protocol, "garbage")),
        ])
        .say("Hello")
}
