//! The fold of the entries of a log into a stored session.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::message::Message;
use crate::session::json::title_of;
use crate::session::size::SessionSize;
use crate::session::{AgentState, PendingCall, Record, StoredSession};

use super::answered::AnsweredCalls;
use super::capture::{Capture, TasksAndFiles};
use super::line::LogEntry;
use super::memory_limit::MemoryLimit;
use super::summary::{LogSummary, SnapshotPosition};

/// The session that results from the entries so far.
#[derive(Clone, Debug)]
pub(super) struct LogFold {
    session: StoredSession,
    /// The memory of that session.
    size: SessionSize,
    /// The limit of that memory while the log is read.
    pub(super) limit: MemoryLimit,
    /// The messages that were lost, in their order. The writers of later records still had
    /// these messages, so the positions in their records count them.
    lost: Vec<Loss>,
    /// The task list and the files at a requested message.
    capture: Option<Capture>,
    /// The answers to the pending calls; `None` until one of the calls is answered.
    answered: Option<AnsweredCalls>,
    /// The position of the newest snapshot.
    pub(super) snapshot: Option<SnapshotPosition>,
    /// The time of the first record, in milliseconds since the Unix epoch.
    pub(super) created: u64,
    /// The time of the last record.
    pub(super) updated: u64,
    /// The number of the last record.
    pub(super) seq: u64,
    /// The highest fencing token.
    pub(super) token: u64,
}

/// Messages that were lost in one place.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// The position of the message that follows.
    position: usize,
    /// The number of messages that were lost before these.
    before: usize,
    count: usize,
}

impl Loss {
    /// Returns the number of messages that were lost up to and including these.
    fn total(self) -> usize {
        self.before + self.count
    }
}

impl LogFold {
    pub(super) fn new(id: &str) -> Self {
        Self {
            session: StoredSession::new(AgentState::new(id)),
            size: SessionSize::default(),
            limit: MemoryLimit::none(),
            lost: Vec::new(),
            capture: None,
            answered: None,
            snapshot: None,
            created: 0,
            updated: 0,
            seq: 0,
            token: 0,
        }
    }

    /// Creates the fold of a log that a snapshot begins: `session`, and its size in memory.
    pub(super) fn of(id: &str, mut session: StoredSession, size: SessionSize) -> Self {
        session.state.thread_id = id.into();
        Self {
            session,
            size,
            ..Self::new(id)
        }
    }

