//! From one state of a session to the next, in as few steps as it takes.

use std::sync::Arc;

use crate::session::{AgentState, StoredSession, changed_files};

use super::log::Folded;
use super::record::{About, Change, FileChanged, MessageAdded};

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
    if before.pending != new.pending {
        changes.push(Change::Pending(new.pending.clone()));
    }
    changes
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
    }
    for (message, at) in after.as_slice()[same..].iter().zip(same..) {
        changes.push(Change::Message(MessageAdded {
            message: message.clone(),
            input_id: None,
        }));
        changes.extend(new.infos.get(at).cloned().map(Change::Info));
    }
}
