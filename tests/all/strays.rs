//! Processes that leave the group of their command in ways that are hard to follow. All of them
//! end by themselves after a while, also where they are not found.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentcore::backend::{Backend, Command};

use crate::processes::{dies, is_alive, pid_in, until};
use crate::workspace::Workspace;

/// Each generation starts the next one in a session of its own 2 ms later, 2,000 times at most.
const CHAIN: &str = "[ \"$1\" -gt 0 ] || exit 0
echo \"$1\" > beat
sleep 0.002
setsid sh chain.sh $(($1 - 1)) \"$2\" &
";

/// Waits for the stray to be there before the command ends.
const IS_UP: &str = "until [ -s one ]; do sleep 0.01; done";

/// How many processes have this text among their arguments.
fn count(text: &Path) -> usize {
    let text = text.to_str().unwrap().as_bytes();
    let is_one = |id: &str| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == text)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_one(name)).count()
}

/// Runs a command that starts a stray and ends; the stray writes its id to `one`.
async fn ends(stray: &str) {
    let workspace = Workspace::new();
    let command = Command::new(format!("{stray}\n{IS_UP}"));
    let output = workspace.backend.execute(command).await.unwrap();
    assert!(output.is_success(), "{stray}: {output:?}");
    dies(pid_in(&workspace.root.join("one")).await).await;
}

#[tokio::test]
async fn process_that_forks_every_2_ms_ends_with_its_command() {
    for round in 0..20 {
        let workspace = Workspace::new();
        workspace.put("chain.sh", CHAIN);
        let root = workspace.root.display();
        let started = "until [ -s beat ] && [ $(cat beat) -lt 1990 ]; do sleep 0.01; done";
        // In the second form nothing is left but the variable.
        let close = ["", "9<&- >/dev/null 2>&1"][round % 2];
        let command = format!("setsid sh chain.sh 2000 '{root}' {close} & {started}");
        let output = workspace.backend.execute(Command::new(command)).await;
        assert!(output.unwrap().is_success());
        assert_eq!(count(&workspace.root), 0, "round {round}");
        let beat = workspace.get("beat");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(workspace.get("beat"), beat, "round {round}");
    }
}

#[tokio::test]
async fn process_with_an_empty_environment_ends_with_its_command() {
    let stray = "echo $$ > one; exec sleep 60";
    ends(&format!("env -i setsid sh -c '{stray}' &")).await;
    ends(&format!(
        "(env -i setsid sh -c '{stray}' >/dev/null 2>&1 &)"
    ))
    .await;
    ends(&format!(
        "set -m; env -i sh -c '{stray}' 9<&- >/dev/null 2>&1 &"
    ))
    .await;
    if Path::new("/bin/bash").exists() {
        let setsid = "$(command -v setsid)";
        ends(&format!("(exec -c {setsid} /bin/sh -c '{stray}' &)")).await;
    }
}

#[tokio::test]
async fn process_known_by_its_parent_alone_ends_with_its_command() {
    let stray = "env -i setsid sh -c 'echo $$ > one; exec sleep 60' 9<&- >/dev/null 2>&1";
    ends(&format!("({stray} & wait) &")).await;

    // Its parent ends before it, by the signal that ends the group.
    let workspace = Workspace::new();
    let command = Command::new(format!("({stray} & wait)"));
    let command = command.with_timeout(Duration::from_secs(2));
    let output = workspace.backend.execute(command).await.unwrap();
    assert!(output.timed_out);
    dies(pid_in(&workspace.root.join("one")).await).await;
}

#[tokio::test]
async fn process_behind_a_long_environment_ends_with_its_command() {
    let long = "$(head -c 100000 /dev/zero | tr '\\0' x)";
    let stray = "setsid sh -c 'echo $$ > one; exec sleep 60' 9<&- >/dev/null 2>&1";
    ends(&format!("A={long} B={long} C={long} {stray} &")).await;
    let variables = format!("AA={long} AB={long} AC={long}");
    ends(&format!(
        "(env -i {variables} \"AGENTCORE_COMMAND=$AGENTCORE_COMMAND\" {stray} &)"
    ))
    .await;
}

#[test]
fn process_ends_when_its_runtime_is_shut_down() {
    let workspace = Workspace::new();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let first = runtime();
    let pid = first.block_on(async {
        let backend = workspace.backend.clone();
        let stray = "(env -i setsid sh -c 'echo $$ > one; exec sleep 60' &) ; sleep 60";
        tokio::spawn(async move { backend.execute(Command::new(stray)).await });
        pid_in(&workspace.root.join("one")).await
    });
    drop(first);
    runtime().block_on(dies(pid));
}

/// A process that the host starts for itself.
fn bystander(number: usize) -> Child {
    let mut command = std::process::Command::new("sleep");
    command
        .arg("120")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if number % 2 == 0 {
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    command.spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn host_and_its_own_children_are_left_alone() {
    let cgroup = || std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let before = cgroup();
    let is_over = Arc::new(AtomicBool::new(false));
    let others = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            let mut children = Vec::new();
            while !is_over.load(Ordering::Relaxed) && children.len() < 200 {
                children.push(bystander(children.len()));
                std::thread::sleep(Duration::from_millis(5));
            }
            children
        }
    });
    for _ in 0..8 {
        ends("env -i setsid sh -c 'echo $$ > one; exec sleep 60' &").await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut others = others.join().unwrap();
    assert!(others.len() > 8);
    let alive = others.iter().filter(|child| is_alive(child.id())).count();
    for child in &mut others {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(alive, others.len());
    assert_eq!(rustix::process::child_subreaper().unwrap(), None);
    assert_eq!(cgroup(), before);
}

#[tokio::test]
async fn process_of_a_dropped_backend_ends() {
    let workspace = Workspace::new();
    let stray = "env -i setsid sh -c 'echo $$ > one; exec sleep 60' & sleep 60";
    let backend = agentcore::backend::LocalBackend::new(&workspace.root).unwrap();
    backend.start(Command::new(stray)).await.unwrap();
    let pid = pid_in(&workspace.root.join("one")).await;
    drop(backend);
    until("it goes on", || !is_alive(pid)).await;
}
