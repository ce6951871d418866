//! Stores with logs on a local disk, and a common way to open and damage them.

use std::path::Path;

use agentcore::session::Record;
use agentcore::{Message, SessionStore};
use tempfile::TempDir;

/// A store that keeps the log of each session in a folder.
pub trait Place: SessionStore + Clone {
    /// The place of damaged parts, as reports of damage name it.
    const ASIDE: &str;
    /// The distance of the offsets that are damaged between the ends of lines, in bytes.
    const STEP: usize;
    /// The size from which a log gets a snapshot, in bytes.
    const SNAPSHOT_AFTER: usize = 1024 * 1024;

    fn open(folder: &Path) -> Self;

    fn log(&self, id: &str) -> Vec<u8>;

    /// Replaces the log by these bytes, without the store.
    fn put(&self, id: &str, bytes: &[u8]);

    /// Returns the damaged parts that were set aside, with their offsets.
    fn aside(&self, id: &str) -> Vec<(u64, Vec<u8>)>;

    fn forget_aside(&self, id: &str);
}

/// A store in a folder of its own.
pub struct Held<P> {
    pub store: P,
    folder: TempDir,
}

impl<P: Place> Held<P> {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = P::open(folder.path());
        Self { store, folder }
    }

    /// Opens the store again, as another process would.
    pub fn reopen(&mut self) {
        self.store = P::open(self.folder.path());
    }

    pub async fn say(&self, id: &str, texts: &[&str]) {
        let lease = self.store.lease(id).await.unwrap();
        let records = texts.iter().map(|text| said(text)).collect();
        self.store.append(&lease, records).await.unwrap();
        let_go(lease);
    }

    pub async fn texts(&self, id: &str) -> Vec<String> {
        let session = self.store.load(id).await.unwrap().unwrap_or_default();
        let messages = session.state.messages.iter();
        messages
            .map(|message| message.text().into_owned())
            .collect()
    }
}

/// Drops a value on another thread, outside the runtime, so that its files are closed when this
/// returns.
pub fn let_go<T: Send + 'static>(held: T) {
    std::thread::spawn(move || drop(held)).join().unwrap();
}

pub fn said(text: &str) -> Record {
    let message = Message::human(text).into();
    Record::Message {
        message,
        input_id: None,
    }
}

#[cfg(feature = "jsonl")]
impl Place for agentcore::session::JsonlStore {
    const ASIDE: &str = "a.damaged";
    const STEP: usize = 3;
    fn open(folder: &Path) -> Self {
        Self::open(folder.join("sessions")).unwrap()
    }

    fn log(&self, id: &str) -> Vec<u8> {
        std::fs::read(file(self.folder(), id, "jsonl")).unwrap()
    }

    fn put(&self, id: &str, bytes: &[u8]) {
        std::fs::write(file(self.folder(), id, "jsonl"), bytes).unwrap();
    }

    fn aside(&self, id: &str) -> Vec<(u64, Vec<u8>)> {
        use base64::Engine;
        let path = file(self.folder(), id, "damaged");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let bytes = match (line["text"].as_str(), line["base64"].as_str()) {
                (Some(text), None) => text.as_bytes().to_vec(),
                (None, Some(base64)) => base64::engine::general_purpose::STANDARD
                    .decode(base64)
                    .unwrap(),
                other => panic!("{other:?}"),
            };

            (line["offset"].as_u64().unwrap(), bytes)
        });

        lines.collect()
    }

    fn forget_aside(&self, id: &str) {
        let _ = std::fs::remove_file(file(self.folder(), id, "damaged"));
    }
}

#[cfg(feature = "jsonl")]
fn file(folder: &Path, id: &str, extension: &str) -> std::path::PathBuf {
    folder.join(format!("{id}.{extension}"))
}

/// Opens the tables without the store.
#[cfg(feature = "sqlite")]
pub fn tables(store: &agentcore::session::SqliteStore) -> rusqlite::Connection {
    rusqlite::Connection::open(store.path()).unwrap()
}

#[cfg(feature = "sqlite")]
impl Place for agentcore::session::SqliteStore {
    const ASIDE: &str = "table `damaged` of";
    const STEP: usize = 9;

    fn open(folder: &Path) -> Self {
        Self::open(folder.join("sessions.db")).unwrap()
    }

    fn log(&self, id: &str) -> Vec<u8> {
        let tables = tables(self);
        let mut rows = tables
            .prepare("SELECT bytes FROM log WHERE session = ?1 ORDER BY at")
            .unwrap();
        let rows = rows
            .query_map([id], |row| row.get::<_, Vec<u8>>(0))
            .unwrap();
        let rows: Vec<_> = rows.map(|bytes| bytes.unwrap()).collect();
        rows.concat()
    }

    /// Splits the bytes at arbitrary offsets. Only the first rows are short, because millions of
    /// rows would take minutes.
    fn put(&self, id: &str, bytes: &[u8]) {
        let mut tables = tables(self);
        let tables = tables.transaction().unwrap();
        let delete = "DELETE FROM log WHERE session = ?1";
        tables.execute(delete, [id]).unwrap();
        let insert = "INSERT INTO log (session, at, bytes) VALUES (?1, ?2, ?3)";
        let mut insert = tables.prepare(insert).unwrap();
        let (head, tail) = bytes.split_at(bytes.len().min(97 * 1_000));
        let mut at = 0;
        for part in head.chunks(97).chain(tail.chunks(4_099)) {
            let place = i64::try_from(at).unwrap();
            insert.execute((id, place, part)).unwrap();
            at += part.len();
        }
        drop(insert);
        tables.commit().unwrap();
    }

    fn aside(&self, id: &str) -> Vec<(u64, Vec<u8>)> {
        let tables = tables(self);
        let sql = "SELECT at, bytes FROM damaged WHERE session = ?1 ORDER BY rowid";
        let mut rows = tables.prepare(sql).unwrap();
        let rows = rows.query_map([id], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
        let rows = rows.unwrap().map(|row| row.unwrap());
        rows.map(|(at, bytes)| (at.unsigned_abs(), bytes)).collect()
    }

    fn forget_aside(&self, id: &str) {
        let delete = "DELETE FROM damaged WHERE session = ?1";
        tables(self).execute(delete, [id]).unwrap();
    }
}

/// Makes a test of each function for each store on a local disk.
macro_rules! for_each_local {
    ($($test:ident),* $(,)?) => {
        #[cfg(feature = "jsonl")]
        mod files {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<agentcore::session::JsonlStore>().await;
            })*
        }

        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<agentcore::session::SqliteStore>().await;
            })*
        }
    };
}

/// Makes a test of each function for each store that is enabled.
macro_rules! for_each_place {
    ($($test:ident),* $(,)?) => {
        crate::session_stores::places::for_each_local!($($test),*);

        #[cfg(any(feature = "postgres", feature = "redis"))]
        crate::session_stores::servers::for_each_server!(Real: $($test),*);
    };
}
pub(super) use {for_each_local, for_each_place};
