//! The database of sessions: its files and rows, other files in its place, and damage.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentcore::session::SqliteStore;
use agentcore::{ErrorKind, SessionStore};
use rusqlite::Connection;
use tempfile::TempDir;

use super::places::{Held, Place, let_go, said, tables};

type Database = Held<SqliteStore>;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

fn beside(store: &SqliteStore, suffix: &str) -> PathBuf {
    format!("{}{suffix}", store.path().display()).into()
}

fn count(store: &SqliteStore, sql: &str) -> i64 {
    tables(store).query_row(sql, (), |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn database_files_are_readable_by_the_owner_only() {
    let temp_dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(temp_dir.path().join("new/deep/sessions.db")).unwrap();
    let lease = store.lease("A/b").await.unwrap();
    store.append(&lease, vec![said("Hi")]).await.unwrap();
    let folder = temp_dir.path().join("new/deep");
    assert_eq!(mode(&folder), 0o700);
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(&beside(&store, suffix)), 0o600, "{suffix}");
    }

    let locks = beside(&store, "-locks");
    assert_eq!(mode(&locks), 0o700);
    assert_eq!(names(&locks), ["%41%2Fb.lock", "create"]);
    assert_eq!(mode(&locks.join("%41%2Fb.lock")), 0o600);
    let_go(lease);
    assert_eq!(names(&locks), ["create"]);
    drop(store);
    assert_eq!(names(&folder), ["sessions.db", "sessions.db-locks"]);
}

#[tokio::test]
async fn writes_append_rows_and_change_none() {
    let held = Database::new();
    let rows = |store: &SqliteStore| {
        let tables = tables(store);
        let mut rows = tables
            .prepare("SELECT at, bytes FROM log ORDER BY at")
            .unwrap();
        let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
        let rows: Vec<(i64, Vec<u8>)> = rows.unwrap().map(Result::unwrap).collect();
        rows
    };

    held.say("a", &["one", "two"]).await;
    let before = rows(&held.store);
    assert_eq!(before.len(), 1);
    held.say("a", &["three"]).await;
    let after = rows(&held.store);
    assert_eq!(after[..1], before);
    let len = i64::try_from(before[0].1.len()).unwrap();
    assert_eq!((after.len(), after[1].0), (2, len));

    // A long record has several rows, so that the end of the log can be read alone.
    let long = "x".repeat(200_000);
    held.say("a", &[&long]).await;
    assert_eq!(rows(&held.store).len(), 6);
    assert_eq!(held.texts("a").await, ["one", "two", "three", &long]);
}

