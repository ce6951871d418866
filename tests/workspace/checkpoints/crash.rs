//! Processes that are killed at random times, and a full disk.
//!
//! The child is this test itself; a variable sets its folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use agentcore::backend::LocalBackend;
use agentcore::hooks::{FileCheckpoints, RewindMode};
use agentcore::session::JsonlStore;
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{Agent, AgentBuilder, ModelEvent, ThreadStore, ToolCall};
use serde_json::json;

use super::{change, tree};
use crate::kit::result_texts;

const FOLDER: &str = "AGENTCORE_CHECKPOINTS_FOLDER";
const ROUNDS: u64 = 24;
const KILLS_A_ROUND: u64 = 4;

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Returns the path of a test as the harness spells it.
macro_rules! this {
    ($name:ident) => {
        concat!(module_path!(), "::", stringify!($name))
            .split_once("::")
            .unwrap()
            .1
    };
}

fn files(folder: &Path) -> FileCheckpoints {
    let backend = LocalBackend::new(folder.join("ws")).unwrap();
    FileCheckpoints::open(backend, folder.join("checkpoints")).unwrap()
}

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ws = folder.path().join("ws");
    fs::create_dir(&ws).unwrap();
    for number in 0..4 {
        fs::write(ws.join(number.to_string()), vec![number; 30_000]).unwrap();
    }
    folder
}

fn agent(folder: &Path, random: u64) -> Agent {
    let files = files(folder);
    let random = std::sync::Mutex::new(fastrand::Rng::with_seed(random));
    let model = FunctionModel::new(move |request| {
        let mut random = random.lock().unwrap();
        if random.u8(..3) == 0 {
            return vec![Ok(ModelEvent::Text("done".into()))];
        }

        let op = |random: &mut fastrand::Rng| {
            let name = random.u8(..6).to_string();
            match random.u8(..4) {
                0 => json!(["remove", name]),
                1 => json!(["append", name, "more"]),
                _ => json!(["write", name, "text".repeat(random.usize(..10_000))]),
            }
        };

        let id = format!("c{}_{}", request.messages.len(), random.u32(..));
        let args = json!({"ops": [op(&mut random)]});
        vec![Ok(ModelEvent::ToolCall(ToolCall::new(id, "change", args)))]
    });

    AgentBuilder::new(model)
        .tool(change())
        .hook(files.clone())
        .backend(files)
        .store(JsonlStore::open(folder.join("sessions")).unwrap())
        .loop_detection(false)
        .build()
        .unwrap()
}

/// Sends messages until the process is killed, and prints the number of each.
async fn work(folder: &Path) {
    let agent = agent(folder, u64::from(std::process::id()));
    for number in 0..10_000 {
        let run = agent.session("s").run(format!("message {number}"));
        run.await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "@{number}").unwrap();
        out.flush().unwrap();
    }
}

fn child(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn process_killed_at_any_moment_leaves_rewindable_files() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        runtime().block_on(work(Path::new(&folder)));
        return;
    }

    let mut random = fastrand::Rng::with_seed(3);
    let mut undone = 0;
    for _ in 0..ROUNDS / KILLS_A_ROUND {
        let folder = prepared();
        let before = tree(&folder.path().join("ws"));
        for _ in 0..KILLS_A_ROUND {
            let mut child = child(
                this!(process_killed_at_any_moment_leaves_rewindable_files),
                folder.path(),
            );
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mark = format!("@{}", random.u8(1..6));
            while lines
                .next()
                .is_some_and(|line| !line.unwrap().contains(&mark))
            {}
            for _ in 0..random.u32(..400_000) {
                std::hint::spin_loop();
            }

            child.kill().unwrap();
            child.wait().unwrap();
            let files = files(folder.path());
            let would = files.rewind("s", 0, RewindMode::DryRun);
            let would = runtime().block_on(would).unwrap();
            assert!(!would.to_string().contains("else"), "{would}");
        }

        let files = files(folder.path());
        let report = runtime()
            .block_on(files.rewind("s", 0, RewindMode::SkipChanged))
            .unwrap();
        assert!(report.is_complete(), "{report}");
        undone += report.changes.len();
        let mut after = tree(&folder.path().join("ws"));

        // Temporary files of killed processes stay until the next write.
        after.retain(|path, _| !path.display().to_string().contains("/.agentcore-"));
        assert!(after == before, "{report}");
    }

    assert!(undone > 10, "{undone}");
}

/// A limit on the size of files makes writes of the child fail as on a full disk.
#[test]
fn full_disk_rejects_changes_that_cannot_be_kept() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let files = files(Path::new(&folder));
        let ops = json!({"ops": [["write", "3", "x"]]});
        let small = json!({"ops": [["write", "new", "x"]]});
        let model = ScriptedModel::new()
            .call("change", ops.clone())
            .call("change", small)
            .call("change", ops)
            .say("done");
        let agent = AgentBuilder::new(model)
            .tool(change())
            .hook(files.clone())
            .backend(files)
            .store(ThreadStore::new())
            .build()
            .unwrap();
        let output = runtime().block_on(async { agent.session("s").run("Go").await });
        println!("@{}", json!(result_texts(&output.unwrap().messages)));
        return;
    }

    let folder = prepared();
    let before = tree(&folder.path().join("ws"));
    let program = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""])
        .arg(program)
        .args([
            "--exact",
            this!(full_disk_rejects_changes_that_cannot_be_kept),
        ])
        .args(["--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let texts = stdout
        .lines()
        .find_map(|line| line.split_once('@'))
        .expect("the results of the child");
    let texts: Vec<String> = serde_json::from_str(texts.1).unwrap();
    for at in [0, 2] {
        assert!(
            texts[at].contains("could not write checkpoints"),
            "{texts:?}"
        );
    }

    assert_eq!(texts[1], "changed", "a change that fits is stored and made");
    let mut after = tree(&folder.path().join("ws"));
    after.retain(|path, _| !path.ends_with("new"));
    assert!(after == before);
    let files = files(folder.path());
    let report = runtime()
        .block_on(files.rewind("s", 0, RewindMode::SkipChanged))
        .unwrap();
    assert_eq!(
        (report.changes.len(), report.is_complete()),
        (1, true),
        "{report}"
    );
}
