//! The log of one run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::sdk::{SdkMessage, SystemEvent, SystemKind};
use crate::util::json::json_len;
use crate::util::sync::lock;

use super::super::stream::{Encoder, StreamFormat};
use super::limits::RunLimits;
use super::position::Position;

/// The share of a log, as its divisor, that the newest pieces of completed responses may take.
const RESERVE: usize = 8;

/// The bounded log of a run's messages. The run never waits for a reader.
///
/// A *piece* is a partial message of a response. A full log first removes the pieces of completed
/// responses except the newest, since the responses contain their texts, and then the oldest
/// messages. A reader that has not read them yet receives [`ReadOutcome::Lagged`].
pub(super) struct Log {
    inner: Mutex<Inner>,
    /// The number of changes, for waiting readers.
    changes: watch::Sender<u64>,
}

struct Inner {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    max_messages: usize,
    max_bytes: usize,
    /// An encoder in the state before the first entry.
    base: Encoder,
    removed: Removed,
    /// The number of pieces of unfinished responses, by session: that of the thread, and those of
    /// subagents.
    open_pieces: HashMap<Arc<str>, usize>,
    /// The sessions with pieces that were removed from the beginning of the log, and whose response
    /// is still in it or to come.
    head_cut_sessions: HashSet<Arc<str>>,
    /// The number of pieces that can be removed.
    spare_pieces: usize,
    /// The number of pieces of completed responses that are too new to be removed.
    reserved_pieces: usize,
    /// The sequence number of the next message.
    next_seq: u64,
    is_closed: bool,
}

/// A message in the log.
struct LogEntry {
    message: Arc<SdkMessage>,
    /// The size of the message as JSON.
    bytes: usize,
    /// The first pass that removed earlier pieces of the response to which this message belongs,
    /// which changes the message's events in some formats.
    altered_in: Option<u64>,
    /// True if this message lies between removed pieces and their response. No reader can continue
    /// after it, because the part of the response that it has received is unknown.
    is_in_cut_response: bool,
}

/// The sequence numbers up to which messages were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    /// The sequence number after the last removed piece.
    pieces: u64,
    /// The sequence number after the last message removed from the beginning.
    head: u64,
    /// The number of times that pieces were removed.
    passes: u64,
}

impl Removed {
    /// Returns `true` if a reader at `cursor` has missed messages since `earlier`.
    fn has_overtaken(self, cursor: u64, earlier: Self) -> bool {
        (self.pieces > earlier.pieces && cursor < self.pieces)
            || (self.head > earlier.head && cursor < self.head)
    }
}

/// A reader's position in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The sequence number of the next message.
    pub(super) seq: u64,
    removed: Removed,
}

/// The outcome of reading the next message.
pub(super) enum ReadOutcome {
    /// A message, and its size as JSON in bytes.
    Message(Arc<SdkMessage>, usize),
    /// There is no message yet.
    Wait,
    /// Messages were removed that the reader has not read.
    Lagged,
    /// The log has ended.
    End,
}

/// The last event that a reader received before it opens the stream of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum LastReceived<'a> {
    /// The reader is new.
    Nothing,
    /// The event of the run at this position.
    OfRun(&'a Position),
    /// An event of another run.
    OfOtherRun,
}

impl<'a> LastReceived<'a> {
    /// Returns the last event of a reader of the run `run_id`, which was at `position`.
    pub(super) fn of(position: Option<&'a Position>, run_id: &str) -> Self {
        match position {
            None => Self::Nothing,
            Some(position) if *position.run_id == *run_id => Self::OfRun(position),
            Some(_) => Self::OfOtherRun,
        }
    }
}

/// The starting point of a reader.
pub(super) struct ReaderStart {
    pub(super) cursor: Cursor,
    pub(super) encoder: Encoder,
    /// The messages that the reader has received already, for the state of its encoder.
    pub(super) received: Vec<Arc<SdkMessage>>,
    /// The number of events of the next message that the reader has received already.
    pub(super) skip: usize,
    /// True if the reader needs the state of the thread first.
    pub(super) needs_snapshot: bool,
}

impl Log {
    pub(super) fn new(limits: &RunLimits, base: Encoder) -> Self {
        Self {
            inner: Mutex::new(Inner {
                entries: VecDeque::new(),
                bytes: 0,
                max_messages: limits.log_messages.max(1),
                max_bytes: limits.log_bytes,
                base,
                removed: Removed::default(),
                open_pieces: HashMap::new(),
                head_cut_sessions: HashSet::new(),
                spare_pieces: 0,
                reserved_pieces: 0,
                next_seq: 0,
                is_closed: false,
            }),
            changes: watch::Sender::new(0),
        }
    }