    /// Sets the limit of the memory that reading the log may take.
    pub(super) fn limited(mut self, limit: MemoryLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the estimated memory of the session, in bytes.
    pub(super) fn memory(&self) -> usize {
        let answered_bytes = self.answered.as_ref().map_or(0, AnsweredCalls::bytes);
        self.size.total().saturating_sub(answered_bytes)
    }

    /// Returns `true` if messages are missing that later records may count.
    pub(super) fn has_loss(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Captures the task list and the files when the message at this position is added.
    pub(super) fn capture_at(mut self, message: usize) -> Self {
        self.capture = Some(Capture::at(message));
        self
    }

    /// Returns the captured task list and files.
    pub(super) fn into_captured(self) -> TasksAndFiles {
        let files = self.session.state.files;
        let capture = self.capture;
        capture.map_or_else(TasksAndFiles::default, |capture| capture.restore(files))
    }

    /// Returns `true` if any record was written.
    pub(super) fn exists(&self) -> bool {
        self.seq > 0
    }

    pub(super) fn session(&self) -> &StoredSession {
        &self.session
    }

    /// Applies an entry. Answered calls are removed from the session at once.
    pub(super) fn apply(&mut self, entry: LogEntry) {
        self.remove_answered();
        match entry {
            LogEntry::Record(record @ Record::Answered { .. }) => self.change(record),
            entry => self.replay(entry),
        }
    }

    /// Applies an entry of a log that is read from its beginning, which may have many answers.
    /// Answered calls may stay in the session until [`remove_answered`](Self::remove_answered) is
    /// called.
    pub(super) fn replay(&mut self, entry: LogEntry) {
        match entry {
            LogEntry::Record(record) => self.apply_record(record),
            // The writer had read the log with this loss, and its counts are correct.
            LogEntry::Checked { .. } => self.lost.clear(),
            // Has no effect on the state: it is the state of the entries before it.
            LogEntry::Snapshot(_) | LogEntry::Mark => {}
        }
    }

    /// Removes the answered calls from the session.
    pub(super) fn remove_answered(&mut self) {
        if let Some(mut answered) = self.answered.take() {
            let ids = answered.take_ids();
            self.change(Record::Answered { ids });
        }
    }

    /// Records answers to pending calls. The calls are removed from the session once many of them
    /// are answered, so that a record with one answer does not examine all calls.
    fn answer(&mut self, ids: Vec<Arc<str>>) {
        let pending = &self.session.state.pending;
        let calls = self
            .answered
            .get_or_insert_with(|| AnsweredCalls::of(pending));
        calls.add(ids);
        if calls.is_due() {
            let ids = calls.take_ids();
            self.change(Record::Answered { ids });
        }
    }

    fn apply_record(&mut self, record: Record) {
        let record = match record {
            Record::Truncated { messages } => return self.truncate_to(messages),
            Record::Answered { ids } => return self.answer(ids),
            record => record,
        };
        if matches!(record, Record::Pending { .. }) {
            self.answered = None;
        }

        if let Some(capture) = &mut self.capture {
            capture.add(&record, &self.session.state);
        }

        let has_positions = matches!(record, Record::Inputs { .. } | Record::Compaction { .. });
        self.change(record);
        if let Some(loss) = self.lost.first()
            && has_positions
        {
            self.clear_positions_from(loss.position);
        }
    }

    /// Applies a record to the session, and counts its memory.
    fn change(&mut self, record: Record) {
        self.size.apply(&mut self.session, record);
    }

    /// Applies a write from which records are missing: before the entry with the index `hole`, or
    /// at the end of the write if no entry has this index. `messages` is the number of messages
    /// after the write, if it is known.
    ///
    /// # Errors
    ///
    /// Returns the error of `check`, which is called before each entry.
    pub(super) fn apply_broken(
        &mut self,
        mut entries: Vec<LogEntry>,
        hole: usize,
        messages: Option<usize>,
        check: &mut impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut remaining = entries.split_off(hole);

        // The message of these infos is missing.
        let is_info =
            |entry: &&LogEntry| matches!(entry, LogEntry::Record(Record::MessageInfo { .. }));
        remaining.drain(..remaining.iter().take_while(is_info).count());
        self.apply_incomplete(entries, check)?;

        // The number of messages before these entries follows from the number after the write,
        // unless a truncation among them sets it.
        if let Some(messages) = messages.filter(|_| !remaining.iter().any(is_truncation)) {
            let is_message =
                |entry: &&LogEntry| matches!(entry, LogEntry::Record(Record::Message { .. }));
            let base_len = messages.saturating_sub(remaining.iter().filter(is_message).count());
            if base_len == self.session.state.messages.len() {
                // The writer had read an earlier loss, and its `Checked` entry is lost as well.
                self.lost.clear();
            }

            self.truncate_to(base_len);
            self.clear_positions_from(self.session.state.messages.len());
        }

        self.apply_incomplete(remaining, check)
    }

    /// Applies entries of a write from which others are missing. A truncation also clears the
    /// positions after it, because the records that cleared them may be missing.
    fn apply_incomplete(
        &mut self,
        entries: Vec<LogEntry>,
        check: &mut impl FnMut() -> Result<()>,
    ) -> Result<()> {
        for entry in entries {
            check()?;
            let is_truncation = is_truncation(&entry);
            self.replay(entry);
            if is_truncation {
                self.clear_positions_from(self.session.state.messages.len());
            }
        }
        Ok(())
    }

    /// Truncates the history to what remains of its first `len` messages, the lost ones included.
    /// Messages that are missing at its end then are added to the lost ones.
    fn truncate_to(&mut self, len: usize) {
        while let Some(loss) = self.lost.last_mut() {
            // The number of these lost messages that are among the first `len`.
            let remaining = len.saturating_sub(loss.position.saturating_add(loss.before));
            if remaining > 0 {
                loss.count = loss.count.min(remaining);
                break;
            }

            self.lost.pop();
        }

        let lost_count = self.lost_count();
        let messages = len - lost_count;
        let current_len = self.session.state.messages.len();
        match messages.checked_sub(current_len).filter(|count| *count > 0) {
            Some(count) => self.add_loss(current_len, count),
            None => self.change(Record::Truncated { messages }),
        }
    }

    /// Returns the number of messages that were lost.
    fn lost_count(&self) -> usize {
        self.lost.last().map_or(0, |loss| loss.total())
    }

    /// Adds lost messages after all others.
    fn add_loss(&mut self, position: usize, count: usize) {
        let before = self.lost_count();
        match self.lost.last_mut() {
            Some(loss) if loss.position == position => loss.count += count,
            _ => self.lost.push(Loss {
                position,
                before,
                count,
            }),
        }
    }

    /// Clears the data that names messages by their positions, from this one on.
    fn clear_positions_from(&mut self, position: usize) {
        let state = &mut self.session.state;
        state.inputs.clear_positions_from(position);
        let compaction = state.compaction.as_ref();
        if compaction.is_some_and(|compaction| compaction.through_message > position) {
            state.compaction = None;
        }
    }

    /// Returns the summary of the log after `entries` are written at this time.
    pub(super) fn summary_after(&self, entries: &[LogEntry], timestamp: u64) -> LogSummary {
        let state = &self.session.state;
        let mut count = state.messages.len();
        let mut first_text = self.session.first_text.clone();
        let mut pending: Vec<&PendingCall> = state.pending.iter().collect();
        let mut metadata = (&state.user_id, &state.title, &state.cwd, &state.parent);
        for entry in entries {
            let LogEntry::Record(record) = entry else {
                continue;
            };

            match record {
                Record::Message { message, .. } => {
                    count += 1;
                    if let Message::User(_) = **message {
                        first_text = first_text.or_else(|| title_of(message));
                    }
                }
                Record::Truncated { messages: 0 } if count == 0 => first_text = None,
                Record::Truncated { messages } => count = count.min(*messages),
                Record::About {
                    user_id,
                    title,
                    cwd,
                    parent,
                } => metadata = (user_id, title, cwd, parent),
                Record::Pending { calls } => pending = calls.iter().collect(),
                Record::Answered { ids } => {
                    let ids: HashSet<_> = ids.iter().collect();
                    pending.retain(|call| !ids.contains(&call.id));
                }
                _ => {}
            }
        }

        let (user_id, title, cwd, parent) = metadata;
        // The pending calls of a fork wait in the session that asked about them.
        pending.retain(|call| call.session_id == state.thread_id);
        LogSummary {
            messages: count,
            pending: pending.len(),
            created: if self.exists() {
                self.created
            } else {
                timestamp
            },
            title: title.clone().or(first_text),
            user_id: user_id.clone(),
            cwd: cwd.clone(),
            parent: parent.clone(),
            snapshot: self.snapshot,
        }
    }
}

fn is_truncation(entry: &LogEntry) -> bool {
    matches!(entry, LogEntry::Record(Record::Truncated { .. }))
}

#[cfg(test)]
mod tests;
