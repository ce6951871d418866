//! The instances of a registry, and the removal of those that are not in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::instance::Instance;
use super::overrides::HookOverrides;

/// The time after its last use when an instance may be dropped.
const MAX_IDLE: Duration = Duration::from_secs(60 * 60);

/// The number of instances above which unused ones are dropped at once.
const MAX_INSTANCES: usize = 1_024;

/// The maximum number of dropped instances whose switched hooks are remembered.
const MAX_OVERRIDES: usize = 65_536;

/// The interval of the searches for instances that were not used for [`MAX_IDLE`].
const SEARCH_INTERVAL: Duration = Duration::from_secs(60);

/// The agent and the user of an instance.
pub(super) type Key = (Arc<str>, Arc<str>);

/// The cell of an instance, empty until the instance is made.
pub(super) type Cell = Arc<OnceCell<Arc<Instance>>>;

/// The instances of a registry. Instances that can be made again are dropped an hour after their
/// last use and, while there are more than 1,024, the least recently used first.
#[derive(Default)]
pub(super) struct Instances {
    entries: HashMap<Key, InstanceEntry>,
    /// The switched hooks of instances that were dropped.
    overrides: HashMap<Key, HookOverrides>,
    last_search: Option<Instant>,
}

/// The cell of an instance, with the time of its last use.
struct InstanceEntry {
    cell: Cell,
    last_use: Instant,
}

impl Instances {
    /// Returns the cell of an instance and sets the time of its last use to now. Also returns the
    /// cells that were removed because they are unused: the caller drops their instances outside of
    /// its lock.
    pub(super) fn cell(&mut self, key: &Key) -> (Cell, Vec<(Key, Cell)>) {
        let now = Instant::now();
        let entry = self
            .entries
            .entry(key.clone())
            .or_insert_with(|| InstanceEntry {
                cell: Cell::default(),
                last_use: now,
            });
        entry.last_use = now;
        // The second reference to the cell keeps the entry from being removed below.
        let cell = entry.cell.clone();

        let last_search = *self.last_search.get_or_insert(now);
        let is_due = now.duration_since(last_search) >= SEARCH_INTERVAL;
        if is_due || self.entries.len() > MAX_INSTANCES {
            return (cell, self.take_unused(now, MAX_INSTANCES));
        }
        (cell, Vec::new())
    }

    /// Returns the instance if it is made. Does not change the time of its last use.
    #[cfg(feature = "server")]
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Instance>> {
        self.entries.get(key)?.cell.get().cloned()
    }

    /// Removes the least recently used instances until half of them are left, as far as they are
    /// not in use.
    #[cfg(feature = "server")]
    pub(super) fn take_older_half(&mut self) -> Vec<(Key, Cell)> {
        self.take_unused(Instant::now(), self.entries.len() / 2)
    }

    /// Removes the instances that are not in use while there are more than `max`, and those that
    /// were not used for [`MAX_IDLE`].
    fn take_unused(&mut self, now: Instant, max: usize) -> Vec<(Key, Cell)> {
        self.last_search = Some(now);
        let mut unused: Vec<(Instant, Key)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_unused())
            .map(|(key, entry)| (entry.last_use, key.clone()))
            .collect();
        unused.sort_by_key(|(last_use, _)| *last_use);

        let excess = self.entries.len().saturating_sub(max);
        let mut removed = Vec::new();
        for (index, (last_use, key)) in unused.into_iter().enumerate() {
            if index >= excess && now.duration_since(last_use) < MAX_IDLE {
                break;
            }
            if let Some(entry) = self.entries.remove(&key) {
                self.store_overrides(&key, &entry);
                removed.push((key, entry.cell));
            }
        }
        removed
    }

    /// Stores the switched hooks of an instance that is dropped.
    fn store_overrides(&mut self, key: &Key, entry: &InstanceEntry) {
        let overrides = entry.cell.get().map(|instance| instance.overrides());
        let Some(overrides) = overrides.filter(|overrides| !overrides.hooks.is_empty()) else {
            return;
        };
        if self.overrides.len() < MAX_OVERRIDES || self.overrides.contains_key(key) {
            self.overrides.insert(key.clone(), overrides);
        } else {
            tracing::warn!(
                "the hooks that a user of the agent {:?} switched are reset: those of \
                 {MAX_OVERRIDES} agents that are not in use are remembered",
                key.0
            );
        }
    }

    /// Returns the hooks that were switched in an earlier instance.
    pub(super) fn overrides_of(&self, key: &Key) -> HookOverrides {
        self.overrides.get(key).cloned().unwrap_or_default()
    }

    /// Removes the instances of an agent, for one user or for all, and returns their cells. The
    /// instances are dropped by the caller, outside of its lock.
    pub(super) fn remove(&mut self, agent: &str, user: Option<&str>) -> Vec<(Key, Cell)> {
        let is_other = |(id, owner): &Key| {
            let is_meant = &**id == agent && user.is_none_or(|user| user == &**owner);
            !is_meant
        };
        let mut removed = Vec::new();
        self.entries.retain(|key, entry| {
            let is_kept = is_other(key);
            if !is_kept {
                removed.push((key.clone(), entry.cell.clone()));
            }
            is_kept
        });
        self.overrides.retain(|key, _| is_other(key));
        removed
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl InstanceEntry {
    /// Returns `true` if the instance is referenced only here, and a new instance with its switched
    /// hooks would be the same.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.cell) == 1
            && self.cell.get().is_none_or(|instance| {
                Arc::strong_count(instance) == 1 && !instance.has_moved_backend()
            })
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::super::Registry;
    use super::*;
    use crate::config::AgentConfig;
    use crate::testing::ScriptedModel;

    #[tokio::test]
    async fn half_of_the_instances_are_dropped_as_far_as_they_are_not_in_use() {
        let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
        registry
            .register_template("a", AgentConfig::new("m"))
            .unwrap();
        let used = registry.get_or_clone("a", "0").await.unwrap();
        for user in ["1", "2", "3", "4", "5"] {
            registry.get_or_clone("a", user).await.unwrap();
        }
        let has_count = |count: usize| {
            let text = format!("{registry:?}");
            assert!(text.contains(&format!("instances: {count},")), "{text}");
        };
        has_count(6);
        registry.drop_unused();
        has_count(3);
        let again = registry.get_or_clone("a", "0").await.unwrap();
        assert!(Arc::ptr_eq(&used, &again));
        drop((used, again));
        for count in [1, 0] {
            registry.drop_unused();
            has_count(count);
        }
    }
}
