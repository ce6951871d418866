//! The positions at which a history may be cut.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Messages, TokenCounter, is_large};
use crate::util::Cancellation;
use crate::util::blocking::blocking_until_dropped;

/// The least number of messages that are kept.
const MIN_KEPT: usize = 2;

/// The rule for the newest messages that are kept word for word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// The share of the messages, from 0 to 1; at least two are kept.
    pub(crate) share: f64,
    /// The number of messages, instead of a share.
    pub(crate) count: Option<usize>,
    /// The maximum number of tokens kept, unless the last two messages alone have more.
    pub(crate) tokens: u64,
}

/// Returns the index of the first message that is kept, or `None` if there is nothing to
/// summarize. The messages from `from` up to that index go into a summary.
///
/// Long messages are counted on a thread for blocking work.
pub(crate) async fn cut(
    messages: &Messages,
    from: usize,
    keep: Keep,
    counter: &Arc<dyn TokenCounter>,
) -> Result<Option<usize>> {
    if !is_large(messages.as_slice()) {
        let cancellation = Cancellation::default();
        return Ok(cut_now(messages, from, keep, &**counter, &cancellation));
    }
    let messages = messages.clone();
    let counter = counter.clone();
    blocking_until_dropped(move |cancellation| {
        Ok(cut_now(&messages, from, keep, &*counter, cancellation))
    })
    .await
}

/// Does what [`cut`] does, on the thread of the caller.
fn cut_now(
    messages: &Messages,
    from: usize,
    keep: Keep,
    counter: &dyn TokenCounter,
    cancellation: &Cancellation,
) -> Option<usize> {
    let len = messages.len();
    let count = len.checked_sub(from)?;
    let kept_count = keep.count.unwrap_or((count as f64 * keep.share) as usize);
    let count_index = len - kept_count.clamp(MIN_KEPT.min(count), count);
    let token_index = split_until(messages, keep.tokens, counter, cancellation);
    let token_index = token_index.min(len.saturating_sub(MIN_KEPT));
    let is_legal = boundaries(messages);
    // Both limits apply, so the later index counts: fewer messages are kept.
    let cut_index = (from..=count_index.max(token_index))
        .rev()
        .find(|index| is_legal[*index])?;
    (cut_index > from).then_some(cut_index)
}

/// Returns the index of the first of the newest messages that together have at most `max_tokens`,
/// moved toward the beginning until no tool call is separated from its result. The last message
/// always fits, however long it is.
///
/// ```
/// use agentcore::Messages;
/// use agentcore::hooks::split_index;
/// use agentcore::message::EstimateCounter;
///
/// let text = "x".repeat(400);
/// let history = Messages::new()
///     .human(text.as_str())
///     .ai(text.as_str())
///     .human(text.as_str())
///     .ai(text.as_str());
/// assert_eq!(split_index(&history, 250, &EstimateCounter), 2);
/// ```
pub fn split_index(messages: &Messages, max_tokens: u64, counter: &dyn TokenCounter) -> usize {
    split_until(messages, max_tokens, counter, &Cancellation::default())
}

/// Does what [`split_index`] does. If `cancellation` is cancelled before the end, the index has no
/// meaning.
fn split_until(
    messages: &Messages,
    max_tokens: u64,
    counter: &dyn TokenCounter,
    cancellation: &Cancellation,
) -> usize {
    let mut index = messages.len();
    let mut tokens = 0_u64;
    for message in messages.as_slice().iter().rev() {
        if cancellation.is_cancelled() {
            return 0;
        }

        tokens = tokens.saturating_add(counter.count_message(message));
        if tokens > max_tokens && index < messages.len() {
            break;
        }

        index -= 1;
    }

    let is_legal = boundaries(messages);
    (0..=index)
        .rev()
        .find(|index| is_legal[*index])
        .unwrap_or(0)
}

/// Returns, for each index and for the end, `true` if a cut there separates no call from its
/// result. A call that waits for its result, or for an approval, is never cut off.
fn boundaries(messages: &Messages) -> Vec<bool> {
    let mut open_calls = HashSet::new();
    let mut is_legal = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        let is_result = message.as_tool_result().is_some();
        is_legal.push(open_calls.is_empty() && !is_result);
        match message {
            Message::Tool(result) => {
                open_calls.remove(&result.tool_call_id);
            }
            message => open_calls.extend(message.tool_calls().map(|call| call.id.clone())),
        }
    }

    is_legal.push(open_calls.is_empty());
    is_legal
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use futures::FutureExt;

    use super::*;
    use crate::util::sync::lock;

    /// Counts its calls; each announces itself and waits.
    struct Held {
        calls: AtomicUsize,
        begun: Mutex<Sender<()>>,
        go: Mutex<Receiver<()>>,
    }

    impl TokenCounter for Held {
        fn count_text(&self, _text: &str) -> u64 {
            1
        }

        fn count_message(&self, _message: &Message) -> u64 {
            self.calls.fetch_add(1, Ordering::SeqCst);
            lock(&self.begun).send(()).unwrap();
            // The sender is gone once the test lets all calls continue.
            let _ = lock(&self.go).recv();
            1
        }
    }

    #[tokio::test]
    async fn dropped_cut_counts_no_further_message() {
        let (begun, began) = channel();
        let (go, wait) = channel();
        let slow_counter = Arc::new(Held {
            calls: AtomicUsize::new(0),
            begun: Mutex::new(begun),
            go: Mutex::new(wait),
        });
        let text = "x".repeat(200 * 1024);
        let messages: Messages = (0..9).map(|_| Message::human(text.as_str())).collect();
        let keep = Keep {
            share: 0.1,
            count: None,
            tokens: 1_000,
        };
        let counter: Arc<dyn TokenCounter> = slow_counter.clone();
        let mut future = Box::pin(cut(&messages, 0, keep, &counter));
        assert!(future.as_mut().now_or_never().is_none());
        began.recv().unwrap();
        drop(future);
        drop(counter);
        drop(go);
        while Arc::strong_count(&slow_counter) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(slow_counter.calls.load(Ordering::SeqCst), 1);
    }
}
