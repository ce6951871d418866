//! Logs in memory, for tests.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use crate::error::{Error, Result};
use crate::util::sync::lock;

use super::log::{Each, Log, LogTail, Snapshots};
use super::repair::Repair;

/// A step of a log. The callback can make it fail by returning an error.
pub(super) enum LogStep<'a> {
    Open,
    Close,
    /// The end of a log was read.
    Tail(&'a [u8]),
    /// A piece is passed on.
    Piece(&'a [u8]),
    /// No more pieces are passed on.
    End(&'a Result<bool>),
    Append(&'a [u8]),
    /// This number of appends is made together.
    AppendAll(usize),
    /// The bytes were stored. An error is the error of the append, and the writer writes no more.
    Appended(&'a [u8]),
    Repair,
}

pub(super) type OnStep = Arc<dyn Fn(LogStep<'_>) -> Result<()> + Send + Sync>;

/// Logs in memory that call a function at each step, for tests. Clones share the logs.
#[derive(Clone)]
pub(super) struct MemoryLog {
    pub(super) logs: Arc<Mutex<HashMap<Arc<str>, Vec<u8>>>>,
    pub(super) open: Arc<Mutex<HashSet<Arc<str>>>>,
    /// The parts that were set aside.
    pub(super) aside: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The length of the pieces in which a log is read.
    pub(super) piece_len: usize,
    /// True if reading a log never ends: its pieces are passed on again and again.
    pub(super) is_endless: bool,
    /// True if what several sessions write is appended together.
    pub(super) appends_together: bool,
    pub(super) snapshots: Snapshots,
    pub(super) on_step: OnStep,
}

/// The right to write a log in memory.
pub(super) struct Writer {
    log: MemoryLog,
    id: Arc<str>,
    is_outcome_unknown: bool,
}

/// A gate that threads pass one by one, each with a permit.
pub(super) struct Gate {
    arrivals: Sender<ThreadId>,
    permits: Mutex<Receiver<()>>,
}

impl Gate {
    /// Creates a gate. Returns it, the sender of its permits, and the receiver of the threads that
    /// arrive at it.
    pub(super) fn new() -> (Self, Sender<()>, Receiver<ThreadId>) {
        let (arrivals, arrived) = channel();
        let (sender, permits) = channel();
        let permits = Mutex::new(permits);
        (Self { arrivals, permits }, sender, arrived)
    }

    /// Waits for a permit, or until no more can come.
    pub(super) fn pass(&self) {
        let _ = self.arrivals.send(thread::current().id());
        let _ = lock(&self.permits).recv();
    }
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self {
            logs: Arc::default(),
            open: Arc::default(),
            aside: Arc::default(),
            piece_len: usize::MAX,
            is_endless: false,
            appends_together: false,
            snapshots: Snapshots::OnAppend { after: 1024 * 1024 },
            on_step: Arc::new(|_| Ok(())),
        }
    }
}

impl MemoryLog {
    /// Creates one log, of the session `a`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let log = Self::default();
        lock(&log.logs).insert("a".into(), bytes.to_vec());
        log
    }

    /// Calls `on_step` at each step.
    pub(super) fn on_step(
        self,
        on_step: impl Fn(LogStep<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            on_step: Arc::new(on_step),
            ..self
        }
    }

    /// Returns the log of the session `a`.
    pub(super) fn bytes(&self) -> Vec<u8> {
        lock(&self.logs)["a"].clone()
    }

    fn pieces(&self, bytes: &[u8], each: Each<'_>) -> Result<bool> {
        loop {
            for piece in bytes.chunks(self.piece_len) {
                (self.on_step)(LogStep::Piece(piece))?;
                each(piece)?;
            }

            if !self.is_endless {
                return Ok(true);
            }
        }
    }
}

impl Log for MemoryLog {
    type Writer = Writer;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        Ok(lock(&self.logs).keys().cloned().collect())
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        let logs = lock(&self.logs);
        let Some(log) = logs.get(id).filter(|log| !log.is_empty()) else {
            return Ok(None);
        };

        let len = usize::try_from(len).unwrap_or(usize::MAX).min(log.len());
        let mut tail = LogTail::new(&log[log.len() - len..], log.len() as u64);
        drop(logs);
        if self.is_endless {
            tail.size = u64::MAX;
        }

        (self.on_step)(LogStep::Tail(&tail.bytes))?;
        Ok(Some(tail))
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer, LogTail)> {
        let id = Arc::<str>::from(id);
        if !lock(&self.open).insert(id.clone()) {
            return Err(Error::session_busy(&id));
        }

        let log = self.clone();
        let writer = Writer {
            log,
            id,
            is_outcome_unknown: false,
        };
        (self.on_step)(LogStep::Open)?;
        let tail = self.tail(&writer.id, len)?.unwrap_or_default();
        Ok((writer, tail))
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
        if writer.is_outcome_unknown {
            return Err(Error::session_taken_over(&writer.id));
        }

        (self.on_step)(LogStep::Append(bytes))?;
        let mut logs = lock(&self.logs);
        let log = logs.entry(writer.id.clone()).or_default();
        log.extend_from_slice(bytes);
        let size = log.len() as u64;
        drop(logs);
        let outcome = (self.on_step)(LogStep::Appended(bytes));
        writer.is_outcome_unknown = outcome.is_err();
        outcome.map(|()| size)
    }

    fn append_all(&self, appends: &mut [(&mut Writer, &[u8])]) -> Vec<Result<u64>> {
        let outcome = (self.on_step)(LogStep::AppendAll(appends.len()));
        appends
            .iter_mut()
            .map(|(writer, bytes)| match &outcome {
                Ok(()) => self.append(writer, bytes),
                Err(error) => Err(Error::new(error.kind(), error.text())),
            })
            .collect()
    }

    fn appends_together(&self) -> bool {
        self.appends_together
    }

    fn repair(&self, writer: &mut Writer, repair: &Repair<'_>) -> Result<Option<String>> {
        (self.on_step)(LogStep::Repair)?;
        repair.for_each_part(|_, part| {
            lock(&self.aside).push(part.to_vec());
            Ok(())
        })?;

        if let (Some(end), Some(log)) = (repair.truncate_to(), lock(&self.logs).get_mut(&writer.id))
        {
            log.truncate(usize::try_from(end).unwrap());
        }

        Ok(Some("memory".into()))
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        let mut logs = lock(&self.logs);
        let size = logs.get(id).map(|log| log.len() as u64);
        if expected_size.is_some() && expected_size != size {
            return Ok(false);
        }
        Ok(logs.remove(id).is_some_and(|log| !log.is_empty()))
    }

    fn read(&self, id: &str, each: Each<'_>) -> Result<bool> {
        let bytes = lock(&self.logs).get(id).cloned().unwrap_or_default();
        let outcome = if bytes.is_empty() {
            Ok(false)
        } else {
            self.pieces(&bytes, each)
        };

        (self.on_step)(LogStep::End(&outcome))?;
        outcome
    }

    fn snapshots(&self) -> Snapshots {
        self.snapshots
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = (self.log.on_step)(LogStep::Close);
        lock(&self.log.open).remove(&self.id);
    }
}
