//! Loads of a session that is leased.

use std::sync::mpsc::channel;
use std::time::Duration;

use futures::future::join_all;

use crate::message::Message;
use crate::session::{Record, SessionStore};

use super::log_store::LogStore;
use super::memory_log::{Gate, LogStep, MemoryLog};

/// The time that a thread may take to start before it counts as not free.
const LONGEST: Duration = Duration::from_secs(20);

fn said(text: &str) -> Record {
    let message = Message::human(text).into();
    Record::Message {
        message,
        input_id: None,
    }
}

/// Returns `true` if a thread for blocking work is free.
fn has_free_thread() -> bool {
    let (sender, receiver) = channel();
    drop(tokio::task::spawn_blocking(move || sender.send(())));
    receiver.recv_timeout(LONGEST).is_ok()
}

fn runtime_with_two_threads() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.max_blocking_threads(2).build().unwrap()
}

#[test]
fn loads_wait_for_a_write_without_a_thread_and_without_delaying_the_next_one() {
    runtime_with_two_threads().block_on(async {
        let (gate, permits, arrivals) = Gate::new();
        let log = MemoryLog::default().on_step(move |step| {
            if let LogStep::Append(_) = step {
                gate.pass();
            }
            Ok(())
        });
        let store = LogStore::new(log);
        let lease = store.lease("a").await.unwrap();
        let mut append = Box::pin(store.append(&lease, vec![said("one")]));
        assert!(futures::poll!(&mut append).is_pending());
        arrivals.recv().unwrap();

        let mut loads: Vec<_> = (0..8).map(|_| store.load("a")).collect();
        for load in &mut loads {
            assert!(futures::poll!(load).is_pending());
        }
        let has_thread = has_free_thread();
        permits.send(()).unwrap();
        append.await.unwrap();
        assert!(has_thread);

        // The loads are not polled meanwhile.
        permits.send(()).unwrap();
        store.append(&lease, vec![said("two")]).await.unwrap();
        for session in join_all(loads).await {
            assert_eq!(session.unwrap().unwrap().state.messages.len(), 2);
        }
    });
}

#[test]
fn loads_wait_for_the_opening_of_a_log_without_a_thread() {
    runtime_with_two_threads().block_on(async {
        let (gate, permits, arrivals) = Gate::new();
        let log = MemoryLog::default();
        let store = LogStore::new(log.clone());
        let lease = store.lease("a").await.unwrap();
        store.append(&lease, vec![said("one")]).await.unwrap();
        // Outside of the runtime, so that the log is closed before it is opened again.
        std::thread::spawn(move || drop(lease)).join().unwrap();
        drop(store);

        let store = LogStore::new(log.on_step(move |step| {
            if let LogStep::Open = step {
                gate.pass();
            }
            Ok(())
        }));
        let mut leasing = store.lease("a");
        assert!(futures::poll!(&mut leasing).is_pending());
        arrivals.recv().unwrap();
        let mut loads: Vec<_> = (0..8).map(|_| store.load("a")).collect();
        for load in &mut loads {
            assert!(futures::poll!(load).is_pending());
        }
        let has_thread = has_free_thread();
        permits.send(()).unwrap();
        let _lease = leasing.await.unwrap();
        assert!(has_thread);
        for session in join_all(loads).await {
            assert_eq!(session.unwrap().unwrap().state.messages.len(), 1);
        }
    });
}
