//! Limits on the size of checkpoints, and on the work to store them.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use agentcore::backend::{Backend, DirEntry, EntryKind, LocalBackend, Metadata};
use agentcore::hooks::{FileCheckpoints, RewindMode, RewindOutcome};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, BoxError, ErrorKind, FuncTool, Result};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;

use super::{Place, rewind};
use crate::kit::any_object;
use crate::kit::processes::until;

const KIB: usize = 1024;

/// The number of files that are written concurrently.
const FILES: usize = 20;

/// A folder that counts concurrent reads, and that has a file `endless` without an end.
#[derive(Clone, Debug)]
struct Counting {
    inner: LocalBackend,
    reads: Arc<AtomicUsize>,
    most_reads: Arc<AtomicUsize>,
    endless_bytes: Arc<AtomicU64>,
}

impl Counting {
    fn new(place: &Place) -> Self {
        Self {
            inner: LocalBackend::new(place.root()).unwrap(),
            reads: Arc::default(),
            most_reads: Arc::default(),
            endless_bytes: Arc::default(),
        }
    }
}

fn is_endless(path: &str) -> bool {
    path.ends_with("endless")
}

#[async_trait]
impl Backend for Counting {
    fn root(&self) -> &str {
        self.inner.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        if is_endless(path) {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge).into());
        }
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_reads.fetch_max(reads, Ordering::Relaxed);
        // The first read waits for a second one; meanwhile a third would begin.
        let is_shared = || self.most_reads.load(Ordering::Relaxed) > 1;
        until("no other read begins", is_shared).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let content = self.inner.read(path).await;
        self.reads.fetch_sub(1, Ordering::Relaxed);
        content
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        if !is_endless(path) {
            return self.inner.read_range(path, offset, len).await;
        }
        // Without a limit, this ends the test with a failure.
        if self.endless_bytes.fetch_add(len as u64, Ordering::Relaxed) > 1 << 30 {
            return Ok(Bytes::new());
        }
        Ok(vec![0; len].into())
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        if is_endless(path) {
            return Ok(Metadata::new(EntryKind::File, 1 << 50));
        }
        self.inner.stat(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.inner.write(path, content).await
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        if is_endless(path) {
            return Ok(());
        }
        self.inner.append(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.inner.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        self.inner.real_path(path).await
    }
}

/// Runs a session whose tool writes `new` to all files concurrently.
async fn write_all(files: &FileCheckpoints, session: &str) {
    let write = FuncTool::new("write", "Writes", any_object(), |cx, _| async move {
        let backend = cx.backend().ok_or("no backend")?;
        let writes = (0..FILES).map(|number| {
            let backend = backend.clone();
            async move { backend.write(&format!("f{number}"), b"new").await }
        });
        futures::future::try_join_all(writes).await?;
        Ok::<_, BoxError>("written")
    });
    let model = ScriptedModel::new().call("write", json!({})).say("done");
    let agent = AgentBuilder::new(model)
        .tool(write)
        .hook(files.clone())
        .backend(files.clone())
        .build()
        .unwrap();
    let output = agent.session(session).run("Go").await.unwrap();
    assert!(
        output
            .messages
            .iter()
            .any(|message| message.text() == "written")
    );
}

/// Returns the size of all files in the folder of the checkpoints.
fn folder_size(place: &Place) -> usize {
    let files = fs::read_dir(place.folder()).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len() as usize)
        .sum()
}

#[tokio::test]
async fn contents_over_the_limit_of_a_session_are_not_kept() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.put(name, "0".repeat(10 * KIB));
    }
    place.put("empty", "");
    let files = place.files().max_session_size(25 * KIB as u64);
    let ops = json!([
        ["write", "a", "1"],
        ["write", "b", "1"],
        ["write", "c", "1"],
        ["write", "empty", "1"],
        ["write", "new", "1"]
    ]);
    place.changes(&files, ops).await;
    assert!(folder_size(&place) < 25 * KIB);

    let plan = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    let RewindOutcome::NotKept(reason) = &plan.changes[2].outcome else {
        panic!("{plan}")
    };
    for words in ["10240 bytes", "25600", "FileCheckpoints::max_session_size"] {
        assert!(reason.contains(words), "{reason}");
    }
    let expected = [
        "change a: done",
        "change b: done",
        "change c: not kept",
        "change empty: done",
        "delete new: done",
    ];
    assert_eq!(rewind(&files, 0).await, expected);
}

