//! The messages of a run that wait for its reader.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use crate::sdk::SdkMessage;
use crate::util::sync::lock;

/// The number of messages that may wait for the reader before a model's stream waits for it.
const BACKLOG: usize = 64;

/// The length from which the queue grows by at least [`BACKLOG`] at once: longer queues are filled
/// by streams of partial messages.
const USUAL_LEN: usize = 8;

/// The capacity of a buffer that is kept while no message waits. It is the capacity that
/// [`VecDeque`] allocates first, and enough while the pieces of a response arrive one by one.
const SMALL: usize = 4;

/// The messages that wait for the reader, and the tasks that wait for the reader or for messages.
pub(super) struct MessageQueue {
    state: Mutex<MessageQueueState>,
    /// True if the reader can take a message. Changed under the lock, and read without it.
    is_ready: AtomicBool,
    /// True from [`begin_read`](Self::begin_read) to [`pop`](Self::pop), which sees all messages
    /// that were added in between: they wake no task. Set without the lock, and reset under it.
    is_reading: AtomicBool,
}

#[derive(Default)]
struct MessageQueueState {
    messages: VecDeque<SdkMessage>,
    /// True once `init` was put in front. Messages that are emitted earlier wait until then.
    has_init: bool,
    /// True once the run has ended: its result is the last message.
    is_closed: bool,
    /// Messages are numbered as they are queued, so that the numbers are the reader's order.
    next_seq: u64,
    /// The task that waits for a message.
    reader: Option<Waker>,
    /// The tasks that wait until the reader has taken the messages.
    writers: Vec<Waker>,
}

impl MessageQueueState {
    /// Removes and returns the tasks that wait for the reader, if the queue has at most `len`
    /// messages.
    fn take_writers(&mut self, len: usize) -> Vec<Waker> {
        if self.messages.len() > len {
            return Vec::new();
        }
        std::mem::take(&mut self.writers)
    }

    /// Sets the reader that the next message wakes.
    fn set_reader(&mut self, reader: &Waker) {
        match &mut self.reader {
            Some(former) => former.clone_from(reader),
            None => self.reader = Some(reader.clone()),
        }

        if self.messages.is_empty() && self.messages.capacity() > SMALL {
            // Frees a large buffer: a run may wait for a long time, and many may wait at once.
            self.messages = VecDeque::new();
        }
    }
}

/// Wakes tasks in their order when it is dropped.
#[derive(Default)]
struct WakeOnDrop(Vec<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        // Checked first, because most messages are taken while no task waits.
        if !self.0.is_empty() {
            self.0.drain(..).for_each(Waker::wake);
        }
    }
}

impl Default for MessageQueue {
    fn default() -> Self {
        Self {
            state: Mutex::new(MessageQueueState {
                // 0 is reserved for `init`, which is always the first message.
                next_seq: 1,
                ..MessageQueueState::default()
            }),
            is_ready: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
        }
    }
}

impl MessageQueue {
    /// Puts `init` before all messages so far. Does nothing the second time.
    pub(super) fn push_init(&self, init: impl FnOnce() -> SdkMessage) {
        if lock(&self.state).has_init {
            return;
        }

        // Made without the lock, because it calls foreign code.
        let message = init();
        let reader = {
            let mut state = lock(&self.state);
            if std::mem::replace(&mut state.has_init, true) {
                return;
            }
            state.messages.push_front(message);
            self.publish(&mut state)
        };

        reader.into_iter().for_each(Waker::wake);
    }

    /// Adds a message with the next number. Does nothing once the queue is closed.
    pub(super) fn push(&self, mut message: SdkMessage) {
        let reader = {
            let mut state = lock(&self.state);
            if state.is_closed {
                return;
            }
            message.envelope_mut().seq = state.next_seq;
            state.next_seq += 1;
            let len = state.messages.len();
            if len == state.messages.capacity() && len >= USUAL_LEN {
                state.messages.reserve(BACKLOG.max(len));
            }
            state.messages.push_back(message);
            self.publish(&mut state)
        };

        reader.into_iter().for_each(Waker::wake);
    }

    /// Makes the messages in `state` visible to the reader, unless they wait for `init`. Returns
    /// the reader if it has to be woken.
    fn publish(&self, state: &mut MessageQueueState) -> Option<Waker> {
        if !state.has_init {
            return None;
        }
        self.is_ready.store(true, Ordering::Release);
        let is_reading = self.is_reading.load(Ordering::Acquire);
        state.reader.take_if(|_| !is_reading)
    }

    /// Begins a read, which ends with [`pop`](Self::pop). Returns `true` if a message waits.
    pub(super) fn begin_read(&self) -> bool {
        self.is_reading.store(true, Ordering::Release);
        self.is_ready.load(Ordering::Acquire)
    }

