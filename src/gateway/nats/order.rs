//! The order of the messages of each subject.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The messages of each subject that are in progress in this process. A subject without any has no
/// entry.
///
/// The messages in progress are the oldest of their subject. The next message is delivered if it
/// follows them in the stream without a gap.
#[derive(Default)]
pub(super) struct Order(HashMap<Arc<str>, SubjectOrder>);

/// The messages of one subject.
#[derive(Default)]
struct SubjectOrder {
    /// The sequence numbers of the messages in progress.
    in_progress: BTreeSet<u64>,
    /// The sequence numbers of messages that were given back while others were in progress.
    given_back: BTreeSet<u64>,
}

/// The condition under which a message is delivered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// It is never delivered: it is in progress here.
    Never,
    /// The earlier message with this number is no longer in the stream.
    Gone(u64),
    /// It is the first message of its subject from this number on.
    FirstFrom(u64),
}

impl Order {
    /// Returns the condition under which a message is delivered.
    pub(super) fn condition(&self, subject: &str, number: u64) -> Condition {
        let Some(subject_order) = self.0.get(subject) else {
            return Condition::FirstFrom(1);
        };
        if subject_order.in_progress.contains(&number) {
            return Condition::Never;
        }
        if let Some(earlier) = subject_order.given_back.range(..number).next() {
            return Condition::Gone(*earlier);
        }
        let earlier = subject_order.in_progress.range(..number).next_back();
        Condition::FirstFrom(earlier.map_or(1, |earlier| earlier + 1))
    }

    /// Notes that a message is in progress.
    pub(super) fn begin(&mut self, subject: &Arc<str>, number: u64) {
        let subject_order = self.0.entry(subject.clone()).or_default();
        subject_order.given_back.remove(&number);
        subject_order.in_progress.insert(number);
    }

    /// Notes that a message was given back.
    pub(super) fn give_back(&mut self, subject: &str, number: u64) {
        if let Some(subject_order) = self.0.get_mut(subject) {
            subject_order.given_back.insert(number);
        }
        self.end(subject, number);
    }

    /// Notes that a message was acknowledged.
    pub(super) fn end(&mut self, subject: &str, number: u64) {
        let Some(subject_order) = self.0.get_mut(subject) else {
            return;
        };
        subject_order.in_progress.remove(&number);
        if subject_order.in_progress.is_empty() {
            // Without an entry, only the first message of the subject is delivered.
            self.0.remove(subject);
        }
    }

    /// Notes that a message that was given back is no longer in the stream.
    pub(super) fn forget(&mut self, subject: &str, number: u64) {
        if let Some(subject_order) = self.0.get_mut(subject) {
            subject_order.given_back.remove(&number);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_follows_those_in_progress_without_a_gap() {
        let (mut order, subject) = (Order::default(), Arc::from("s"));
        assert_eq!(order.condition("s", 5), Condition::FirstFrom(1));
        order.begin(&subject, 5);
        assert_eq!(order.condition("s", 5), Condition::Never);
        assert_eq!(order.condition("s", 9), Condition::FirstFrom(6));
        assert_eq!(order.condition("other", 9), Condition::FirstFrom(1));
        order.begin(&subject, 9);
        order.end("s", 5);
        assert_eq!(order.condition("s", 12), Condition::FirstFrom(10));
        order.end("s", 9);
        assert_eq!(order.len(), 0);
    }

    #[test]
    fn message_waits_for_earlier_ones_that_were_given_back() {
        let (mut order, subject) = (Order::default(), Arc::from("s"));
        for number in [1, 2, 3] {
            order.begin(&subject, number);
        }
        order.give_back("s", 2);
        assert_eq!(order.condition("s", 4), Condition::Gone(2));
        assert_eq!(order.condition("s", 2), Condition::FirstFrom(2));
        order.begin(&subject, 2);
        assert_eq!(order.condition("s", 4), Condition::FirstFrom(4));
        order.give_back("s", 1);
        order.forget("s", 1);
        assert_eq!(order.condition("s", 4), Condition::FirstFrom(4));
        for number in [3, 2] {
            order.give_back("s", number);
        }
        assert_eq!(order.len(), 0);
    }
}
