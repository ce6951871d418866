//! A database that fails at the n-th step, for every n.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::log::{Log, Queue, Repair};
use crate::session::{Damage, DamageKind, Lease, Record, SessionStore};
#[cfg(test)]
use crate::testing::conformance;

use super::database::Database;
use super::store::SqliteStore;

fn open() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::with_busy_timeout(&path, Duration::ZERO).unwrap();
    (folder, store)
}

fn said(text: String) -> Record {
    Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: None,
    }
}

/// A write of two messages that takes three rows.
async fn write(store: &SqliteStore, number: usize, lease: &Lease) -> Result<()> {
    let long_text = "x".repeat(70_000);
    let records = ["a", "b"].map(|half| said(format!("{number}{half} {long_text}")));
    store.append(lease, records.into()).await
}

async fn names(store: &SqliteStore) -> Vec<String> {
    let session = store.load("s").await.unwrap().unwrap_or_default();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    session
        .state
        .messages
        .iter()
        .map(|message| message.text().split(' ').next().unwrap().to_owned())
        .collect()
}

fn pairs(numbers: &[usize]) -> Vec<String> {
    numbers
        .iter()
        .flat_map(|n| [format!("{n}a"), format!("{n}b")])
        .collect()
}

/// Runs SQL on the store's own connection.
fn run(store: &SqliteStore, sql: &str) {
    store.database().writer().execute_batch(sql).unwrap();
}

/// Checks that the acknowledged messages are stored and nothing else, for this store and a later
/// one.
async fn check(store: &SqliteStore, acknowledged: &[usize], when: &str) {
    assert_eq!(names(store).await, pairs(acknowledged), "{when}");
    let reopened_store = SqliteStore::open(store.path()).unwrap();
    assert_eq!(names(&reopened_store).await, pairs(acknowledged), "{when}");
}

#[tokio::test]
async fn database_full_at_any_page_keeps_complete_writes() {
    let mut failure_count = 0;
    for pages in 0..60 {
        let (_held, store) = open();
        let lease = store.lease("s").await.unwrap();
        let page_count = {
            let writer = store.database().writer();
            writer.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))
        };

        let limit = page_count.unwrap() + pages;
        run(&store, &format!("PRAGMA max_page_count = {limit}"));
        let mut acknowledged_writes = Vec::new();
        let error = loop {
            match write(&store, acknowledged_writes.len(), &lease).await {
                Ok(()) => acknowledged_writes.push(acknowledged_writes.len()),
                Err(error) => break error,
            }
        };

        assert_eq!(error.kind(), ErrorKind::Io);
        let text = error.text();
        assert!(
            text.contains("sessions.db") && text.contains("make room"),
            "{text}"
        );
        check(&store, &acknowledged_writes, &format!("{pages} pages")).await;

        // The failed write left nothing, so a smaller one may fit.
        run(&store, "PRAGMA max_page_count = 100000");
        write(&store, 100, &lease).await.unwrap();
        acknowledged_writes.push(100);
        check(
            &store,
            &acknowledged_writes,
            &format!("{pages} pages and room"),
        )
        .await;
        failure_count += usize::from(acknowledged_writes.len() == 1);
    }

    assert!((5..60).contains(&failure_count), "{failure_count}");
}

#[tokio::test]
async fn write_failing_at_any_row_leaves_no_rows() {
    for how in ["ABORT", "FAIL", "ROLLBACK"] {
        for rows in 0..9 {
            let (_held, store) = open();
            run(
                &store,
                &format!(
                    "CREATE TEMP TRIGGER fault BEFORE INSERT ON log
                     WHEN (SELECT count(*) FROM log) = {rows}
                     BEGIN SELECT RAISE({how}, 'no such luck'); END"
                ),
            );
            let lease = store.lease("s").await.unwrap();
            let mut acknowledged_writes = Vec::new();
            for number in 0..4 {
                match write(&store, number, &lease).await {
                    Ok(()) => acknowledged_writes.push(number),
                    Err(error) => assert!(error.text().contains("no such luck"), "{error}"),
                }

                check(&store, &acknowledged_writes, &format!("{how} at {rows}")).await;
            }

            assert_eq!(acknowledged_writes.len(), rows / 3, "{how} at {rows}");
            run(&store, "DROP TRIGGER fault");
            write(&store, 4, &lease).await.unwrap();
            acknowledged_writes.push(4);
            check(
                &store,
                &acknowledged_writes,
                &format!("{how} at {rows}, then not"),
            )
            .await;
        }
    }
}

