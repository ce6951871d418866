//! Sessions that an earlier version wrote: they are read, continued and read again.
//!
//! `tests/data/sessions` has logs, each next to the export of its session.

use std::path::{Path, PathBuf};

use agentcore::session::DamageKind;
use agentcore::session::{JsonlStore, SqliteStore};
use agentcore::{AgentState, Message, SessionStore};

use super::places::{let_go, said};

const NAMES: [&str; 4] = ["full", "calls", "cut", "damaged"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/sessions")
        .join(name)
}

fn expected(name: &str) -> String {
    std::fs::read_to_string(fixture(&format!("{name}.json"))).unwrap()
}

/// A store in a new folder with copies of the logs.
fn files() -> (tempfile::TempDir, JsonlStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::open(folder.path().join("sessions")).unwrap();
    for name in NAMES {
        let log = format!("{name}.jsonl");
        std::fs::copy(fixture(&log), store.folder().join(&log)).unwrap();
    }
    (folder, store)
}

/// A store with a copy of the database.
fn database() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    std::fs::copy(fixture("sessions.db"), &path).unwrap();
    let store = SqliteStore::open(path).unwrap();
    (folder, store)
}

async fn is_read_and_continued<S: SessionStore>(store: S, name: &str, reopen: impl Fn(S) -> S) {
    let old = expected(name);
    assert_eq!(store.export(name).await.unwrap(), old, "{name}");

    let lease = store.lease(name).await.unwrap();
    let before = store.load(name).await.unwrap().unwrap();
    assert_eq!(before.damage.is_empty(), name != "damaged", "{name}");
    store.append(&lease, vec![said("next")]).await.unwrap();
    let_go(lease);
    let store = reopen(store);
    let stored = store.load(name).await.unwrap().unwrap();
    assert!(stored.damage.is_empty(), "{name}: reported once");
    let mut continued = before.state.clone();
    continued.messages.push(Message::human("next"));
    assert_eq!(json(&stored.state), json(&continued), "{name}");
    assert_eq!(stored.started, before.started, "{name}");
    assert_eq!(stored.ended, before.ended, "{name}");
    assert_eq!(stored.input_ids, before.input_ids, "{name}");

    let lease = store.lease(name).await.unwrap();
    continued.messages.push(Message::ai("answer"));
    continued.title = Some("continued".into());
    store.save(&lease, &continued).await.unwrap();
    let_go(lease);
    let store = reopen(store);
    let stored = store.load(name).await.unwrap().unwrap();
    assert_eq!(json(&stored.state), json(&continued), "{name}");
    assert!(stored.started.is_empty() && stored.ended.is_empty() && stored.input_ids.is_empty());
}

fn json(state: &AgentState) -> String {
    serde_json::to_string(state).unwrap()
}

#[tokio::test]
async fn earlier_session_files_are_read_and_continued() {
    for name in NAMES {
        let (_folder, store) = files();
        let reopen = |store: JsonlStore| JsonlStore::open(store.folder()).unwrap();
        is_read_and_continued(store, name, reopen).await;
    }
}

#[tokio::test]
async fn earlier_database_is_read_and_continued() {
    for name in NAMES {
        let (_folder, store) = database();
        let reopen = |store: SqliteStore| SqliteStore::open(store.path()).unwrap();
        is_read_and_continued(store, name, reopen).await;
    }
}

#[tokio::test]
async fn append_to_an_earlier_file_keeps_its_bytes() {
    for name in ["full", "calls", "cut"] {
        let (_folder, store) = files();
        let path = store.folder().join(format!("{name}.jsonl"));
        let lease = store.lease(name).await.unwrap();
        store.append(&lease, vec![said("next")]).await.unwrap();
        let_go(lease);
        let (old, new) = (
            std::fs::read(fixture(&format!("{name}.jsonl"))).unwrap(),
            std::fs::read(path).unwrap(),
        );
        assert!(new.len() > old.len() && new.starts_with(&old), "{name}");
    }
}

#[tokio::test]
async fn damage_in_an_earlier_file_is_reported_with_its_kinds() {
    let (_folder, store) = files();
    let lease = store.lease("damaged").await.unwrap();
    let stored = store.load("damaged").await.unwrap().unwrap();
    let damage: Vec<_> = stored.damage.iter().map(|part| part.kind).collect();
    let expected = [
        DamageKind::Corrupt,
        DamageKind::Missing,
        DamageKind::Stale,
        DamageKind::TornTail,
    ];
    assert_eq!(damage, expected);
    let_go(lease);
}

#[tokio::test]
async fn list_shows_earlier_sessions() {
    let (_folder, files) = files();
    let (_held, database) = database();
    for mut list in [files.list().await.unwrap(), database.list().await.unwrap()] {
        list.sort_by(|a, b| a.id.cmp(&b.id));
        let entries: Vec<_> = list
            .iter()
            .map(|info| (&*info.id, info.title.as_deref(), info.messages))
            .collect();
        let expected = [
            ("calls", Some("Do two things"), 2),
            ("cut", Some("one"), 4),
            ("damaged", Some("one"), 7),
            ("full", Some("A title"), 6),
        ];
        assert_eq!(entries, expected);
        assert!(
            list.iter()
                .all(|info| info.problem.is_none() && info.created_at.is_some())
        );
        assert_eq!(list[3].user_id.as_deref(), Some("user_1"));
        assert_eq!(list[3].cwd.as_deref(), Some("/srv/project"));
    }
}