#[tokio::test]
async fn contents_kept_side_by_side_stay_within_the_limit_of_the_folder() {
    for content in [100 * KIB, 0] {
        let place = Place::new();
        for number in 0..FILES {
            place.put(&format!("f{number}"), "0".repeat(content));
        }
        let files = place.files().max_total_size(1024 * KIB as u64);
        futures::join!(write_all(&files, "s"), write_all(&files, "t"));
        let size = folder_size(&place);
        let records = 2 * FILES * KIB;
        assert!(size < 1024 * KIB + records, "{size}");
        assert!(size > 10 * content, "{size}");

        // Space in the folder that becomes free is used again.
        files.forget("s").await.unwrap();
        files.forget("t").await.unwrap();
        place.put("f0", "0".repeat(100 * KIB));
        write_all(&files, "u").await;
        let report = files.rewind("u", 0, RewindMode::SkipChanged).await.unwrap();
        assert_eq!(report.changes[0].outcome, RewindOutcome::Done);
    }
}

#[tokio::test]
async fn copy_over_the_limit_of_the_folder_is_refused() {
    let place = Place::new();
    place.put("a", "0".repeat(10 * KIB));
    let files = place.files().max_total_size(15 * KIB as u64);
    place.changes(&files, json!([["write", "a", "1"]])).await;
    let error = files.fork("s", "t").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.text().contains("max_total_size"), "{error}");
    assert_eq!(files.sessions().await.unwrap(), [Arc::from("s")]);
}

#[tokio::test]
async fn contents_are_read_two_at_a_time() {
    let place = Place::new();
    for number in 0..FILES {
        place.put(&format!("f{number}"), "0");
    }
    let backend = Counting::new(&place);
    let files = FileCheckpoints::open(backend.clone(), place.folder()).unwrap();
    write_all(&files, "s").await;
    assert_eq!(backend.most_reads.load(Ordering::Relaxed), 2);
    assert_eq!(rewind(&files, 0).await.len(), FILES);
}

#[tokio::test]
async fn file_without_end_is_not_read_to_its_end() {
    let place = Place::new();
    let backend = Counting::new(&place);
    let files = FileCheckpoints::open(backend.clone(), place.folder()).unwrap();
    let append = json!([["append", "endless", "1"]]);
    place.changes(&files, append.clone()).await;
    let read_bytes = || backend.endless_bytes.swap(0, Ordering::Relaxed) as usize;
    let longest = 33 * KIB * KIB;
    assert_eq!(read_bytes(), longest);
    place.changes(&files, append).await;
    assert!(read_bytes() <= 2 * longest);

    // The file counts as changed by another program.
    assert_eq!(rewind(&files, 0).await, ["change endless: not kept"]);
}

#[tokio::test]
async fn lines_of_long_files_are_not_counted() {
    let place = Place::new();
    let limit = KIB * KIB;
    place.put("short", "a\n".repeat(limit / 2));
    place.put("long", "a\n".repeat(limit / 2 + 1));
    place.put("grown", "a\n");
    let grown = "b\n".repeat(limit / 2 + 1);
    let ops = json!([
        ["write", "short", "a\n"],
        ["write", "long", "a\n"],
        ["write", "grown", grown]
    ]);
    place.changes(&place.files(), ops).await;
    let files = place.files();
    let plan = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    let counts = plan
        .changes
        .iter()
        .map(|change| (change.lines_added, change.lines_removed));
    let short = (Some(limit / 2 - 1), Some(0));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(None, None), (None, None), short]
    );
    assert_eq!(plan.changes[1].bytes_then, limit as u64 + 2);
}
