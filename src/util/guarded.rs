//! A mutex that panics instead of waiting for its own thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::sync::lock;

thread_local! {
    /// A variable whose address identifies the thread.
    static MARK: u8 = const { 0 };
}

fn this_thread() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// A value behind a mutex, on which code of users may run. If that code locks it again, the lock
/// panics instead of waiting forever.
#[derive(Debug, Default)]
pub(crate) struct Guarded<T> {
    value: Mutex<T>,
    /// The thread inside `lend`, or 0.
    owner: AtomicUsize,
}

struct Owned<'a>(&'a AtomicUsize);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            owner: AtomicUsize::new(0),
        }
    }

    /// Runs `f` on the value. For short steps, which call nothing foreign.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.refuse_nesting();
        f(&mut lock(&self.value))
    }

    /// Runs foreign code on the value.
    pub(crate) fn lend<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.refuse_nesting();
        let mut value = lock(&self.value);
        self.owner.store(this_thread(), Ordering::Relaxed);
        let _owned = Owned(&self.owner);
        f(&mut value)
    }

    fn refuse_nesting(&self) {
        assert!(
            self.owner.load(Ordering::Relaxed) != this_thread(),
            "with_state was called inside with_state on the same thread, which would wait for itself"
        );
    }
}
