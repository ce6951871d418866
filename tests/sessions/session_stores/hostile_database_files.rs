//! Databases next to files that SQLite would read, and with schemas that it would parse, before the
//! store runs its first statement.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agentcore::session::SqliteStore;
use agentcore::{Error, ErrorKind};
use rusqlite::Connection;
use tempfile::TempDir;

const MAGIC: &[u8] = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";

/// Creates a closed database, and returns its folder and its path.
fn closed_database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    drop(SqliteStore::open(&path).unwrap());
    (folder, path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    format!("{}{suffix}", path.display()).into()
}

/// A journal without pages that ends with `end`.
fn journal(end: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for number in [0_u32, 0, 7, 512, 4096] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.resize(512, 0);
    bytes.extend(end);
    bytes
}

fn naming(name: &str) -> Vec<u8> {
    let sum = name.bytes().map(u32::from).sum::<u32>();
    let page = 0x4000_0000_u32 / 4096 + 1;
    let len = u32::try_from(name.len()).unwrap();
    [
        &page.to_be_bytes()[..],
        name.as_bytes(),
        &len.to_be_bytes(),
        &sum.to_be_bytes(),
        MAGIC,
    ]
    .concat()
}

fn check(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.text().contains(word), "{word}: {error}");
    }
}

#[test]
fn journal_that_names_another_journal_is_refused_and_left() {
    let (folder, path) = closed_database();
    let other = folder.path().join("sessions.db-mj00000A9BC");
    fs::write(&other, vec![0; 4096]).unwrap();
    let bytes = journal(&naming(&other.display().to_string()));
    let journal_path = beside(&path, "-journal");
    fs::write(&journal_path, &bytes).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    let words = [
        "sessions.db-journal",
        "names another journal",
        "move it away",
    ];
    check(&error, ErrorKind::Corrupt, &words);
    assert_eq!(fs::read(&journal_path).unwrap(), bytes);
    assert!(other.exists());

    fs::remove_file(&journal_path).unwrap();
    SqliteStore::open(&path).unwrap();
}

#[test]
fn journal_of_a_write_that_another_program_left_is_rolled_back() {
    let (_folder, path) = closed_database();
    let journal_path = beside(&path, "-journal");
    fs::write(&journal_path, journal(b"")).unwrap();
    SqliteStore::open(&path).unwrap();
    for bytes in [&b""[..], b"short", &[0; 600]] {
        fs::write(&journal_path, bytes).unwrap();
        SqliteStore::open(&path).unwrap();
    }
}

#[test]
fn files_of_a_database_that_are_too_large_are_refused() {
    for (suffix, mebibytes) in [("-journal", 1024), ("-wal", 4096), ("-shm", 128)] {
        let (_folder, path) = closed_database();
        let large_path = beside(&path, suffix);
        let file = fs::File::create(&large_path).unwrap();
        file.set_len((mebibytes << 20) + 1).unwrap();
        let error = SqliteStore::open(&path).unwrap_err();
        check(
            &error,
            ErrorKind::Corrupt,
            &[suffix, "bytes", "move it away"],
        );
        assert!(large_path.exists());
    }
}

#[test]
fn files_of_a_database_that_are_no_regular_files_are_refused() {
    for suffix in ["-journal", "-wal", "-shm"] {
        let (folder, path) = closed_database();
        let target = folder.path().join("target");
        fs::write(&target, "mine").unwrap();
        let special_path = beside(&path, suffix);
        symlink(&target, &special_path).unwrap();
        let error = SqliteStore::open(&path).unwrap_err();
        check(&error, ErrorKind::Io, &[suffix, "not a regular file"]);
        fs::remove_file(&special_path).unwrap();
        fs::create_dir(&special_path).unwrap();
        let error = SqliteStore::open(&path).unwrap_err();
        check(&error, ErrorKind::Io, &[suffix, "not a regular file"]);
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }
}

#[test]
fn link_to_a_missing_database_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let target = folder.path().join("volume/sessions.db");
    symlink(&target, &path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    check(&error, ErrorKind::Io, &["volume/sessions.db", "is missing"]);
    assert_eq!(fs::read_link(&path).unwrap(), target);

    fs::create_dir(folder.path().join("volume")).unwrap();
    drop(SqliteStore::open(&target).unwrap());
    drop(SqliteStore::open(&path).unwrap());
    assert_eq!(fs::read_link(&path).unwrap(), target);
}

#[test]
fn other_tables_beyond_their_limits_are_refused_before_they_are_parsed() {
    let columns = |count: usize| {
        let columns = (0..count).map(|number| format!("c{number}"));
        columns.collect::<Vec<_>>().join(", ")
    };
    let terms = vec!["c0 = 1"; 200].join(" OR ");
    let many = (0..400).map(|number| format!("CREATE TABLE t{number} (i);"));
    for (sql, words) in [
        (many.collect::<String>(), "tables"),
        (format!("CREATE TABLE t ({});", columns(400)), "columns"),
        (
            format!("CREATE TABLE t (i /* {} */);", "x".repeat(20_000)),
            "too",
        ),
        (
            format!("CREATE TABLE t (c0, CHECK ({terms}));"),
            "Expression tree",
        ),
    ] {
        let (_folder, path) = closed_database();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&sql).unwrap();
        drop(connection);
        let error = SqliteStore::open(&path).unwrap_err();
        let words = ["sessions.db", words, "a database of their own"];
        check(&error, ErrorKind::Corrupt, &words);
    }
}

#[tokio::test]
async fn other_tables_that_are_added_while_the_database_is_open_are_limited() {
    use agentcore::SessionStore as _;

    let (_folder, path) = closed_database();
    let store = SqliteStore::open(&path).unwrap();
    let connection = Connection::open(&path).unwrap();
    let add = |numbers: std::ops::Range<u32>| {
        let sql = numbers.map(|number| format!("CREATE TABLE t{number} (i);"));
        connection.execute_batch(&sql.collect::<String>()).unwrap();
    };
    add(0..50);
    assert!(store.list().await.unwrap().is_empty());
    add(50..400);
    let error = store.list().await.unwrap_err();
    check(&error, ErrorKind::Corrupt, &["sessions.db", "tables"]);
    assert!(SqliteStore::open(&path).is_err());
}