#[tokio::test]
async fn list_reads_only_the_ends_of_logs() {
    let mut held = Database::new();
    held.say("a", &["The first words", &"x".repeat(300_000), "end"])
        .await;
    held.say("a", &[&"y".repeat(100_000)]).await;
    let size = held.store.log("a").len() as u64;

    // The list does not read this row.
    let spoil = "UPDATE log SET bytes = zeroblob(length(bytes)) WHERE at = 0";
    tables(&held.store).execute(spoil, ()).unwrap();
    held.reopen();
    let list = held.store.list().await.unwrap();
    assert_eq!(list[0].title.as_deref(), Some("The first words"));
    assert_eq!((list[0].messages, list[0].size), (4, Some(size)));
    assert!(list[0].created_at < list[0].updated_at);

    // Sessions with missing rows are listed as well, also if the end of a record is missing.
    for spoil in [
        "DELETE FROM log WHERE at = (SELECT at FROM log ORDER BY at LIMIT 1 OFFSET 2)",
        "DELETE FROM log WHERE at = (SELECT max(at) FROM log)",
    ] {
        tables(&held.store).execute(spoil, ()).unwrap();
        assert_eq!(held.store.list().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn prune_removes_a_session_with_missing_rows() {
    let held = Database::new();
    held.say("a", &[&"x".repeat(300_000), "end"]).await;
    let spoil = "DELETE FROM log WHERE at = (SELECT at FROM log ORDER BY at LIMIT 1 OFFSET 2)";
    assert_eq!(tables(&held.store).execute(spoil, ()).unwrap(), 1);
    assert_eq!(held.store.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(held.store.load("a").await.unwrap().is_none());
}

/// Creates a folder with this file in it, and returns both paths.
fn file(content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    fs::write(&path, content).unwrap();
    (folder, path)
}

#[tokio::test]
async fn file_that_is_not_a_session_database_is_left_unchanged() {
    let (other, path) = file(b"");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE log (id, bytes);")
        .unwrap();
    drop(connection);
    let other_database = fs::read(&path).unwrap();
    drop(other);
    for content in [
        &other_database[..],
        &other_database[..50],
        &[0; 8192],
        b"a note\n",
        b"",
    ] {
        let (held, path) = file(content);
        let error = SqliteStore::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.text().contains("left untouched"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
        assert_eq!(names(held.path()), ["sessions.db"]);
    }

    let (held, path) = file(b"a file");
    for (path, kind) in [
        (held.path(), ErrorKind::Io),
        (&path.join("below.db"), ErrorKind::Io),
        (Path::new(":memory:"), ErrorKind::Config),
        (Path::new("file:sessions.db?mode=memory"), ErrorKind::Config),
        (Path::new(""), ErrorKind::Config),
        (Path::new("/"), ErrorKind::Config),
    ] {
        let error = SqliteStore::open(path).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }

    assert_eq!(names(held.path()), ["sessions.db"]);
}

#[tokio::test]
async fn database_of_a_newer_version_is_left_unchanged() {
    let held = Database::new();
    held.say("a", &["one"]).await;
    let path = held.store.path().to_owned();
    let copy = tempfile::tempdir().unwrap();
    let newer = copy.path().join("sessions.db");
    tables(&held.store)
        .execute("VACUUM INTO ?1", [newer.to_str().unwrap()])
        .unwrap();
    let connection = Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 2).unwrap();
    drop(connection);
    let content = fs::read(&newer).unwrap();
    let error = SqliteStore::open(&newer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionTooNew);
    assert!(error.text().contains("version 2"), "{error}");
    assert_eq!(fs::read(&newer).unwrap(), content);
    assert_eq!(names(copy.path()), ["sessions.db"]);

    // With its version set back, the same file can be opened.
    let connection = Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    drop(connection);
    let store = SqliteStore::open(&newer).unwrap();
    assert_eq!(store.list().await.unwrap().len(), 1);
    assert_ne!(store.path(), path);
}

#[tokio::test]
async fn write_ahead_log_without_its_database_is_kept() {
    let (held, path) = file(b"");
    fs::remove_file(&path).unwrap();
    let rest = held.path().join("sessions.db-wal");
    fs::write(&rest, "the last writes").unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.text().contains("sessions.db-wal"), "{error}");
    assert_eq!(fs::read(&rest).unwrap(), b"the last writes");
    assert!(!path.exists());
    fs::remove_file(&rest).unwrap();
    SqliteStore::open(&path).unwrap();
}

#[tokio::test]
async fn leftovers_of_an_interrupted_creation_do_not_block_opening() {
    let (held, path) = file(b"");
    fs::remove_file(&path).unwrap();
    let draft = held.path().join("sessions.db-locks/draft");
    fs::create_dir_all(&draft).unwrap();
    for name in ["database", "database-journal", "database-wal"] {
        fs::write(draft.join(name), "half of it").unwrap();
    }
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.list().await.unwrap().is_empty());
    assert_eq!(names(&held.path().join("sessions.db-locks")), ["create"]);
}

#[tokio::test]
async fn lease_excludes_other_stores_over_one_database() {
    let held = Database::new();
    let link = held.store.path().with_file_name("link.db");
    std::os::unix::fs::symlink(held.store.path(), &link).unwrap();
    let other = SqliteStore::open(&link).unwrap();
    let lease = held.store.lease("a").await.unwrap();
    for kind in [
        other.lease("a").await.unwrap_err().kind(),
        other
            .create("a", Default::default())
            .await
            .unwrap_err()
            .kind(),
        other.delete("a").await.unwrap_err().kind(),
    ] {
        assert_eq!(kind, ErrorKind::SessionBusy);
    }

    held.store.append(&lease, vec![said("one")]).await.unwrap();
    assert_eq!(other.prune(Duration::ZERO).await.unwrap(), 0);
    let session = other.load("a").await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), 1);
    let_go(lease);
    let lease = other.lease("a").await.unwrap();
    assert_eq!(
        lease.token(),
        2,
        "the token continues that of the other store"
    );
    other.append(&lease, vec![said("two")]).await.unwrap();
    let_go(lease);

    // Closing another store of the file releases none of this store's locks.
    let lease = held.store.lease("a").await.unwrap();
    drop(other);
    drop(SqliteStore::open(&link).unwrap());
    held.store
        .append(&lease, vec![said("three")])
        .await
        .unwrap();
    assert_eq!(held.texts("a").await, ["one", "two", "three"]);
}

