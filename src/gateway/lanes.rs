//! The order of turns in each session.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use crate::util::sync::lock;

use super::process_options::ProcessOptions;

/// The turns of each session that wait or are in progress. A session without any has no entry.
#[derive(Clone, Default)]
pub(super) struct Lanes(Arc<Mutex<HashMap<Arc<str>, Lane>>>);

/// The turns of a session. The turn in progress is the first.
type Lane = VecDeque<Arc<Ticket>>;

/// The person whose message a turn answers, and the chat.
#[derive(PartialEq)]
struct TurnOrigin {
    channel: Arc<str>,
    chat_id: Arc<str>,
    sender_id: Arc<str>,
}

impl TurnOrigin {
    fn of(options: &ProcessOptions) -> Self {
        Self {
            channel: options.channel.clone(),
            chat_id: options.chat_id.clone(),
            sender_id: options.sender_id.clone(),
        }
    }
}

/// One turn in a lane.
#[derive(Default)]
struct Ticket {
    /// Notified when the ticket has become the first, or was cleared.
    change: Notify,
    /// True once the place is cleared: its message, or that of an earlier place, is given back, and
    /// so are all later ones.
    is_cleared: AtomicBool,
    /// The origin of a message of the bus. `None` for a turn of a direct caller, who alone receives
    /// the reply.
    origin: Option<TurnOrigin>,
    /// The turn whose run was sent the message.
    joined_turn: Weak<Ticket>,
}

/// The turn in progress of a session, whose run a message may join.
pub(super) struct OpenTurn(Weak<Ticket>);

/// A place in the lane of a session. Dropping it leaves the lane.
pub(super) struct LanePlace {
    lanes: Lanes,
    key: Arc<str>,
    ticket: Arc<Ticket>,
}

impl Lanes {
    /// Takes the last place in the lane of a session, for a direct caller.
    pub(super) fn enter(&self, key: &Arc<str>) -> LanePlace {
        self.add(key, Ticket::default())
    }

    /// Takes the last place in the lane of a session, for a message of the bus, and the turn whose
    /// run it has joined.
    pub(super) fn enter_for(
        &self,
        options: &ProcessOptions,
        joined_turn: Option<OpenTurn>,
    ) -> LanePlace {
        let ticket = Ticket {
            origin: Some(TurnOrigin::of(options)),
            joined_turn: joined_turn.map(|turn| turn.0).unwrap_or_default(),
            ..Ticket::default()
        };
        self.add(&options.session_key, ticket)
    }

    /// Returns the turn in progress if a message may join its run: the turn answers the same person
    /// in the same chat, and no other message waits for a run of its own.
    pub(super) fn open_turn(&self, options: &ProcessOptions) -> Option<OpenTurn> {
        let lanes = lock(&self.0);
        let mut tickets = lanes.get(&options.session_key)?.iter();
        let first = tickets.next()?;
        let turn = Arc::downgrade(first);
        let is_same = first.origin == Some(TurnOrigin::of(options));
        let is_open = is_same && tickets.all(|ticket| ticket.joined_turn.ptr_eq(&turn));
        is_open.then_some(OpenTurn(turn))
    }

    fn add(&self, key: &Arc<str>, ticket: Ticket) -> LanePlace {
        let mut lanes = lock(&self.0);
        let lane = lanes.entry(key.clone()).or_default();
        // A message that comes while the lane is being cleared must not overtake the others. A
        // direct caller would enter again at once.
        let is_cleared = ticket.origin.is_some()
            && lane
                .front()
                .is_some_and(|first| first.is_cleared.load(Ordering::Acquire));
        ticket.is_cleared.store(is_cleared, Ordering::Release);
        let ticket = Arc::new(ticket);
        lane.push_back(ticket.clone());
        LanePlace {
            lanes: self.clone(),
            key: key.clone(),
            ticket,
        }
    }

    /// Returns the number of sessions with a turn that waits or is in progress.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl LanePlace {
    /// Waits until this place is the first of its lane. Returns `false` if it is
    /// [cleared](Self::clear_later_places) before.
    pub(super) async fn wait_until_first(&self) -> bool {
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
    /// one. Does nothing if this place was cleared, because the later ones were cleared with it.
    pub(super) fn clear_later_places(&self) {
        let lanes = lock(&self.lanes.0);
        if self.ticket.is_cleared.swap(true, Ordering::AcqRel) {
            return;
        }
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::gateway::InboundMessage;

    #[test]
    fn cleared_place_does_not_clear_the_later_places_again() {
        let message = InboundMessage::new("cli", "1", "ann", "hello").completed();
        let options = ProcessOptions::of_message(&message);
        let lanes = Lanes::default();
        let [first, second, third] = [(); 3].map(|()| lanes.enter_for(&options, None));
        assert_eq!(first.wait_until_first().now_or_never(), Some(true));
        first.clear_later_places();
        assert_eq!(second.wait_until_first().now_or_never(), Some(false));
        assert_eq!(third.wait_until_first().now_or_never(), Some(false));

        third.ticket.is_cleared.store(false, Ordering::Release);
        second.clear_later_places();
        assert!(!third.ticket.is_cleared.load(Ordering::Acquire));
    }

    #[test]
    fn message_that_comes_while_its_lane_is_cleared_is_cleared_too() {
        let message = InboundMessage::new("cli", "1", "ann", "hello").completed();
        let options = ProcessOptions::of_message(&message);
        let lanes = Lanes::default();
        let first = lanes.enter_for(&options, None);
        first.clear_later_places();
        let second = lanes.enter_for(&options, None);
        assert_eq!(second.wait_until_first().now_or_never(), Some(false));

        let direct = lanes.enter(&options.session_key);
        drop(first);
        drop(second);
        assert_eq!(direct.wait_until_first().now_or_never(), Some(true));
    }
}
