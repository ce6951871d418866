//! Stores that keep logs on a disk, opened and damaged alike.

use std::path::Path;

use agentcore::session::Record;
use agentcore::{Message, SessionStore};
use tempfile::TempDir;

/// A store that keeps a log for each session in a folder.
pub trait Place: SessionStore + Clone {
    /// What a report of damage calls the place where it is kept.
    const ASIDE: &str;
    /// How many bytes the tests that damage one after the other go on at a time between the ends of
    /// lines.
    const STEP: usize;
    /// From how many bytes on a log gets a snapshot.
    const SNAPSHOT_AFTER: usize = 1024 * 1024;

    fn open(folder: &Path) -> Self;

    fn log(&self, id: &str) -> Vec<u8>;

    /// Makes these bytes the log, behind the store's back.
    fn put(&self, id: &str, bytes: &[u8]);

    /// What was put aside, with its offsets.
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

    /// As another process sees it.
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
        let found = self.store.load(id).await.unwrap().unwrap_or_default();
        let messages = found.state.messages.iter();
        messages
            .map(|message| message.text().into_owned())
            .collect()
    }
}

/// Drops what closes files, and waits until it has done so.
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

/// The tables, without the store.
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

    /// In rows that end anywhere, longer ones behind the first: millions of rows take minutes.
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

/// Each test for each store on the disk of this machine.
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

/// Each test for each store that was built.
macro_rules! for_each_place {
    ($($test:ident),* $(,)?) => {
        crate::session_stores::places::for_each_local!($($test),*);

        #[cfg(any(feature = "postgres", feature = "redis"))]
        crate::session_stores::servers::for_each_server!(Real: $($test),*);
    };
}
pub(super) use {for_each_local, for_each_place};
