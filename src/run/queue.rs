//! The messages of a run that wait for its reader.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::sdk::SdkMessage;
use crate::util::sync::lock;

/// The number of messages that may wait for the reader before a model's stream waits for it.
const BACKLOG: usize = 64;

/// The length from which the queue grows by [`BACKLOG`] at once: longer queues are filled by
/// streams of partial messages.
const USUAL_LEN: usize = 8;

/// The capacity of a buffer that is kept while no message waits. It is the capacity that
/// [`VecDeque`] allocates first, and enough while the pieces of a response arrive one by one.
const SMALL: usize = 4;

/// The messages that wait for the reader, and the tasks that wait for the reader or for messages.
pub(super) struct MessageQueue(Mutex<MessageQueueState>);

#[derive(Default)]
struct MessageQueueState {
    messages: VecDeque<SdkMessage>,
    /// True once `init` was put in front. Messages that are emitted earlier wait until then.
    has_init: bool,
    /// True once the run has ended: its result is the last message.
    is_closed: bool,
    /// Messages are numbered as they are queued, so that the numbers are the reader's order.
    next_seq: u64,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

impl MessageQueueState {
    /// Returns the tasks that wait for the reader if at most `len` messages wait.
    fn take_writers(&mut self, len: usize) -> Vec<Waker> {
        if self.messages.len() > len {
            return Vec::new();
        }
        std::mem::take(&mut self.writers)
    }

    /// Sets the reader that the next message wakes.
    fn set_reader(&mut self, reader: Option<&Waker>) {
        match (&mut self.reader, reader) {
            (Some(former), Some(reader)) => former.clone_from(reader),
            (former, reader) => *former = reader.cloned(),
        }

        if self.reader.is_some() && self.has_init && self.messages.capacity() > SMALL {
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
        Self(Mutex::new(MessageQueueState {
            // 0 is reserved for `init`, which is always the first message.
            next_seq: 1,
            ..MessageQueueState::default()
        }))
    }
}

impl MessageQueue {
    /// Puts `init` before all messages so far. Does nothing the second time.
    pub(super) fn push_init(&self, init: impl FnOnce() -> SdkMessage) {
        if lock(&self.0).has_init {
            return;
        }

        // Made without the lock, because it calls foreign code.
        let message = init();
        let reader = {
            let mut state = lock(&self.0);
            if std::mem::replace(&mut state.has_init, true) {
                return;
            }
            state.messages.push_front(message);
            state.reader.take()
        };

        reader.into_iter().for_each(Waker::wake);
    }

    /// Adds a message with the next number. Does nothing once the queue is closed.
    pub(super) fn push(&self, mut message: SdkMessage) {
        let reader = {
            let mut state = lock(&self.0);
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
            if state.has_init {
                state.reader.take()
            } else {
                None
            }
        };

        reader.into_iter().for_each(Waker::wake);
    }

    /// Removes and returns the next message. Without one, `reader` is woken by the next.
    pub(super) fn pop(&self, reader: Option<&Waker>) -> Option<SdkMessage> {
        // Declared before the lock, so that the writers are woken after it is released.
        let mut writers = WakeOnDrop::default();
        let mut state = lock(&self.0);
        if !state.has_init || state.messages.is_empty() {
            state.set_reader(reader);
            writers.0 = state.take_writers(0);
            return None;
        }

        state.reader = None;
        writers.0 = state.take_writers(1);
        // Not bound to a name: messages are large, and a binding is another copy.
        state.messages.pop_front()
    }

    /// Completes when the reader has taken all messages that wait now. Later ones do not count: a
    /// task may add them without end. It is woken when the queue is empty.
    pub(super) fn drained(&self) -> impl Future<Output = ()> {
        let end = lock(&self.0).next_seq;
        poll_fn(move |cx| {
            let mut state = lock(&self.0);
            let next_message = state.messages.front();
            if next_message.is_none_or(|message| message.envelope().seq >= end) {
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
        let state = lock(&self.0);
        state.has_init && state.messages.len() >= BACKLOG
    }

    /// Accepts no more messages.
    pub(super) fn close(&self) {
        lock(&self.0).is_closed = true;
    }
}
