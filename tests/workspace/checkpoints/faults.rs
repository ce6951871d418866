//! Rewinds that fail at any step, and concurrent readers and writers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use agentcore::backend::{Backend, ContentHash, DirEntry, LocalBackend, Metadata};
use agentcore::hooks::{FileCheckpoints, RewindMode};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, BoxError, Error, FuncTool, Result};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;

use super::{Place, change, rewind, tree};
use crate::kit::any_object;

/// The time at which a change fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    Before,
    After,
}

/// A folder that records its files after each change, and whose changes fail after a number of
/// them.
#[derive(Clone, Debug)]
struct Spy {
    inner: LocalBackend,
    seen: Arc<Mutex<Vec<(String, u32)>>>,
    left: Arc<Mutex<usize>>,
    fails: Fails,
}

impl Spy {
    fn new(place: &Place, left: usize, fails: Fails) -> Self {
        Self {
            inner: LocalBackend::new(place.root()).unwrap(),
            seen: Arc::default(),
            left: Arc::new(Mutex::new(left)),
            fails,
        }
    }

    async fn change(&self, path: &str, change: impl Future<Output = Result<()>>) -> Result<()> {
        let mut is_over = false;
        {
            let mut left = self.left.lock().unwrap();
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => is_over = true,
            }
        }

        let broken = || Err(Error::other("no space left"));
        if is_over && self.fails == Fails::Before {
            return broken();
        }

        change.await?;
        if let Ok(found) = self.inner.stat(path).await {
            let content = self.inner.read(path).await?;
            let content = String::from_utf8_lossy(&content).into_owned();
            let mode = found.mode.unwrap();
            self.seen.lock().unwrap().push((content, mode));
        }

        if is_over { broken() } else { Ok(()) }
    }
}

#[async_trait]
impl Backend for Spy {
    fn root(&self) -> &str {
        self.inner.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.inner.read(path).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.inner.stat(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.change(path, self.inner.write(path, content)).await
    }

    async fn write_if_unchanged(&self, path: &str, old: ContentHash, new: &[u8]) -> Result<()> {
        self.change(path, self.inner.write_if_unchanged(path, old, new))
            .await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.inner.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.change(path, self.inner.remove(path)).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        self.inner.real_path(path).await
    }

    async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        self.change(path, self.inner.set_mode(path, mode)).await
    }
}

