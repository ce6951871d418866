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
pub struct ProviderCache(Arc<Inner>);

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
    /// Takes the stored value, if it is a `T`.
    pub fn take<T: Send + 'static>(&self) -> Option<Box<T>> {
        lock(&self.0.slot).take()?.downcast().ok()
    }

    /// Stores a value for the next request.
    pub fn put<T: Send + 'static>(&self, value: Box<T>) {
        *lock(&self.0.slot) = Some(value);
    }

    /// Returns the number of tokens of `messages`, of which those counted before are not counted
    /// again.
    pub(crate) async fn count(&self, counter: &Arc<dyn TokenCounter>, messages: &Messages) -> u64 {
        let mut counted = std::mem::take(&mut *lock(&self.0.counted));
        let tokens = counted.count(counter, messages.as_slice()).await;
        *lock(&self.0.counted) = counted;
        tokens
    }

    /// The tokens of each message that was counted last.
    pub(crate) fn message_tokens(&self) -> Vec<u64> {
        let counted = lock(&self.0.counted);
        counted.0.iter().map(|message| message.tokens).collect()
    }
}

impl fmt::Debug for ProviderCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderCache").finish_non_exhaustive()
    }
}
