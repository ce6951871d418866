//! Checkpoints of files, which are rewound to their content before a message.

#[cfg(feature = "jsonl")]
mod crash;
mod damage;
mod faults;
mod foreign;
mod growing;
mod keeping;
mod late;
mod limits;
mod property;
mod runs;
mod tools;
mod workspaces;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentcore::backend::{Backend, LocalBackend};
use agentcore::hooks::{FileCheckpoints, Rewind, RewindMode, RewindOutcome};
use agentcore::testing::ScriptedModel;
use agentcore::{
    Agent, AgentBuilder, BoxError, FuncTool, Message, Messages, RunOutput, ThreadStore, ToolContext,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{any_object, result_texts};

/// A workspace, a session, and checkpoints next to the workspace.
struct Place {
    held: TempDir,
    store: ThreadStore,
}

impl Place {
    fn new() -> Self {
        let held = tempfile::tempdir().unwrap();
        fs::create_dir(held.path().join("ws")).unwrap();
        Self {
            held,
            store: ThreadStore::new(),
        }
    }

    fn root(&self) -> PathBuf {
        self.held.path().join("ws")
    }

    fn folder(&self) -> PathBuf {
        self.held.path().join("checkpoints")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn get(&self, path: &str) -> Option<String> {
        let content = fs::read(self.root().join(path)).ok()?;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// Creates a session that changed `a` in two messages, whose history was then shortened, and
    /// that changed `a` once more. Returns the position of the last message.
    async fn with_shorter_history() -> (Self, FileCheckpoints, usize) {
        let place = Self::new();
        place.put("a", "0");
        let files = place.files();
        for text in ["1", "2"] {
            place.changes(&files, json!([["write", "a", text]])).await;
        }
        let mut state = place.store.get("s").unwrap();
        state.messages = Messages::from(vec![Message::human("Before")]).ai("Yes.");
        place.store.save("s", state);
        let message = place.changes(&files, json!([["write", "a", "3"]])).await;
        (place, files, message)
    }

    /// Opens the checkpoints, as a new process would.
    fn files(&self) -> FileCheckpoints {
        let backend = LocalBackend::new(self.root()).unwrap();
        FileCheckpoints::open(backend, self.folder()).unwrap()
    }

    /// Sends a message to the session `s`, for which the agent makes these calls in one turn each.
    async fn message(&self, files: &FileCheckpoints, calls: Vec<(&str, Value)>) -> RunOutput {
        let model = calls
            .into_iter()
            .fold(ScriptedModel::new(), |model, (name, args)| {
                model.call(name, args)
            });
        let agent = AgentBuilder::new(model.say("done"))
            .tool(change())
            .hook(files.clone())
            .backend(files.clone())
            .store(self.store.clone())
            .build()
            .unwrap();
        agent.session("s").run("Go").await.unwrap()
    }

    /// Sends a message for which the agent makes these changes. Returns its position in the
    /// history.
    async fn changes(&self, files: &FileCheckpoints, ops: Value) -> usize {
        let output = self
            .message(files, vec![("change", json!({"ops": ops}))])
            .await;
        assert_eq!(
            result_texts(&output.messages).pop().as_deref(),
            Some("changed")
        );
        output.messages.len() - 4
    }
}

/// An agent with the checkpoints of two workspaces. Its tool `copy` writes `x` to `a` in the first
/// and to `other` in the second.
fn two_workspace_agent(
    here: &FileCheckpoints,
    there: &FileCheckpoints,
    other: &'static str,
) -> Agent {
    let away = there.clone();
    let copy = FuncTool::new("copy", "Writes to both", any_object(), move |cx, _args| {
        let away = away.clone();
        async move {
            cx.backend().ok_or("no backend")?.write("a", b"x").await?;
            away.write(other, b"x").await?;
            Ok::<_, BoxError>("copied")
        }
    });

    AgentBuilder::new(ScriptedModel::new().call("copy", json!({})).say("done"))
        .tool(copy)
        .hook(here.clone())
        .hook(there.clone())
        .backend(here.clone())
        .build()
        .unwrap()
}

/// A tool that changes files through the backend of its run. Each of `ops` is a list of a name, a
/// path and a text.
fn change() -> FuncTool {
    FuncTool::new(
        "change",
        "Changes files",
        any_object(),
        |cx, args| async move { make(&cx, &args["ops"]).await },
    )
}

async fn make(cx: &ToolContext, ops: &Value) -> Result<String, BoxError> {
    let backend = cx.backend().ok_or("no backend")?;
    for op in ops.as_array().into_iter().flatten() {
        let text = |at: usize| op[at].as_str().unwrap_or_default();
        let path = text(1);
        match text(0) {
            "write" => backend.write(path, text(2).as_bytes()).await?,
            "append" => backend.append(path, text(2).as_bytes()).await?,
            "remove" => backend.remove(path).await?,
            "mode" => {
                let mode = u32::from_str_radix(text(2), 8)?;
                backend.set_mode(path, mode).await?;
            }
            other => return Err(format!("unknown change {other}").into()),
        }
    }

    Ok("changed".to_owned())
}

/// Returns all files below a folder with their content and mode.
fn tree(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let mut tree = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                tree.insert(path.clone(), (fs::read(path).unwrap(), mode));
            }
        }
    }

    tree
}

/// Returns the changes and their outcomes, with paths relative to the root.
fn told(rewind: &Rewind) -> Vec<String> {
    let lines = rewind.changes.iter().map(|change| {
        let path = change.path.rsplit_once("/ws/").unwrap().1;
        let outcome = match &change.outcome {
            RewindOutcome::Planned => "planned",
            RewindOutcome::Done => "done",
            RewindOutcome::Conflict => "conflict",
            RewindOutcome::NotKept(_) => "not kept",
            RewindOutcome::Failed(_) => "failed",
            _ => "unknown",
        };

        format!("{} {path}: {outcome}", change.action.as_str())
    });

    lines.collect()
}

async fn rewind(files: &FileCheckpoints, message: usize) -> Vec<String> {
    told(
        &files
            .rewind("s", message, RewindMode::SkipChanged)
            .await
            .unwrap(),
    )
}
