//! The memory of agents that wait for their model.
//!
//! Each row is measured in a process of its own, and servers have another one. Rows with sockets
//! need a limit on open files above their number (`ulimit -n`).
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub)]

mod bare;
mod http2;
mod ours;
mod traffic;

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::model::{ModelProfile, ModelRequest, ModelStream};
use agentcore::{Agent, AgentBuilder, Model, Run};
use bare::Conversation;
use futures::future::BoxFuture;
use traffic::{Dialect, Reply, Server};

const INPUT: &str = "What is the weather like in Lisbon this week?";

/// A model that never answers.
#[derive(Debug, Default)]
struct Silent {
    profile: ModelProfile,
    requests: Arc<AtomicUsize>,
}

impl Model for Silent {
    fn id(&self) -> &str {
        "silent"
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn stream<'a: 'b, 'b>(
        &'a self,
        _: ModelRequest,
    ) -> BoxFuture<'b, agentcore::Result<ModelStream>>
    where
        Self: 'b,
    {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => traffic::serve().unwrap(),
        ["serve-http2", certificate] => http2::serve(certificate),
        ["park", who, count, address] => park(who, count.parse().unwrap(), address),
        _ => table(words.contains(&"--bench")),
    }
}

fn table(is_measured: bool) {
    // With a smaller scale, this is a test of the bench.
    let scale = if is_measured { 1 } else { 1_000 };
    let in_process = 100_000 / scale;
    row(
        "in process",
        measure("process", in_process, "", None),
        in_process,
    );

    let sockets = 10_000 / scale;
    for who in ["ours", "bare"] {
        let server = Server::start().unwrap();
        let bytes = measure(who, sockets, server.address(), None);
        let name = format!("{who}, {} connections", server.connections().unwrap());
        row(&name, bytes, sockets);
    }

    let server = http2::Server::start();
    let certificate = server.certificate();
    let bytes = measure("http2", sockets, server.address(), Some(&certificate));
    let name = format!("ours, HTTP/2, {} connections", server.end());
    row(&name, bytes, sockets);
}

fn row(name: &str, bytes: u64, count: usize) {
    let kib = bytes as f64 / 1024.0;
    let each = kib / count as f64;
    println!(
        "| {name:32} | {count:>7} | {each:6.1} KiB each | {:7.0} MiB |",
        kib / 1024.0
    );
}

/// Returns the memory of `count` agents, measured in a process of its own.
fn measure(who: &str, count: usize, address: &str, certificate: Option<&str>) -> u64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["park", who, &count.to_string(), address]);
    if let Some(certificate) = certificate {
        command.env("SSL_CERT_FILE", certificate);
    }
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{who}");
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap()
}

/// Starts `count` agents that wait, and prints their memory.
fn park(who: &str, count: usize, address: &str) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        match who {
            "process" => park_in_process(count).await,
            "ours" => park_runs(&agent(&format!("http://{address}")), count).await,
            "http2" => park_runs(&agent(&format!("https://{address}")), count).await,
            _ => park_bare(count, address).await,
        }
    });
}

fn agent(base: &str) -> Agent {
    let base = format!("{base}/{}", Reply::Silence);
    ours::agent(Dialect::OpenAi, &base, false, false)
}

async fn park_in_process(count: usize) {
    let model = Silent::default();
    let requests = model.requests.clone();
    let agent = AgentBuilder::new(model)
        .parallel_model_calls(count)
        .build()
        .unwrap();
    park_runs(&agent, count).await;
    assert_eq!(requests.load(Ordering::Relaxed), count);
}

async fn park_runs(agent: &Agent, count: usize) {
    let before = anonymous_bytes();
    for _ in 0..count {
        spawn(agent.run(INPUT));
        tokio::task::yield_now().await;
    }
    print_growth(before).await;
}

fn spawn(run: Run) {
    tokio::spawn(async move { ours::read(run).await });
}

async fn park_bare(count: usize, address: &str) {
    let base = format!("http://{address}/{}", Reply::Silence);
    let before = anonymous_bytes();
    for _ in 0..count {
        let mut conversation = Conversation::new(Dialect::OpenAi, &base, &[], false);
        tokio::spawn(async move { conversation.run(INPUT).await });
        tokio::task::yield_now().await;
    }
    print_growth(before).await;
}

async fn print_growth(before: u64) {
    // Waits until all requests are sent.
    tokio::time::sleep(Duration::from_secs(8)).await;
    println!("{}", anonymous_bytes().saturating_sub(before));
}

/// Returns the anonymous memory of this process. It excludes pages of the program's file, which the
/// kernel loads and drops at any time.
fn anonymous_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
