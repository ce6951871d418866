//! Processes that leave the group of their command and are difficult to find. All of them end by
//! themselves after a while, so that a failing test leaves none.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::backend::{Backend, Command, LocalBackend};

use crate::kit::processes::{LIMIT, dies, is_alive, pid_in, timed_out};
use crate::kit::workspace::Workspace;

/// A script that starts its next generation in a new session after 2 ms, 2,000 times at most.
const CHAIN: &str = "[ \"$1\" -gt 0 ] || exit 0
echo \"$1\" > beat
sleep 0.002
setsid sh chain.sh $(($1 - 1)) \"$2\" &
";

/// The end of a script: it waits for the stray, so that the command does not end before the stray
/// runs.
const IS_UP: &str = "until [ -s one ]; do sleep 0.01; done";

/// Returns the number of processes that have this text among their arguments.
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

/// The backend of a workspace: without cgroups, and with them where they are available.
fn backends(workspace: &Workspace) -> [LocalBackend; 2] {
    let backend = workspace.backend.clone();
    [backend.clone().with_cgroups(false), backend]
}

/// Runs a command that starts a stray and ends. Checks that the stray, which writes its id to
/// `one`, ends too.
async fn assert_ends(stray: &str) {
    for backend_index in 0..2 {
        let workspace = Workspace::new();
        let command = Command::new(format!("{stray}\n{IS_UP}"));
        let backend = &backends(&workspace)[backend_index];
        let output = backend.execute(command).await.unwrap();
        assert!(output.is_success(), "{stray}: {output:?}");
        dies(pid_in(&workspace.root.join("one")).await).await;
    }
}

/// Returns the folder of the cgroup that commands of this process run in, if there is one.
async fn cgroup(workspace: &Workspace) -> Option<PathBuf> {
    let read = Command::new("cat /proc/self/cgroup");
    let output = workspace.backend.execute(read).await.unwrap();
    let text = output.stdout.text();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    own.contains("agentcore-").then(|| {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        Path::new(line.unwrap().split(' ').nth(4).unwrap()).join(own)
    })
}

