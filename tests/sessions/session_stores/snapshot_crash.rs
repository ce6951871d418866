//! Processes that are killed while they write a snapshot: earlier writes are kept.
//!
//! The system kills the child at a certain size of a file, by a limit on the size of files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use memchr::memmem;

use super::crash::{FOLDER, name, runtime, say};
use super::places::{Place, let_go, said};

/// The unit of `ulimit -f`, in bytes.
const BLOCK: u64 = 512;

/// The length of a message.
const LEN: usize = 60_000;

fn text(number: usize) -> String {
    format!("{number} {}", "x".repeat(LEN))
}

fn contains(log: &[u8], part: &[u8]) -> bool {
    memmem::find(log, part).is_some()
}

fn has_snapshot(log: &[u8]) -> bool {
    contains(log, b"\"kind\":\"snapshot\"")
}

/// Appends one message.
async fn append<P: Place>(folder: &Path, number: usize) -> P {
    let store = P::open(folder);
    let lease = store.lease("a").await.unwrap();
    let session = store.load("a").await.unwrap().unwrap_or_default();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let records = vec![said(&text(number))];
    store.append(&lease, records).await.unwrap();
    let_go(lease);
    store
}

async fn numbers<P: Place>(folder: &Path) -> Vec<usize> {
    let session = P::open(folder).load("a").await.unwrap().unwrap();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let messages = session.state.messages.iter();
    let number = |text: &str| text.split(' ').next().unwrap().parse().unwrap();
    messages.map(|message| number(&message.text())).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Appends messages until one adds a snapshot, with a copy of the folder for each. Returns the
/// number of that message.
async fn before_a_snapshot<P: Place>(folder: &Path) -> usize {
    for number in 0.. {
        let next = folder.join(number.to_string());
        if number > 0 {
            copy(&folder.join((number - 1).to_string()), &next);
        }

        let store = append::<P>(&next, number).await;
        if has_snapshot(&store.log("a")) {
            return number;
        }
    }

    unreachable!()
}

/// Checks that no message is lost if the process is killed at one of these sizes of the file, all
/// of which are within the snapshot. `limits` receives the size of the log before the message.
fn is_killed_within_a_snapshot<P: Place>(test: &str, limits: impl Fn(u64) -> Vec<u64>) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = Path::new(&folder);
        let number = runtime().block_on(numbers::<P>(folder)).len();
        runtime().block_on(append::<P>(folder, number));
        say("survived");
        return;
    }

    let runtime = runtime();
    let folders = tempfile::tempdir().unwrap();
    let last = runtime.block_on(before_a_snapshot::<P>(folders.path()));
    let before = folders.path().join((last - 1).to_string());
    let size = P::open(&before).log("a").len() as u64;
    for limit in limits(size) {
        let folder = folders.path().join(format!("limit_{limit}"));
        copy(&before, &folder);
        let script = format!("ulimit -c 0 && ulimit -f {} && exec \"$@\"", limit / BLOCK);
        let output = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, &folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{limit}: {stdout}");
        assert!(!stdout.contains("@survived"), "{limit}: {stdout}");

        // The log may have a part of the snapshot, but not the mark at its end. Each message has a
        // mark.
        let log = P::open(&folder).log("a");
        assert!(log.len() as u64 > size + LEN as u64, "{limit}: {stdout}");
        let mark = &b"\"kind\":\"mark\""[..];
        assert_eq!(memmem::find_iter(&log, mark).count(), last + 1, "{limit}");

        // The message was stored before the snapshot was begun.
        let expected: Vec<_> = (0..=last).collect();
        assert_eq!(runtime.block_on(numbers::<P>(&folder)), expected, "{limit}");
        let store = runtime.block_on(append::<P>(&folder, last + 1));
        assert!(
            has_snapshot(&store.log("a")),
            "{limit}: the next write adds the snapshot"
        );
        drop(store);
        let expected: Vec<_> = (0..=last + 1).collect();
        assert_eq!(runtime.block_on(numbers::<P>(&folder)), expected, "{limit}");
    }
}

#[cfg(feature = "jsonl")]
#[test]
fn file_loses_nothing_when_its_writer_dies_within_a_snapshot() {
    // The file has the new message after its former content.
    let limits = |size: u64| {
        let start = size + 62_000;
        vec![start, start + 70_000, start + 500_000, start + 900_000]
    };
    is_killed_within_a_snapshot::<agentcore::session::JsonlStore>(
        name!("file_loses_nothing_when_its_writer_dies_within_a_snapshot"),
        limits,
    );
}

#[cfg(feature = "sqlite")]
#[test]
fn database_loses_nothing_when_its_writer_dies_within_a_snapshot() {
    // The write-ahead log starts from the beginning, with the new message.
    let limits = |_| vec![200_000, 600_000, 1_000_000];
    is_killed_within_a_snapshot::<agentcore::session::SqliteStore>(
        name!("database_loses_nothing_when_its_writer_dies_within_a_snapshot"),
        limits,
    );
}
