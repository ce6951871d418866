//! The channel `system`: messages about background work.

use crate::tool::TaskOutcome;

use super::channels::SYSTEM;
use super::chat_turn::ChatTurn;
use super::message::{InboundMessage, OutboundMessage};

/// The session of the conversation that started the work. Without it, such as after a turn without
/// history, the session is that of the chat.
const SESSION: &str = "session_key";
/// The person in that conversation.
const SENDER: &str = "sender_id";
/// Set if the task sent a message itself.
const HAS_SENT: &str = "message_sent";
/// The number of tasks up to this one, each begun because of the previous task.
const DEPTH: &str = "report_depth";

/// Returns the message about the end of a task: `Task 'LABEL' completed.` with its result, to the
/// chat `CHANNEL:CHAT_ID`.
pub(super) fn task_message(
    turn: &ChatTurn,
    id: &str,
    label: &str,
    outcome: &TaskOutcome,
) -> InboundMessage {
    let (state, text) = match outcome {
        TaskOutcome::Completed(text) => ("completed", text.as_str()),
        TaskOutcome::Failed(text) => ("failed", text.as_str()),
        TaskOutcome::Stopped => ("stopped", "The task was stopped."),
    };
    let content = format!("Task '{label}' {state}.\n\nResult:\n{text}");
    let chat_id = format!("{}:{}", turn.channel, turn.chat_id);
    let mut message = InboundMessage::new(SYSTEM, chat_id, id, content)
        .with_metadata(SENDER, &*turn.sender_id)
        .with_metadata(DEPTH, (turn.report_depth + 1).to_string());
    if turn.once_id().is_none() {
        message = message.with_metadata(SESSION, &*turn.session_key);
    }
    if turn.has_sent_any() {
        message.with_metadata(HAS_SENT, "true")
    } else {
        message
    }
}

/// Returns the number of tasks that led to a message of the channel `system`, at least one.
pub(super) fn report_depth(message: &InboundMessage) -> u32 {
    let depth = message.metadata.get(DEPTH);
    depth
        .and_then(|depth| depth.parse().ok())
        .unwrap_or(1)
        .max(1)
}

/// Returns the chat that a message of the channel `system` is about; `None` if it names none.
fn origin(message: &InboundMessage) -> Option<(&str, &str)> {
    let (channel, chat_id) = message.chat_id.split_once(':')?;
    (!channel.is_empty() && !chat_id.is_empty()).then_some((channel, chat_id))
}

/// Returns the notice of a message of the channel `system` for the chat that it is about; `None` if
/// the task sent a message itself.
pub(super) fn notice_of(message: &InboundMessage) -> Option<OutboundMessage> {
    if message.metadata.contains_key(HAS_SENT) {
        return None;
    }
    let (channel, chat_id) = origin(message)?;
    let id = format!("{}:notice", message.id);
    Some(OutboundMessage::new(channel, chat_id, message.content.clone()).with_derived_id(id))
}

/// Returns a message of the channel `system` as an input of the conversation that it is about;
/// `None` if it names none.
pub(super) fn input_of(message: &InboundMessage) -> Option<InboundMessage> {
    let (channel, chat_id) = origin(message)?;
    // The person and not the task, which could not answer the questions of the turn.
    let sender_id = message.metadata.get(SENDER).map_or("", String::as_str);
    let mut input = InboundMessage::new(channel, chat_id, sender_id, message.content.clone())
        .with_id(format!("{}:input", message.id));
    if let Some(key) = message.metadata.get(SESSION) {
        input = input.with_session_key(key.as_str());
    }
    Some(input.completed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(chat_id: &str) -> InboundMessage {
        InboundMessage::new(SYSTEM, chat_id, "subagent-1", "done").with_id("m1")
    }

    #[test]
    fn chat_is_named_by_channel_and_id() {
        let text = notice_of(&message("telegram:12:3")).unwrap();
        assert_eq!((&*text.channel, &*text.chat_id), ("telegram", "12:3"));
        assert_eq!((&*text.id, &*text.content), ("m1:notice", "done"));
        for chat_id in ["telegram", ":1", "telegram:", ""] {
            assert!(notice_of(&message(chat_id)).is_none(), "{chat_id}");
            assert!(input_of(&message(chat_id)).is_none(), "{chat_id}");
        }
    }

    #[test]
    fn input_belongs_to_the_session_that_is_named() {
        let input = input_of(&message("telegram:1")).unwrap();
        assert_eq!(
            (&*input.session_key, &*input.id),
            ("telegram:1", "m1:input")
        );
        let named = message("telegram:1").with_metadata(SESSION, "family");
        assert_eq!(&*input_of(&named).unwrap().session_key, "family");
    }
}
