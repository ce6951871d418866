//! Writes of several sessions in one transaction, where some fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::error::{ErrorKind, Result};
use crate::message::Message;
use crate::session::{Lease, Record, SessionStore};

use super::store::SqliteStore;

const SESSIONS: usize = 8;
/// The number of the session whose writes fail.
const BAD: usize = 3;

/// A store with a lease of each session, named by its number.
async fn leased() -> (TempDir, SqliteStore, Vec<Lease>) {
    leased_with(Duration::ZERO).await
}

async fn leased_with(busy_timeout: Duration) -> (TempDir, SqliteStore, Vec<Lease>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::with_busy_timeout(&path, busy_timeout).unwrap();
    let mut leases = Vec::new();
    for number in 0..SESSIONS {
        leases.push(store.lease(&number.to_string()).await.unwrap());
    }
    (folder, store, leases)
}

fn said(text: String) -> Vec<Record> {
    vec![Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: None,
    }]
}

/// Writes a text to each session, all in one group. Returns the outcomes.
async fn write_all(
    store: &SqliteStore,
    leases: &[Lease],
    text: impl Fn(usize) -> String,
) -> Vec<Result<()>> {
    let (sender, wait) = channel::<()>();
    let writers = &store.database().writers;
    let mut turn = Box::pin(writers.run(move || Ok(wait.recv().is_err())));
    assert!(poll!(&mut turn).is_pending());
    let mut writes = Vec::new();
    for (number, lease) in leases.iter().enumerate() {
        let mut write = Box::pin(store.append(lease, said(text(number))));
        assert!(poll!(&mut write).is_pending());
        writes.push(write);
    }
    drop(sender);
    assert!(turn.await.unwrap());
    join_all(writes).await
}

async fn texts(store: &SqliteStore, number: usize) -> Vec<String> {
    let session = store
        .load(&number.to_string())
        .await
        .unwrap()
        .unwrap_or_default();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    session
        .state
        .messages
        .iter()
        .map(|message| message.text().chars().take(20).collect())
        .collect()
}

/// Checks that all but the bad session have these texts, for this store and a later one.
async fn check(store: &SqliteStore, expected: &[&str], expected_of_bad: &[&str], when: &str) {
    for store in [store.clone(), SqliteStore::open(store.path()).unwrap()] {
        for number in 0..SESSIONS {
            let expected = if number == BAD {
                expected_of_bad
            } else {
                expected
            };
            assert_eq!(texts(&store, number).await, expected, "{when}: {number}");
        }
    }
}

fn assert_one_failed(outcomes: Vec<Result<()>>, expected: &str, when: &str) {
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => assert_ne!(number, BAD, "{when}"),
            Err(error) => {
                assert_eq!(number, BAD, "{when}: {error}");
                assert!(error.text().contains(expected), "{when}: {error}");
            }
        }
    }
}

fn run(store: &SqliteStore, sql: &str) {
    store.database().writer().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn waiting_writes_of_all_sessions_are_flushed_with_one_commit() {
    let (_folder, store, leases) = leased().await;
    let commits = Arc::<AtomicUsize>::default();
    let count = commits.clone();
    let hook = move || {
        count.fetch_add(1, Ordering::Relaxed);
        false
    };
    store.database().writer().commit_hook(Some(hook)).unwrap();
    for outcome in write_all(&store, &leases, |_| "one".into()).await {
        outcome.unwrap();
    }
    assert_eq!(commits.load(Ordering::Relaxed), 1);
    check(&store, &["one"], &["one"], "stored").await;
}

#[tokio::test]
async fn session_whose_row_fails_fails_alone_and_is_usable_later() {
    // The last one ends the transaction of all.
    for how in ["ABORT", "FAIL", "ROLLBACK"] {
        let (_folder, store, leases) = leased().await;
        run(
            &store,
            &format!(
                "CREATE TEMP TRIGGER fault AFTER INSERT ON log
                 WHEN NEW.session = '{BAD}'
                 BEGIN SELECT RAISE({how}, 'no such luck'); END"
            ),
        );
        let outcomes = write_all(&store, &leases, |_| "one".into()).await;
        assert_one_failed(outcomes, "no such luck", how);
        check(&store, &["one"], &[], how).await;
        run(&store, "DROP TRIGGER fault");
        for outcome in write_all(&store, &leases, |_| "two".into()).await {
            outcome.unwrap();
        }
        check(&store, &["one", "two"], &["two"], how).await;
    }
}

#[tokio::test]
async fn session_that_fails_the_commit_fails_alone() {
    let (_folder, store, leases) = leased().await;
    run(
        &store,
        &format!(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             CREATE TEMP TRIGGER fault AFTER INSERT ON log WHEN NEW.session = '{BAD}'
             BEGIN INSERT INTO child VALUES (1); END"
        ),
    );
    let outcomes = write_all(&store, &leases, |_| "one".into()).await;
    assert_one_failed(outcomes, "FOREIGN KEY", "commit");
    check(&store, &["one"], &[], "commit").await;
    run(&store, "DROP TRIGGER fault");
    for outcome in write_all(&store, &leases, |_| "two".into()).await {
        outcome.unwrap();
    }
    check(&store, &["one", "two"], &["two"], "no longer refused").await;
}

#[tokio::test]
async fn write_that_does_not_fit_on_the_disk_fails_alone() {
    let (_folder, store, leases) = leased().await;
    for outcome in write_all(&store, &leases, |_| "one".into()).await {
        outcome.unwrap();
    }
    let page_count = {
        let writer = store.database().writer();
        writer.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))
    };
    let limit = page_count.unwrap() + 20;
    run(&store, &format!("PRAGMA max_page_count = {limit}"));
    let text = |number| match number {
        BAD => "x".repeat(1_000_000),
        _ => "two".into(),
    };
    let outcomes = write_all(&store, &leases, text).await;
    assert_one_failed(outcomes, "make room", "full");
    check(&store, &["one", "two"], &["one"], "full").await;
    run(&store, "PRAGMA max_page_count = 100000");
    for outcome in write_all(&store, &leases, |_| "three".into()).await {
        outcome.unwrap();
    }
    check(&store, &["one", "two", "three"], &["one", "three"], "room").await;
}

