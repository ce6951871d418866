//! Commands in a local workspace: their output, and the end of all their processes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentcore::ErrorKind;
use agentcore::backend::{Backend, Command, LocalBackend, Shell};

use crate::kit::processes::{
    FAMILY, LIMIT, OUTLIVED, dies, family, is_alive, pid_in, timed_out, written,
};
use crate::kit::workspace::Workspace;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn timeout_kills_all_processes_of_a_command() {
    let workspace = Workspace::new();
    let command = Command::new(FAMILY).with_timeout(LIMIT);
    let running = workspace.backend.execute(command);
    let (output, pids) = timed_out(running, family(&workspace.root), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out);
    assert_eq!(output.exit_code, None);
    for pid in pids {
        dies(pid).await;
    }
}

#[tokio::test]
async fn dropped_command_kills_all_its_processes() {
    let workspace = Workspace::new();
    let backend = workspace.backend.clone();
    let running = tokio::spawn(async move { backend.execute(Command::new(FAMILY)).await });
    let pids = family(&workspace.root).await;
    assert!(pids.into_iter().all(is_alive));
    running.abort();
    for pid in pids {
        dies(pid).await;
    }
}

#[tokio::test]
async fn finished_command_leaves_no_process_running() {
    let workspace = Workspace::new();
    let command = Command::new("sleep 300 > /dev/null 2>&1 & echo $! > two; echo done");
    let output = workspace.backend.execute(command).await.unwrap();
    assert_eq!(output.stdout.text(), "done\n");
    dies(pid_in(&workspace.root.join("two")).await).await;
}

#[tokio::test]
async fn grandchild_that_holds_the_pipe_does_not_delay_the_command() {
    let workspace = Workspace::new();
    let begun = Instant::now();
    let command = Command::new("(trap '' TERM HUP; sleep 300) & echo started");
    let output = workspace.backend.execute(command).await.unwrap();
    assert_eq!(output.stdout.text(), "started\n");
    assert_eq!(output.exit_code, Some(0));

    // A process in a session of its own with an empty environment ends as well.
    let stray = "echo $$ > two; exec sleep 60";
    let command =
        format!("env -i setsid sh -c '{stray}' & until [ -s two ]; do :; done; echo started");
    let output = workspace.backend.execute(Command::new(command)).await;
    assert_eq!(output.unwrap().stdout.text(), "started\n");
    assert!(begun.elapsed() < secs(50), "{:?}", begun.elapsed());
    #[cfg(target_os = "linux")]
    dies(pid_in(&workspace.root.join("two")).await).await;
}

/// Processes in sessions of their own that write their ids: one below the shell, and a daemon whose
/// parent has ended. The shell continues when both are running.
#[cfg(target_os = "linux")]
const STRAYS: &str = "setsid sh -c 'echo $$ > one; exec sleep 300' & \
    (setsid sh -c '(echo $$ > ppid; sh -c \"echo \\$\\$ > two; exec sleep 300\" &) ; exit' &); \
    until [ -s one ] && [ -s two ]; do sleep 0.01; done";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_that_left_the_group_are_killed() {
    async fn die(workspace: &Workspace) {
        for name in ["one", "two"] {
            dies(pid_in(&workspace.root.join(name)).await).await;
        }
    }

    let ended = Workspace::new();
    let output = ended.backend.execute(Command::new(STRAYS)).await.unwrap();
    assert!(output.is_success());
    die(&ended).await;

    let late = Workspace::new();
    let command = Command::new(format!("{STRAYS}; : > up; sleep 600"));
    let running = late.backend.execute(command.clone().with_timeout(LIMIT));
    let up = late.root.join("up");
    let (output, ()) = timed_out(running, written(&up), LIMIT).await;
    assert!(output.unwrap().timed_out);
    die(&late).await;

    let dropped = Workspace::new();
    let backend = dropped.backend.clone();
    let running = tokio::spawn({
        let command = command.clone();
        async move { backend.execute(command).await }
    });
    pid_in(&dropped.root.join("one")).await;
    pid_in(&dropped.root.join("two")).await;
    running.abort();
    die(&dropped).await;

    let background = Workspace::new();
    let backend = LocalBackend::new(&background.root).unwrap();
    backend.start(command).await.unwrap();
    pid_in(&background.root.join("one")).await;
    pid_in(&background.root.join("two")).await;
    drop(backend);
    die(&background).await;
}

