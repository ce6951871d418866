//! Databases that another program has changed.

use std::fs;
use std::path::Path;

use agentcore::session::SqliteStore;
use agentcore::{Error, ErrorKind, SessionStore};
use rusqlite::Connection;

use super::places::{Held, let_go, said, tables};

const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

fn check(error: &Error, path: &Path, name: &str) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    for part in [
        &path.display().to_string(),
        "left untouched",
        "restore it",
        &format!("{name:?}"),
    ] {
        assert!(error.text().contains(part), "{part}: {error}");
    }
}

/// Returns the changes of another program, and the object that the error names.
fn changes() -> Vec<(String, &'static str)> {
    let view = |name: &str| {
        format!(
            "DROP TABLE {name};
             CREATE VIEW {name} AS {ENDLESS} SELECT 'a' AS session, i AS at, x'00' AS bytes FROM n;"
        )
    };
    let trigger = |event: &str, name: &str| {
        format!(
            "CREATE TRIGGER t {event} ON {name} BEGIN
                 INSERT INTO x {ENDLESS} SELECT i FROM n;
             END;"
        )
    };
    let columns = "session TEXT NOT NULL, at INTEGER NOT NULL";
    let generated = format!(
        "DROP TABLE log;
         CREATE TABLE log ({columns}, bytes BLOB AS (zeroblob(100000000)), UNIQUE (session, at));
         INSERT INTO log VALUES ('a', 0);"
    );
    vec![
        (view("log"), "log"),
        (view("damaged"), "damaged"),
        (trigger("BEFORE INSERT", "log"), "t"),
        (trigger("AFTER DELETE", "damaged"), "t"),
        (trigger("BEFORE UPDATE", "LOG"), "t"),
        (generated, "log"),
        ("CREATE INDEX i ON log (hex(zeroblob(1000000)))".into(), "i"),
        ("DROP TABLE log".into(), "log"),
        ("DROP TABLE damaged".into(), "damaged"),
        ("DROP INDEX damaged_of".into(), "damaged_of"),
        ("ALTER TABLE log ADD COLUMN x TEXT".into(), "log"),
    ]
}

#[tokio::test]
async fn database_with_changed_tables_is_refused_when_it_is_opened() {
    for (sql, name) in changes() {
        let held = Held::<SqliteStore>::new();
        held.say("a", &["one"]).await;
        let path = held.store.path().to_owned();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE x (i);").unwrap();
        connection.execute_batch(&sql).unwrap();
        drop(connection);
        let error = SqliteStore::open(&path).unwrap_err();
        check(&error, &path, name);
    }
}

#[tokio::test]
async fn tables_that_are_changed_while_the_database_is_open_are_refused() {
    for (sql, name) in changes() {
        let held = Held::<SqliteStore>::new();
        held.say("a", &["one"]).await;
        let lease = held.store.lease("a").await.unwrap();
        let path = held.store.path().to_owned();
        tables(&held.store)
            .execute_batch("CREATE TABLE x (i);")
            .unwrap();
        held.store.append(&lease, vec![said("two")]).await.unwrap();
        tables(&held.store).execute_batch(&sql).unwrap();
        for error in [
            held.store
                .append(&lease, vec![said("three")])
                .await
                .unwrap_err(),
            held.store.list().await.unwrap_err(),
            held.store.lease("b").await.unwrap_err(),
            held.store.load("b").await.unwrap_err(),
            held.store.delete("b").await.unwrap_err(),
        ] {
            check(&error, &path, name);
        }
        let_go(lease);
    }
}

#[tokio::test]
async fn other_tables_and_views_are_left_alone() {
    let mut held = Held::<SqliteStore>::new();
    held.say("a", &["one"]).await;
    tables(&held.store)
        .execute_batch(&format!(
            "CREATE TABLE log_notes (i);
             CREATE VIEW logs AS {ENDLESS} SELECT i FROM n;
             CREATE TRIGGER t AFTER INSERT ON log_notes BEGIN DELETE FROM log; END;"
        ))
        .unwrap();
    held.reopen();
    held.say("a", &["two"]).await;
    assert_eq!(held.texts("a").await, ["one", "two"]);
}

