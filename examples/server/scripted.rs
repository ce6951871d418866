//! A model without a provider. It responds to the words of the input: *approve* calls a tool that
//! needs approval, *plan* fills the task list, *slow* takes half a minute.

use std::time::Duration;

use agentcore::model::{ModelEvent, ResponseHead};
use agentcore::testing::FunctionModel;
use agentcore::{Message, ModelRequest, StopReason, ToolCall};
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

const RESPONSE: &str = "This is a **scripted** answer, so no provider was asked. The server works \
    as it does with a model:\n\n* texts are streamed,\n* calls are shown with their results,\n* \
    questions wait for you.\n\nTry a prompt with the word `approve`, `plan` or `slow`. With a key \
    in the environment, such as `ANTHROPIC_API_KEY`, the models of the configuration answer.";

/// The pause between two pieces of a response.
const PAUSE: Duration = Duration::from_millis(30);

/// The model.
pub(crate) fn model() -> FunctionModel {
    FunctionModel::stream(|request| async move {
        let (events, pause) = respond(&request);
        let events = complete(events);
        let events = stream::iter(events).then(move |event| async move {
            tokio::time::sleep(pause).await;
            Ok(event)
        });
        Ok(events.boxed())
    })
    .with_id("scripted")
}

/// The events of the response, and the pause before each.
fn respond(request: &ModelRequest) -> (Vec<ModelEvent>, Duration) {
    if let Some(Message::Tool(_)) = request.messages.last() {
        return (
            words("The call has ended, and its result is above. That was all."),
            PAUSE,
        );
    }
    let input = request.messages.last_content().to_lowercase();
    let count = request.messages.len();
    if input.contains("approve") {
        let args = json!({"path": "hello.txt", "content": "Hello from the scripted model.\n"});
        (call(count, "write_file", args), PAUSE)
    } else if input.contains("plan") {
        let todos = json!([
            {"id": "1", "title": "Read the question", "status": "done"},
            {"id": "2", "title": "Write the answer", "status": "in_progress"},
        ]);
        (call(count, "write_todos", json!({ "todos": todos })), PAUSE)
    } else if input.contains("slow") {
        (words(&"Slowly. ".repeat(60)), Duration::from_millis(500))
    } else {
        (words(RESPONSE), PAUSE)
    }
}

/// The events with the beginning and the end of a response.
fn complete(mut events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    let has_call = events
        .iter()
        .any(|event| matches!(event, ModelEvent::ToolCall(_)));
    let reason = if has_call {
        StopReason::ToolUse
    } else {
        StopReason::EndTurn
    };
    let head = ResponseHead::new("response", "scripted");
    events.insert(0, ModelEvent::Start(Box::new(head)));
    events.push(ModelEvent::stop(reason));
    events
}

fn call(count: usize, name: &str, args: Value) -> Vec<ModelEvent> {
    let call = ToolCall::new(format!("call_{count}"), name, args);
    let mut events = words("One call is needed for this.");
    events.push(ModelEvent::ToolCall(call));
    events
}

fn words(text: &str) -> Vec<ModelEvent> {
    let words = text.split_inclusive(' ');
    words
        .map(|word| ModelEvent::Text(word.to_owned()))
        .collect()
}
