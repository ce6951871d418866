//! Logs with one fault each, which the conformance suite reports.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use agentcore::session::{Log, LogTail, Repair};
use agentcore::testing::conformance;
use agentcore::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    ShortTail,
    OtherSize,
    SecondWriter,
    WriterStays,
    RemovedWhileOpen,
    RemovedAtAnySize,
    NotRemoved,
    Untruncated,
    IdsInOneCase,
    TailsInAnyOrder,
    NewLogsExist,
    PiecesTwice,
    ReadGoesOn,
    LostOnReopen,
    ChangedOnAppend,
}

/// Logs in memory with a fault.
#[derive(Clone)]
struct Faulty(Fault, Arc<Mutex<Logs>>);

#[derive(Default)]
struct Logs {
    bytes: HashMap<Arc<str>, Vec<u8>>,
    open: HashSet<Arc<str>>,
}

struct Writer(Faulty, Arc<str>);

impl Drop for Writer {
    fn drop(&mut self) {
        if self.0.0 != Fault::WriterStays {
            self.0.logs().open.remove(&self.1);
        }
    }
}

impl Faulty {
    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.1.lock().unwrap()
    }

    fn key(&self, id: &str) -> Arc<str> {
        match self.0 {
            Fault::IdsInOneCase => id.to_lowercase().into(),
            _ => id.into(),
        }
    }
}

impl Log for Faulty {
    type Writer = Writer;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        Ok(self.logs().bytes.keys().cloned().collect())
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        let logs = self.logs();
        let bytes = logs.bytes.get(&self.key(id));
        let bytes = bytes.filter(|bytes| !bytes.is_empty() || self.0 == Fault::NewLogsExist);
        let len = match self.0 {
            Fault::ShortTail => len / 2,
            _ => len,
        };
        Ok(bytes.map(|bytes| LogTail::of(bytes, len)))
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer, LogTail)> {
        let key = self.key(id);
        let is_free = self.logs().open.insert(key.clone());
        if !is_free && self.0 != Fault::SecondWriter {
            return Err(Error::session_busy(id));
        }

        let writer = Writer(self.clone(), key.clone());
        if self.0 == Fault::NewLogsExist {
            self.logs().bytes.entry(key).or_default();
        }
        let tail = self.tail(id, len)?;
        Ok((writer, tail.unwrap_or_default()))
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
        let mut logs = self.logs();
        let log = logs.bytes.entry(writer.1.clone()).or_default();
        log.extend_from_slice(bytes);
        match self.0 {
            Fault::OtherSize => return Ok(bytes.len() as u64),
            Fault::ChangedOnAppend => log.make_ascii_uppercase(),
            _ => {}
        }
        Ok(log.len() as u64)
    }

    fn repair(&self, writer: &mut Writer, repair: &Repair<'_>) -> Result<Option<String>> {
        let end = repair
            .truncate_to()
            .filter(|_| self.0 != Fault::Untruncated);
        if let (Some(end), Some(log)) = (end, self.logs().bytes.get_mut(&writer.1)) {
            log.truncate(usize::try_from(end).unwrap());
        }
        Ok(None)
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        let mut logs = self.logs();
        let key = self.key(id);
        if logs.open.contains(&key) && self.0 != Fault::RemovedWhileOpen {
            return Err(Error::session_busy(id));
        }

        let size = logs.bytes.get(&key).map(|bytes| bytes.len() as u64);
        let is_other = expected_size.is_some() && expected_size != size;
        if is_other && self.0 != Fault::RemovedAtAnySize {
            return Ok(false);
        }

        match self.0 {
            Fault::NotRemoved => Ok(size.is_some()),
            _ => Ok(logs
                .bytes
                .remove(&key)
                .is_some_and(|bytes| !bytes.is_empty())),
        }
    }

    fn read(&self, id: &str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let Some(tail) = self.tail(id, u64::MAX)? else {
            return Ok(false);
        };

        for piece in tail.bytes.chunks(1_000) {
            match self.0 {
                Fault::ReadGoesOn => drop(each(piece)),
                Fault::PiecesTwice => each(piece).and_then(|()| each(piece))?,
                _ => each(piece)?,
            }
        }
        Ok(true)
    }

    fn tails(&self, ids: &[Arc<str>], len: u64) -> Result<Vec<Result<Option<LogTail>>>> {
        let mut ids = ids.to_vec();
        if self.0 == Fault::TailsInAnyOrder {
            ids.sort();
        }
        Ok(ids.iter().map(|id| self.tail(id, len)).collect())
    }
}

async fn suite(fault: Fault) -> Result<()> {
    let make = || Faulty(fault, Arc::default());
    let reopen = |log: Faulty| match fault {
        Fault::LostOnReopen => Faulty(fault, Arc::default()),
        _ => log,
    };
    conformance::session_log(make, reopen).await
}

#[tokio::test]
async fn suite_of_logs_names_each_fault() {
    suite(Fault::None).await.unwrap();
    let faults = [
        (Fault::ShortTail, "reading the end"),
        (Fault::OtherSize, "appending"),
        (Fault::SecondWriter, "writers"),
        (Fault::WriterStays, "writers"),
        (Fault::RemovedWhileOpen, "removing"),
        (Fault::RemovedAtAnySize, "removing"),
        (Fault::NotRemoved, "removing"),
        (Fault::Untruncated, "repairing"),
        (Fault::IdsInOneCase, "ids"),
        (Fault::TailsInAnyOrder, "lists"),
        (Fault::NewLogsExist, "logs without bytes"),
        (Fault::PiecesTwice, "appending"),
        (Fault::ReadGoesOn, "appending"),
        (Fault::LostOnReopen, "reopening"),
        (Fault::ChangedOnAppend, "damage"),
    ];

    for (fault, name) in faults {
        let error = suite(fault).await.unwrap_err();
        let mut lines = error.text().lines();
        assert!(
            lines.any(|line| line.starts_with(name)),
            "{fault:?}: {error}"
        );
    }
}
