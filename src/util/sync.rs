//! Locks that do not spread a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a holder panicked: every critical section of this crate leaves its data
/// whole at each step, so a poisoned lock guards nothing broken.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
