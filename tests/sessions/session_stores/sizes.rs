//! Logs and records that exceed the sizes of reads.

use agentcore::ErrorKind;
use agentcore::session::{DamageKind, Record};

use super::places::{Held, Place, for_each_place, let_go, said};

const MIB: usize = 1024 * 1024;

for_each_place!(
    a_record_that_is_too_long_is_refused_and_the_session_goes_on,
    a_line_longer_than_any_record_is_damage_that_stays_where_it_is,
    zeros_at_the_end_are_damage_that_stays_where_it_is,
    rows_of_blank_lines_are_passed,
);

/// A store with a settable limit on the size of logs.
pub trait Limited: Place {
    const OPTION: &str;

    fn limit(&self, bytes: u64);
}

#[cfg(feature = "jsonl")]
impl Limited for agentcore::session::JsonlStore {
    const OPTION: &str = "JsonlStore::with_max_session_bytes";

    fn limit(&self, bytes: u64) {
        let _ = self.clone().with_max_session_bytes(bytes);
    }
}

#[cfg(feature = "sqlite")]
impl Limited for agentcore::session::SqliteStore {
    const OPTION: &str = "SqliteStore::with_max_session_bytes";

    fn limit(&self, bytes: u64) {
        let _ = self.clone().with_max_session_bytes(bytes);
    }
}

#[cfg(feature = "jsonl")]
#[tokio::test]
async fn files_over_the_limit_are_refused() {
    check_limit::<agentcore::session::JsonlStore>().await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn logs_in_a_database_over_the_limit_are_refused() {
    check_limit::<agentcore::session::SqliteStore>().await;
}

async fn check_limit<P: Limited>() {
    a_log_over_the_limit_is_refused_and_left_as_it_is::<P>().await;
    a_write_over_the_limit_is_refused_and_what_was_written_stays::<P>().await;
    session_at_the_limit_goes_on_in_a_fork::<P>().await;
}

async fn a_log_over_the_limit_is_refused_and_left_as_it_is<P: Limited>() {
    let held = Held::<P>::new();
    held.say("a", &["one"]).await;
    held.say("b", &["small"]).await;
    let bytes = held.store.log("a");
    let text = "x".repeat(100_000);
    held.say("a", &[&text]).await;
    let log = held.store.log("a");
    held.store.limit(100_000);
    let errors = [
        held.store.load("a").await.unwrap_err(),
        held.store.lease("a").await.unwrap_err(),
        held.store.fork_at("a", "c", 1).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let size = format!("has {} bytes, more than the 100000", log.len());
        for part in [&size, P::OPTION, "\"a\"", "left untouched", "fork it"] {
            assert!(error.text().contains(part), "{part}: {error}");
        }
    }

    assert_eq!(held.store.log("a"), log);
    assert!(held.store.aside("a").is_empty());

    // Lists read only the ends of logs.
    let list = held.store.list().await.unwrap();
    let messages: Vec<_> = list.iter().map(|info| info.messages).collect();
    assert_eq!((list.len(), messages.iter().sum::<usize>()), (2, 3));
    let with_problem = list.iter().filter(|info| info.problem.is_some());
    let ids: Vec<_> = with_problem.map(|info| &*info.id).collect();
    assert_eq!(ids, ["a"]);
    assert!(bytes.len() < 100_000);
    held.store.limit(log.len() as u64);
    assert_eq!(held.texts("a").await, ["one", &text]);
}

async fn a_write_over_the_limit_is_refused_and_what_was_written_stays<P: Limited>() {
    let held = Held::<P>::new();
    held.store.limit(10_500);
    let lease = held.store.lease("a").await.unwrap();
    let text = "x".repeat(3_000);
    let mut stored = 0;
    let error = loop {
        match held.store.append(&lease, vec![said(&text)]).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };

    assert_eq!((stored, error.kind()), (3, ErrorKind::Io), "{error}");
    assert!(error.text().contains("the write was refused"), "{error}");
    assert!(error.text().contains(P::OPTION), "{error}");
    held.store
        .append(&lease, vec![said("short")])
        .await
        .unwrap();
    let_go(lease);
    assert_eq!(held.texts("a").await, [&text, &text, &text, "short"]);
    let _lease = held.store.lease("a").await.unwrap();
}

async fn session_at_the_limit_goes_on_in_a_fork<P: Limited>() {
    let held = Held::<P>::new();
    held.store.limit(10_500);
    held.say("a", &["one"]).await;
    let lease = held.store.lease("a").await.unwrap();
    let file = || Record::File {
        path: "f".into(),
        content: Some("x".repeat(3_000).into()),
    };
    let error = loop {
        if let Err(error) = held.store.append(&lease, vec![file()]).await {
            break error;
        }
    };

    let_go(lease);
    for part in [
        "stays readable",
        "fork it",
        "would have",
        "10500",
        P::OPTION,
    ] {
        assert!(error.text().contains(part), "{part}: {error}");
    }
    held.store.fork("a", "b").await.unwrap();
    held.say("b", &["two"]).await;
    assert_eq!(held.texts("b").await, ["one", "two"]);
}

async fn a_record_that_is_too_long_is_refused_and_the_session_goes_on<P: Place>() {
    let held = Held::<P>::new();
    held.say("a", &["one"]).await;
    let log = held.store.log("a");
    let lease = held.store.lease("a").await.unwrap();
    let long = said(&"x".repeat(64 * MIB));
    let error = held
        .store
        .append(&lease, vec![said("two"), long])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessages, "{error}");
    assert!(error.text().contains("67108864"), "{error}");
    assert_eq!(held.store.log("a"), log);
    held.store
        .append(&lease, vec![said("three")])
        .await
        .unwrap();
    let_go(lease);
    assert_eq!(held.texts("a").await, ["one", "three"]);
}

