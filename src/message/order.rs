//! The last step of a repair: the order of the roles.

use std::sync::Arc;

use super::message::Message;
use super::repair::Repair;
use super::role::Role;

/// The user message inserted before an assistant message at the beginning.
const OPENING: &str = "(conversation continues)";

/// Puts a user message at the beginning if there is none, and merges consecutive assistant
/// messages. Each message has its index in the history before the repair.
pub(super) fn order(
    messages: Vec<(usize, Arc<Message>)>,
    changes: &mut Vec<Repair>,
) -> Vec<Arc<Message>> {
    let mut ordered_messages: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    let mut has_started = false;
    let mut into = 0;
    // True if an assistant message that follows is merged with the last one. A message with calls
    // is not: an assistant message follows it only while its calls await an approval.
    let mut should_merge = false;
    for (index, message) in messages {
        let role = message.role();
        if !has_started && role == Role::Assistant {
            ordered_messages.push(Arc::new(Message::human(OPENING)));
            changes.push(Repair::AddedOpening { index });
        }

        has_started |= role != Role::System;
        let is_assistant = role == Role::Assistant;
        let has_calls = message.tool_calls().next().is_some();
        match ordered_messages.last_mut() {
            Some(last) if is_assistant && should_merge => {
                let parts = message.content().parts().iter().cloned();
                Arc::make_mut(last).content_mut().parts_mut().extend(parts);
                changes.push(Repair::Merged { index, into });
            }
            _ => {
                into = index;
                ordered_messages.push(message);
            }
        }

        should_merge = is_assistant && !has_calls;
    }

    ordered_messages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would take minutes if each message that is joined searched all calls of the joined message.
    #[test]
    fn many_messages_in_a_row_are_merged() {
        const COUNT: usize = 150_000;
        let answer = Arc::new(Message::ai("a"));
        let answers = (0..COUNT).map(|_| answer.clone());
        let messages: Vec<_> = std::iter::once(Message::human("q").into())
            .chain(answers)
            .enumerate()
            .collect();
        let mut changes = Vec::new();
        let ordered_messages = order(messages, &mut changes);
        assert_eq!(ordered_messages.len(), 2);
        assert_eq!(ordered_messages[1].content().parts().len(), COUNT);
        assert_eq!(changes.len(), COUNT - 1);
    }
}
