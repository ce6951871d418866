//! The size of what answers and tool results add to a session's history.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Messages, Part};
use crate::model::{ModelResponse, value_size};

use super::config::Limits;
use super::result_limits::{MIN_RESULT_BYTES, ResultLimits, part_len};

/// The results of the calls of one answer may have as many bytes together as this many results.
const RESULTS_PER_BATCH: usize = 2;

/// The values and the bytes in messages of models and tools. Those of users are the caller's own.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    /// In the arguments of calls.
    arguments: usize,
    /// In the details of results.
    details: usize,
    bytes: usize,
}

impl Amount {
    fn of(messages: &[impl AsRef<Message>]) -> Self {
        let mut amount = Self::default();
        for message in messages {
            amount.add_message(message.as_ref());
        }
        amount
    }

    fn add_message(&mut self, message: &Message) {
        if message.role().is_user_input() {
            return;
        }
        self.add_parts(message.content().parts());
        let Some(result) = message.as_tool_result() else {
            return;
        };
        let (len, values) = result.details.as_ref().map_or((0, 0), value_size);
        self.details = self.details.saturating_add(values);
        let display_len = result.display.as_ref().map_or(0, String::len);
        self.bytes = self.bytes.saturating_add(len).saturating_add(display_len);
    }

    fn add_parts(&mut self, parts: &[Part]) {
        for part in parts {
            let mut len = part_len(part);
            if let Part::ToolCall(call) = part {
                let (args_len, values) = value_size(&call.args);
                let raw_len = call.raw_args.as_ref().map_or(0, |raw| raw.len());
                self.arguments = self.arguments.saturating_add(values);
                len = args_len.saturating_add(raw_len);
            }
            self.bytes = self.bytes.saturating_add(len);
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            arguments: self.arguments.saturating_add(other.arguments),
            details: self.details.saturating_add(other.details),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn values(self) -> usize {
        self.arguments.saturating_add(self.details)
    }
}

/// The size of a history, and its limits.
///
/// The messages of the run itself count for as long as it lasts; those that were loaded count until
/// a summary covers them. So neither a long run nor a long session outgrows the limits, and a session
/// that is over them can continue once it is compacted.
#[derive(Debug)]
pub(super) struct HistorySize {
    loaded: Amount,
    added: Amount,
    max_values: usize,
    max_bytes: usize,
    max_result_bytes: usize,
    /// True once the run was warned that details are not kept.
    is_warned: AtomicBool,
}

impl HistorySize {
    /// The size of a loaded history, of which a summary covers this many messages.
    pub(super) fn new(limits: &Limits, messages: &Messages, covered: usize) -> Self {
        let loaded = messages.as_slice().get(covered..).unwrap_or_default();
        Self {
            loaded: Amount::of(loaded),
            added: Amount::default(),
            max_values: limits.max_history_values,
            max_bytes: limits.max_history_bytes,
            max_result_bytes: limits.max_result_bytes,
            is_warned: AtomicBool::new(false),
        }
    }

    /// Measures the history again after messages of it were removed or covered. The first
    /// `loaded` ones were there before the run.
    pub(super) fn restart(&mut self, messages: &Messages, covered: usize, loaded: usize) {
        let messages = messages.as_slice();
        let (loaded, added) = messages.split_at(loaded.min(messages.len()));
        self.loaded = Amount::of(loaded.get(covered..).unwrap_or_default());
        self.added = Amount::of(added);
    }

    pub(super) fn add(&mut self, messages: &[impl AsRef<Message>]) {
        self.added = self.added.plus(Amount::of(messages));
    }

    /// Adds the parts of an answer that joins a message of the history.
    pub(super) fn add_parts(&mut self, parts: &[Part]) {
        self.added.add_parts(parts);
    }

    fn total(&self) -> Amount {
        self.loaded.plus(self.added)
    }

    /// The bytes that an answer may add.
    pub(super) fn room(&self) -> usize {
        self.max_bytes.saturating_sub(self.total().bytes)
    }

    /// Checks the history, with an answer that is to be added.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ResponseTooLarge`].
    pub(super) fn check(&self, answer: Option<&ModelResponse>) -> Result<()> {
        let mut added = Amount::default();
        if let Some(answer) = answer {
            added.add_parts(answer.content.parts());
        }

        let total = self.total().plus(added);
        let check = |count: usize, limit: usize, unit: &str, option: &str| {
            if count <= limit {
                return Ok(());
            }

            let subject = match answer {
                Some(_) => "with this answer, the history of the session would have",
                None => "the history of the session has",
            };

            Err(Error::new(
                ErrorKind::ResponseTooLarge,
                format!(
                    "{subject} {count} {unit}, and at most {limit} are allowed; compact it with a \
                     SummarizationHook or a compactor before the next run, continue from an \
                     earlier message with rewind_to(..), start another session, or raise \
                     AgentBuilder::{option}"
                ),
            ))
        };

        check(
            total.values(),
            self.max_values,
            "JSON values in calls and results",
            "max_history_values",
        )?;
        check(
            total.bytes,
            self.max_bytes,
            "bytes in answers and results",
            "max_history_bytes",
        )
    }

    /// Returns `true` if there is little room left and a summary of loaded messages would make some.
    pub(super) fn is_crowded(&self) -> bool {
        let total = self.total();
        let is_full =
            |total: usize, loaded: usize, limit: usize| total > limit / 4 * 3 && loaded > limit / 4;
        is_full(total.values(), self.loaded.values(), self.max_values)
            || is_full(total.bytes, self.loaded.bytes, self.max_bytes)
    }

    /// The limits of each result of so many calls, which are kept until the last of them ends. The
    /// same for all, so that it does not depend on the order in which they end.
    ///
    /// Details take up to one half of all values, so that there is room for calls.
    pub(super) fn result_limits(&self, calls: usize) -> ResultLimits {
        let calls = calls.max(1);
        let batch_bytes = self.max_result_bytes.saturating_mul(RESULTS_PER_BATCH);
        let share = batch_bytes.min(self.room()) / calls;
        let details = (self.max_values / 2).saturating_sub(self.total().details);
        ResultLimits {
            max_bytes: share.min(self.max_result_bytes).max(MIN_RESULT_BYTES),
            max_values: details / calls,
        }
    }

    /// The warning about details that are not kept; `None` after the first time.
    pub(super) fn warning(&self, tool: &str) -> Option<String> {
        let is_first = !self.is_warned.swap(true, Ordering::Relaxed);
        is_first.then(|| {
            format!(
                "the details of a result of tool {tool:?} were removed, and those of later results \
                 may be: the history of the session holds at most {} JSON values, one half of them \
                 in details; compact it, or raise AgentBuilder::max_history_values",
                self.max_values
            )
        })
    }
}
