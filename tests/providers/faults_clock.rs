//! A wall clock that jumps during runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use agentcore::agent::RetryPolicy;
use agentcore::testing::{FaultServer, Reply};
use agentcore::tool::Answer;
use agentcore::{ExitReason, SdkMessage, ThreadStore};

use crate::faults_kit::ALL;
use crate::kit::{asking, echo, result_texts};

const CHILD: &str = "AGENTCORE_JUMPING_CLOCK";

/// A library that moves the date a year forward or back at each read.
const JUMPING: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    static _Atomic long reads;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec += 31536000L * (reads++ % 2 ? 1 : -1);
    return result;
}
"#;

/// Compiles the library whose `LD_PRELOAD` makes a program's clock jump, and returns its path.
fn jumping(folder: &Path) -> PathBuf {
    let library = folder.join("jumping.so");
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o"])
        .arg(&library)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the compiler that links this test");
    let mut source = compiler.stdin.take().unwrap();
    source.write_all(JUMPING.as_bytes()).unwrap();
    drop(source);
    assert!(compiler.wait().unwrap().success());
    library
}

#[test]
fn n28_wall_clock_jumps_neither_end_nor_delay_a_run() {
    if std::env::var_os(CHILD).is_some() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        return builder.enable_all().build().unwrap().block_on(work());
    }

    let test = concat!(
        module_path!(),
        "::n28_wall_clock_jumps_neither_end_nor_delay_a_run"
    );
    let (_, test) = test.split_once("::").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("LD_PRELOAD", jumping(folder.path()))
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

/// Makes two runs of a session that use every timeout, with limits that are much longer than the
/// waits and much shorter than a jump.
async fn work() {
    let hours = Duration::from_secs(3600);
    let year = SystemTime::now().duration_since(SystemTime::now());
    let year = year.unwrap_or_else(|error| error.duration());
    assert!(year > 2 * 300 * 24 * hours, "the clock does not jump");
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(Reply::json(503, "{}"));
        server.reply(slowly(&api.calls(&[("a", "echo", r#"{"text":"x"}"#)])));
        server.reply(slowly(&api.text("some words here")));
        server.reply(slowly(&api.text("more of them")));
        let retry = RetryPolicy::default().with_max_retries(1);
        let agent = api
            .agent(&server)
            .retry(retry)
            .tool(echo())
            .permissions(asking())
            .ask_timeout(hours)
            .tool_timeout(hours)
            .max_duration(hours)
            .store(ThreadStore::with_ttl(hours))
            .build()
            .unwrap();
        let mut run = agent.session("s").run("Go");
        let responder = run.responder();
        let running = async {
            while let Some(message) = run.next().await {
                if let SdkMessage::PermissionRequest(request) = message {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    assert!(responder.respond(request.id.clone(), Answer::Allow));
                }
            }

            run.into_output().unwrap()
        };

        let output = tokio::time::timeout(hours / 60, running).await.unwrap();
        assert_eq!(output.end, ExitReason::EndTurn, "{api:?}");
        assert_eq!(output.text, "some words here");
        assert_eq!(result_texts(&output.messages), ["x"]);
        let again = agent.session("s").run("Again").await.unwrap();
        assert_eq!(again.text, "more of them");
        assert!(
            again.messages.len() > output.messages.len(),
            "no message was removed"
        );
    }
}

/// Returns the same reply with a pause before each frame.
fn slowly(reply: &Reply) -> Reply {
    reply
        .actions()
        .iter()
        .fold(reply.clone().truncate(0), |slow, action| {
            slow.pause(Duration::from_millis(5)).then(action.clone())
        })
}