    /// Removes and returns the next message. Without one, `reader` is woken by the next.
    pub(super) fn pop(&self, reader: &Waker) -> Option<SdkMessage> {
        // Declared before the lock, so that the writers are woken after it is released.
        let mut writers = WakeOnDrop::default();
        let mut state = lock(&self.state);
        self.is_reading.store(false, Ordering::Release);
        if !state.has_init || state.messages.is_empty() {
            state.set_reader(reader);
            writers.0 = state.take_writers(0);
            return None;
        }

        state.reader = None;
        // The message that is removed below is still in the queue.
        writers.0 = state.take_writers(1);
        let has_more = state.messages.len() > 1;
        self.is_ready.store(has_more, Ordering::Release);
        // Not bound to a name: messages are large, and a binding is another copy.
        state.messages.pop_front()
    }

    /// Completes when the reader has taken all messages that wait now. The future is woken when the
    /// queue is empty. Messages that other tasks add before it is polled do not count, because the
    /// tasks may add some each time.
    ///
    /// The reader takes no message before `init`, which is queued after the `before_agent` hooks.
    /// Such a hook may wait for a task that awaits this future. Before `init`, the future therefore
    /// completes at once while fewer than [`BACKLOG`] messages wait.
    pub(super) fn drained(&self) -> impl Future<Output = ()> {
        let end = lock(&self.state).next_seq;
        poll_fn(move |cx| {
            let mut state = lock(&self.state);
            let next_message = state.messages.front();
            let is_early = !state.has_init && state.messages.len() < BACKLOG;
            let need_not_wait = state.is_closed || is_early;
            if need_not_wait || next_message.is_none_or(|message| message.envelope().seq >= end) {
                return Poll::Ready(());
            }

            if !state
                .writers
                .iter()
                .any(|waker| waker.will_wake(cx.waker()))
            {
                state.writers.push(cx.waker().clone());
            }

            Poll::Pending
        })
    }

    /// Returns `true` if a stream should let the reader catch up before it continues.
    pub(super) fn is_backed_up(&self) -> bool {
        let state = lock(&self.state);
        state.has_init && state.messages.len() >= BACKLOG
    }

    /// Accepts no more messages, and lets nothing wait for the reader, which may be gone.
    pub(super) fn close(&self) {
        let writers = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            std::mem::take(&mut state.writers)
        };

        writers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Context;

    use futures::FutureExt;

    use super::*;
    use crate::sdk::{Envelope, Level, SystemEvent, SystemKind};
    use crate::util::wake_count::WakeCount;

    fn message() -> SdkMessage {
        let kind = SystemKind::Informational {
            content: String::new(),
            level: Level::Warning,
            tool_use_id: None,
        };
        SdkMessage::System(SystemEvent::new(Envelope::new("s", 0), kind))
    }

    #[test]
    fn few_messages_before_init_need_not_be_taken() {
        let queue = MessageQueue::default();
        for _ in 1..BACKLOG {
            queue.push(message());
            assert!(queue.drained().now_or_never().is_some());
        }
        queue.push(message());
        assert!(queue.drained().now_or_never().is_none());
        queue.push_init(message);
        assert!(queue.drained().now_or_never().is_none());
    }

    #[test]
    fn nothing_waits_for_the_reader_of_a_closed_queue() {
        let queue = MessageQueue::default();
        queue.push_init(message);
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(wakes.clone());
        let mut drained = Box::pin(queue.drained());
        let mut poll = || drained.poll_unpin(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        queue.close();
        assert_eq!(wakes.get(), 1);
        assert!(poll().is_ready());
    }

    #[test]
    fn message_wakes_the_reader_only_while_it_waits() {
        let wakes = Arc::new(WakeCount::default());
        let reader = Waker::from(wakes.clone());
        let wake_count = || wakes.get();
        let queue = MessageQueue::default();
        queue.push(message());
        assert!(!queue.begin_read() && queue.pop(&reader).is_none());
        queue.push_init(message);
        assert_eq!(wake_count(), 1);
        for _ in 0..2 {
            assert!(queue.begin_read());
            assert!(queue.pop(&reader).is_some());
        }

        // Added between the beginning of a read and its end.
        assert!(!queue.begin_read());
        queue.push(message());
        assert!(queue.pop(&reader).is_some());
        queue.push(message());
        assert_eq!(wake_count(), 1, "the reader polls again after a message");

        assert!(queue.begin_read() && queue.pop(&reader).is_some());
        assert!(!queue.begin_read() && queue.pop(&reader).is_none());
        queue.push(message());
        assert_eq!(wake_count(), 2);
        queue.push(message());
        assert_eq!(wake_count(), 2);
    }
}
