//! Signals that end the headless agent.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use agentcore::testing::{FaultServer, Reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::agent_cli::agent;

/// Starts a server that begins an answer and never ends it.
fn stalled() -> (Runtime, FaultServer) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(FaultServer::start()).unwrap();
    let begun = r#"{"choices":[{"delta":{"role":"assistant","content":"Begun"}}]}"#;
    server.reply(Reply::sse([format!("data: {begun}\n\n")]).stall());
    (runtime, server)
}

fn arguments() -> Vec<&'static str> {
    // With a context window as an option, the agent does not ask the server for it.
    let window = ["--context-window", "4096"];
    let model = ["--model", "openai:m", "--tools", "none"];
    let output = [
        "--include-partial-messages",
        "--output",
        "stream-json",
        "Go",
    ];
    [&model[..], &window, &output].concat()
}

/// Starts a command, and waits until it prints the beginning of the answer.
fn start(mut command: Command, server: &FaultServer) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("Begun") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0);
    }

    (child, stdout)
}

fn last(stdout: impl BufRead) -> Value {
    let line = stdout.lines().last().unwrap().unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Returns `true` if the process ignores SIGHUP, as processes do that `nohup` started.
#[cfg(target_os = "linux")]
fn ignores_hangup(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask & 1 != 0
}

#[cfg(not(target_os = "linux"))]
fn ignores_hangup(_pid: u32) -> bool {
    false
}

#[test]
fn sigterm_and_sighup_end_a_run_with_its_result() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        if signal == Signal::HUP && ignores_hangup(std::process::id()) {
            // The agent inherits the ignored signal, and would wait for its server.
            eprintln!("skipped: SIGHUP is ignored here");
            continue;
        }
        let (_runtime, server) = stalled();
        let (mut child, stdout) = start(agent(&arguments()), &server);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let result = last(stdout);
        assert_eq!(result["type"], "result", "{signal:?}: {result}");
        assert_eq!(result["is_error"], true, "{result}");
        assert_eq!(child.wait().unwrap().code(), Some(1), "{signal:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ignored_sighup_stays_ignored() {
    let (_runtime, server) = stalled();
    let plain = agent(&arguments());
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args())
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::null());
    let (mut child, stdout) = start(command, &server);
    assert!(ignores_hangup(child.id()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(last(stdout)["type"], "result");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn sigterm_ends_a_run_whose_reader_does_not_read() {
    let mut child = agent(&["--model", "scripted"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("x".repeat(1_000_000).as_bytes()).unwrap();
    drop(stdin);

    // After the first byte, the rest of the output waits for a reader.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(stdout);
}
