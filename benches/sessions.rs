//! The cost of a write to a session, by the length of the session.
//!
//! Files and databases are flushed to the disk for each write; `memory` is the cost without that.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::sync::Arc;
use std::time::Duration;

use agentcore::session::{JsonlStore, SqliteStore};
use agentcore::session::{Record, StoredSession};
use agentcore::{AgentState, Message, Messages, SessionStore, ThreadStore};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;

const LENGTHS: [usize; 3] = [10, 1_000, 100_000];
const TEXT: &str = "A sentence of a conversation that has gone on for some time.";

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn state(len: usize) -> AgentState {
    let mut state = AgentState::new("s");
    let messages = (0..len).map(|number| Message::human(format!("{number}: {TEXT}")));
    state.messages = messages.collect::<Messages>();
    state
}

fn record() -> Record {
    Record::Message {
        message: Arc::new(Message::human(TEXT)),
        input_id: None,
    }
}

fn writes(criterion: &mut Criterion, name: &str, store: impl Fn() -> Arc<dyn SessionStore>) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group(name);
    for len in LENGTHS {
        let store = store();
        let session = StoredSession::new(state(len));
        runtime.block_on(store.create("s", session)).unwrap();
        group.bench_function(BenchmarkId::new("lease", len), |bencher| {
            bencher.iter(|| runtime.block_on(store.lease("s")).unwrap());
        });

        group.bench_function(BenchmarkId::new("list", len), |bencher| {
            bencher.iter(|| assert_eq!(runtime.block_on(store.list()).unwrap().len(), 1));
        });

        let lease = runtime.block_on(store.lease("s")).unwrap();
        let shorter = runtime.block_on(store.load("s")).unwrap().unwrap().state;
        let mut longer = shorter.clone();
        longer.messages.push(Message::human(TEXT));
        let states = [longer, shorter];
        group.bench_function(BenchmarkId::new("save one more or less", len), |bencher| {
            let mut states = states.iter().cycle();
            bencher.iter(|| {
                let state = states.next().unwrap();
                runtime.block_on(store.save(&lease, state)).unwrap();
            });
        });

        // This is the last bench, because it makes the session longer.
        group.bench_function(BenchmarkId::new("append", len), |bencher| {
            bencher.iter(|| {
                runtime
                    .block_on(store.append(&lease, vec![record()]))
                    .unwrap();
            });
        });
    }

    group.finish();
}

fn files(criterion: &mut Criterion) {
    let temp_dir = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    writes(criterion, "files", || {
        count.set(count.get() + 1);
        let folder = temp_dir.path().join(count.get().to_string());
        Arc::new(JsonlStore::open(folder).unwrap())
    });
}

fn database(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    writes(criterion, "database", || {
        count.set(count.get() + 1);
        let path = folder.path().join(format!("{}.db", count.get()));
        Arc::new(SqliteStore::open(path).unwrap())
    });
}

fn memory(criterion: &mut Criterion) {
    writes(criterion, "memory", || Arc::new(ThreadStore::new()));
}

criterion_group! {
    name = sessions;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = files, database, memory
}
criterion_main!(sessions);
