//! The tokens of long histories, counted on threads for blocking work.

use std::sync::Arc;

use futures::FutureExt;

use crate::error::Result;
use crate::usage::total;
use crate::util::blocking::{LARGE_TEXT, blocking_until_dropped};

use super::message::Message;
use super::size::message_size;
use super::tokens::TokenCounter;

/// Returns the number of tokens of messages, counted as by [`count_each`].
pub(crate) async fn count(counter: &Arc<dyn TokenCounter>, messages: &[Arc<Message>]) -> u64 {
    let mut total_tokens = 0;
    count_each(counter, messages, |_, tokens| {
        total_tokens = total([total_tokens, tokens]);
    })
    .await;
    total_tokens
}

/// Passes each message and its tokens to `add`. A long history is counted on a thread for blocking
/// work; the count ends when the future is dropped.
pub(crate) async fn count_each(
    counter: &Arc<dyn TokenCounter>,
    messages: &[Arc<Message>],
    mut add: impl FnMut(&Arc<Message>, u64),
) {
    if is_large(messages) {
        let counting = count_on_thread(counter.clone(), messages.to_vec()).boxed();
        if let Ok(counts) = counting.await {
            let counts = messages.iter().zip(counts);
            return counts.for_each(|(message, tokens)| add(message, tokens));
        }
        // The runtime shuts down and has no other threads any more.
    }

    for message in messages {
        add(message, counter.count_message(message));
    }
}

/// Counts the tokens of each message on a thread for blocking work.
async fn count_on_thread(
    counter: Arc<dyn TokenCounter>,
    messages: Vec<Arc<Message>>,
) -> Result<Vec<u64>> {
    blocking_until_dropped(move |cancellation| {
        let messages = messages.iter().take_while(|_| !cancellation.is_cancelled());
        let counts = messages.map(|message| counter.count_message(message));
        Ok(counts.collect())
    })
    .await
}

/// Returns `true` if messages have so much text together that counting it takes a noticeable time.
pub(crate) fn is_large(messages: &[Arc<Message>]) -> bool {
    let mut room = LARGE_TEXT;
    messages.iter().any(|message| {
        let size = message_size(message);
        let is_over = size > room;
        room = room.saturating_sub(size);
        is_over
    })
}