const HOST: &str = "AGENTCORE_TEST_HOST";

/// Runs a command until this process is killed, if the next test has started it.
#[tokio::test]
async fn child_host_that_is_killed() {
    let Some(root) = std::env::var_os(HOST) else {
        return;
    };
    let backend = LocalBackend::new(root).unwrap();
    backend.execute(Command::new(FAMILY)).await.unwrap();
}

#[tokio::test]
async fn commands_end_when_their_host_is_killed() {
    let workspace = Workspace::new();
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend_process::child_host_that_is_killed"])
        .env(HOST, &workspace.root)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pids = family(&workspace.root).await;
    assert!(pids.into_iter().all(is_alive));

    // The signal cannot be handled.
    host.kill().unwrap();
    host.wait().unwrap();
    for pid in pids {
        dies(pid).await;
    }
}

/// The variable with the folder of a process without free file descriptors.
const CROWDED: &str = "AGENTCORE_TEST_CROWDED";

#[tokio::test]
async fn child_host_without_file_handles() {
    let Some(root) = std::env::var_os(CROWDED) else {
        return;
    };

    let backend = LocalBackend::new(root).unwrap();
    let files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    for _ in 0..3 {
        let error = backend.execute(Command::new("echo hi")).await.unwrap_err();
        assert!(error.to_string().contains("Too many open files"), "{error}");
        let error = backend.start(Command::new("echo hi")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }

    drop(files);
    let output = backend.execute(Command::new("echo hi")).await.unwrap();
    assert_eq!(output.stdout.text(), "hi\n");
}

#[test]
fn command_without_file_handles_is_an_error() {
    let workspace = Workspace::new();
    let host = std::process::Command::new("/bin/sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "backend_process::child_host_without_file_handles",
        ])
        .env(CROWDED, &workspace.root)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&host.stdout);
    assert!(
        host.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}

#[tokio::test]
async fn command_that_ignores_sigterm_is_killed() {
    let workspace = Workspace::new();
    let command = Command::new("trap '' TERM; echo $$ > one; while true; do sleep 1; done");
    let running = workspace.backend.execute(command.with_timeout(LIMIT));
    let one = workspace.root.join("one");
    let (output, pid) = timed_out(running, pid_in(&one), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out);
    assert_eq!(output.signal, Some(9));
    dies(pid).await;
}

#[tokio::test]
async fn command_gets_sigterm_before_it_is_killed_at_the_timeout() {
    let workspace = Workspace::new();
    let command = Command::new("trap 'echo bye; exit 7' TERM; : > up; sleep 600 & wait");
    let running = workspace.backend.execute(command.with_timeout(LIMIT));
    let up = workspace.root.join("up");
    let (output, ()) = timed_out(running, written(&up), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out);
    assert_eq!(output.stdout.text(), "bye\n");
}

#[tokio::test]
async fn program_that_outlives_its_shell_has_time_after_sigterm() {
    let workspace = Workspace::new();
    let running = workspace
        .backend
        .execute(Command::new(OUTLIVED).with_timeout(LIMIT));
    let up = workspace.root.join("up");
    let (output, ()) = timed_out(running, written(&up), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out);
    assert!(workspace.root.join("cleaned").exists(), "{output:?}");

    let stopped = Workspace::new();
    let id = stopped.backend.start(Command::new(OUTLIVED)).await.unwrap();
    written(&stopped.root.join("up")).await;
    stopped.backend.stop(&id).await.unwrap();
    assert!(stopped.root.join("cleaned").exists());
}

#[tokio::test]
async fn large_output_keeps_its_head_and_tail() {
    let workspace = Workspace::new();
    let backend = workspace.backend.clone().with_max_output(1_000);
    let command = Command::new("echo first; yes | head -c 50000000; echo last");
    let output = backend.execute(command).await.unwrap();
    assert_eq!(output.exit_code, Some(0));
    let stdout = output.stdout;
    assert_eq!(stdout.head.len() + stdout.tail.len(), 1_000);
    assert_eq!(stdout.total(), 50_000_000 + 6 + 5);
    assert!(stdout.head.starts_with(b"first\ny\n"));
    assert!(stdout.tail.ends_with(b"y\nlast\n"));
    let endless = Command::new("yes | head -c 1000000; : > up; exec yes").with_timeout(LIMIT);
    let up = workspace.root.join("up");
    let (output, ()) = timed_out(backend.execute(endless), written(&up), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out && output.stdout.omitted > 0);
}

