//! The last step of a repair: who may follow whom.

use std::sync::Arc;

use super::message::Message;
use super::repair::Repair;
use super::role::Role;

/// The user message inserted before an assistant message at the beginning.
const OPENING: &str = "(conversation continues)";

/// Makes the user begin and merges assistant messages in a row. Each message has its index in the
/// broken history.
pub(super) fn order(
    messages: Vec<(usize, Arc<Message>)>,
    changes: &mut Vec<Repair>,
) -> Vec<Arc<Message>> {
    let mut ordered_messages: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    let mut has_started = false;
    let mut into = 0;
    for (index, message) in messages {
        let role = message.role();
        if !has_started && role == Role::Assistant {
            ordered_messages.push(Arc::new(Message::human(OPENING)));
            changes.push(Repair::AddedOpening { index });
        }

        has_started |= role != Role::System;
        match ordered_messages.last_mut() {
            Some(last) if repeats(last, role) => {
                let parts = message.content().parts().iter().cloned();
                Arc::make_mut(last).content_mut().parts_mut().extend(parts);
                changes.push(Repair::Merged { index, into });
            }
            _ => {
                into = index;
                ordered_messages.push(message);
            }
        }
    }

    ordered_messages
}

/// Returns `true` if a message of `role` may not follow `last`. Only calls that await an approval
/// have no result after them; their message stays as it is.
fn repeats(last: &Message, role: Role) -> bool {
    role == Role::Assistant && last.role() == role && last.tool_calls().next().is_none()
}
