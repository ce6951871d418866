//! The positions at which a history may be cut.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::message::{Message, Messages, TokenCounter, is_large};
use crate::util::blocking::blocking;

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

/// The index of the first message that is kept; the messages of `from..` before it go into a
/// summary. `None` when there is nothing to summarize. Long messages are counted on a thread for
/// blocking work.
pub(crate) async fn cut(
    messages: &Messages,
    from: usize,
    keep: Keep,
    counter: &Arc<dyn TokenCounter>,
) -> Result<Option<usize>> {
    if !is_large(messages.as_slice()) {
        return Ok(cut_now(messages, from, keep, &**counter));
    }
    let messages = messages.clone();
    let counter = counter.clone();
    blocking(move || Ok(cut_now(&messages, from, keep, &*counter))).await
}

fn cut_now(
    messages: &Messages,
    from: usize,
    keep: Keep,
    counter: &dyn TokenCounter,
) -> Option<usize> {
    let len = messages.len();
    let count = len.checked_sub(from)?;
    let share = keep.count.unwrap_or((count as f64 * keep.share) as usize);
    let share_index = len - share.clamp(MIN_KEPT.min(count), count);
    let token_index = split_index(messages, keep.tokens, counter).min(len.saturating_sub(MIN_KEPT));
    let is_legal = boundaries(messages);
    let cut_index = (from..=share_index.max(token_index))
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
    let mut index = messages.len();
    let mut tokens = 0_u64;
    for message in messages.as_slice().iter().rev() {
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

/// For each index, and the end: whether every call before it has its result before it. A call that
/// waits for its result, or for an approval, is never cut off.
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
