//! The memory of calls that run concurrently. The test is a program of its own, because it counts
//! all allocations of the process.
#![cfg(all(feature = "tools", unix))]
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use agentcore::backend::LocalBackend;
use agentcore::hooks::FileCheckpoints;
use agentcore::testing::ScriptedModel;
use agentcore::tools::{coding, picoclaw, wick};
use agentcore::{AgentBuilder, FuncTool, Messages, ModelEvent, StopReason, Tool, ToolCall};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1024 * 1024;
const CALLS: usize = 16;

/// The most that all calls may take together, including their results. Two large files at once, as
/// bytes and as texts, take 90 MiB.
const MOST: usize = 130 * MIB;

/// The limit for calls that list a folder of 10,000 long names. Two at once take 45 MiB.
const MOST_OF_NAMES: usize = 60 * MIB;

/// Returns the bytes in use.
fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated)
}

/// A thread that measures the bytes in use until it is ended.
struct Watch {
    is_over: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
    before: usize,
}

impl Watch {
    fn begin() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let most = Arc::<AtomicUsize>::default();
        let thread = thread::spawn({
            let (is_over, most) = (is_over.clone(), most.clone());
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    most.fetch_max(live(), Ordering::Relaxed);
                    thread::sleep(Duration::from_micros(200));
                }
            }
        });

        let before = live();
        Self {
            is_over,
            most,
            thread,
            before,
        }
    }

    /// Returns the peak since the beginning.
    fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let most = self.most.load(Ordering::Relaxed);
        most.saturating_sub(self.before)
    }
}

/// Returns the history of a run that makes the same call `count` times in one answer, and the peak
/// memory.
fn run(tool: impl Tool, count: usize, name: &str, args: &Value) -> (Messages, usize) {
    let calls = (0..count).map(|n| ToolCall::new(format!("c{n}"), name, args.clone()));
    let events = calls.map(ModelEvent::ToolCall);
    let events = events
        .chain([ModelEvent::stop(StopReason::ToolUse)])
        .map(Ok);
    let model = ScriptedModel::new().events(events.collect()).say("Done.");
    let agent = AgentBuilder::new(model).tool(tool).parallel_tools(count);
    let agent = agent.loop_detection(false).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let watch = Watch::begin();
    let output = runtime.block_on(async { agent.run("Go").await.unwrap() });
    (output.messages, watch.end())
}

/// Starts a server that answers each connection with a page of 5 MiB.
#[cfg(feature = "web")]
fn serve_large_pages() -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = Arc::new("all work and no play\n".repeat(5 * MIB / 21));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, body) = (stream.unwrap(), body.clone());
            thread::spawn(move || {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(body.as_bytes());
            });
        }
    });
    address
}

#[cfg(feature = "web")]
#[test]
fn large_pages_are_read_a_few_at_a_time() {
    use agentcore::tools::web::{AddressPolicy, WebFetch};
    let _alone = ALONE.lock();
    let address = serve_large_pages();
    let policy = AddressPolicy::new().allow_address(address);
    let args = json!({"url": format!("http://{address}/")});
    let (messages, most) = run(WebFetch::new().policy(policy), 48, "web_fetch", &args);
    for message in messages.tool_messages() {
        let result = message.as_tool_result().unwrap();
        assert!(!result.is_error, "{:.300}", result.content.text());
    }
    assert!(most < MOST, "{} MiB", most / MIB);
}

/// Held by the test whose allocations are counted.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn fork_of_checkpoints_holds_no_content_in_memory() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("large"), vec![b'0'; 2 * MIB]).unwrap();
    let backend = LocalBackend::new(&workspace).unwrap();
    let files = FileCheckpoints::open(backend, folder.path().join("checkpoints")).unwrap();
    let change = FuncTool::new(
        "change",
        "",
        json!({"type": "object"}),
        |cx, args| async move {
            let content = args["text"].as_str().unwrap_or_default().repeat(2 * MIB);
            cx.backend()
                .unwrap()
                .write("large", content.as_bytes())
                .await?;
            Ok::<_, agentcore::BoxError>("changed")
        },
    );
    let texts = ["1", "2"].iter().cycle().take(8);
    let model = texts.fold(ScriptedModel::new(), |model, text| {
        model.call("change", json!({"text": text})).say("Done.")
    });
    let agent = AgentBuilder::new(model).tool(change).hook(files.clone());
    let agent = agent.backend(files.clone()).build().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for _ in 0..8 {
            agent.session("s").run("Go").await.unwrap();
        }
    });

    let watch = Watch::begin();
    runtime.block_on(files.fork("s", "t")).unwrap();
    let most = watch.end();
    assert!(most < 4 * MIB, "{} MiB", most / MIB);
    let checkpoints = |session| runtime.block_on(files.checkpoints(session)).unwrap().len();
    assert_eq!((checkpoints("s"), checkpoints("t")), (8, 8));
}

