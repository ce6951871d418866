//! The memory of a process after many short runs.
//!
//! The test starts itself in a process of its own, since other tests would take memory meanwhile.

use std::fs;
use std::process::Command;

use agentcore::backend::MemoryBackend;
use agentcore::hooks::FileCheckpoints;
use agentcore::testing::FunctionModel;
use agentcore::{Agent, Error, ErrorKind, FuncTool, ModelEvent, Role, SdkMessage, ToolCall};
use serde_json::json;

use crate::kit::small_stack::passes_alone;
use crate::kit::{agent, any_object};

/// The variable that sets the number of runs.
const RUNS: &str = "AGENTCORE_SOAK_RUNS";
const CHILD: &str = "AGENTCORE_SOAK_CHILD";
const DEFAULT_RUNS: usize = 2_000;

/// The number of runs after which everything that is made once has been made.
const WARM: usize = 500;

/// The bytes that may be in use at the end in addition to those after the first runs: a fixed part,
/// since the allocator's reserve varies, and a hundred bytes for each run. A run that is not freed
/// takes 20,000.
const MOST_HELD: u64 = 4 * 1024 * 1024;
const MOST_EACH: u64 = 100;

fn soaked() -> Agent {
    let model = FunctionModel::new(|request| {
        let last = request.messages.last().unwrap();
        if last.text() == "fail" {
            return vec![Err(Error::new(ErrorKind::Auth, "no key"))];
        }

        match last.role() {
            Role::Tool => vec![Ok(ModelEvent::Text("done".into()))],
            _ => {
                let call = ToolCall::new("c", "look", json!({"at": "all"}));
                vec![Ok(ModelEvent::ToolCall(call))]
            }
        }
    });

    let look = FuncTool::new("look", "Looks", any_object(), |_, _| async {
        "x".repeat(16_000)
    });

    agent(model)
        .tool(look)
        .hook(FileCheckpoints::new(MemoryBackend::new()))
        .build()
        .unwrap()
}

/// Returns the resident memory, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

async fn soak(runs: usize) -> (u64, u64) {
    let agent = soaked();
    let mut warm = 0;
    for run in 0..runs {
        if run == WARM {
            warm = resident();
        }

        match run % 10 {
            0 => drop(agent.run("fail").await.unwrap_err()),
            1 => {
                // The run is dropped after its tool has run.
                let mut run = agent.run("look");
                while !matches!(run.next().await.unwrap(), SdkMessage::User(_)) {}
            }
            2 => {
                let session = agent.session(format!("s{run}"));
                session.clone().run("look").await.unwrap();
                assert!(session.delete().await.unwrap());
            }
            _ => drop(agent.run("look").await.unwrap()),
        }
    }

    assert!(agent.sessions().await.unwrap().is_empty());
    (warm, resident())
}

#[test]
fn memory_is_flat_over_many_short_runs() {
    let runs = std::env::var(RUNS).ok().and_then(|runs| runs.parse().ok());
    let runs = runs.unwrap_or(DEFAULT_RUNS).max(2 * WARM);
    if std::env::var_os(CHILD).is_none() {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let test = "soak::memory_is_flat_over_many_short_runs";
        return passes_alone(&mut program, test, CHILD);
    }

    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let (warm, end) = runtime.block_on(soak(runs));
    let growth = end.saturating_sub(warm);
    println!("{warm} KiB after {WARM} runs, {end} KiB after {runs}");
    let most = MOST_HELD + MOST_EACH * (runs - WARM) as u64;
    assert!(growth * 1024 < most, "{warm} KiB became {end} KiB");
}