#[tokio::test]
async fn failed_commit_leaves_no_rows() {
    let (_held, store) = open();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    run(
        &store,
        "PRAGMA foreign_keys = ON;
         CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
         CREATE TEMP TRIGGER fault AFTER INSERT ON log BEGIN INSERT INTO child VALUES (1); END",
    );
    let error = write(&store, 2, &lease).await.unwrap_err();
    assert!(error.text().contains("FOREIGN KEY"), "{error}");
    check(&store, &[1], "refused").await;
    run(&store, "DROP TRIGGER fault");
    write(&store, 3, &lease).await.unwrap();
    check(&store, &[1, 3], "no longer refused").await;
}

#[tokio::test]
async fn database_locked_by_another_writer_is_waited_for_and_then_an_error() {
    let (_held, store) = open();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let connection = Connection::open(store.path()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    for error in [
        write(&store, 2, &lease).await.unwrap_err(),
        store.delete("other").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.text().contains("locked (5) for too long"), "{error}");
    }

    assert_eq!(names(&store).await, pairs(&[1]), "reading goes on");
    let waiting_store =
        SqliteStore::with_busy_timeout(store.path(), Duration::from_secs(60)).unwrap();
    let patient = waiting_store.lease("patient").await.unwrap();
    let wait = waiting_store.append(&patient, vec![said("at last".into())]);
    let commit = async {
        tokio::task::yield_now().await;
        connection.execute_batch("COMMIT").unwrap();
    };

    futures::future::join(wait, commit).await.0.unwrap();
    write(&store, 3, &lease).await.unwrap();
    check(&store, &[1, 3], "unlocked").await;
}

#[tokio::test]
async fn read_only_database_is_an_error_with_a_hint() {
    let (_held, store) = open();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    run(&store, "PRAGMA query_only = ON");
    let error = write(&store, 2, &lease).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.text().contains("give this user the right"), "{error}");
    check(&store, &[1], "read-only").await;
    run(&store, "PRAGMA query_only = OFF");
    write(&store, 3, &lease).await.unwrap();
    check(&store, &[1, 3], "written again").await;
}

#[tokio::test]
async fn every_write_is_flushed() {
    let (_held, store) = open();
    let writer = store.database().writer();
    let synchronous = writer.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
    assert_eq!(synchronous.unwrap(), 2);
    let journal = writer.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    assert_eq!(journal.unwrap(), "wal");
}

#[tokio::test]
async fn damage_that_cannot_be_set_aside_is_kept_in_the_log() {
    let (_held, store) = open();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    drop(lease);
    let statement = "INSERT INTO log SELECT session, max(at + length(bytes)), CAST('torn' AS BLOB)
                FROM log";
    run(&store, statement);
    let rows = |store: &SqliteStore| {
        let writer = store.database().writer();
        writer.query_row("SELECT count(*) FROM log", (), |row| row.get::<_, i64>(0))
    };

    let row_count = rows(&store).unwrap();
    for fault in ["INSERT ON damaged", "DELETE ON log"] {
        run(
            &store,
            &format!(
                "CREATE TEMP TRIGGER fault BEFORE {fault}
                 BEGIN SELECT RAISE(FAIL, 'no such luck'); END"
            ),
        );
        store.lease("s").await.unwrap_err();
        assert_eq!(rows(&store).unwrap(), row_count, "{fault}");
        run(&store, "DROP TRIGGER fault");
    }

    let lease = store.lease("s").await.unwrap();
    let session = store.load("s").await.unwrap().unwrap();
    assert_eq!(session.damage.len(), 1);
    let kept_in = session.damage[0].kept_in.as_deref().unwrap();
    assert!(
        kept_in.contains("`damaged`") && kept_in.contains("sessions.db"),
        "{kept_in}"
    );
    assert_eq!(rows(&store).unwrap(), row_count - 1);
    write(&store, 2, &lease).await.unwrap();
    drop(lease);
    check(&store, &[1, 2], "healed").await;
}