#[tokio::test]
async fn append_to_a_log_changed_by_another_writer_is_a_conflict() {
    let held = Database::new();
    for spoil in [
        "INSERT INTO log SELECT session, at + length(bytes), x'0a' FROM log",
        "DELETE FROM log",
        "UPDATE log SET session = 'b'",
    ] {
        held.store.delete("a").await.unwrap();
        let lease = held.store.lease("a").await.unwrap();
        held.store.append(&lease, vec![said("one")]).await.unwrap();
        tables(&held.store).execute(spoil, ()).unwrap();
        let outcome = held.store.append(&lease, vec![said("two")]).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Conflict, "{spoil}");
        let again = held.store.append(&lease, vec![said("two")]).await;
        assert!(
            again.is_err(),
            "writes fail until the session is read again"
        );
        drop(lease);
        held.say("a", &["three"]).await;
        assert_eq!(held.texts("a").await.last().unwrap(), "three");
    }
}

#[tokio::test]
async fn append_to_a_replaced_database_is_a_conflict() {
    let held = Database::new();
    let lease = held.store.lease("a").await.unwrap();
    held.store.append(&lease, vec![said("one")]).await.unwrap();
    let path = held.store.path();
    let moved = path.with_file_name("moved.db");
    fs::rename(path, &moved).unwrap();
    let outcome = held.store.append(&lease, vec![said("two")]).await;
    assert!(
        outcome.unwrap_err().text().contains("sessions.db"),
        "the error names the file"
    );
    fs::write(path, "").unwrap();
    let replaced = held.store.append(&lease, vec![said("two")]).await;
    let replaced = replaced.unwrap_err();
    assert_eq!(replaced.kind(), ErrorKind::Conflict);
    assert!(
        replaced.text().contains("open the store again"),
        "{replaced}"
    );
    fs::rename(&moved, path).unwrap();
    held.store
        .append(&lease, vec![said("three")])
        .await
        .unwrap();
    assert_eq!(held.texts("a").await, ["one", "three"]);
}

#[tokio::test]
async fn deleted_sessions_leave_no_rows() {
    let held = Database::new();
    let_go(held.store.lease("a").await.unwrap());
    assert_eq!(count(&held.store, "SELECT count(*) FROM log"), 0);
    for id in ["a", "b"] {
        held.say(id, &["Hi"]).await;
        let content = held.store.log(id);
        held.store.put(id, &[&content, &b"torn"[..]].concat());
        let_go(held.store.lease(id).await.unwrap());
    }

    assert_eq!(count(&held.store, "SELECT count(*) FROM damaged"), 2);
    assert!(held.store.delete("a").await.unwrap());
    assert!(!held.store.delete("a").await.unwrap());
    assert_eq!(held.texts("b").await, ["Hi"]);
    assert_eq!(held.store.prune(Duration::ZERO).await.unwrap(), 1);
    for table in ["log", "damaged"] {
        let remaining = count(&held.store, &format!("SELECT count(*) FROM {table}"));
        assert_eq!(remaining, 0, "{table}");
    }
}

#[tokio::test]
async fn damaged_session_does_not_hide_other_sessions() {
    let held = Database::new();
    for id in ["a", "b"] {
        held.say(id, &["Hi"]).await;
    }

    // Stores a value of another type, as SQLite may read it from a damaged page.
    let strict = |from: &str, to: &str| {
        let sql = format!(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, '{from}', '{to}') WHERE name = 'log';"
        );
        tables(&held.store).execute_batch(&sql).unwrap();
    };
    strict(") STRICT", ")");
    tables(&held.store)
        .execute("UPDATE log SET bytes = 3.5 WHERE session = 'a'", ())
        .unwrap();
    strict("    )", "    ) STRICT");
    let error = held.store.load("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.text().contains("restore it"), "{error}");
    let list = held.store.list().await.unwrap();
    let problems: Vec<_> = list
        .iter()
        .map(|info| (&*info.id, info.problem.is_some()))
        .collect();
    assert_eq!(problems, [("b", false), ("a", true)]);
    assert_eq!(held.store.prune(Duration::ZERO).await.unwrap(), 1);
    assert!(held.store.load("b").await.unwrap().is_none());
}

