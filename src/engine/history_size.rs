//! The size of a session's history.

use crate::error::{Error, ErrorKind, Result};
use crate::message::{
    MESSAGE_SIZE, Message, Messages, Part, ToolCall, ToolResult, message_size, parts_size,
    result_size,
};
use crate::model::ModelResponse;
use crate::util::byte_pool::{BytePool, PoolShare};
use crate::util::json_size::escaped_len;

use super::config::Limits;
use super::result_limits::{MIN_RESULT_BYTES, limit_result};

/// The limit of all results of one response together, in multiples of the limit of one result.
const RESULTS_PER_BATCH: usize = 2;

/// The limit of the messages that a summary covers, which stay in memory, in multiples of the limit
/// of the history.
const COVERED_HISTORIES: usize = 2;

/// The room that the history keeps for the result of a call, without the call's id and name: a
/// result of the smallest limit has a content of [`MIN_RESULT_BYTES`], details and a display text
/// of twice that together, and the notes of the run.
const RESULT_ROOM: usize = 5 * MIN_RESULT_BYTES;

/// Returns the room that the history keeps for the results of calls.
pub(super) fn room_for_results<'a>(calls: impl IntoIterator<Item = &'a ToolCall>) -> usize {
    calls
        .into_iter()
        .map(|call| RESULT_ROOM + escaped_len(&call.id) + escaped_len(&call.name))
        .fold(0, usize::saturating_add)
}

/// Returns the approximate size of messages in bytes.
fn size_of_messages(messages: &[impl AsRef<Message>]) -> usize {
    messages
        .iter()
        .map(AsRef::as_ref)
        .map(message_size)
        .fold(0, usize::saturating_add)
}

/// The size of an input that was checked. It is measured once, because an input may be a long
/// history.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputSize(usize);

/// The size of a history, and its two limits: its own limit, and the limit of the pool that it
/// shares with the histories of other runs of its tree.
///
/// The messages of the run itself count for as long as it lasts, even those that a summary covers.
/// Loaded messages count until a summary covers them, so that a session that exceeds the limits can
/// continue once it is compacted; those that are covered have a limit of their own.
#[derive(Debug)]
pub(super) struct HistorySize {
    /// The bytes of loaded messages that a summary covers. They are not sent.
    covered: usize,
    /// The bytes of the other loaded messages.
    loaded: usize,
    /// The bytes of messages that this run added.
    added: usize,
    /// The bytes of a response that was admitted and is not stored yet.
    response: usize,
    share: PoolShare,
    max_bytes: usize,
    max_result_bytes: usize,
}

impl HistorySize {
    /// Creates the size of an empty history.
    pub(super) fn new(limits: &Limits, pool: &BytePool) -> Self {
        Self {
            covered: 0,
            loaded: 0,
            added: 0,
            response: 0,
            share: pool.share(),
            max_bytes: limits.max_history_bytes,
            max_result_bytes: limits.max_result_bytes,
        }
    }

    /// Measures the history, again after some of its messages were removed or covered by a summary.
    /// A summary covers the first `covered_count` messages. The first `loaded_count` messages were
    /// loaded, the others were added by this run.
    pub(super) fn restart(
        &mut self,
        messages: &Messages,
        covered_count: usize,
        loaded_count: usize,
    ) {
        let messages = messages.as_slice();
        let (loaded, added) = messages.split_at(loaded_count.min(messages.len()));
        let (covered, uncovered) = loaded.split_at(covered_count.min(loaded.len()));
        self.covered = size_of_messages(covered);
        self.loaded = size_of_messages(uncovered);
        self.added = size_of_messages(added);
        self.update_share();
    }

    /// Adds messages. One of them may be the response that was admitted.
    pub(super) fn add(&mut self, messages: &[impl AsRef<Message>]) {
        self.add_bytes(size_of_messages(messages));
    }

    /// Adds an input that was checked.
    pub(super) fn add_input(&mut self, input: InputSize) {
        self.add_bytes(input.0);
    }

    /// Adds the parts of a response that joins a message of the history.
    pub(super) fn add_parts(&mut self, parts: &[Part]) {
        self.add_bytes(parts_size(parts));
    }

    fn add_bytes(&mut self, bytes: usize) {
        self.added = self.added.saturating_add(bytes);
        self.response = 0;
        self.update_share();
    }

    fn update_share(&mut self) {
        self.share.set(self.total().saturating_add(self.response));
    }

    fn total(&self) -> usize {
        self.loaded.saturating_add(self.added)
    }