/// A runtime with `threads` threads for blocking work.
fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.max_blocking_threads(threads).build().unwrap()
}

#[test]
fn waiting_writers_use_one_thread() {
    runtime(2).block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let store = SqliteStore::with_busy_timeout(&path, Duration::from_secs(60)).unwrap();
        let mut leases = Vec::new();
        for number in 0..8 {
            leases.push(store.lease(&number.to_string()).await.unwrap());
        }

        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let appends = leases
            .iter()
            .map(|lease| store.append(lease, vec![said("Hi".into())]));
        let appends = futures::future::join_all(appends);
        let read_future = async {
            tokio::task::yield_now().await;
            for _ in 0..3 {
                assert!(store.load("nobody").await.unwrap().is_none());
                assert!(store.list().await.unwrap().is_empty());
            }

            connection.execute_batch("COMMIT").unwrap();
        };

        for written in futures::future::join(appends, read_future).await.0 {
            written.unwrap();
        }

        assert_eq!(store.list().await.unwrap().len(), 8);
    });
}

#[test]
fn busy_timeout_is_counted_from_the_call() {
    runtime(2).block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let store = SqliteStore::with_busy_timeout(&path, Duration::from_millis(50)).unwrap();
        let lease = store.lease("s").await.unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let records = || vec![said("Hi".into())];
        let (sender, wait) = std::sync::mpsc::channel::<()>();
        let writers = &store.database().writers;
        let mut turn = Box::pin(writers.run(move || Ok(wait.recv().is_err())));
        assert!(futures::poll!(&mut turn).is_pending());
        let mut append = Box::pin(store.append(&lease, records()));
        assert!(futures::poll!(&mut append).is_pending());
        std::thread::sleep(Duration::from_millis(60));
        drop(sender);
        assert!(turn.await.unwrap());
        let error = append.await.unwrap_err();
        assert!(error.text().contains("for too long"), "{error}");

        let time_left = {
            let writer = store.database().writer();
            writer.pragma_query_value(None, "busy_timeout", |row| row.get::<_, i64>(0))
        };

        assert_eq!(time_left.unwrap(), 0, "it had none left");
        connection.execute_batch("COMMIT").unwrap();
        store.append(&lease, records()).await.unwrap();
    });
}

#[tokio::test]
async fn write_dropped_before_its_turn_is_not_done() {
    let (_held, store) = open();
    let lease = store.lease("s").await.unwrap();
    write(&store, 1, &lease).await.unwrap();
    let (sender, wait) = std::sync::mpsc::channel::<()>();
    let writers = &store.database().writers;
    let mut turn = Box::pin(writers.run(move || Ok(wait.recv().is_ok())));
    assert!(futures::poll!(&mut turn).is_pending());
    let mut pending_write = Box::pin(write(&store, 2, &lease));
    assert!(futures::poll!(&mut pending_write).is_pending());
    drop(pending_write);
    drop(sender);
    write(&store, 3, &lease).await.unwrap();
    check(&store, &[1, 3], "given up").await;
}

#[tokio::test]
async fn database_passes_the_suite_of_logs() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    let open = |path: &Path| Database::open(path, Duration::ZERO, Queue::default()).unwrap();
    let make = || {
        count.set(count.get() + 1);
        open(&folder.path().join(format!("{}.db", count.get())))
    };
    conformance::session_log(make, |log| open(log.path()))
        .await
        .unwrap();
}

#[test]
fn log_that_is_removed_or_cut_while_it_is_read_is_a_conflict() {
    let (_held, store) = open();
    let database = store.database();
    for (id, sql, is_read) in [
        ("a", "DELETE FROM damaged", true),
        ("b", "DELETE FROM log", false),
        ("c", "DELETE FROM log WHERE at > 65536", false),
        ("d", "UPDATE log SET bytes = x'61'", false),
    ] {
        let log = vec![b'x'; 3 * 1024 * 1024];
        let (mut writer, _) = database.open(id, 1).unwrap();
        database.append(&mut writer, &log).unwrap();
        let mut len = 0;
        let outcome = Log::read(database, id, &mut |piece| {
            if len == 0 {
                run(&store, sql);
            }
            len += piece.len();
            Ok(())
        });
        match outcome {
            Ok(exists) => assert!(is_read && exists && len == log.len(), "{sql}"),
            Err(error) => assert!(!is_read && error.kind() == ErrorKind::Conflict, "{error}"),
        }
    }
}

