//! Tests of writes that are appended together.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use futures::future::join_all;
use futures::{FutureExt, poll};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::session::{Lease, Record, SessionStore};
use crate::util::sync::lock;

use super::log::Snapshots;
use super::log_store::LogStore;
use super::memory_log::{Gate, LogStep, MemoryLog};

/// A store whose groups need a permit each.
struct Test {
    store: LogStore<MemoryLog>,
    permits: Sender<()>,
    arrivals: Receiver<ThreadId>,
    /// The size of each group.
    groups: Arc<Mutex<Vec<usize>>>,
}

impl Test {
    /// Creates a store that fails appends of this text.
    fn failing_at(text: &'static str) -> Self {
        let (gate, permits, arrivals) = Gate::new();
        let groups = Arc::<Mutex<Vec<usize>>>::default();
        let sizes = groups.clone();
        let log = MemoryLog {
            appends_together: true,
            snapshots: Snapshots::Never,
            ..MemoryLog::default()
        };
        let log = log.on_step(move |step| {
            match step {
                LogStep::AppendAll(size) => {
                    lock(&sizes).push(size);
                    gate.pass();
                }
                LogStep::Append(bytes) if contains(bytes, text) => {
                    return Err(Error::new(ErrorKind::Io, "the disk refused it"));
                }
                _ => {}
            }
            Ok(())
        });
        Self {
            store: LogStore::new(log),
            permits,
            arrivals,
            groups,
        }
    }

    fn new() -> Self {
        Self::failing_at("refused text")
    }

    async fn leases<const N: usize>(&self) -> [Lease; N] {
        let ids = (0..N).map(|number| number.to_string());
        let leases = ids.map(|id| async move { self.store.lease(&id).await.unwrap() });
        join_all(leases).await.try_into().unwrap()
    }

    fn permit(&self, groups: usize) {
        (0..groups).for_each(|_| self.permits.send(()).unwrap());
    }

    fn groups(&self) -> Vec<usize> {
        lock(&self.groups).clone()
    }

