//! The ids that readers see.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A subagent's run; `None` for the agent itself.
type Owner = Option<Arc<str>>;

/// The ids in use. Readers have one space of ids for a run and its subagents, while the ids of
/// models are unique within one conversation at best.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    messages: HashSet<Arc<str>>,
    calls: HashMap<Arc<str>, Owner>,
    /// The calls that have another id for readers.
    renamed: BTreeMap<(Owner, Arc<str>), Arc<str>>,
}

impl Ids {
    /// Returns the number of ids.
    pub(super) fn count(&self) -> usize {
        self.messages.len() + self.calls.len() + self.renamed.len()
    }

    /// Registers a response and returns its id for readers: the provider's, or that of `new_id` if
    /// there is none or it is in use.
    pub(super) fn register_response(
        &mut self,
        id: &Arc<str>,
        new_id: impl FnOnce() -> Arc<str>,
    ) -> Arc<str> {
        if !id.is_empty() && self.messages.insert(id.clone()) {
            return id.clone();
        }
        let id = new_id();
        self.messages.insert(id.clone());
        id
    }

    /// Registers a call and returns its id for readers.
    pub(super) fn register_call(&mut self, owner: &Owner, id: &Arc<str>) -> Arc<str> {
        let shown_id = self.shown_call_id(owner, id);
        let known_owner = self
            .calls
            .entry(shown_id.clone())
            .or_insert_with(|| owner.clone());
        if known_owner == owner {
            return shown_id;
        }

        let prefix = owner.as_deref().unwrap_or("main");
        let new_id: Arc<str> = format!("{prefix}:{id}").into();
        self.calls.insert(new_id.clone(), owner.clone());
        self.renamed
            .insert((owner.clone(), id.clone()), new_id.clone());
        new_id
    }

    /// Returns the id of a call for readers.
    pub(super) fn shown_call_id(&self, owner: &Owner, id: &Arc<str>) -> Arc<str> {
        let key = (owner.clone(), id.clone());
        self.renamed.get(&key).unwrap_or(id).clone()
    }
}