#[test]
fn statement_without_end_is_interrupted() {
    const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT count(*) FROM n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut database = Database::open(&path, Duration::ZERO, Queue::default()).unwrap();
    database.set_max_steps(1_000_000);
    let count =
        |connection: &Connection| connection.query_row(ENDLESS, (), |row| row.get::<_, i64>(0));
    for error in [
        database.read("read", count).unwrap_err(),
        database.write("write", count).err().unwrap().into(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.text().contains("more work"), "{error}");
        assert!(error.text().contains("sessions.db"), "{error}");
    }

    // Each call has the steps for itself.
    let short = ENDLESS.replace("FROM n)", "FROM n WHERE i < 30000)");
    for _ in 0..10 {
        let count = |connection: &Connection| connection.query_row(&short, (), |row| row.get(0));
        assert_eq!(database.read("read", count).unwrap(), 30_000);
        assert_eq!(database.write("write", count).ok(), Some(30_000));
    }
}

#[test]
fn long_damaged_part_is_set_aside_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let database = Database::open(&path, Duration::ZERO, Queue::default()).unwrap();
    let log = vec![b'x'; 21 * 1024 * 1024];
    let (mut writer, _) = database.open("a", 1).unwrap();
    database.append(&mut writer, &log).unwrap();
    let damage = Damage::new(DamageKind::Corrupt, 3, log.len() as u64 - 3);
    for _ in 0..2 {
        let repair = Repair::of(&log, vec![&damage], None);
        database.repair(&mut writer, &repair).unwrap();
    }

    let sql = "SELECT at, length(bytes) FROM damaged ORDER BY at";
    let connection = Connection::open(&path).unwrap();
    let mut rows = connection.prepare(sql).unwrap();
    let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
    let mut end = 3;
    for row in rows.unwrap() {
        let (at, len): (i64, i64) = row.unwrap();
        assert_eq!(at, end);
        end += len;
    }
    assert_eq!(end, i64::try_from(log.len()).unwrap());
}

/// Returns a log with `count` damaged parts of one byte, and the parts.
fn log_of_parts(count: u64) -> (Vec<u8>, Vec<Damage>) {
    let damage = (0..count).map(|number| Damage::new(DamageKind::Corrupt, 3 * number, 1));
    let log = b"x\n\n".repeat(usize::try_from(count).unwrap());
    (log, damage.collect())
}

fn damaged_rows(database: &Database) -> i64 {
    let writer = database.writer();
    writer
        .query_row("SELECT count(*) FROM damaged", (), |row| row.get(0))
        .unwrap()
}

#[test]
fn repair_of_many_parts_makes_few_steps_for_each() {
    const COUNT: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut database = Database::open(&path, Duration::ZERO, Queue::default()).unwrap();
    database.set_max_steps(COUNT * 100);
    let (log, damage) = log_of_parts(COUNT);
    let (mut writer, _) = database.open("a", 1).unwrap();
    database.append(&mut writer, &log).unwrap();
    for _ in 0..2 {
        let repair = Repair::of(&log, damage.iter().collect(), None);
        database.repair(&mut writer, &repair).unwrap();
        assert_eq!(damaged_rows(&database), 3_000);
    }
}

#[test]
fn short_damaged_parts_are_set_aside_in_several_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let database = Database::open(&path, Duration::ZERO, Queue::default()).unwrap();
    let (log, damage) = log_of_parts(40_000);
    let (mut writer, _) = database.open("a", 1).unwrap();
    database.append(&mut writer, &log).unwrap();
    let fault = "CREATE TEMP TRIGGER fault BEFORE INSERT ON damaged WHEN NEW.at = 3 * 39999
        BEGIN SELECT RAISE(FAIL, 'no such luck'); END";
    database.writer().execute_batch(fault).unwrap();
    let repair = Repair::of(&log, damage.iter().collect(), None);
    database.repair(&mut writer, &repair).unwrap_err();
    let stored = damaged_rows(&database);
    assert!((30_000..39_999).contains(&stored), "{stored}");
}