    async fn texts(&self, id: &str) -> Vec<String> {
        let session = self.store.load(id).await.unwrap().unwrap_or_default();
        session
            .state
            .messages
            .iter()
            .map(|message| message.text().into_owned())
            .collect()
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

fn text_record(text: &str) -> Vec<Record> {
    vec![Record::Message {
        message: Arc::new(Message::human(text)),
        input_id: None,
    }]
}

/// Polls a future once, which waits then.
macro_rules! begin {
    ($future:expr) => {{
        let mut future = Box::pin($future);
        assert!(poll!(&mut future).is_pending());
        future
    }};
}

#[tokio::test]
async fn writes_that_arrive_during_a_group_are_the_next_one() {
    let test = Test::new();
    let leases = test.leases::<6>().await;
    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    let mut others = Vec::new();
    for lease in &leases[1..] {
        others.push(begin!(test.store.append(lease, text_record("other"))));
    }
    test.permit(2);
    first.await.unwrap();
    for outcome in join_all(others).await {
        outcome.unwrap();
    }
    assert_eq!(test.groups(), [1, 5]);
    for number in 1..6 {
        assert_eq!(test.texts(&number.to_string()).await, ["other"]);
    }
}

#[tokio::test]
async fn write_is_acknowledged_only_after_its_group_is_stored() {
    let test = Test::new();
    let [lease] = test.leases().await;
    let mut write = begin!(test.store.append(&lease, text_record("one")));
    test.arrivals.recv().unwrap();
    assert!(poll!(&mut write).is_pending());
    test.permit(1);
    write.await.unwrap();
    assert_eq!(test.texts("0").await, ["one"]);
}

#[tokio::test]
async fn failing_append_in_a_group_fails_alone_and_leaves_its_session_usable() {
    let test = Test::new();
    let leases = test.leases::<4>().await;
    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    let before = begin!(test.store.append(&leases[1], text_record("before")));
    let failing = begin!(test.store.append(&leases[2], text_record("refused text")));
    let after = begin!(test.store.append(&leases[3], text_record("after")));
    test.permit(10);
    first.await.unwrap();
    before.await.unwrap();
    after.await.unwrap();
    let error = failing.await.unwrap_err();
    assert!(error.text().contains("the disk refused it"), "{error}");
    assert_eq!(test.groups(), [1, 3]);
    test.store
        .append(&leases[2], text_record("later"))
        .await
        .unwrap();
    assert_eq!(test.texts("1").await, ["before"]);
    assert_eq!(test.texts("2").await, ["later"]);
    assert_eq!(test.texts("3").await, ["after"]);
}

#[tokio::test]
async fn write_over_a_limit_fails_before_its_group_is_appended() {
    let test = Test::new();
    test.store.set_max_session_bytes(2_000);
    let leases = test.leases::<3>().await;
    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    let long_text = "x".repeat(3_000);
    let long = begin!(test.store.append(&leases[1], text_record(&long_text)));
    let short = begin!(test.store.append(&leases[2], text_record("short")));
    test.permit(10);
    first.await.unwrap();
    short.await.unwrap();
    let error = long.await.unwrap_err();
    assert!(error.text().contains("the write was refused"), "{error}");
    assert_eq!(test.groups(), [1, 1]);
}

#[tokio::test]
async fn writes_of_one_session_keep_their_order() {
    let test = Test::new();
    let leases = test.leases::<3>().await;
    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    let mut writes = Vec::new();
    for text in ["one", "two", "three"] {
        writes.push(begin!(test.store.append(&leases[1], text_record(text))));
        writes.push(begin!(test.store.append(&leases[2], text_record(text))));
    }
    test.permit(10);
    first.await.unwrap();
    for outcome in join_all(writes).await {
        outcome.unwrap();
    }
    assert_eq!(test.groups(), [1, 2, 2, 2]);
    for id in ["1", "2"] {
        assert_eq!(test.texts(id).await, ["one", "two", "three"]);
    }
}

#[tokio::test]
async fn write_dropped_before_its_turn_is_not_done_and_fails_no_other() {
    let test = Test::new();
    let leases = test.leases::<3>().await;
    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    // The first of the group, which all others of it rely on.
    let dropped = begin!(test.store.append(&leases[1], text_record("dropped")));
    let third = begin!(test.store.append(&leases[2], text_record("kept")));
    drop(dropped);
    test.permit(10);
    first.await.unwrap();
    third.await.unwrap();
    test.store
        .append(&leases[1], text_record("next"))
        .await
        .unwrap();
    assert_eq!(test.texts("1").await, ["next"]);
    assert_eq!(test.texts("2").await, ["kept"]);
}

#[tokio::test]
async fn write_dropped_during_its_group_is_finished() {
    let test = Test::new();
    let [lease] = test.leases().await;
    let write = begin!(test.store.append(&lease, text_record("finished")));
    test.arrivals.recv().unwrap();
    drop(write);
    test.permit(10);
    test.store
        .append(&lease, text_record("next"))
        .await
        .unwrap();
    assert_eq!(test.texts("0").await, ["finished", "next"]);
}

#[tokio::test]
async fn write_under_a_lease_that_was_given_back_is_refused_alone() {
    let test = Test::new();
    let [first_lease, old_lease, other_lease] = test.leases().await;
    let stale_lease = Lease::new("1", old_lease.token(), || {});
    drop(old_lease);
    let _new_lease = test.store.lease("1").await.unwrap();
    let first = begin!(test.store.append(&first_lease, text_record("first")));
    test.arrivals.recv().unwrap();
    let stale = begin!(test.store.append(&stale_lease, text_record("stale")));
    let other = begin!(test.store.append(&other_lease, text_record("other")));
    test.permit(10);
    first.await.unwrap();
    other.await.unwrap();
    assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(test.texts("1").await.is_empty());
}

#[tokio::test]
async fn panic_of_the_log_is_an_error_for_all_of_its_group() {
    let log = MemoryLog {
        appends_together: true,
        ..MemoryLog::default()
    };
    let log = log.on_step(|step| match step {
        LogStep::AppendAll(_) => panic!("no such luck"),
        _ => Ok(()),
    });
    let store = LogStore::new(log);
    for id in ["a", "b"] {
        let lease = store.lease(id).await.unwrap();
        let error = store.append(&lease, text_record("one")).await.unwrap_err();
        assert!(error.text().contains("panicked: no such luck"), "{error}");
    }
}

#[tokio::test]
async fn nothing_is_appended_after_an_append_that_panicked_until_the_log_is_read_again() {
    for appends_together in [false, true] {
        let is_armed = Arc::<AtomicBool>::default();
        let panics = is_armed.clone();
        let log = MemoryLog {
            appends_together,
            snapshots: Snapshots::Never,
            ..MemoryLog::default()
        };
        let log = log.on_step(move |step| match step {
            LogStep::Appended(_) if panics.swap(false, Ordering::Relaxed) => panic!("no such luck"),
            _ => Ok(()),
        });
        let store = LogStore::new(log);
        let lease = store.lease("a").await.unwrap();
        store.append(&lease, text_record("one")).await.unwrap();
        is_armed.store(true, Ordering::Relaxed);
        let append = AssertUnwindSafe(store.append(&lease, text_record("two")));
        let is_stored = append
            .catch_unwind()
            .await
            .is_ok_and(|outcome| outcome.is_ok());
        assert!(!is_stored);

        let error = store
            .append(&lease, text_record("three"))
            .await
            .unwrap_err();
        assert!(error.text().contains("is not known"), "{error}");
        drop(lease);
        let lease = store.lease("a").await.unwrap();
        store.append(&lease, text_record("four")).await.unwrap();
        let session = store.load("a").await.unwrap().unwrap();
        assert!(session.damage.is_empty(), "{:?}", session.damage);
        let texts: Vec<_> = session.state.messages.iter().map(Message::text).collect();
        assert_eq!(texts, ["one", "two", "four"]);
    }
}

#[tokio::test]
async fn panic_of_a_log_that_is_closed_fails_no_write_of_its_group() {
    let (gate, permits, arrivals) = Gate::new();
    let is_armed = Arc::<AtomicBool>::default();
    let panics = is_armed.clone();
    let log = MemoryLog {
        appends_together: true,
        ..MemoryLog::default()
    };
    let log = log.on_step(move |step| {
        match step {
            LogStep::AppendAll(_) => gate.pass(),
            LogStep::Close if panics.swap(false, Ordering::Relaxed) => panic!("no such luck"),
            _ => {}
        }
        Ok(())
    });
    let store = LogStore::new(log);
    let first_lease = store.lease("first").await.unwrap();
    let dropped_lease = store.lease("dropped").await.unwrap();
    let kept_lease = store.lease("kept").await.unwrap();
    let first = begin!(store.append(&first_lease, text_record("first")));
    arrivals.recv().unwrap();
    let dropped = begin!(store.append(&dropped_lease, text_record("dropped")));
    let third = begin!(store.append(&kept_lease, text_record("kept")));
    drop(dropped);
    // Its log is closed by the thread that appends the group.
    drop(dropped_lease);
    is_armed.store(true, Ordering::Relaxed);
    (0..2).for_each(|_| permits.send(()).unwrap());
    first.await.unwrap();
    third.await.unwrap();
    assert!(!is_armed.load(Ordering::Relaxed));
}

#[tokio::test]
async fn group_has_a_limited_number_of_sessions_and_bytes() {
    let test = Test::new();
    let leases = test.leases::<301>().await;
    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    let mut writes = Vec::new();
    for lease in &leases[1..] {
        writes.push(begin!(test.store.append(lease, text_record("one"))));
    }
    test.permit(3);
    first.await.unwrap();
    for outcome in join_all(writes).await {
        outcome.unwrap();
    }
    assert_eq!(test.groups(), [1, 256, 44]);

    let first = begin!(test.store.append(&leases[0], text_record("first")));
    test.arrivals.recv().unwrap();
    test.arrivals.recv().unwrap();
    test.arrivals.recv().unwrap();
    let mut writes = Vec::new();
    let long_text = "x".repeat(3 * 1024 * 1024);
    for lease in &leases[1..4] {
        writes.push(begin!(test.store.append(lease, text_record(&long_text))));
    }
    test.permit(3);
    first.await.unwrap();
    for outcome in join_all(writes).await {
        outcome.unwrap();
    }
    assert_eq!(test.groups()[3..], [1, 2, 1]);
}

#[cfg(all(feature = "sqlite", unix))]
#[tokio::test]
async fn waiting_time_of_a_group_is_that_of_its_last_write() {
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::queue::{Queue, Queues};

    let queue = Queue::default();
    let (gate, permits, arrivals) = Gate::new();
    let waiting_times = Arc::<Mutex<Vec<Duration>>>::default();
    let (log_queue, times) = (queue.clone(), waiting_times.clone());
    let log = MemoryLog {
        appends_together: true,
        ..MemoryLog::default()
    };
    let log = log.on_step(move |step| {
        if let LogStep::AppendAll(_) = step {
            lock(&times).push(log_queue.take_waiting_time());
            gate.pass();
        }
        Ok(())
    });
    let queues = Queues {
        readers: None,
        listers: None,
        writers: Some(queue),
    };
    let store = LogStore::named(log, "an option", queues);
    let mut leases = Vec::new();
    for id in ["first", "early", "late"] {
        leases.push(store.lease(id).await.unwrap());
    }
    let first = begin!(store.append(&leases[0], text_record("first")));
    arrivals.recv().unwrap();
    let early = begin!(store.append(&leases[1], text_record("early")));
    sleep(Duration::from_millis(50));
    let start = Instant::now();
    let late = begin!(store.append(&leases[2], text_record("late")));
    permits.send(()).unwrap();
    arrivals.recv().unwrap();
    let max_waiting_time = start.elapsed();
    permits.send(()).unwrap();
    for write in [first, early, late] {
        write.await.unwrap();
    }
    let waiting_time = lock(&waiting_times)[1];
    assert!(waiting_time <= max_waiting_time, "{waiting_time:?}");
}

/// Creates a runtime with one thread for blocking work.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.max_blocking_threads(1).build().unwrap()
}

#[test]
fn group_is_stored_after_the_runtime_of_its_first_write_was_shut_down() {
    let test = Test::new();
    test.permit(1);
    let [first_lease, other_lease] = futures::executor::block_on(test.leases());
    let (ended_runtime, other_runtime) = (runtime(), runtime());
    let (sender, wait) = channel::<()>();
    ended_runtime.spawn_blocking(move || wait.recv());
    let mut first = Box::pin(test.store.append(&first_lease, text_record("one")));
    assert!(
        ended_runtime
            .block_on(async { poll!(&mut first) })
            .is_pending()
    );
    let mut other = Box::pin(test.store.append(&other_lease, text_record("one")));
    assert!(
        other_runtime
            .block_on(async { poll!(&mut other) })
            .is_pending()
    );
    ended_runtime.shutdown_background();
    drop(sender);
    other_runtime.block_on(async {
        first.await.unwrap();
        other.await.unwrap();
    });
    assert_eq!(test.groups(), [2]);
}

#[test]
fn writes_outside_a_runtime_are_done_in_place() {
    let test = Test::new();
    test.permit(2);
    futures::executor::block_on(async {
        let leases = test.leases::<2>().await;
        let writes = leases
            .iter()
            .map(|lease| test.store.append(lease, text_record("one")));
        for outcome in join_all(writes).await {
            outcome.unwrap();
        }
    });
    assert_eq!(test.groups(), [1, 1]);
}
