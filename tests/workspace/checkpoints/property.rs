//! A property: after any changes, a rewind to any message restores the files as they were before
//! it.
//!
//! `AGENTCORE_PROPERTY_CASES=2000` checks more cases.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::{FileCheckpoints, RewindMode};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::{Place, tree};

/// A step of a session.
#[derive(Clone, Debug)]
enum Step {
    /// A message, and the changes that the agent makes.
    Message(Vec<Value>),
    /// A rewind to one of the messages so far.
    Rewind(usize),
    /// The end of the process, and the start of another one.
    Restart,
}

/// Paths, some of which lead to the same file.
const PATHS: [&str; 8] = [
    "a", "b", "d/c", "d/../a", "./d/c", "link", "folder/c", "e/f/g",
];

fn op() -> impl Strategy<Value = Value> {
    let path = prop::sample::select(&PATHS[..]);
    let text = prop::sample::select(&["", "x", "one\ntwo\n", "\u{1F600}"][..]);
    let write = (path.clone(), text.clone()).prop_map(|(path, text)| json!(["write", path, text]));
    let append = (path.clone(), text).prop_map(|(path, text)| json!(["append", path, text]));
    let mode = prop::sample::select(&["600", "644", "755"][..]);
    let mode = (path.clone(), mode).prop_map(|(path, mode)| json!(["mode", path, mode]));
    // Links are not removed, because their removal is not stored.
    let remove = prop::sample::select(&["a", "b", "d/c", "e/f/g"][..]);
    let remove = remove.prop_map(|path| json!(["remove", path]));
    prop_oneof![4 => write, 2 => append, 1 => mode, 2 => remove]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let message = prop::collection::vec(op(), 0..6).prop_map(Step::Message);
    let step = prop_oneof![
        5 => message,
        2 => any::<prop::sample::Index>().prop_map(|at| Step::Rewind(at.index(64))),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..10)
}

fn hold(cases: u32, property: impl Fn(Vec<Step>)) {
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(crate::kit::effort::cases(cases))
    };

    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let result = TestRunner::new_with_rng(config, rng).run(&steps(), |steps| {
        property(steps);
        Ok(())
    });

    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn block_on(work: impl Future) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work);
}

/// Makes each change in a call of its own, so that a failed change does not prevent the others.
async fn message(place: &Place, files: &FileCheckpoints, ops: Vec<Value>) -> usize {
    let calls = ops.into_iter().map(|op| ("change", json!({"ops": [op]})));
    let calls: Vec<_> = calls.collect();
    let count = 2 * calls.len() + 2;
    place.message(files, calls).await.messages.len() - count
}

#[test]
fn folder_is_restored_at_any_message() {
    hold(20, |steps| {
        block_on(async {
            let place = Place::new();
            place.put("a", b"\xff\xfe not text \x00");
            place.put("b", "b");
            fs::create_dir(place.root().join("d")).unwrap();
            let mode = Permissions::from_mode(0o750);
            fs::set_permissions(place.root().join("b"), mode).unwrap();
            symlink("a", place.root().join("link")).unwrap();
            symlink("d", place.root().join("folder")).unwrap();
            let mut files = place.files();
            let mut snapshots = Vec::new();
            for step in steps {
                match step {
                    Step::Message(ops) => {
                        let before = tree(&place.root());
                        snapshots.push((message(&place, &files, ops).await, before));
                    }
                    Step::Restart => files = place.files(),
                    Step::Rewind(at) if !snapshots.is_empty() => {
                        let (message, before) = &snapshots[at % snapshots.len()];
                        check(&place, &files, *message).await;
                        assert_eq!(&tree(&place.root()), before);
                    }
                    Step::Rewind(_) => {}
                }
            }

            for (message, before) in snapshots.iter().rev().chain(&snapshots) {
                check(&place, &files, *message).await;
                assert_eq!(&tree(&place.root()), before);
            }
        });
    });
}

/// Rewinds, and checks that the outcome equals that of a dry run, and that a second rewind has
/// nothing to do.
async fn check(place: &Place, files: &FileCheckpoints, message: usize) {
    let now = tree(&place.root());
    let would = files
        .rewind("s", message, RewindMode::DryRun)
        .await
        .unwrap();
    assert_eq!(tree(&place.root()), now);
    let report = files
        .rewind("s", message, RewindMode::SkipChanged)
        .await
        .unwrap();
    assert!(report.is_complete(), "{report}");
    assert_eq!(would.to_string(), report.to_string());
    let again = files
        .rewind("s", message, RewindMode::SkipChanged)
        .await
        .unwrap();
    assert!(again.changes.is_empty(), "{again}");
}

#[test]
fn files_in_memory_are_restored_at_any_message() {
    hold(64, |steps| {
        block_on(async {
            let place = Place::new();
            let backend = MemoryBackend::new();
            backend.write("a", b"\xff").await.unwrap();
            let files = FileCheckpoints::new(backend.clone());
            let mut snapshots: Vec<(usize, BTreeMap<String, Bytes>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Message(ops) => {
                        let before = backend.files();
                        snapshots.push((message(&place, &files, ops).await, before));
                    }
                    Step::Rewind(at) if !snapshots.is_empty() => {
                        let (message, before) = &snapshots[at % snapshots.len()];
                        files
                            .rewind("s", *message, RewindMode::SkipChanged)
                            .await
                            .unwrap();
                        assert_eq!(&backend.files(), before);
                    }
                    Step::Rewind(_) | Step::Restart => {}
                }
            }

            for (message, before) in snapshots.iter().chain(snapshots.iter().rev()) {
                files
                    .rewind("s", *message, RewindMode::SkipChanged)
                    .await
                    .unwrap();
                assert_eq!(&backend.files(), before);
            }
        });
    });
}