    /// Appends a message, unless the log has ended, and wakes the readers.
    pub(super) fn append(&self, message: SdkMessage) {
        let bytes = json_len(&message);
        {
            let mut inner = lock(&self.inner);
            if inner.is_closed {
                return;
            }
            inner.append(Arc::new(message), bytes);
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Appends the last message, which `last` creates from its sequence number, and ends the log.
    /// Returns `false` if the log had ended already.
    pub(super) fn finish(&self, last: impl FnOnce(u64) -> SdkMessage) -> bool {
        {
            let mut inner = lock(&self.inner);
            if inner.is_closed {
                return false;
            }
            let message = last(inner.next_seq);
            let bytes = json_len(&message);
            inner.append(Arc::new(message), bytes);
            inner.is_closed = true;
        }
        self.changes.send_modify(|changes| *changes += 1);
        true
    }

    /// Returns the starting point of a reader: after its position if the log still has it,
    /// otherwise at the first message.
    pub(super) fn start(
        &self,
        format: StreamFormat,
        client_run_id: Option<Arc<str>>,
        last_received: LastReceived<'_>,
    ) -> ReaderStart {
        let inner = lock(&self.inner);
        let encoder = inner.base.in_format(format, client_run_id);
        let resumed = match last_received {
            LastReceived::OfRun(position) => inner.index_of(position.seq).zip(Some(position)),
            LastReceived::Nothing | LastReceived::OfOtherRun => None,
        };
        let Some((index, position)) = resumed else {
            let is_new = matches!(last_received, LastReceived::Nothing);
            let needs_snapshot = !is_new || inner.removed.head > 0;
            let seq = inner.entries.front().map_or(inner.next_seq, LogEntry::seq);
            return ReaderStart {
                cursor: inner.cursor(seq),
                encoder,
                received: Vec::new(),
                skip: 0,
                needs_snapshot,
            };
        };

        let received = inner.entries.range(..index);
        ReaderStart {
            cursor: inner.cursor(position.seq),
            encoder,
            received: received.map(|entry| entry.message.clone()).collect(),
            skip: position.index.saturating_add(1),
            needs_snapshot: false,
        }
    }

    /// Reads the next message, and advances `cursor` past it.
    pub(super) fn next(&self, cursor: &mut Cursor) -> ReadOutcome {
        let inner = lock(&self.inner);
        if inner.removed.has_overtaken(cursor.seq, cursor.removed) {
            return ReadOutcome::Lagged;
        }

        let index = inner
            .entries
            .partition_point(|entry| entry.seq() < cursor.seq);
        let mut entries = inner.entries.range(index..);
        match entries.find(|entry| !entry.continues_cut_response(cursor)) {
            Some(entry) => {
                cursor.seq = entry.seq() + 1;
                ReadOutcome::Message(entry.message.clone(), entry.bytes)
            }
            None if inner.is_closed => ReadOutcome::End,
            None => ReadOutcome::Wait,
        }
    }

    /// Estimates the size of the messages, and of the state before them, in bytes.
    pub(super) fn size(&self) -> usize {
        let inner = lock(&self.inner);
        inner.bytes + inner.base.snapshot_len()
    }

    /// Returns a receiver that reports changes to a waiting reader.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl LogEntry {
    fn seq(&self) -> u64 {
        self.message.seq()
    }

    /// Records that pieces before this message were removed.
    fn alter(&mut self, pass: u64) {
        self.altered_in.get_or_insert(pass);
    }

    /// Returns `true` for a piece of a response whose first pieces were removed before the reader
    /// began. It is skipped, because the reader receives the whole response.
    fn continues_cut_response(&self, cursor: &Cursor) -> bool {
        let is_piece = matches!(&*self.message, SdkMessage::Partial(_));
        let pass = self.altered_in.filter(|_| is_piece);
        pass.is_some_and(|pass| pass <= cursor.removed.passes)
    }
}

impl Inner {
    fn append(&mut self, message: Arc<SdkMessage>, bytes: usize) {
        self.next_seq = message.seq() + 1;
        let session_id = &message.envelope().session_id;
        match &*message {
            SdkMessage::Partial(_) => {
                *self.open_pieces.entry(session_id.clone()).or_default() += 1;
            }
            SdkMessage::Assistant(_) => {
                self.spare_pieces += self.open_pieces.remove(session_id).unwrap_or_default();
                self.spare_pieces += std::mem::take(&mut self.reserved_pieces);
            }
            _ => {}
        }

        self.bytes += bytes;
        self.entries.push_back(LogEntry {
            message,
            bytes,
            altered_in: None,
            is_in_cut_response: false,
        });
        if self.is_full() && self.spare_pieces > 0 {
            self.remove_pieces();
        }
        // The newest message stays, whatever its size.
        while self.is_full() && self.entries.len() > 1 {
            self.remove_first();
        }
    }

    fn is_full(&self) -> bool {
        self.entries.len() > self.max_messages || self.bytes > self.max_bytes
    }

    /// Removes the pieces of completed responses except the newest. The responses contain their
    /// texts.
    fn remove_pieces(&mut self) {
        let reserve_start = self.reserve_start();
        self.removed.passes += 1;
        let pass = self.removed.passes;
        // The last response of each session: the pieces before it belong to completed responses.
        let mut responses: HashMap<Arc<str>, u64> = HashMap::new();
        for entry in &self.entries {
            if let SdkMessage::Assistant(response) = &*entry.message {
                responses.insert(response.envelope.session_id.clone(), entry.seq());
            }
        }

        // The sessions with removed pieces whose response is later in the log.
        let mut cut_sessions: HashSet<Arc<str>> = HashSet::new();
        let mut head_cut_sessions = self.head_cut_sessions.clone();
        head_cut_sessions.retain(|session_id| responses.contains_key(session_id));
        let (mut bytes, mut last, mut reserved) = (0, self.removed.pieces, 0);
        self.entries.retain_mut(|entry| {
            let session_id = &entry.message.envelope().session_id;
            let seq = entry.message.seq();
            let is_before_response = responses
                .get(session_id)
                .is_some_and(|response| seq < *response);
            entry.is_in_cut_response |= !cut_sessions.is_empty() || !head_cut_sessions.is_empty();
            match &*entry.message {
                SdkMessage::Partial(_) if is_before_response && seq >= reserve_start => {
                    if cut_sessions.contains(session_id) {
                        entry.alter(pass);
                    }
                    reserved += 1;
                }
                SdkMessage::Partial(_) if is_before_response => {
                    cut_sessions.insert(session_id.clone());
                    bytes += entry.bytes;
                    last = last.max(seq + 1);
                    return false;
                }
                SdkMessage::Assistant(_) => {
                    head_cut_sessions.remove(session_id);
                    let has_lost_pieces = cut_sessions.remove(session_id);
                    if has_lost_pieces {
                        entry.alter(pass);
                    }
                }
                SdkMessage::System(SystemEvent {
                    kind: SystemKind::StreamRestart { .. },
                    ..
                }) if cut_sessions.contains(session_id) => entry.alter(pass),
                _ => {}
            }
            true
        });
        self.bytes -= bytes;
        self.removed.pieces = last;
        self.spare_pieces = 0;
        self.reserved_pieces = reserved;
    }

    /// Returns the sequence number of the first of the newest pieces, which are kept because
    /// readers that keep up may not have read them.
    fn reserve_start(&self) -> u64 {
        let (mut messages, mut bytes, mut start) = (0, 0, self.next_seq);
        for entry in self.entries.iter().rev() {
            if !matches!(&*entry.message, SdkMessage::Partial(_)) {
                continue;
            }
            messages += 1;
            bytes += entry.bytes;
            if messages > self.max_messages / RESERVE || bytes > self.max_bytes / RESERVE {
                break;
            }
            start = entry.seq();
        }
        start
    }

    fn remove_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.bytes -= entry.bytes;
        self.removed.head = entry.seq() + 1;
        let session_id = &entry.message.envelope().session_id;
        match &*entry.message {
            SdkMessage::Partial(_) => {
                if let Some(count) = self.open_pieces.get_mut(session_id) {
                    *count = count.saturating_sub(1);
                }
                self.head_cut_sessions.insert(session_id.clone());
            }
            SdkMessage::Assistant(_) => {
                self.head_cut_sessions.remove(session_id);
            }
            _ => {}
        }
        self.base.absorb(&entry.message);
    }

    /// Returns the index of the message `seq` if a reader can continue after it.
    fn index_of(&self, seq: u64) -> Option<usize> {
        let index = self.entries.partition_point(|entry| entry.seq() < seq);
        let entry = self.entries.get(index)?;
        let is_place = entry.altered_in.is_none() && !entry.is_in_cut_response;
        (entry.seq() == seq && is_place).then_some(index)
    }

    fn cursor(&self, seq: u64) -> Cursor {
        Cursor {
            seq,
            removed: self.removed,
        }
    }
}