    /// Returns the number of bytes that a response may add.
    pub(super) fn remaining_bytes(&self) -> usize {
        let own_bytes = self.max_bytes.saturating_sub(self.total());
        own_bytes.min(self.share.pool().room())
    }

    /// Checks that an input may be added. Returns its size. An input that does not fit in addition
    /// to the messages from before the run is allowed, because a compaction may make room for it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::RequestTooLarge`] if the limit is exceeded.
    pub(super) fn check_input(&self, messages: &[impl AsRef<Message>]) -> Result<InputSize> {
        let size = size_of_messages(messages);
        if self.added.saturating_add(size) <= self.max_bytes {
            return Ok(InputSize(size));
        }

        let (added, max_bytes) = (self.added, self.max_bytes);
        let text = format!(
            "the input has {size} bytes, in addition to {added} bytes of messages of this run, and \
             at most {max_bytes} are allowed together; it was not stored; send less, keep large \
             media and files elsewhere, or raise AgentBuilder::max_history_bytes"
        );
        Err(Error::new(ErrorKind::RequestTooLarge, text))
    }

    /// Checks that a message of `size` bytes may be added in the middle of a run, or after it.
    /// Unlike an input, it has to fit next to the loaded messages too, because a run with a
    /// response never loses its messages. `room` bytes are kept for the results of calls without
    /// one. Returns the size of the message.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::RequestTooLarge`] if the limit would be exceeded.
    pub(super) fn check_message(&self, size: usize, room: usize) -> Result<InputSize> {
        let used = self.total().saturating_add(room);
        if used.saturating_add(size) <= self.max_bytes {
            return Ok(InputSize(size));
        }

        let (total, max_bytes) = (self.total(), self.max_bytes);
        let results = match room {
            0 => String::new(),
            _ => format!(" and {room} bytes for the results of open calls"),
        };
        let text = format!(
            "the message has {size} bytes, in addition to {total} bytes in the history of the \
             session{results}, and at most {max_bytes} are allowed together; it was not stored; \
             send less, keep large media and files elsewhere, compact the session with a \
             SummarizationHook or a compactor, or raise AgentBuilder::max_history_bytes"
        );
        Err(Error::new(ErrorKind::RequestTooLarge, text))
    }

    /// Returns `true` if messages of these sizes do not all fit when they are added in order, and
    /// the first that does not fit would fit if a summary covered the loaded messages.
    pub(super) fn needs_summary_for(&self, sizes: &[usize]) -> bool {
        let mut bytes = 0_usize;
        let mut sums = sizes.iter().map(|size| {
            bytes = bytes.saturating_add(*size);
            bytes
        });
        let is_over_limit = |bytes: &usize| self.total().saturating_add(*bytes) > self.max_bytes;
        let too_large_sum = sums.find(is_over_limit);
        too_large_sum.is_some_and(|bytes| self.added.saturating_add(bytes) <= self.max_bytes)
    }

    /// Returns `true` if the history exceeds its own limits, so that no model may be called.
    pub(super) fn is_over_limit(&self) -> bool {
        self.total() > self.max_bytes || self.covered > self.max_covered_bytes()
    }

    /// Returns the limit of the messages that a summary covers.
    fn max_covered_bytes(&self) -> usize {
        self.max_bytes.saturating_mul(COVERED_HISTORIES)
    }

    /// Checks the history before a model is called. A response that was admitted and then dropped
    /// no longer counts.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if the limit is exceeded.
    pub(super) fn check(&mut self) -> Result<()> {
        self.response = 0;
        self.update_share();
        let total = self.total();
        let max_bytes = self.max_bytes;
        if total > max_bytes {
            let subject = "the history of the session has";
            return Err(too_large(subject, total, max_bytes));
        }

        let max_covered = self.max_covered_bytes();
        if self.covered <= max_covered {
            return Ok(());
        }

        Err(Error::new(
            ErrorKind::ResponseTooLarge,
            format!(
                "the messages of the session that a summary covers have {} bytes, and at most \
                 {max_covered} are allowed; start another session, or raise \
                 AgentBuilder::max_history_bytes",
                self.covered
            ),
        ))
    }

    /// Counts a response that is about to be stored. There has to be room for short results of its
    /// calls: each call receives one, even if the run is stopped.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if a limit is exceeded. The response is then not
    /// counted.
    pub(super) fn admit(&mut self, response: &ModelResponse) -> Result<()> {
        let size = MESSAGE_SIZE.saturating_add(parts_size(response.content.parts()));
        let total = self.total().saturating_add(size);
        if total > self.max_bytes {
            return Err(too_large(WITH_RESPONSE, total, self.max_bytes));
        }

        let room = room_for_results(response.content.tool_calls());
        if total.saturating_add(room) > self.max_bytes {
            let subject = format!(
                "with this answer and {room} bytes for the results of its calls, the history of \
                 the session would have"
            );
            return Err(too_large(
                &subject,
                total.saturating_add(room),
                self.max_bytes,
            ));
        }

        check_pool(self.share.pool(), size)?;
        self.response = size;
        self.update_share();
        Ok(())
    }

