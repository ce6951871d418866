//! A durable store over a log that is not this crate's.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentcore::session::{Log, LogStore, LogTail, Record, Repair};
use agentcore::testing::conformance;
use agentcore::{AgentBuilder, Error, ErrorKind, Message, Result, SessionStore};

/// The maximum length of a file name, in bytes.
const MAX_NAME: usize = 255;

/// Logs in files of a folder.
struct Files(PathBuf);

/// A file that is locked until it is dropped.
struct Locked(File);

impl Drop for Locked {
    /// Unlocks explicitly, because a forked child process may keep the file open.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

struct Writer {
    file: Locked,
    id: String,
    len: u64,
    is_outcome_unknown: bool,
}

impl Files {
    fn store(folder: &Path) -> LogStore<Self> {
        LogStore::new(Self::open(folder))
    }

    fn open(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        Self(folder.to_owned())
    }

    /// Returns a path with a hexadecimal name, which is valid for any id and preserves its case.
    fn path(&self, id: &str) -> Result<PathBuf> {
        let name: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
        if name.len() > MAX_NAME {
            let text = format!("session id {id:?} is too long for a file");
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
        Ok(self.0.join(name))
    }

    fn lock(&self, id: &str, create: bool) -> Result<Option<Locked>> {
        let path = self.path(id)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(create);
        loop {
            let file = match options.open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            };

            let file = match file.try_lock() {
                Ok(()) => Locked(file),
                Err(TryLockError::WouldBlock) => return Err(Error::session_busy(id)),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            };

            // Another process may have removed the file before it was locked.
            if is_same_file(&file.0, &path)? {
                return Ok(Some(file));
            }
        }
    }
}

fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((metadata.dev(), metadata.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn id_of(name: &str) -> Option<String> {
    let digits = (0..name.len()).step_by(2).map(|at| name.get(at..at + 2));
    let bytes = digits.map(|digits| u8::from_str_radix(digits?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

fn read_end(file: &mut File, len: u64) -> io::Result<LogTail> {
    let size = file.metadata()?.len();
    let start = file.seek(SeekFrom::Start(size.saturating_sub(len)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let size = start + bytes.len() as u64;
    Ok(LogTail::new(bytes, size))
}

impl Log for Files {
    type Writer = Writer;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(id_of).map(Arc::from));
        }
        Ok(ids)
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        match File::open(self.path(id)?) {
            Ok(mut file) => Ok(Some(read_end(&mut file, len)?).filter(|tail| tail.size > 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer, LogTail)> {
        let file = self.lock(id, true)?;
        let mut file = file.ok_or_else(|| Error::session_busy(id))?;
        let tail = read_end(&mut file.0, len)?;
        let writer = Writer {
            file,
            id: id.to_owned(),
            len: tail.size,
            is_outcome_unknown: false,
        };
        Ok((writer, tail))
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
        if writer.is_outcome_unknown {
            return Err(Error::session_taken_over(&writer.id));
        }

        let outcome = writer.file.0.write_all(bytes);
        if let Err(error) = outcome.and_then(|()| writer.file.0.sync_data()) {
            let undone = writer.file.0.set_len(writer.len);
            let undone = undone.and_then(|()| writer.file.0.sync_data());
            writer.is_outcome_unknown = undone.is_err();
            return Err(error.into());
        }

        writer.len += bytes.len() as u64;
        Ok(writer.len)
    }

    /// Discards damaged parts.
    fn repair(&self, writer: &mut Writer, repair: &Repair<'_>) -> Result<Option<String>> {
        if let Some(end) = repair.truncate_to() {
            writer.file.0.set_len(end)?;
            writer.file.0.sync_data()?;
            writer.len = end;
        }
        Ok(None)
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        let Some(file) = self.lock(id, false)? else {
            return Ok(false);
        };

        let size = file.0.metadata()?.len();
        if expected_size.is_some_and(|expected| expected != size) {
            return Ok(false);
        }

        fs::remove_file(self.path(id)?)?;
        Ok(size > 0)
    }
}

fn record(text: &str) -> Record {
    let message = Message::human(text).into();
    Record::Message {
        message,
        input_id: None,
    }
}

#[tokio::test]
async fn own_log_passes_the_suites() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    let next = || {
        count.set(count.get() + 1);
        folder.path().join(count.get().to_string())
    };

    conformance::session_log(|| Files::open(&next()), |log| Files::open(&log.0))
        .await
        .unwrap();
    let make = || async { Files::store(&next()) };
    let reopen = |store: LogStore<Files>| async move { Files::store(&store.log().0) };
    conformance::session_store(make, reopen).await.unwrap();
    let make_two = || async {
        let path = next();
        (Files::store(&path), Files::store(&path))
    };

    conformance::shared_session_store(make_two).await.unwrap();
}

#[tokio::test]
async fn agent_continues_a_session_of_its_own_store() {
    let folder = tempfile::tempdir().unwrap();
    for (number, text) in ["one", "two"].into_iter().enumerate() {
        let model = agentcore::testing::ScriptedModel::new().say(text);
        let builder = AgentBuilder::new(model).store(Files::store(folder.path()));
        let output = builder.build().unwrap().session("s").run("Hi").await;
        assert_eq!(output.unwrap().messages.len(), 2 * (number + 1));
    }
}

#[tokio::test]
async fn log_over_the_limit_of_its_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Files::store(folder.path());
    let lease = store.lease("a").await.unwrap();
    let text = "x".repeat(1_000);
    store.append(&lease, vec![record(&text)]).await.unwrap();
    let small = store.clone().with_max_session_bytes(2_000);
    let error = small.append(&lease, vec![record(&text)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let option = "LogStore::with_max_session_bytes";
    assert!(error.text().contains(option), "{error}");
    assert!(format!("{store:?}").starts_with("LogStore"));
    drop(lease);
    let _ = store.with_max_session_bytes(100);
    let error = small.load("a").await.unwrap_err();
    assert!(error.text().contains(option), "{error}");
}
