//! Changes that are stored after the changes of a later message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agentcore::backend::{Backend, DirEntry, LocalBackend, Metadata};
use agentcore::hooks::FileCheckpoints;
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, AgentBuilder, BoxError, FuncTool, Result};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Place, change, rewind};
use crate::kit::any_object;

/// A folder in which the first read of `c`, or the first resolution of its path, waits.
#[derive(Clone, Debug)]
struct Slow {
    inner: LocalBackend,
    waits_for_path: bool,
    has_waited: Arc<AtomicBool>,
    reached: Arc<Notify>,
    release: Arc<Notify>,
    /// The write that a call has started.
    task: Arc<Mutex<Option<JoinHandle<Result<()>>>>>,
}

impl Slow {
    fn new(place: &Place, waits_for_path: bool) -> Self {
        Self {
            inner: LocalBackend::new(place.root()).unwrap(),
            waits_for_path,
            has_waited: Arc::default(),
            reached: Arc::default(),
            release: Arc::default(),
            task: Arc::default(),
        }
    }

    async fn wait_once(&self, path: &str) {
        let is_waited_for = path == "c" || path.ends_with("/c");
        if is_waited_for && !self.has_waited.swap(true, Ordering::Relaxed) {
            self.reached.notify_one();
            self.release.notified().await;
        }
    }
}

#[async_trait]
impl Backend for Slow {
    fn root(&self) -> &str {
        self.inner.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        if !self.waits_for_path {
            self.wait_once(path).await;
        }
        self.inner.read(path).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.inner.stat(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.inner.write(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.inner.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        if self.waits_for_path {
            self.wait_once(path).await;
        }
        self.inner.real_path(path).await
    }
}

/// A tool that starts a write of `c` in a new task.
fn begin(slow: &Slow) -> FuncTool {
    let slow = slow.clone();
    FuncTool::new("begin", "Begins", any_object(), move |cx, _args| {
        let slow = slow.clone();
        async move {
            let backend = cx.backend().ok_or("no backend")?;
            let task = tokio::spawn(async move { backend.write("c", b"1").await });
            *slow.task.lock().unwrap() = Some(task);
            slow.reached.notified().await;
            Ok::<_, BoxError>("begun")
        }
    })
}

/// A tool that waits for this write.
fn end(slow: &Slow) -> FuncTool {
    let slow = slow.clone();
    FuncTool::new("end", "Ends", any_object(), move |_cx, _args| {
        let slow = slow.clone();
        async move {
            let task = slow.task.lock().unwrap().take();
            slow.release.notify_one();
            task.ok_or("nothing was begun")?.await??;
            Ok::<_, BoxError>("ended")
        }
    })
}

fn agent(place: &Place, files: &FileCheckpoints, slow: &Slow, model: ScriptedModel) -> Agent {
    AgentBuilder::new(model)
        .tool(change())
        .tool(begin(slow))
        .tool(end(slow))
        .hook(files.clone())
        .backend(files.clone())
        .store(place.store.clone())
        .build()
        .unwrap()
}

/// The later message belongs to the same run or to the next one.
#[tokio::test]
async fn change_recorded_after_a_later_message_keeps_the_checkpoints_before_it() {
    for (is_steered, later_message) in [(true, 5), (false, 6)] {
        let place = Place::new();
        for name in ["a", "b", "c"] {
            place.put(name, "0");
        }

        let slow = Slow::new(&place, false);
        let files = FileCheckpoints::open(slow.clone(), place.folder()).unwrap();
        let write = |name: &str| json!({"ops": [["write", name, "1"]]});
        let mut model = ScriptedModel::new()
            .call("change", write("a"))
            .call("begin", json!({}));
        if !is_steered {
            let first = agent(&place, &files, &slow, model.say("done"));
            first.session("s").run("Go").await.unwrap();
            model = ScriptedModel::new();
        }

        let model = model.call("change", write("b")).call("end", json!({}));
        let agent = agent(&place, &files, &slow, model.say("done"));
        let mut run = agent.session("s").run("Go");
        let handle = run.handle();
        let mut must_steer = is_steered;
        while let Some(_message) = run.next().await {
            if must_steer && slow.has_waited.load(Ordering::Relaxed) {
                must_steer = false;
                assert!(handle.steer("Once more"));
            }
        }

        let files = place.files();
        let listed = files.checkpoints("s").await.unwrap();
        let counts: Vec<_> = listed
            .iter()
            .map(|one| (one.message, one.files.len()))
            .collect();
        assert_eq!(counts, [(0, 1), (later_message, 2)]);
        assert_eq!(
            rewind(&files, 0).await,
            ["change a: done", "change b: done", "change c: done"]
        );
    }
}

#[tokio::test]
async fn change_recorded_after_its_message_is_taken_back_keeps_the_checkpoints_before_it() {
    for waits_for_path in [false, true] {
        let place = Place::new();
        for name in ["a", "b", "c"] {
            place.put(name, "0");
        }

        let slow = Slow::new(&place, waits_for_path);
        let files = FileCheckpoints::open(slow.clone(), place.folder()).unwrap();
        for name in ["a", "b"] {
            place.changes(&files, json!([["write", name, "1"]])).await;
        }

        let model = ScriptedModel::new().call("begin", json!({})).say("begun");
        let first = agent(&place, &files, &slow, model);
        first.session("s").run("Go").await.unwrap();
        let model = ScriptedModel::new()
            .call("end", json!({}))
            .call("change", json!({"ops": [["write", "b", "2"]]}))
            .say("done");
        let second = agent(&place, &files, &slow, model);
        let session = second.session("s").rewind_to(4);
        session.run("Otherwise").await.unwrap();

        let files = place.files();
        let listed = files.checkpoints("s").await.unwrap();
        let counts: Vec<_> = listed
            .iter()
            .map(|one| (one.message, one.files.len()))
            .collect();
        assert_eq!(counts, [(0, 1), (4, 2)]);
        assert_eq!(listed[1].title.as_deref(), Some("Otherwise"));
        assert_eq!(
            rewind(&files, 0).await,
            ["change a: done", "change b: done", "change c: done"]
        );
    }
}
