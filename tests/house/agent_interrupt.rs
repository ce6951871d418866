//! Interrupts of the headless agent while a model answers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use agentcore::testing::{FaultServer, Reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::agent_cli::agent;

#[test]
fn interrupted_answer_is_kept_and_a_result_is_printed() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(FaultServer::start()).unwrap();
    let chunk = r#"{"choices":[{"delta":{"role":"assistant","content":"As I was saying"}}]}"#;
    server.reply(Reply::sse([format!("data: {chunk}\n\n")]).stall());

    // With a context window as an option, the agent does not ask the server for it.
    let window = ["--context-window", "4096"];
    let options = ["--include-partial-messages", "--output", "stream-json"];
    let mut child = agent(&["--model", "openai:m", "--tools", "none"])
        .args(window)
        .args(options)
        .arg("Go")
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .env("OPENAI_API_KEY", "key")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    messages
        .find(|message| message.to_string().contains("As I was saying"))
        .expect("the partial answer is emitted");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();

    let rest: Vec<_> = messages.collect();
    let answers = rest.iter().filter(|message| message["type"] == "assistant");
    let answers: Vec<_> = answers
        .map(|message| &message["message"]["content"])
        .collect();
    assert_eq!(answers.len(), 1, "{rest:?}");
    assert!(answers[0].to_string().contains("As I was saying"));
    let results = rest.iter().filter(|message| message["type"] == "result");
    assert_eq!(results.count(), 1);
    let last = rest.last().unwrap();
    assert_eq!(
        (&last["type"], &last["is_error"]),
        (&"result".into(), &true.into())
    );
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
