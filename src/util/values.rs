//! Values keyed by their type.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::panic;

/// Typed values that hooks, tools and the caller of a run share: at most one of each type.
///
/// Clones are cheap and share the values, not the map. If a value panics when it is dropped with
/// the last of them, the panic is logged.
///
/// ```
/// let mut values = agentcore::Values::default();
/// values.insert(42_u32);
/// assert_eq!(values.get::<u32>().as_deref(), Some(&42));
/// assert!(values.get::<String>().is_none());
/// ```
#[derive(Clone, Default)]
pub struct Values(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Values {
    /// Inserts a value and returns the replaced value of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> Option<Arc<T>> {
        let old = self.0.insert(TypeId::of::<T>(), Arc::new(value))?;
        old.downcast().ok()
    }

    /// Returns the value of type `T`.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// Removes and returns the value of type `T`.
    pub fn remove<T: Send + Sync + 'static>(&mut self) -> Option<Arc<T>> {
        self.0.remove(&TypeId::of::<T>())?.downcast().ok()
    }

    /// Adds to the values that a hook returned those that were set in the run while the hook ran.
    /// `given` are the values that the hook received, and `live` are the values of the run. A value
    /// that the hook itself has set, replaced or removed stays as the hook left it.
    pub(crate) fn adopt(&mut self, given: &Self, live: &Self) {
        for (kind, value) in &live.0 {
            let is_same =
                |other: Option<&Arc<_>>| other.is_some_and(|other| Arc::ptr_eq(other, value));
            let own_value = self.0.get(kind);
            let is_unchanged = match (own_value, given.0.get(kind)) {
                (Some(own_value), Some(given)) => Arc::ptr_eq(own_value, given),
                (own_value, given) => own_value.is_none() && given.is_none(),
            };

            if is_unchanged && !is_same(own_value) {
                self.0.insert(*kind, value.clone());
            }
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        // Each alone: the map would continue after a panic, and a second one would abort the
        // process.
        std::mem::take(&mut self.0)
            .into_values()
            .for_each(drop_value);
    }
}

/// Drops a value of a hook, a tool or the caller of a run, and logs its panic.
pub(crate) fn drop_value<T>(value: T) {
    if let Err(text) = panic::catch(|| drop(value)) {
        tracing::warn!("a value of a run panicked when it was dropped: {text}");
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values")
            .field("len", &self.0.len())
            .finish_non_exhaustive()
    }
}
