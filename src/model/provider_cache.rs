//! A provider's cache between the requests of one run.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::message::{Message, Messages, TokenCounter, count_each};
use crate::usage::total;
use crate::util::sync::lock;

/// A cache of a provider's encoded request, so that the next request of the same run encodes only
/// its new messages.
///
/// Clones share the slot; a request made by hand has its own slot. Its content is a cache and may
/// be lost at any time.
#[derive(Clone, Default)]
pub struct ProviderCache {
    inner: Arc<Inner>,
    is_read_only: bool,
}

#[derive(Default)]
struct Inner {
    slot: Mutex<Option<Box<dyn Any + Send>>>,
    counted: Mutex<Counted>,
}

/// The tokens of the messages of a history that grows: what was counted before is known by its
/// address.
#[derive(Default)]
struct Counted(Vec<CountedMessage>);

struct CountedMessage {
    message: Arc<Message>,
    tokens: u64,
    /// The tokens of the history up to its end.
    total_tokens: u64,
}

impl Counted {
    /// Counts the messages of `history` that were not counted before. Returns the tokens of all
    /// messages.
    async fn count(&mut self, counter: &Arc<dyn TokenCounter>, history: &[Arc<Message>]) -> u64 {
        let counted_messages = self.0.iter().zip(history);
        let shared_len = counted_messages
            .take_while(|(old, new)| Arc::ptr_eq(&old.message, new))
            .count();
        self.0.truncate(shared_len);
        let mut total_tokens = self.0.last().map_or(0, |last| last.total_tokens);
        count_each(counter, &history[shared_len..], |message, tokens| {
            total_tokens = total([total_tokens, tokens]);
            self.0.push(CountedMessage {
                message: message.clone(),
                tokens,
                total_tokens,
            });
        })
        .await;
        total_tokens
    }
}

impl ProviderCache {
    /// Takes the stored value, if it is a `T`. Returns `None` for a request that is counted and not
    /// sent.
    pub fn take<T: Send + 'static>(&self) -> Option<Box<T>> {
        if self.is_read_only {
            return None;
        }
        lock(&self.inner.slot).take()?.downcast().ok()
    }

    /// Stores a value for the next request. The value of a request that is counted and not sent is
    /// dropped.
    pub fn put<T: Send + 'static>(&self, value: Box<T>) {
        if !self.is_read_only {
            *lock(&self.inner.slot) = Some(value);
        }
    }

    /// Returns the slot for a request that is not sent: its content may be read, and stays.
    pub(crate) fn read_only(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            is_read_only: true,
        }
    }

    /// Reads the stored value of a request that is not sent, if it is a `T`.
    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    pub(crate) fn read<T: 'static, R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        if !self.is_read_only {
            return None;
        }
        let slot = lock(&self.inner.slot);
        slot.as_ref()?.downcast_ref().map(read)
    }

    /// Returns the number of tokens of `messages`. Messages that were counted before are not
    /// counted again.
    pub(crate) async fn count(&self, counter: &Arc<dyn TokenCounter>, messages: &Messages) -> u64 {
        let mut counted = std::mem::take(&mut *lock(&self.inner.counted));
        let tokens = counted.count(counter, messages.as_slice()).await;
        *lock(&self.inner.counted) = counted;
        tokens
    }

    /// Returns the tokens of each message of the last count.
    pub(crate) fn message_tokens(&self) -> Vec<u64> {
        let counted = lock(&self.inner.counted);
        counted.0.iter().map(|message| message.tokens).collect()
    }
}

impl fmt::Debug for ProviderCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderCache").finish_non_exhaustive()
    }
}
