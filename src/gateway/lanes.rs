//! The order of turns in each session.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::util::sync::lock;

/// The turns of each session that wait or are in progress. A session without any has no entry.
#[derive(Clone, Default)]
pub(super) struct Lanes(Arc<Mutex<HashMap<Arc<str>, Lane>>>);

/// The turns of a session. The turn in progress is the first.
type Lane = VecDeque<Arc<Ticket>>;

#[derive(Default)]
struct Ticket {
    change: Notify,
    is_cleared: AtomicBool,
}

/// A place in the lane of a session. Dropping it leaves the lane.
pub(super) struct LanePlace {
    lanes: Lanes,
    key: Arc<str>,
    ticket: Arc<Ticket>,
}

impl Lanes {
    /// Takes the last place in the lane of a session.
    pub(super) fn enter(&self, key: &Arc<str>) -> LanePlace {
        let ticket = Arc::<Ticket>::default();
        let mut lanes = lock(&self.0);
        let lane = lanes.entry(key.clone()).or_default();
        lane.push_back(ticket.clone());
        LanePlace {
            lanes: self.clone(),
            key: key.clone(),
            ticket,
        }
    }

    /// The number of sessions with a turn that waits or is in progress.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl LanePlace {
    /// Waits for the turn. Returns `false` if the lane was [cleared](Self::clear_later) meanwhile.
    pub(super) async fn turn(&self) -> bool {
        loop {
            if self.ticket.is_cleared.load(Ordering::Acquire) {
                return false;
            }
            if self.is_first() {
                return true;
            }
            self.ticket.change.notified().await;
        }
    }

    fn is_first(&self) -> bool {
        let lanes = lock(&self.lanes.0);
        let first = lanes.get(&self.key).and_then(Lane::front);
        first.is_some_and(|first| Arc::ptr_eq(first, &self.ticket))
    }

    /// Ends the wait of all later places of the lane, so that their messages do not overtake this
    /// one.
    pub(super) fn clear_later(&self) {
        let lanes = lock(&self.lanes.0);
        let tickets = lanes.get(&self.key).into_iter().flatten();
        let places = tickets.skip_while(|ticket| !Arc::ptr_eq(ticket, &self.ticket));
        for ticket in places.skip(1) {
            ticket.is_cleared.store(true, Ordering::Release);
            ticket.change.notify_one();
        }
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        let mut lanes = lock(&self.lanes.0);
        let Some(lane) = lanes.get_mut(&self.key) else {
            return;
        };
        // Nearly always the first, so that leaving a long lane does not search it.
        let mut tickets = lane.iter();
        if let Some(index) = tickets.position(|ticket| Arc::ptr_eq(ticket, &self.ticket)) {
            lane.remove(index);
        }
        match lane.front() {
            Some(first) => first.change.notify_one(),
            None => {
                lanes.remove(&self.key);
            }
        }
    }
}
