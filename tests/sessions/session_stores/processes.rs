//! Processes that share a database, and a process whose disk fails. The children are these tests
//! themselves.

use std::io::Read;
use std::path::Path;

use agentcore::session::Lease;
use agentcore::session::SqliteStore;
use agentcore::{ErrorKind, SessionStore};

use super::crash::{FOLDER, child, name, runtime, say};
use super::places::{Place, said};

const WRITERS: usize = 4;
const WRITES: usize = 15;

/// Waits for the lease.
async fn lease(store: &SqliteStore, id: &str) -> Lease {
    loop {
        match store.lease(id).await {
            Ok(lease) => return lease,
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}"),
        }
        std::thread::yield_now();
    }
}

async fn texts(store: &SqliteStore, id: &str) -> Vec<String> {
    let session = store.load(id).await.unwrap().unwrap_or_default();
    assert!(session.damage.is_empty(), "{:?}", session.damage);
    let messages = session.state.messages.iter();
    messages
        .map(|message| message.text().into_owned())
        .collect()
}

/// Writes to a session of this process, and in turns to one that all processes share.
async fn write_side_by_side(folder: &Path) {
    let store = <SqliteStore as Place>::open(folder);
    let name = std::process::id().to_string();
    let own = store.lease(&name).await.unwrap();
    for number in 0..WRITES {
        let text = format!("{name} {number}");
        store.append(&own, vec![said(&text)]).await.unwrap();
        let shared = lease(&store, "shared").await;
        store.append(&shared, vec![said(&text)]).await.unwrap();
    }
}

#[test]
fn processes_share_one_database() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        runtime().block_on(write_side_by_side(Path::new(&folder)));
        return;
    }

    let folder = tempfile::tempdir().unwrap();

    // The folder does not exist yet, so the processes also create it concurrently.
    let children = [(); WRITERS].map(|()| {
        child(
            name!("processes_share_one_database"),
            &folder.path().join("new"),
        )
    });

    let mut ids = Vec::new();
    for child in children {
        ids.push(child.id().to_string());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }

    runtime().block_on(async {
        let store = <SqliteStore as Place>::open(&folder.path().join("new"));
        assert_eq!(store.list().await.unwrap().len(), WRITERS + 1);
        let shared = texts(&store, "shared").await;
        assert_eq!(shared.len(), WRITERS * WRITES);
        for id in ids {
            let own = texts(&store, &id).await;
            assert_eq!(own.len(), WRITES);
            let prefix = format!("{id} ");
            let among = shared.iter().filter(|text| text.starts_with(&prefix));
            assert!(among.eq(&own), "the order of the process is kept");
        }
    });
}

#[test]
fn killed_process_does_not_block_other_writers() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        runtime().block_on(async {
            let store = <SqliteStore as Place>::open(Path::new(&folder));
            let lease = store.lease("killed").await.unwrap();
            loop {
                store.append(&lease, vec![said("again")]).await.unwrap();
                say("wrote");
            }
        });
    }

    let folder = tempfile::tempdir().unwrap();
    let store = <SqliteStore as Place>::open(folder.path());
    for round in 1..=10 {
        let mut child = child(
            name!("killed_process_does_not_block_other_writers"),
            folder.path(),
        );
        let mut output = [0; 512];
        let mut out = child.stdout.take().unwrap();
        while !String::from_utf8_lossy(&output).contains("@wrote") {
            assert!(out.read(&mut output).unwrap() > 0);
        }

        // This is probably within a write, and within SQLite's shared memory.
        child.kill().unwrap();
        runtime().block_on(async {
            let lease = store.lease("alive").await.unwrap();
            store.append(&lease, vec![said("next")]).await.unwrap();
            assert_eq!(texts(&store, "alive").await.len(), round);
        });

        child.wait().unwrap();
        drop(runtime().block_on(store.lease("killed")).unwrap());
    }
}