fn set_mode(place: &Place, path: &str, mode: u32) {
    let path = place.root().join(path);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Prepares a message that removes files, and makes private files public and public files private.
async fn prepared() -> Place {
    let place = Place::new();
    for (name, mode) in [
        ("gone", 0o600),
        ("group", 0o640),
        ("seen", 0o600),
        ("fixed", 0o444),
    ] {
        place.put(name, format!("key of {name}"));
        set_mode(&place, name, mode);
    }

    place.put("plain", "plain");
    place.put("closed", "plain");
    let ops = json!([
        ["remove", "gone"],
        ["remove", "group"],
        ["remove", "fixed"],
        ["write", "seen", "open"],
        ["mode", "seen", "644"],
        ["remove", "plain"],
        ["write", "closed", "key of the agent"],
        ["mode", "closed", "600"],
        ["write", "new", "new"]
    ]);
    place.changes(&place.files(), ops).await;
    place
}

#[tokio::test]
async fn rewind_never_exposes_private_content_by_mode() {
    let place = prepared().await;
    let spy = Spy::new(&place, usize::MAX, Fails::Before);
    let files = FileCheckpoints::open(spy.clone(), place.folder()).unwrap();
    let report = files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    assert!(report.is_complete(), "{report}");
    let states = spy.seen.lock().unwrap().clone();
    let others = |name: &str| -> u32 {
        let text = format!("key of {name}");
        let matching = states.iter().filter(|(content, _)| *content == text);
        matching.fold(0, |all, (_, mode)| all | mode) & 0o077
    };

    assert_eq!(others("gone"), 0, "{states:?}");
    assert_eq!(others("seen"), 0, "{states:?}");
    assert_eq!(others("group"), 0o040, "{states:?}");
    assert_eq!(others("the agent"), 0, "{states:?}");
    assert!(states.contains(&("plain".to_owned(), 0o644)), "{states:?}");
}

#[tokio::test]
async fn interrupted_rewind_can_be_completed_by_the_next_one() {
    let mut steps = 0;
    for fails in [Fails::Before, Fails::After] {
        for left in 0.. {
            let place = Place::new();
            for name in ["gone", "seen", "a", "d/b"] {
                place.put(name, format!("before: {name}"));
                set_mode(&place, name, 0o600);
            }

            let before = tree(&place.root());
            let ops = json!([
                ["remove", "gone"],
                ["write", "seen", "x"],
                ["mode", "seen", "644"],
                ["write", "a", "y"],
                ["remove", "d/b"],
                ["write", "new", "z"]
            ]);
            place.changes(&place.files(), ops).await;
            let spy = Spy::new(&place, left, fails);
            let files = FileCheckpoints::open(spy.clone(), place.folder()).unwrap();
            let broken = files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();

            // Another process completes the rewind.
            let report = place
                .files()
                .rewind("s", 0, RewindMode::SkipChanged)
                .await
                .unwrap();
            assert!(report.is_complete(), "{fails:?} at {left}: {report}");
            assert_eq!(tree(&place.root()), before, "{fails:?} at {left}");
            steps += 1;
            if broken.is_complete() {
                assert!(report.changes.is_empty());
                break;
            }
        }
    }

    assert!(steps > 12, "{steps}");
}

/// A user edits a file while the agent changes it.
#[tokio::test]
async fn change_by_a_user_within_one_message_is_a_conflict() {
    let place = Place::new();
    place.put("a", "0\n");
    place.put("b", "0\n");
    let files = place.files();
    let root = place.root();
    let person = FuncTool::new(
        "person",
        "Somebody edits",
        any_object(),
        move |_cx, _args| {
            let path = root.join("a");
            async move {
                let old = fs::read_to_string(&path)?;
                fs::write(path, old + "a person\n")?;
                Ok::<_, BoxError>("edited")
            }
        },
    );
    let twice = |text: &str| json!({"ops": [["append", "a", text], ["append", "b", text]]});
    let model = ScriptedModel::new()
        .call("change", twice("1\n"))
        .call("person", json!({}))
        .call("change", twice("2\n"))
        .say("done");
    let agent = AgentBuilder::new(model)
        .tool(change())
        .tool(person)
        .hook(files.clone())
        .backend(files.clone())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    assert_eq!(place.get("a").as_deref(), Some("0\n1\na person\n2\n"));
    assert_eq!(
        rewind(&place.files(), 0).await,
        ["change a: conflict", "change b: done"]
    );
    let forced = files.rewind("s", 0, RewindMode::Overwrite).await.unwrap();
    assert!(forced.is_complete(), "{forced}");
    assert_eq!(place.get("a").as_deref(), Some("0\n"));
}

/// The former content of the file is lost, so the content at the next change is stored.
#[tokio::test]
async fn lost_checkpoint_file_is_created_again_within_a_message() {
    for removed in [true, false] {
        let place = Place::new();
        place.put("a", "0");
        let files = place.files();
        let path = place.folder().join("s.files");
        let lose = FuncTool::new("lose", "Loses", any_object(), move |_cx, _args| {
            let path = path.clone();
            async move {
                if removed {
                    fs::remove_file(path)?;
                } else {
                    fs::write(&path, [b"?", &fs::read(&path)?[..]].concat())?;
                }

                Ok::<_, BoxError>("lost")
            }
        });

        let write = |text: &str| json!({"ops": [["write", "a", text]]});
        let model = ScriptedModel::new()
            .call("change", write("1"))
            .call("lose", json!({}))
            .call("change", write("2"))
            .call("change", write("3"))
            .say("done");
        let agent = AgentBuilder::new(model)
            .tool(change())
            .tool(lose)
            .hook(files.clone())
            .backend(files.clone())
            .build()
            .unwrap();
        agent.session("s").run("Go").await.unwrap();
        assert_eq!(place.get("a").as_deref(), Some("3"));
        assert_eq!(rewind(&place.files(), 0).await, ["change a: done"]);
        assert_eq!(place.get("a").as_deref(), Some("1"), "{removed}");
    }
}

/// Overwriting accepts the user's change as the state of the file, so that earlier messages can be
/// rewound without a conflict.
#[tokio::test]
async fn overwritten_user_change_is_no_conflict_afterwards() {
    let place = Place::new();
    place.put("a", "0");
    let files = place.files();
    for text in ["1", "2"] {
        place.changes(&files, json!([["write", "a", text]])).await;
    }

    place.put("a", "a person");
    assert_eq!(rewind(&files, 4).await, ["change a: conflict"]);
    let forced = files.rewind("s", 4, RewindMode::Overwrite).await.unwrap();
    assert!(forced.is_complete(), "{forced}");
    assert_eq!(rewind(&files, 0).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("0"));

    // The content that the rewind overwrote was stored.
    assert_eq!(rewind(&files, usize::MAX).await, ["change a: done"]);
    assert_eq!(place.get("a").as_deref(), Some("a person"));
}