#[tokio::test]
async fn session_ids_are_case_sensitive_and_unescaped() {
    let mut held = Database::new();
    let ids = [
        "a",
        "A",
        "a ",
        "\u{e4}",
        "a\0b",
        "a\0c",
        "'; DROP TABLE log; --",
    ];
    for id in ids {
        held.say(id, &[id]).await;
    }

    held.reopen();
    for id in ids {
        assert_eq!(held.texts(id).await, [id]);
    }

    assert_eq!(held.store.list().await.unwrap().len(), ids.len());
    let long = held.store.lease(&"x".repeat(241)).await.unwrap_err();
    assert_eq!(long.kind(), ErrorKind::InvalidRequest);
}

/// A closed database with four sessions of 30 messages each, and its bytes.
async fn four_sessions() -> (TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    for id in ["a", "b", "c", "d"] {
        let lease = store.lease(id).await.unwrap();
        for number in 0..30 {
            let text = format!("{id} {number} {}", "x".repeat(number * 40));
            store.append(&lease, vec![said(&text)]).await.unwrap();
        }

        let_go(lease);
    }

    drop(store);
    let bytes = fs::read(&path).unwrap();
    (folder, path, bytes)
}

/// Returns the number of messages that can be read. Checks that lost messages are reported, unless
/// the whole session is missing.
async fn read_all(path: &Path) -> Result<usize, agentcore::Error> {
    let store = SqliteStore::open(path)?;
    let mut read = 0;
    for id in ["a", "b", "c", "d"] {
        let Some(found) = store.load(id).await? else {
            continue;
        };

        let messages = &found.state.messages;
        let numbers: Vec<usize> = messages
            .iter()
            .map(|message| {
                let text = message.text();
                let (name, rest) = text.split_once(' ').unwrap();
                assert_eq!(name, id);
                rest.split(' ').next().unwrap().parse().unwrap()
            })
            .collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!(numbers.len() == 30 || !found.damage.is_empty());
        read += numbers.len();
    }

    Ok(read)
}

#[tokio::test]
async fn truncated_database_is_reported_as_corrupt() {
    let (_held, path, bytes) = four_sessions().await;
    assert_eq!(read_all(&path).await.unwrap(), 120);
    let mut count = 0;
    for len in (4096..bytes.len()).step_by(4096).chain([100, 5_000]) {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = read_all(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "cut at {len}: {error}");
        assert!(error.text().contains("restore it"), "{error}");
        assert_eq!(
            fs::read(&path).unwrap(),
            bytes[..len],
            "the file is unchanged"
        );
        count += 1;
    }

    assert!(count > 20, "{count}");
}

#[tokio::test]
async fn random_database_damage_is_reported_and_never_mixes_sessions() {
    let (_held, path, bytes) = four_sessions().await;
    let mut random = fastrand::Rng::with_seed(5);
    let (mut whole, mut partly, mut refused) = (0, 0, 0);
    for _ in 0..150 {
        let mut damaged = bytes.clone();
        for _ in 0..random.usize(1..4) {
            // Other tests cover the header of the file.
            let at = random.usize(100..damaged.len());
            let until = (at + random.usize(1..300)).min(damaged.len());
            if random.bool() {
                damaged[at] ^= 1 << random.u8(..8);
            } else {
                damaged[at..until].fill(0);
            }
        }

        fs::write(&path, &damaged).unwrap();
        match read_all(&path).await {
            Ok(120) => whole += 1,
            Ok(_) => partly += 1,
            Err(_) => refused += 1,
        }
    }

    assert!(
        whole > 0 && partly > 10 && refused > 0,
        "{whole} {partly} {refused}"
    );
}
