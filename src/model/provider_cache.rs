//! A provider's cache between the requests of one run.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::message::{Message, Messages, TokenCounter};
use crate::usage::total;
use crate::util::sync::lock;

/// A slot in which a provider keeps what it encoded, so that the next request of the same run
/// encodes only what is new.
///
/// Clones share the slot; a request made by hand has a slot of its own. Its content is a cache and
/// may be lost at any time.
#[derive(Clone, Default)]
pub struct ProviderCache(Arc<Inner>);

#[derive(Default)]
struct Inner {
    slot: Mutex<Option<Box<dyn Any + Send>>>,
    counted: Mutex<Counted>,
}

/// The tokens of a history that grows: what was counted before is known by its address.
#[derive(Default)]
struct Counted {
    /// Each message, and the tokens up to its end.
    seen: Vec<(Arc<Message>, u64)>,
}

impl Counted {
    fn count(&mut self, counter: &dyn TokenCounter, messages: &Messages) -> u64 {
        let history = messages.as_slice();
        let shared_len = self
            .seen
            .iter()
            .zip(history)
            .take_while(|((old, _), new)| Arc::ptr_eq(old, new))
            .count();
        self.seen.truncate(shared_len);
        let mut tokens = self.seen.last().map_or(0, |(_, tokens)| *tokens);
        for message in &history[shared_len..] {
            tokens = total([tokens, counter.count_message(message)]);
            self.seen.push((message.clone(), tokens));
        }

        tokens
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

    /// The tokens of `messages`, of which what was counted before is not counted again.
    pub(crate) fn count(&self, counter: &dyn TokenCounter, messages: &Messages) -> u64 {
        lock(&self.0.counted).count(counter, messages)
    }
}

impl fmt::Debug for ProviderCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderCache").finish_non_exhaustive()
    }
}