#[test]
fn calls_side_by_side_load_no_more_than_a_few_would() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.txt");
    std::fs::write(&large, "all work and no play\n".repeat(30 * MIB / 21)).unwrap();
    let binary = folder.path().join("large.bin");
    std::fs::write(&binary, vec![0xff; 30 * MIB]).unwrap();
    let lines = folder.path().join("lines.txt");
    std::fs::write(&lines, format!("{}\n", "é".repeat(1_990)).repeat(8_000)).unwrap();
    let wide = folder.path().join("wide");
    std::fs::create_dir(&wide).unwrap();
    for n in 0..10_000 {
        std::fs::write(wide.join(format!("{n:0>205}")), "").unwrap();
    }

    let backend = || LocalBackend::new(folder.path()).unwrap();
    let wide_grep = json!({"pattern": "é", "path": "lines.txt", "output_mode": "content", "head_limit": 10_000});
    for (tool, name, args) in [
        (
            wick::read_file(backend()),
            "read_file",
            json!({"path": "large.txt"}),
        ),
        (
            wick::read_file(backend()),
            "read_file",
            json!({"path": "large.bin"}),
        ),
        (
            coding::read(backend()),
            "Read",
            json!({"file_path": "large.txt"}),
        ),
        (wick::ls(backend()), "ls", json!({"path": "wide"})),
        (
            picoclaw::list_dir(backend()),
            "list_dir",
            json!({"path": "wide"}),
        ),
        (wick::glob(backend()), "glob", json!({"pattern": "wide/*"})),
        (
            coding::glob(backend()),
            "Glob",
            json!({"pattern": "wide/*"}),
        ),
        (coding::grep(backend()), "Grep", wide_grep),
        (
            coding::grep(backend()),
            "Grep",
            json!({"pattern": "", "path": "wide", "output_mode": "count"}),
        ),
    ] {
        let (messages, most) = run(tool, CALLS, name, &args);
        let results: Vec<_> = messages.tool_messages().collect();
        assert_eq!(results.len(), CALLS, "{name} {args}");
        for message in results {
            let result = message.as_tool_result().unwrap();
            assert!(
                !result.is_error,
                "{name} {args}: {:.300}",
                result.content.text()
            );
        }
        let is_list = args.to_string().contains("wide");
        let limit = if is_list { MOST_OF_NAMES } else { MOST };
        assert!(most < limit, "{name} {args}: {} MiB", most / MIB);
    }
}

#[test]
fn redaction_of_an_escaped_secret_takes_no_table_of_the_text() {
    const LEN: usize = 7 * MIB;
    let _alone = ALONE.lock();
    let secret = agentcore::Secret::new("sk-redacted-0123456789abcdef");
    let tool = FuncTool::new("page", "", json!({"type": "object"}), |_, _| async {
        let mut text = "x".repeat(LEN);
        text.push_str(" sk%2Dredacted%2D0123456789abcdef");
        text
    });
    let model = ScriptedModel::new().call("page", json!({})).say("Done.");
    let agent = AgentBuilder::new(model).tool(tool).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let watch = Watch::begin();
    let output = runtime.block_on(async { agent.run("Go").await.unwrap() });
    let most = watch.end();
    let text = output
        .messages
        .tool_messages()
        .next()
        .unwrap()
        .text()
        .into_owned();
    assert!(text.ends_with("[redacted]"));
    assert!(most < 8 * LEN, "{} MiB", most / MIB);
    drop(secret);
}
