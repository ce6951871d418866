//! The lists and similar calls of a store that have a thread.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::util::sync::lock;

/// The maximum number of lists and similar calls of a store that have a thread at the same time.
/// Without it, those that wait for a turn to read a long log could take all threads for blocking
/// work.
pub(super) const MAX_LISTINGS: usize = 4;

/// The number of lists and similar calls of a store that have a thread.
#[derive(Default)]
pub(super) struct Listings {
    count: Mutex<usize>,
    /// Notified when a permit is given back.
    released: Notify,
}

/// The permit of a call to have a thread, until it is dropped.
pub(super) struct ListingPermit(Arc<Listings>);

impl Listings {
    /// Waits for a permit. The wait holds nothing: a future that is not polled delays no other
    /// call, as it would with the permits of a fair semaphore.
    pub(super) async fn permit(self: &Arc<Self>) -> ListingPermit {
        loop {
            // Created before the attempt, so that it ends with every release after it.
            let released = self.released.notified();
            if let Some(permit) = self.try_permit() {
                return permit;
            }
            released.await;
        }
    }

    fn try_permit(self: &Arc<Self>) -> Option<ListingPermit> {
        let mut count = lock(&self.count);
        if *count >= MAX_LISTINGS {
            return None;
        }
        *count += 1;
        Some(ListingPermit(self.clone()))
    }
}

impl Drop for ListingPermit {
    fn drop(&mut self) {
        *lock(&self.0.count) -= 1;
        self.0.released.notify_waiters();
    }
}
