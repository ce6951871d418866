//! The difference between two states of a session, in as few changes as possible.

use std::collections::HashSet;
use std::sync::Arc;

use crate::state::{AgentState, PendingCall, StoredSession, changed_files};

use super::change::{About, Change, FileChanged, MessageAdded};
use super::fold::Folded;

/// The changes that make `old` equal to `new`, with no open calls left. Messages that both share
/// are compared by their pointers.
pub(super) fn diff(old: &Folded, new: &AgentState) -> Vec<Change> {
    let before = old.state();
    let mut changes = Vec::new();
    let about = About::of(new);
    // The first record of a session is there even if there is nothing to say.
    if about != About::of(before) || !old.exists() {
        changes.push(Change::About(about));
    }
    if !Arc::ptr_eq(&before.todos, &new.todos) && before.todos != new.todos {
        changes.push(Change::Todos(new.todos.clone()));
    }
    if !Arc::ptr_eq(&before.files, &new.files) {
        let files = changed_files(&before.files, &new.files);
        changes.extend(files.map(|(path, content)| {
            Change::File(FileChanged {
                path: path.clone(),
                content: content.cloned(),
            })
        }));
    }
    // What came with messages stands before them: a copy that is cut between them has it, too.
    messages(old, new, &mut changes);
    if old.has_open_calls() {
        changes.push(Change::Settled);
    }
    if before.compaction != new.compaction {
        changes.push(Change::Compaction(new.compaction.clone()));
    }
    if old.has_inputs() || before.inputs != new.inputs {
        changes.push(Change::Inputs(new.inputs.since(&before.inputs)));
    }
    changes.extend(pending(&before.pending, &new.pending));
    changes
}

/// The calls that have gone where only those have, and they are fewer than those that stay: many
/// calls that are answered one by one are not written again with each answer.
fn pending(before: &[PendingCall], now: &[PendingCall]) -> Option<Change> {
    if before == now {
        return None;
    }
    let mut left = now.iter().peekable();
    let gone = before.iter().filter(|call| left.next_if_eq(call).is_none());
    let gone: Vec<_> = gone.map(|call| call.id.clone()).collect();
    let is_unique = || {
        before
            .iter()
            .map(|call| &call.id)
            .collect::<HashSet<_>>()
            .len()
            == before.len()
    };
    match left.next().is_none() && gone.len() < now.len() && is_unique() {
        true => Some(Change::Answered(gone)),
        false => Some(Change::Pending(now.to_vec())),
    }
}

/// A whole session from nothing.
pub(super) fn whole(session: &StoredSession) -> Vec<Change> {
    let mut changes = diff(&Folded::new(&session.state.thread_id), &session.state);
    changes.extend(session.started.iter().cloned().map(Change::Started));
    changes.extend(session.ended.iter().cloned().map(Change::Ended));
    changes.extend(session.input_ids.iter().cloned().map(Change::Input));
    changes
}

fn messages(old: &Folded, new: &AgentState, changes: &mut Vec<Change>) {
    let (before, after) = (&old.state().messages, &new.messages);
    let mut same = before.shared_prefix(after);
    // A hook may have built the same messages again.
    same += before.as_slice()[same..]
        .iter()
        .zip(&after.as_slice()[same..])
        .take_while(|(a, b)| a == b)
        .count();
    let informed = old.state().infos.first_difference(&new.infos);
    same = same.min(informed.unwrap_or(same));
    if same < before.len() {
        changes.push(Change::Keep(same));
        if after.is_empty() {
            // That nothing follows: the title goes as well.
            changes.push(Change::Keep(0));
        }
    }
    for (message, at) in after.as_slice()[same..].iter().zip(same..) {
        changes.push(Change::Message(MessageAdded {
            message: message.clone(),
            input_id: None,
        }));
        changes.extend(new.infos.get(at).cloned().map(Change::Info));
    }
}
