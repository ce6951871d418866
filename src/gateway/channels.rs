//! The channels that a gateway serves, and the internal channels in which no people write.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::util::sync::lock;

/// The maximum number of known channels: messages may name any number.
const MAX_KNOWN: usize = 1_024;
/// The maximum number of channels that an error names.
const MAX_LISTED: usize = 32;

/// The channel of [`process_direct`](super::Gateway::process_direct).
pub(super) const CLI: &str = "cli";
/// The channel of messages about background work.
pub(super) const SYSTEM: &str = "system";
/// The channel of subagents.
const SUBAGENT: &str = "subagent";

/// Returns `true` for the channels `cli`, `system` and `subagent`, which are never recorded as the
/// last channel of a person.
///
/// ```
/// use agentcore::gateway::is_internal_channel;
///
/// assert!(is_internal_channel("system") && !is_internal_channel("telegram"));
/// ```
pub fn is_internal_channel(name: &str) -> bool {
    matches!(name, CLI | SYSTEM | SUBAGENT)
}

/// The channels that a gateway serves: channels that the program names, and channels in which a
/// person wrote.
#[derive(Default)]
pub(super) struct KnownChannels(Mutex<BTreeSet<Arc<str>>>);

impl KnownChannels {
    /// Creates a set of these channels.
    pub(super) fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self(Mutex::new(names.into_iter().collect()))
    }

    /// Adds a channel, unless there are too many.
    pub(super) fn add(&self, name: &Arc<str>) {
        let mut names = lock(&self.0);
        if names.len() < MAX_KNOWN {
            names.insert(name.clone());
        }
    }

    /// Returns `true` if a channel is served.
    pub(super) fn contains(&self, name: &str) -> bool {
        lock(&self.0).contains(name)
    }

    /// Returns the names for an error, with commas between.
    pub(super) fn list(&self) -> String {
        let names = lock(&self.0);
        let mut listed: Vec<&str> = names.iter().take(MAX_LISTED).map(|name| &**name).collect();
        if names.len() > MAX_LISTED {
            listed.push("..");
        }
        listed.join(", ")
    }
}