#[tokio::test]
async fn process_that_forks_every_2_ms_ends_with_its_command() {
    for round in 0..12 {
        let workspace = Workspace::new();
        // Every third round has cgroups, with both forms of the command.
        let has_cgroups = round % 3 == 2;
        let backend = &backends(&workspace)[usize::from(has_cgroups)];
        workspace.put("chain.sh", CHAIN);
        let root = workspace.root.display();
        let wait = "until [ -s beat ] && [ $(cat beat) -lt 1990 ]; do sleep 0.01; done";

        // The second form closes the pipes of the command, so that it can be identified only by the
        // variable `AGENTCORE_COMMAND`.
        let close = ["", "9<&- >/dev/null 2>&1"][round % 2];
        let command = format!("setsid sh chain.sh 2000 '{root}' {close} & {wait}");
        let output = backend.execute(Command::new(command)).await;
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
    assert_ends(&format!("env -i setsid sh -c '{stray}' &")).await;
    assert_ends(&format!(
        "(env -i setsid sh -c '{stray}' >/dev/null 2>&1 &)"
    ))
    .await;
    assert_ends(&format!(
        "set -m; env -i sh -c '{stray}' 9<&- >/dev/null 2>&1 &"
    ))
    .await;
    if Path::new("/bin/bash").exists() {
        let setsid = "$(command -v setsid)";
        assert_ends(&format!("(exec -c {setsid} /bin/sh -c '{stray}' &)")).await;
    }
}

#[tokio::test]
async fn process_identified_by_its_parent_only_ends_with_its_command() {
    let stray = "env -i setsid sh -c 'echo $$ > one; exec sleep 60' 9<&- >/dev/null 2>&1";
    assert_ends(&format!("({stray} & wait) &")).await;

    // The parent ends first, by the signal to the group.
    for backend_index in 0..2 {
        let workspace = Workspace::new();
        let command = Command::new(format!("({stray} & wait)")).with_timeout(LIMIT);
        let backend = &backends(&workspace)[backend_index];
        let one = workspace.root.join("one");
        let (output, pid) = timed_out(backend.execute(command), pid_in(&one), LIMIT).await;
        assert!(output.unwrap().timed_out);
        dies(pid).await;
    }
}

#[tokio::test]
async fn process_behind_a_long_environment_ends_with_its_command() {
    let long = "$(head -c 100000 /dev/zero | tr '\\0' x)";
    let stray = "setsid sh -c 'echo $$ > one; exec sleep 60' 9<&- >/dev/null 2>&1";
    assert_ends(&format!("A={long} B={long} C={long} {stray} &")).await;
    let variables = format!("AA={long} AB={long} AC={long}");
    assert_ends(&format!(
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

/// A process of the host that is not part of a command.
fn bystander(number: usize) -> Child {
    let mut command = std::process::Command::new("sleep");
    command
        .arg("120")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if number.is_multiple_of(2) {
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    command.spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn host_and_its_own_children_are_not_killed() {
    let cgroup = || std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let before = cgroup();
    let is_over = Arc::new(AtomicBool::new(false));
    let started = Arc::<AtomicUsize>::default();
    let others = std::thread::spawn({
        let (is_over, started) = (is_over.clone(), started.clone());
        move || {
            let mut children = Vec::new();
            while !is_over.load(Ordering::Relaxed) && children.len() < 200 {
                children.push(bystander(children.len()));
                started.store(children.len(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }

            children
        }
    });

    let mut rounds = 0;
    while rounds < 8 || started.load(Ordering::Relaxed) <= 8 {
        assert_ends("env -i setsid sh -c 'echo $$ > one; exec sleep 60' &").await;
        rounds += 1;
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
    let backend = LocalBackend::new(&workspace.root).unwrap();
    backend.start(Command::new(stray)).await.unwrap();
    let pid = pid_in(&workspace.root.join("one")).await;
    drop(backend);
    dies(pid).await;
}

/// A process that can be identified only by its cgroup: it has left the group and the session, and
/// its parent has ended.
const UNKNOWN: &str = "(env -i setsid sh -c 'echo $$ > one; exec sleep 60' 0<&- 9<&- \
    >/dev/null 2>&1 &)";

#[tokio::test]
async fn process_without_other_marks_ends_by_its_cgroup() {
    let workspace = Workspace::new();
    let Some(gone) = cgroup(&workspace).await else {
        eprintln!("skipped: this process may not make cgroups");
        return;
    };

    assert!(!gone.exists(), "{gone:?}");
    let command = Command::new(format!("{UNKNOWN}\n{IS_UP}"));
    let output = workspace.backend.execute(command).await.unwrap();
    assert!(output.is_success());
    dies(pid_in(&workspace.root.join("one")).await).await;

    // The process ends as well if the call is dropped.
    let workspace = Workspace::new();
    let backend = workspace.backend.clone();
    let command = Command::new(format!("{UNKNOWN}\nsleep 60"));
    let running = tokio::spawn(async move { backend.execute(command).await });
    let pid = pid_in(&workspace.root.join("one")).await;
    running.abort();
    dies(pid).await;
}

const HOST: &str = "AGENTCORE_TEST_HOST_OF_STRAYS";

/// Runs a command until this process is killed, if the next test has started it.
#[tokio::test]
async fn child_host_of_strays() {
    let Some(root) = std::env::var_os(HOST) else {
        return;
    };
    let backend = LocalBackend::new(root).unwrap();
    let command = Command::new(format!("cat /proc/self/cgroup > own; {UNKNOWN}\nsleep 60"));
    backend.execute(command).await.unwrap();
}

#[tokio::test]
async fn cgroup_of_a_killed_host_is_removed_by_another_host() {
    let workspace = Workspace::new();
    let Some(folder) = cgroup(&workspace).await else {
        eprintln!("skipped: this process may not make cgroups");
        return;
    };

    let folder = folder.parent().unwrap();
    let host = |workspace: &Workspace| {
        let mut host = std::process::Command::new(std::env::current_exe().unwrap());
        host.args(["--exact", "strays::child_host_of_strays"]);
        host.env(HOST, &workspace.root).stdout(Stdio::null());
        host.spawn().unwrap()
    };

    let mut first = host(&workspace);
    let id = first.id();
    let pid = pid_in(&workspace.root.join("one")).await;
    let has_cgroup = || {
        let prefix = format!("agentcore-{id}-");
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.any(|name| name.starts_with(&prefix))
    };

    assert!(has_cgroup());

    // The signal cannot be handled.
    first.kill().unwrap();
    first.wait().unwrap();
    dies(pid).await;

    let next = Workspace::new();
    let mut second = host(&next);
    pid_in(&next.root.join("one")).await;
    let is_left = has_cgroup();
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(!is_left);
}
