//! The sessions of the subagents of a session.

use std::collections::HashMap;
use std::sync::Arc;

use super::info::SessionInfo;

/// Returns the sessions of a list that belong to subagents of the session `id`, and to theirs, each
/// after its parent.
pub(crate) fn descendants(id: &str, list: Vec<SessionInfo>) -> Vec<Arc<str>> {
    let mut children: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for info in list {
        if let Some(parent) = info.parent {
            children.entry(parent).or_default().push(info.id);
        }
    }

    let mut ids: Vec<Arc<str>> = children.remove(id).unwrap_or_default();
    let mut index = 0;
    while let Some(parent) = ids.get(index) {
        // Each list is taken once, so that the loop ends even if sessions name each other.
        let grandchildren = children.remove(parent).unwrap_or_default();
        ids.extend(grandchildren);
        index += 1;
    }
    ids.retain(|child| **child != *id);
    ids
}