#[tokio::test]
async fn full_disk_is_an_error_for_every_session_of_a_group() {
    let (_folder, store, leases) = leased().await;
    let page_count = {
        let writer = store.database().writer();
        writer.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))
    };
    let limit = page_count.unwrap();
    run(&store, &format!("PRAGMA max_page_count = {limit}"));
    let long_text = |_| "x".repeat(100_000);
    for outcome in write_all(&store, &leases, long_text).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.text().contains("make room"), "{error}");
    }
    run(&store, "PRAGMA max_page_count = 100000");
    for outcome in write_all(&store, &leases, |_| "one".into()).await {
        outcome.unwrap();
    }
    check(&store, &["one"], &["one"], "room").await;
}

#[tokio::test]
async fn locked_database_is_an_error_for_every_session_of_a_group() {
    let (_folder, store, leases) = leased().await;
    let connection = Connection::open(store.path()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    for outcome in write_all(&store, &leases, |_| "one".into()).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.text().contains("locked (5) for too long"), "{error}");
    }
    connection.execute_batch("COMMIT").unwrap();
    for outcome in write_all(&store, &leases, |_| "two".into()).await {
        outcome.unwrap();
    }
    check(&store, &["two"], &["two"], "unlocked").await;
}

#[tokio::test]
async fn sessions_of_an_undone_group_wait_together_for_another_writer() {
    let (_folder, store, leases) = leased_with(Duration::from_millis(50)).await;
    run(
        &store,
        &format!(
            "CREATE TEMP TRIGGER fault AFTER INSERT ON log WHEN NEW.session = '{BAD}'
             BEGIN SELECT RAISE(ROLLBACK, 'no such luck'); END"
        ),
    );
    let connection = Connection::open(store.path()).unwrap();
    let mut is_locked = false;
    let hook = move || {
        if !std::mem::replace(&mut is_locked, true) {
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        }
    };
    store.database().writer().rollback_hook(Some(hook)).unwrap();
    for outcome in write_all(&store, &leases, |_| "one".into()).await {
        let error = outcome.unwrap_err();
        assert!(error.text().contains("locked (5) for too long"), "{error}");
    }
    let time_left = {
        let writer = store.database().writer();
        writer.pragma_query_value(None, "busy_timeout", |row| row.get::<_, i64>(0))
    };
    assert_eq!(time_left.unwrap(), 0, "the last had none left");
}

#[tokio::test]
async fn log_changed_from_outside_is_a_conflict_for_its_session_alone() {
    let (_folder, store, leases) = leased().await;
    for outcome in write_all(&store, &leases, |_| "one".into()).await {
        outcome.unwrap();
    }
    let connection = Connection::open(store.path()).unwrap();
    let sql = "INSERT INTO log SELECT session, max(at + length(bytes)), CAST('torn' AS BLOB)
               FROM log WHERE session = ?1";
    connection.execute(sql, [BAD.to_string()]).unwrap();
    for _ in 0..2 {
        let outcomes = write_all(&store, &leases, |_| "two".into()).await;
        let kinds: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().err())
            .map(|error| error.map(|error| error.kind()))
            .collect();
        assert!(kinds[BAD].is_some(), "{kinds:?}");
        assert_eq!(kinds.iter().flatten().count(), 1, "{kinds:?}");
    }
    assert_eq!(texts(&store, 0).await, ["one", "two", "two"]);
}
