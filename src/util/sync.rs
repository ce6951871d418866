//! Locks that do not spread a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(feature = "config")]
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks, also after a holder panicked: every critical section of this crate leaves its data
/// whole at each step, so a poisoned lock guards nothing broken.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, also after a holder panicked.
#[cfg(feature = "config")]
pub(crate) fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, also after a holder panicked.
#[cfg(feature = "config")]
pub(crate) fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