/// Inserts these bytes between the records of a log, and appends another record. Returns the store
/// and the reported damage.
async fn with_junk<P: Place>(junk: &[u8]) -> (Held<P>, Vec<agentcore::session::Damage>) {
    let mut held = Held::<P>::new();
    held.say("a", &["one"]).await;
    let start = held.store.log("a");
    held.say("a", &["two"]).await;
    let end = held.store.log("a")[start.len()..].to_vec();
    held.store.put("a", &[&start, junk, &end].concat());
    let lease = held.store.lease("a").await.unwrap();
    let damage = held.store.load("a").await.unwrap().unwrap().damage;
    held.store
        .append(&lease, vec![said("three")])
        .await
        .unwrap();
    let_go(lease);
    held.reopen();
    assert_eq!(held.texts("a").await, ["one", "two", "three"]);
    let log = held.store.log("a");
    assert!(log[start.len()..].starts_with(junk), "the log is unchanged");
    let session = {
        let _lease = held.store.lease("a").await.unwrap();
        held.store.load("a").await.unwrap().unwrap()
    };

    assert!(
        session.damage.is_empty(),
        "reported once: {:?}",
        session.damage
    );
    (held, damage)
}

async fn a_line_longer_than_any_record_is_damage_that_stays_where_it_is<P: Place>() {
    let mut junk = vec![b'x'; 65 * MIB];
    junk.push(b'\n');
    let (held, damage) = with_junk::<P>(&junk).await;
    let [damage] = &damage[..] else {
        panic!("{damage:?}");
    };

    assert_eq!(
        (damage.kind, damage.len),
        (DamageKind::Corrupt, junk.len() as u64)
    );
    assert_eq!(damage.kept_in, None);
    assert!(held.store.aside("a").is_empty());
}

async fn zeros_at_the_end_are_damage_that_stays_where_it_is<P: Place>() {
    let mut held = Held::<P>::new();
    held.say("a", &["one"]).await;
    let log = [held.store.log("a"), vec![0; 65 * MIB]].concat();
    held.store.put("a", &log);
    let lease = held.store.lease("a").await.unwrap();
    let damage = held.store.load("a").await.unwrap().unwrap().damage;
    assert_eq!(damage.len(), 1);
    assert_eq!(
        (damage[0].kind, damage[0].len),
        (DamageKind::Corrupt, 65 * MIB as u64)
    );
    held.store.append(&lease, vec![said("two")]).await.unwrap();
    let_go(lease);
    held.reopen();
    assert_eq!(held.texts("a").await, ["one", "two"]);
    assert!(held.store.log("a").starts_with(&log));
}

async fn rows_of_blank_lines_are_passed<P: Place>() {
    for line in ["\n", "  \t\r\n"] {
        let junk = line.repeat(MIB);
        let (_, damage) = with_junk::<P>(junk.as_bytes()).await;
        assert!(damage.is_empty(), "{damage:?}");
    }
}