#[tokio::test]
async fn stdin_is_empty_and_there_is_no_terminal() {
    let workspace = Workspace::new();
    let command = Command::new("cat; (: < /dev/tty) 2>/dev/null && echo terminal; echo end");
    let output = workspace.backend.execute(command).await.unwrap();
    assert_eq!(output.stdout.text(), "end\n");
    let command = Command::new("ps -o sid= -p $$ | tr -d ' '; echo $$");
    let output = workspace.backend.execute(command).await.unwrap();
    let text = output.stdout.text();
    let ids: Vec<&str> = text.lines().collect();
    if Path::new("/usr/bin/setsid").exists() && ids.len() == 2 {
        assert_eq!(ids[0], ids[1], "the shell leads a session");
    }
}

#[tokio::test]
async fn environment_is_limited_to_allowed_variables() {
    let workspace = Workspace::new();
    let backend = workspace.backend.clone().with_env("GIVEN", "1");
    let command = Command::new("env").with_env("MINE", "2");
    let text = backend.execute(command).await.unwrap().stdout.text();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|l| Some(l.split_once('=')?.0))
        .collect();
    assert!(names.contains(&"GIVEN") && names.contains(&"MINE") && names.contains(&"PATH"));
    let variables = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TERM",
        "TZ",
        "TMPDIR",
        "GIT_TERMINAL_PROMPT",
        "GIT_PAGER",
        "PAGER",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_KEY_0",
        "GIT_CONFIG_VALUE_0",
        "GIVEN",
        "MINE",
        "AGENTCORE_COMMAND",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    ];
    for name in names {
        assert!(
            variables.contains(&name) || name.starts_with("LC_"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn git_uses_no_repository_that_is_no_git_folder() {
    let workspace = Workspace::new();
    let listing = "env | grep ^GIT_CONFIG | sort";
    let run = |command: Command| workspace.backend.execute(command);
    let text = run(Command::new(listing)).await.unwrap().stdout.text();
    let expected = "GIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=safe.bareRepository\n\
        GIT_CONFIG_VALUE_0=explicit\n";
    assert_eq!(text, expected);

    // The settings of the command stay, and come first.
    let command = Command::new(listing)
        .with_env("GIT_CONFIG_COUNT", "1")
        .with_env("GIT_CONFIG_KEY_0", "a.b")
        .with_env("GIT_CONFIG_VALUE_0", "c");
    let text = run(command).await.unwrap().stdout.text();
    let expected = "GIT_CONFIG_COUNT=2\nGIT_CONFIG_KEY_0=a.b\nGIT_CONFIG_KEY_1=safe.bareRepository\n\
        GIT_CONFIG_VALUE_0=c\nGIT_CONFIG_VALUE_1=explicit\n";
    assert_eq!(text, expected);

    let git = run(Command::new("git --version")).await.unwrap();
    if !git.is_success() {
        eprintln!("skipped: there is no git to run");
        return;
    }
    let trap = "unset GIT_CONFIG_COUNT; git init -q --bare trap && cd trap && \
        git config core.bare false && git config core.worktree . && \
        git config core.fsmonitor 'touch ../ran; false'";
    assert!(run(Command::new(trap)).await.unwrap().is_success());
    let ran = workspace.root.join("ran");
    let output = run(Command::new("cd trap && git status")).await.unwrap();
    assert!(!output.is_success() && !ran.exists(), "{output:?}");
    let output = run(Command::new(
        "unset GIT_CONFIG_COUNT; cd trap && git status",
    ))
    .await;
    assert!(ran.exists(), "the trap works: {output:?}");
}

#[tokio::test]
async fn command_for_a_shell_runs_in_that_shell() {
    let workspace = Workspace::new();
    let has_bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .iter()
        .any(|path| Path::new(path).is_file());
    let backend: Arc<dyn Backend> = Arc::new(workspace.backend.clone());
    let shell = if has_bash { Shell::Bash } else { Shell::Posix };
    assert_eq!(backend.shell(), shell);
    for wanted in [None, Some(Shell::Posix), Some(shell)] {
        let mut command = Command::new("echo \"${BASH_VERSION:+bash}\"");
        command.shell = wanted;
        let output = backend.execute(command).await.unwrap();
        let expected = if has_bash { "bash\n" } else { "\n" };
        assert_eq!(output.stdout.text(), expected);
    }
}

#[tokio::test]
async fn command_runs_in_its_working_directory() {
    let workspace = Workspace::new();
    workspace.link(&workspace.out, "l");
    let run = |cwd: &str| workspace.backend.execute(Command::new("pwd").with_cwd(cwd));
    let text = run("a").await.unwrap().stdout.text();
    assert_eq!(Path::new(text.trim()), workspace.root.join("a"));
    for (cwd, kind) in [
        ("..", ErrorKind::PermissionDenied),
        ("l", ErrorKind::PermissionDenied),
        ("none", ErrorKind::Io),
        ("a/in.txt", ErrorKind::Io),
    ] {
        assert_eq!(run(cwd).await.unwrap_err().kind(), kind, "{cwd}");
    }

    std::fs::remove_dir_all(&workspace.root).unwrap();
    let outcome = workspace.backend.execute(Command::new("pwd")).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
}

#[tokio::test]
async fn merged_streams_keep_their_order() {
    let workspace = Workspace::new();
    let command = Command::new("echo 1; echo 2 >&2; echo 3; echo 4 >&2").merged();
    let output = workspace.backend.execute(command).await.unwrap();
    assert_eq!(output.stdout.text(), "1\n2\n3\n4\n");
    assert!(output.stderr.is_empty());
}

#[tokio::test]
async fn background_command_output_is_polled_while_it_runs() {
    let workspace = Workspace::new();
    let backend = &workspace.backend;
    let command = Command::new("echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 4");
    let id = backend.start(command).await.unwrap();
    let mut text = String::new();
    while !text.contains("one") {
        let output = backend.poll(&id).await.unwrap();
        assert!(output.running);
        text.push_str(&output.output.stdout.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    workspace.put("go", "");
    let last = loop {
        let output = backend.poll(&id).await.unwrap();
        text.push_str(&output.output.stdout.text());
        if !output.running {
            break output;
        }

        tokio::time::sleep(Duration::from_millis(5)).await;
    };

    assert_eq!(text, "one\ntwo\n");
    assert_eq!(last.output.exit_code, Some(4));
    let error = backend.poll(&id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn background_command_ends_when_stopped_or_with_its_backend() {
    let workspace = Workspace::new();
    let id = workspace.backend.start(Command::new(FAMILY)).await.unwrap();
    let pids = family(&workspace.root).await;
    let output = workspace.backend.stop(&id).await.unwrap();
    assert!(!output.running && !output.output.timed_out);
    for pid in pids {
        dies(pid).await;
    }

    let again = Workspace::new();
    let backend = LocalBackend::new(&again.root).unwrap();
    backend.start(Command::new(FAMILY)).await.unwrap();
    let pids = family(&again.root).await;
    drop(backend);
    for pid in pids {
        dies(pid).await;
    }
}

#[tokio::test]
async fn background_command_without_a_place_is_not_started() {
    let workspace = Workspace::new();
    let backend = &workspace.backend;
    let mut ids = Vec::new();
    for _ in 0..32 {
        ids.push(backend.start(Command::new("sleep 300")).await.unwrap());
    }

    // An invalid folder would be an error of the start.
    for folder in [".", "missing"] {
        let command = Command::new("touch begun").with_cwd(folder);
        let error = backend.start(command).await.unwrap_err();
        assert!(error.text().contains("32 background commands"), "{error}");
    }
    assert!(!workspace.root.join("begun").exists());

    // A failed start does not count as a background command.
    backend.stop(&ids[0]).await.unwrap();
    let command = Command::new("true").with_cwd("missing");
    let error = backend.start(command).await.unwrap_err();
    assert!(!error.text().contains("background"), "{error}");
    backend.start(Command::new("true")).await.unwrap();
}

#[test]
fn runtime_shutdown_kills_running_commands() {
    let workspace = Workspace::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let pids = runtime.block_on(async {
        let backend = workspace.backend.clone();
        tokio::spawn(async move { backend.execute(Command::new(FAMILY)).await });
        family(&workspace.root).await
    });

    drop(runtime);
    let checker = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    checker.block_on(async {
        for pid in pids {
            dies(pid).await;
        }
    });
}
