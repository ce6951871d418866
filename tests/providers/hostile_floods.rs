//! Servers that send protocol bytes without end before, within and after the head of a response,
//! but never an answer.
//!
//! The client reads and parses such a flood as fast as it arrives. Only tokio's budget bounds the
//! time for which it occupies a thread: at most 128 reads per poll, each of at most 408 KiB.
//! Without optimizations this takes seconds, longest for the size of a chunk, which is parsed byte
//! by byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use agentcore::providers::Anthropic;
use agentcore::{ExitReason, HttpTool, Tool, ToolContext};
use serde_json::json;

use crate::kit::{agent, any_object};

/// Far more time than a call under a flood takes, also without optimizations on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// The time limit of a call under a flood, whose parsing uses the processor until then.
const SHORT: Duration = Duration::from_millis(300);

/// The beginning of each flood, and the bytes that repeat after it.
const FLOODS: [(&str, &str); 7] = [
    ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ("", "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
    ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
    ("HTTP/1.1 200 OK\r\na: b", "bbbbbbbb"),
    (
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n1;",
        "aaaa",
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        "a: b\r\n",
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n",
        "00000000",
    ),
];

/// Starts a server that sends this flood to every client, and returns its address.
fn flood((first, then): (&'static str, &'static str)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || pour(stream.unwrap(), first, then));
        }
    });
    format!("http://{address}")
}

fn pour(mut stream: TcpStream, first: &str, then: &str) {
    let _ = stream.read(&mut [0; 64 * 1024]);
    let many = then.repeat(64 * 1024 / then.len());
    let mut outcome = stream.write_all(first.as_bytes());
    while outcome.is_ok() {
        outcome = stream.write_all(many.as_bytes());
    }
}

/// Runs `work` on a runtime with one thread, and panics if it does not end in time.
fn assert_ends(name: &str, work: impl AsyncFnOnce() + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(work());
        let _ = done.send(());
    });
    let outcome = waiting.recv_timeout(LONG);
    assert!(outcome.is_ok(), "{name}: {outcome:?}");
}

#[test]
fn run_with_a_duration_ends_under_a_flood() {
    assert_ends("100", async move || {
        let model = Anthropic::new("m", "key").base_url(flood(FLOODS[0]));
        let agent = agent(model).max_duration(SHORT);
        let output = agent.build().unwrap().run("go").await.unwrap();
        assert_eq!(output.end, ExitReason::MaxDuration);
    });
}

#[test]
fn run_ends_under_a_flood_in_and_after_the_head() {
    // Header lines, and the body that occupies the thread longest. The tests of the tools below
    // have the other floods.
    for flooded in [FLOODS[2], FLOODS[6]] {
        assert_ends(&format!("{flooded:?}"), async move || {
            let model = Anthropic::new("m", "key").base_url(flood(flooded));
            let agent = agent(model).max_duration(SHORT);
            // The run ends with an error or at its time limit.
            let _ = agent.build().unwrap().run("go").await;
        });
    }
}

#[test]
fn http_tool_ends_at_its_timeout_under_a_flood() {
    for flooded in &FLOODS[1..] {
        assert_ends(&format!("{flooded:?}"), async move || {
            let tool = HttpTool::new("act", "Acts", any_object(), &flood(*flooded)).unwrap();
            let tool = tool.timeout(SHORT);
            let outcome = tool.execute(ToolContext::detached(), json!({})).await;
            assert!(outcome.is_err());
        });
    }
}

#[cfg(feature = "web")]
#[test]
fn web_fetch_ends_at_its_timeout_under_a_flood() {
    use agentcore::tools::web::{AddressPolicy, WebFetch};

    for flooded in [FLOODS[0], FLOODS[3], FLOODS[5]] {
        assert_ends(&format!("{flooded:?}"), async move || {
            let url = flood(flooded);
            let address = url.trim_start_matches("http://").parse().unwrap();
            let policy = AddressPolicy::new().allow_address(address);
            let tool = WebFetch::new().policy(policy).timeout(SHORT);
            let outcome = tool
                .execute(ToolContext::detached(), json!({"url": url}))
                .await;
            assert!(outcome.is_err());
        });
    }
}