/// On Unix, closing any descriptor of a file releases the locks of the process.
#[test]
fn reopening_a_database_releases_no_lock() {
    use rustix::fs::{FlockOperation, fcntl_lock};

    if let Some(folder) = std::env::var_os(FOLDER) {
        let path = Path::new(&folder).join("sessions.db");
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).open(path).unwrap();
        let lock = fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);
        say(if lock.is_ok() { "free" } else { "locked" });
        return;
    }

    let test = name!("reopening_a_database_releases_no_lock");
    let is_free = |folder: &Path| {
        let output = child(test, folder).wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("@free")
    };

    let temp_folder = tempfile::tempdir().unwrap();
    let store = <SqliteStore as Place>::open(temp_folder.path());
    let lease = runtime().block_on(store.lease("s")).unwrap();
    let write = store.append(&lease, vec![said("one")]);
    runtime().block_on(write).unwrap();
    assert!(!is_free(temp_folder.path()));
    drop(<SqliteStore as Place>::open(temp_folder.path()));
    assert!(!is_free(temp_folder.path()), "the locks were released");

    // Shows that the check above detects released locks.
    drop(std::fs::File::open(store.path()).unwrap());
    assert!(is_free(temp_folder.path()));
    drop((lease, store));
}

/// Limits the size of files, so that writes beyond it fail as on a full disk.
#[cfg(feature = "process")]
fn limit_files(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = bytes;
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

#[cfg(feature = "process")]
async fn fail_at_any_byte(folder: &Path) {
    use rustix::process::Signal;
    use tokio::signal::unix::{SignalKind, signal};

    // The signal is handled, so that the write fails instead of ending the process.
    let _caught = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).unwrap();
    let store = <SqliteStore as Place>::open(folder);
    let log = folder.join("sessions.db-wal");
    let mut lease = store.lease("s").await.unwrap();
    store.append(&lease, vec![said("first")]).await.unwrap();
    let mut acknowledged = vec!["first".to_owned()];
    let name = |text: &String| text.trim_end_matches('x').trim_end().to_owned();
    let (mut failed, mut refused) = (0, 0);
    let long = "x".repeat(9_000);
    for number in 0..80 {
        let texts_now = [format!("{number} a {long}"), format!("{number} b")];
        let records = texts_now.iter().map(|text| said(text)).collect();
        let len = std::fs::metadata(&log).unwrap().len();
        limit_files(Some(len + number * 400));
        let outcome = store.append(&lease, records).await;
        limit_files(None);
        match outcome {
            Ok(()) => acknowledged.extend(texts_now),
            Err(error) => {
                failed += 1;
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.text().contains("sessions.db"), "{error}");

                // It is unknown what such a disk has stored, so the session is read again before
                // the next write.
                if let Err(error) = store.append(&lease, vec![said("more")]).await {
                    refused += 1;
                    assert!(error.text().contains("reads it again"), "{error}");
                    drop(lease);
                    lease = store.lease("s").await.unwrap();
                } else {
                    acknowledged.push("more".into());
                }
            }
        }

        assert_eq!(texts(&store, "s").await, acknowledged, "{number}");
    }

    for text in acknowledged.iter().map(name) {
        say(&format!("acknowledged {text}"));
    }

    assert!((10..80).contains(&failed), "{failed}");
    assert!(refused > 0, "{failed}");
    say("done");
}

#[cfg(feature = "process")]
#[test]
fn failed_write_at_any_byte_loses_no_acknowledged_write() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        runtime().block_on(fail_at_any_byte(Path::new(&folder)));
        return;
    }

    let test = name!("failed_write_at_any_byte_loses_no_acknowledged_write");
    let folder = tempfile::tempdir().unwrap();
    let output = child(test, folder.path()).wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("@done"), "{stdout}");

    // The database has exactly the acknowledged messages, without damage.
    let acknowledged: Vec<_> = stdout
        .lines()
        .filter_map(|line| line.split_once("@acknowledged "))
        .map(|(_, name)| name)
        .collect();
    assert!(acknowledged.len() > 20, "{stdout}");
    let store = <SqliteStore as Place>::open(folder.path());
    let texts = runtime().block_on(texts(&store, "s"));
    let names: Vec<_> = texts
        .iter()
        .map(|text| text.trim_end_matches('x').trim_end())
        .collect();
    assert_eq!(names, acknowledged);
}
