//! `examples/approval`: a question of one process is answered by another.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use agentcore::SessionStore;
use agentcore::session::JsonlStore;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent_cli::{example, text};

fn approval(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(example("approval"));
    command.arg("--folder").arg(folder).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    approval(folder, arguments).output().unwrap()
}

/// Returns the pending calls that a process prints.
fn printed_calls(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let json = &stdout[stdout.find('[').expect("a list")..];
    serde_json::from_str(json).unwrap()
}

fn id(pending: &Value) -> &str {
    pending["id"].as_str().unwrap()
}

fn allow(pending: &Value) -> Value {
    json!({"decision": "allow", "id": pending["id"], "args_hash": pending["args_hash"]})
}

fn answer(folder: &Path, decisions: &[Value]) -> Output {
    let mut child = approval(folder, &["answer", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let json = Value::from(decisions).to_string();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(json.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn refused(output: &Output, why: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(why), "{why:?} in {stderr}");
}

fn ledger(folder: &Path) -> String {
    fs::read_to_string(folder.join("ledger.txt")).unwrap_or_default()
}

/// Returns a folder in which two calls are pending.
fn dir_with_pending_calls() -> (TempDir, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let calls = printed_calls(&run(dir.path(), &["ask"]));
    assert_eq!(calls.len(), 2);
    (dir, calls)
}

#[test]
fn calls_left_pending_by_one_process_are_answered_by_others() {
    let (dir, calls) = dir_with_pending_calls();
    let folder = dir.path();
    assert_eq!(printed_calls(&run(folder, &["show"])), calls);
    assert_eq!(calls[0]["call"]["args"], json!({"to": "Ada", "amount": 50}));
    assert_eq!(ledger(folder), "");

    let remaining = printed_calls(&run(folder, &["approve", id(&calls[0])]));
    assert_eq!(remaining, calls[1..]);
    assert_eq!(ledger(folder), "50 to \"Ada\"\n");

    let output = run(folder, &["deny", id(&calls[1]), "not on a Friday"]);
    let stdout = text(&output.stdout);
    assert_eq!(
        stdout,
        "Done: paid 50 to \"Ada\"; Error: not on a Friday.\n"
    );
    assert_eq!(ledger(folder), "50 to \"Ada\"\n");
    assert!(printed_calls(&run(folder, &["show"])).is_empty());
}

#[test]
fn list_of_decisions_is_applied_in_another_process() {
    let (dir, calls) = dir_with_pending_calls();
    let output = answer(dir.path(), &[allow(&calls[1]), allow(&calls[0])]);
    assert_eq!(
        text(&output.stdout).lines().last(),
        Some("Done: paid 50 to \"Ada\"; paid 70 to \"Bob\".")
    );
    assert_eq!(ledger(dir.path()), "50 to \"Ada\"\n70 to \"Bob\"\n");
}

#[test]
fn stale_and_forged_decisions_run_nothing() {
    let (dir, calls) = dir_with_pending_calls();
    let folder = dir.path();
    let forged = |key: &str, value: &str| {
        let mut decision = allow(&calls[1]);
        decision[key] = value.into();
        decision
    };

    for (second, why) in [
        (forged("args_hash", "0000000000000000"), "other arguments"),
        (
            forged("args_hash", calls[0]["args_hash"].as_str().unwrap()),
            "other arguments",
        ),
        (
            forged("id", "pending_1"),
            "\"pending_1\" was refused: no such call",
        ),
        (allow(&calls[0]), "there are two decisions for it"),
        (
            json!({"decision": "allow", "id": calls[1]["id"]}),
            "args_hash",
        ),
        (json!({"decision": "maybe", "id": calls[1]["id"]}), "maybe"),
        (forged("args", "{}"), "unknown field `args`"),
    ] {
        // The first decision is valid, but is not applied either.
        refused(&answer(folder, &[allow(&calls[0]), second]), why);
    }

    refused(
        &run(folder, &["approve", "pending_1"]),
        "no call \"pending_1\" waits",
    );
    assert_eq!(
        (ledger(folder), printed_calls(&run(folder, &["show"]))),
        (String::new(), calls.clone())
    );

    answer(folder, &[allow(&calls[0])]);
    refused(
        &answer(folder, &[allow(&calls[0])]),
        "it was answered already",
    );
    assert_eq!(ledger(folder), "50 to \"Ada\"\n");

    let new_calls = printed_calls(&run(folder, &["ask"]));
    refused(
        &answer(folder, &[allow(&calls[1])]),
        "the session continued without",
    );
    assert_eq!(ledger(folder), "50 to \"Ada\"\n");
    answer(folder, &[allow(&new_calls[1])]);
    assert_eq!(ledger(folder), "50 to \"Ada\"\n70 to \"Bob\"\n");
}

#[test]
fn decision_of_another_session_is_rejected() {
    let ((dir, calls), (other, _)) = (dir_with_pending_calls(), dir_with_pending_calls());
    refused(&answer(other.path(), &[allow(&calls[0])]), "no such call");
    assert_eq!(
        (ledger(dir.path()), ledger(other.path())),
        Default::default()
    );
}

#[tokio::test]
async fn questions_of_another_session_are_not_shown() {
    let (dir, calls) = dir_with_pending_calls();
    let store = JsonlStore::open(dir.path().join("sessions")).unwrap();
    let json = store.export("payments").await.unwrap();
    store.delete("payments").await.unwrap();

    // In a fork, the pending calls have the id of the original session.
    let own = r#""session_id":"payments""#;
    assert!(json.contains(own), "{json}");
    let json = json.replace(own, r#""session_id":"original""#);
    store.import("payments", json.as_bytes()).await.unwrap();
    assert!(printed_calls(&run(dir.path(), &["show"])).is_empty());
    refused(
        &run(dir.path(), &["approve", id(&calls[0])]),
        &format!("no call {} waits", calls[0]["id"]),
    );
    refused(
        &answer(dir.path(), &[allow(&calls[0])]),
        "it waits in session \"original\"",
    );
}

#[test]
fn single_decision_without_a_list_is_accepted() {
    let (dir, calls) = dir_with_pending_calls();
    let path = dir.path().join("one.json");
    fs::write(&path, allow(&calls[0]).to_string()).unwrap();
    let remaining = printed_calls(&run(dir.path(), &["answer", &path.display().to_string()]));
    assert_eq!(remaining, calls[1..]);
    assert_eq!(ledger(dir.path()), "50 to \"Ada\"\n");
}

#[test]
fn second_process_is_rejected_while_one_answers() {
    let (dir, calls) = dir_with_pending_calls();
    let folder = dir.path();
    let _first = BlockedProcess::start(folder, &calls[0]);
    let why = "in use by another run";
    refused(&answer(folder, &[allow(&calls[0])]), why);
    refused(&answer(folder, &[allow(&calls[1])]), why);
}

/// A process that began a payment and cannot end it, because its ledger is a pipe without a reader.
/// It is killed when this is dropped.
struct BlockedProcess(Child);

impl BlockedProcess {
    /// Starts the process, and waits until the payment has begun.
    fn start(folder: &Path, call: &Value) -> Self {
        let pipe = folder.join("ledger.txt");
        let status = Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(status.success());
        let child = approval(folder, &["approve", id(call)])
            .stdout(Stdio::piped())
            .spawn();
        let mut process = Self(child.unwrap());
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "paying 50 to \"Ada\"");
        process
    }
}

impl Drop for BlockedProcess {
    fn drop(&mut self) {
        // Errors mean that the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn approved_call_of_a_killed_process_does_not_run_again() {
    let (dir, calls) = dir_with_pending_calls();
    let folder = dir.path();
    drop(BlockedProcess::start(folder, &calls[0]));
    fs::remove_file(folder.join("ledger.txt")).unwrap();

    refused(
        &answer(folder, &[allow(&calls[0])]),
        "it was answered already",
    );

    // The other call is still pending, and is the only one that runs.
    let output = answer(folder, &[allow(&calls[1])]);
    let stdout = text(&output.stdout);
    assert!(
        stdout.contains("it may have run; paid 70 to \"Bob\""),
        "{stdout}"
    );
    assert_eq!(ledger(folder), "70 to \"Bob\"\n");
}
