//! The detection of runs that hold a reservation or a permit and are not polled.

use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::util::sync::lock;

use super::poll_clock::{PollClock, RunTimer};

/// The interval of the checks of the holders. A run that has not answered the same wake at two
/// consecutive checks counts as not polled.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The runs of a tree that hold a part of its budget, or its permits for model calls.
#[derive(Default)]
pub(crate) struct Holders(Mutex<HolderList>);

#[derive(Default)]
struct HolderList {
    /// The clocks of the holders in the order of their ids.
    clocks: Vec<(u64, Arc<PollClock>)>,
    next_id: u64,
}

/// The entry of a run in [`Holders`]. [`Holders::remove`] ends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HolderId(u64);

impl Holders {
    pub(crate) fn add(&self, clock: &Arc<PollClock>) -> HolderId {
        let mut list = lock(&self.0);
        let id = list.next_id;
        list.next_id += 1;
        list.clocks.push((id, clock.clone()));
        HolderId(id)
    }

    pub(crate) fn remove(&self, id: HolderId) {
        let mut list = lock(&self.0);
        if let Ok(index) = list.clocks.binary_search_by_key(&id.0, |(id, _)| *id) {
            list.clocks.remove(index);
        }
    }

    /// Completes when all holders count as not polled, after one to two intervals in the time of
    /// the waiting run. Without this, a caller that polls one child run to its end before another
    /// could wait forever.
    pub(crate) async fn stalled(&self, clock: &PollClock) {
        let mut previous = None;
        loop {
            let mut timer = RunTimer::start(clock, CHECK_INTERVAL);
            poll_fn(|cx| timer.poll(clock, cx)).await;
            let wakes = self.unanswered_wakes();
            if wakes.is_some() && wakes == previous {
                return;
            }
            previous = wakes;
        }
    }

    /// Returns the unanswered wake of each holder, or `None` if there is no holder or one has
    /// answered all wakes.
    fn unanswered_wakes(&self) -> Option<Vec<(u64, NonZeroU64)>> {
        let list = lock(&self.0);
        let wakes: Vec<_> = list
            .clocks
            .iter()
            .map(|(id, clock)| Some((*id, clock.unanswered_wake()?)))
            .collect::<Option<_>>()?;
        (!wakes.is_empty()).then_some(wakes)
    }
}
