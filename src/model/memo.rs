//! What a provider remembers between the requests of one run.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::util::sync::lock;

/// A slot in which a provider keeps what it encoded, so that the next request of the same run
/// encodes only what is new.
///
/// Clones share the slot; a request made by hand has a slot of its own. What is in it is a cache
/// and may be lost at any time.
#[derive(Clone, Default)]
pub struct RequestMemo(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl RequestMemo {
    /// Takes the value out, if it is a `T`.
    pub fn take<T: Send + 'static>(&self) -> Option<Box<T>> {
        lock(&self.0).take()?.downcast().ok()
    }

    /// Puts a value in for the next request.
    pub fn put<T: Send + 'static>(&self, value: Box<T>) {
        *lock(&self.0) = Some(value);
    }
}

impl fmt::Debug for RequestMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestMemo").finish_non_exhaustive()
    }
}