#[tokio::test]
async fn ids_longer_than_any_that_is_written_are_not_listed() {
    let held = Held::<SqliteStore>::new();
    held.say("a", &["one"]).await;
    tables(&held.store)
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2499)
             INSERT INTO log SELECT printf('s%d', i), 0, x'6a756e6b0a' FROM n;
             INSERT INTO log SELECT printf('s%.*c', 240, 'x'), 0, x'6a756e6b0a';
             INSERT INTO log SELECT printf('s%.*c', 3000000, 'y'), 0, x'6a756e6b0a';
             INSERT INTO log SELECT printf('s%.*c', 3000000, 'z'), 0, x'6a756e6b0a';",
        )
        .unwrap();
    let list = held.store.list().await.unwrap();
    assert_eq!(list.len(), 2501);
    assert!(list.iter().all(|info| info.id.len() <= 240));
    assert_eq!(&*list[0].id, "a");
}

#[tokio::test]
async fn row_larger_than_any_that_is_written_is_refused_before_it_is_read() {
    for at in [-1, 1_000_000] {
        let held = Held::<SqliteStore>::new();
        held.say("a", &["one"]).await;
        held.say("b", &["two"]).await;
        tables(&held.store)
            .execute("INSERT INTO log VALUES ('a', ?1, zeroblob(30000000))", [at])
            .unwrap();
        let lease = held.store.lease("a").await;
        for error in [
            held.store.load("a").await.unwrap_err(),
            held.store.fork("a", "c").await.unwrap_err(),
            lease.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.text().contains("a row is larger"), "{error}");
        }
        assert_eq!(held.texts("b").await, ["two"]);
        let list = held.store.list().await.unwrap();
        assert_eq!(list.len(), 2);
        assert!(held.store.delete("a").await.unwrap());
    }
}

#[tokio::test]
async fn rows_without_bytes_leave_their_session_usable() {
    let empty = "UPDATE log SET bytes = x'' WHERE session = 'a'
        AND at = (SELECT max(at) FROM log WHERE session = 'a')";
    let added = "INSERT INTO log SELECT session, max(at + length(bytes)), x'' FROM log
        WHERE session = 'a'";
    let behind = "INSERT INTO log SELECT session, max(at + length(bytes)) + 7, x'' FROM log
        WHERE session = 'a'";
    for statement in [empty, added, behind] {
        let mut held = Held::<SqliteStore>::new();
        held.say("a", &["one"]).await;
        held.say("a", &["two"]).await;
        tables(&held.store).execute_batch(statement).unwrap();
        for text in ["three", "four"] {
            held.reopen();
            held.say("a", &[text]).await;
        }
        let texts = held.texts("a").await;
        assert!(
            texts.ends_with(&["three", "four"].map(str::to_owned)),
            "{texts:?}"
        );
        assert_eq!(texts[0], "one");
    }
}

#[tokio::test]
async fn row_at_the_last_position_leaves_its_session_usable() {
    for bytes in [&b"\0\0\0"[..], b"junk\n"] {
        let mut held = Held::<SqliteStore>::new();
        held.say("a", &["one", &"x".repeat(100_000)]).await;
        tables(&held.store)
            .execute(
                "INSERT INTO log VALUES ('a', 9223372036854775800, ?1)",
                [bytes],
            )
            .unwrap();
        for text in ["two", "three"] {
            held.reopen();
            held.say("a", &[text]).await;
        }
        let mut texts = held.texts("a").await;
        assert_eq!(texts.remove(1).len(), 100_000);
        assert_eq!(texts, ["one", "two", "three"]);
    }
}

#[tokio::test]
async fn pipe_in_place_of_the_lock_of_a_creation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let locks = folder.path().join("sessions.db-locks");
    fs::create_dir(&locks).unwrap();
    let status = std::process::Command::new("mkfifo")
        .arg(locks.join("create"))
        .status()
        .unwrap();
    assert!(status.success());
    let error = SqliteStore::open(folder.path().join("sessions.db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.text().contains("not a regular file"), "{error}");
}

/// Reading such a file may fail or block, although it is a regular file of size 0.
#[cfg(target_os = "linux")]
#[test]
fn link_to_a_file_of_the_system_is_refused_without_reading_it() {
    let folder = tempfile::tempdir().unwrap();
    for target in ["/proc/self/mem", "/proc/kmsg"] {
        let path = folder.path().join("sessions.db");
        std::os::unix::fs::symlink(target, &path).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let store_path = path.clone();
        std::thread::spawn(move || sender.send(SqliteStore::open(store_path).map(drop)));
        let outcome = receiver.recv_timeout(std::time::Duration::from_secs(10));
        let error = outcome.expect(target).unwrap_err();
        // In a container, a device may hide the second file.
        if fs::metadata(target).is_ok_and(|metadata| metadata.is_file()) {
            assert_eq!(error.kind(), ErrorKind::Config, "{target}: {error}");
            assert!(error.text().contains("not a session database"), "{error}");
        }
        fs::remove_file(&path).unwrap();
    }
}
