//! The sessions of the subagents of a session.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::info::SessionInfo;

/// Returns the sessions of the subagents of the session `id`, and of their subagents in turn: first
/// `known_ids`, which are such sessions, and then the others in `list`. Each is after its parent,
/// provided that `known_ids` are in such an order.
pub(crate) fn descendants(
    id: &str,
    known_ids: Vec<Arc<str>>,
    list: Vec<SessionInfo>,
) -> Vec<Arc<str>> {
    let mut children: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for info in list {
        if let Some(parent) = info.parent {
            children.entry(parent).or_default().push(info.id);
        }
    }

    // Each id is taken once, so that the loop ends even if sessions name each other.
    let mut unique_ids: HashSet<Arc<str>> = known_ids.iter().cloned().collect();
    unique_ids.insert(id.into());
    let mut ids = known_ids;
    let mut index = 0;
    let mut new_ids = children.remove(id).unwrap_or_default();
    loop {
        new_ids.retain(|child| unique_ids.insert(child.clone()));
        ids.append(&mut new_ids);
        let Some(parent) = ids.get(index) else {
            return ids;
        };
        new_ids = children.remove(parent).unwrap_or_default();
        index += 1;
    }
}