    /// Returns `true` if more than three quarters of the limit are used, and a summary of the
    /// loaded messages could free more than a quarter.
    pub(super) fn is_crowded(&self) -> bool {
        self.total() > self.max_bytes / 4 * 3 && self.loaded > self.max_bytes / 4
    }

    /// Counts a result in the pool until the returned share is dropped, once the result is part of
    /// the history. A result that would leave less than a sixth of the pool free is cut to
    /// [`MIN_RESULT_BYTES`] first: with the default limits, that sixth has room for such results of
    /// all calls of a response.
    pub(super) fn hold_result(&self, result: &mut ToolResult, call: &ToolCall) -> PoolShare {
        let pool = self.share.pool();
        if result_size(result) > pool.room().saturating_sub(pool.max_bytes() / 6) {
            limit_result(result, call, MIN_RESULT_BYTES);
        }

        let mut share = pool.share();
        share.set(result_size(result));
        share
    }

    /// Returns the limit of each result of `calls` calls, whose results stay in memory until the
    /// last call ends. All calls have the same limit, so that it does not depend on the order in
    /// which they end.
    ///
    /// A quarter of the history is left for responses, so that a model can always complete its
    /// work.
    pub(super) fn max_result_bytes(&self, calls: usize) -> usize {
        let batch_bytes = self.max_result_bytes.saturating_mul(RESULTS_PER_BATCH);
        let room = (self.max_bytes / 4 * 3)
            .saturating_sub(self.total())
            .min(self.share.pool().room() / 4 * 3);
        let share = batch_bytes.min(room) / calls.max(1);
        share.min(self.max_result_bytes).max(MIN_RESULT_BYTES)
    }
}

const WITH_RESPONSE: &str = "with this answer, the history of the session would have";

/// Checks that `bytes` of a response, which the pool does not count yet, fit into it.
///
/// # Errors
///
/// Returns [`ErrorKind::ResponseTooLarge`] if the limit is exceeded.
pub(super) fn check_pool(pool: &BytePool, bytes: usize) -> Result<()> {
    let total = pool.used().saturating_add(bytes);
    if total <= pool.max_bytes() {
        return Ok(());
    }
    let subject =
        "with this answer, the history of the session and those of its child runs would have";
    Err(too_large(subject, total, pool.max_bytes()))
}

fn too_large(subject: &str, bytes: usize, max_bytes: usize) -> Error {
    Error::new(
        ErrorKind::ResponseTooLarge,
        format!(
            "{subject} {bytes} bytes in messages, and at most {max_bytes} are allowed; \
             compact it with a SummarizationHook or a compactor before the next run, continue from \
             an earlier message with rewind_to(..), start another session, or raise \
             AgentBuilder::max_history_bytes"
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::Content;

    #[test]
    fn error_of_a_response_names_the_room_for_the_results_of_its_calls() {
        let limits = Limits {
            max_history_bytes: 5_000,
            ..Limits::default()
        };
        let mut size = HistorySize::new(&limits, &BytePool::new(limits.max_history_bytes));
        let call = Part::ToolCall(ToolCall::new("c", "act", json!({})));
        let response = ModelResponse::new(Content::from(vec![call]));
        let error = size.admit(&response).unwrap_err();
        let room = format!("with this answer and {} bytes for", RESULT_ROOM + 4);
        assert!(error.text().contains(&room), "{error}");
    }

    #[test]
    fn response_that_was_dropped_does_not_count_toward_the_next() {
        let limits = Limits::default();
        let pool = BytePool::new(limits.max_history_bytes);
        let mut size = HistorySize::new(&limits, &pool);
        let response = ModelResponse {
            content: Content::from("x".repeat(limits.max_history_bytes / 3 * 2)),
            ..ModelResponse::default()
        };
        size.admit(&response).unwrap();
        assert!(pool.used() > limits.max_history_bytes / 2);

        size.check().unwrap();
        assert_eq!(pool.used(), 0);
        size.admit(&response).unwrap();
        let parts = response.content.parts();
        size.add_parts(parts);
        assert_eq!(pool.used(), parts_size(parts));
    }
}
