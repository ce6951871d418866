//! The identity of a store of sessions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use crate::session::SessionStore;

/// The identity of a store, which agents of a server may share. It does not keep the store open.
#[derive(Clone)]
pub(crate) struct StoreId(
    /// Keeps the address from being used again.
    Weak<dyn SessionStore>,
);

impl StoreId {
    pub(crate) fn of(store: &Arc<dyn SessionStore>) -> Self {
        Self(Arc::downgrade(store))
    }

    fn address(&self) -> *const () {
        self.0.as_ptr().cast()
    }
}

impl PartialEq for StoreId {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for StoreId {}

impl Hash for StoreId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({:p})", self.address())
    }
}
