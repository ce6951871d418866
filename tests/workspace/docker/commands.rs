//! Commands in a container.

use std::path::Path;

use agentcore::ErrorKind;
use agentcore::backend::{Backend, Command, DockerBackend, Shell};

use super::Engine;
use crate::kit::processes::{
    FAMILY, LIMIT, OUTLIVED, dies, family, is_alive, pid_in, timed_out, until, written,
};

async fn die(pids: [u32; 3]) {
    for pid in pids {
        dies(pid).await;
    }
}

#[tokio::test]
async fn timeout_kills_processes_in_the_container() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let running = backend.execute(Command::new(FAMILY).with_timeout(LIMIT));
    let (output, pids) = timed_out(running, family(&engine.workdir()), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out);
    assert_eq!(output.exit_code, None);
    die(pids).await;
}

#[tokio::test]
async fn dropped_command_is_killed_in_the_container() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let running = {
        let backend = backend.clone();
        tokio::spawn(async move { backend.execute(Command::new(FAMILY)).await })
    };
    let pids = family(&engine.workdir()).await;
    assert!(pids.into_iter().all(is_alive));
    running.abort();
    die(pids).await;
}

#[tokio::test]
async fn killed_docker_program_ends_the_command_in_the_container() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let running = {
        let backend = backend.clone();
        tokio::spawn(async move { backend.execute(Command::new(FAMILY)).await })
    };

    let pids = family(&engine.workdir()).await;

    // The programs that talk to the engine, not the processes in the container.
    let mark = engine.base.join("docker").to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let programs = processes.filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split('\0').any(|word| word == mark)
    });

    let programs: Vec<_> = programs.map(|process| process.file_name()).collect();
    assert!(!programs.is_empty());
    let killed = std::process::Command::new("kill")
        .arg("-KILL")
        .args(&programs)
        .status();
    assert!(killed.unwrap().success());
    die(pids).await;
    let output = running.await.unwrap().unwrap();
    assert_eq!(output.signal, Some(9));
}

#[tokio::test]
async fn finished_command_leaves_no_process_of_its_group() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let command = "sleep 300 > /dev/null 2>&1 & echo $! > two; echo done";
    let output = backend.execute(Command::new(command)).await.unwrap();
    assert_eq!(output.stdout.text(), "done\n");
    assert!(output.is_success());
    let pid = pid_in(&engine.workdir().join("two")).await;
    until("it still runs", || !is_alive(pid)).await;
}

#[tokio::test]
async fn command_gets_sigterm_before_it_is_killed_at_the_timeout() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let command = Command::new("trap 'echo bye; exit 7' TERM; echo > up; sleep 600 & wait");
    let running = backend.execute(command.with_timeout(LIMIT));
    let up = engine.workdir().join("up");
    let (output, ()) = timed_out(running, written(&up), LIMIT).await;
    let output = output.unwrap();
    assert!(output.timed_out);
    assert_eq!(output.stdout.text(), "bye\n");
}

#[tokio::test]
async fn program_that_outlives_its_shell_has_time_after_sigterm() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let id = backend.start(Command::new(OUTLIVED)).await.unwrap();
    written(&engine.workdir().join("up")).await;
    let output = backend.stop(&id).await.unwrap();
    assert!(engine.workdir().join("cleaned").exists(), "{output:?}");
}

#[tokio::test]
async fn background_command_ends_when_stopped_or_with_its_backend() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let id = backend.start(Command::new(FAMILY)).await.unwrap();
    let pids = family(&engine.workdir()).await;
    let output = backend.stop(&id).await.unwrap();
    assert!(!output.running);
    die(pids).await;
    for name in ["one", "two", "three"] {
        std::fs::remove_file(engine.workdir().join(name)).unwrap();
    }

    backend.start(Command::new(FAMILY)).await.unwrap();
    let pids = family(&engine.workdir()).await;
    drop(backend);
    die(pids).await;
}

async fn text(backend: &DockerBackend, command: Command) -> String {
    let output = backend.execute(command).await.unwrap();
    assert!(output.is_success(), "{output:?}");
    output.stdout.text()
}

#[tokio::test]
async fn command_text_and_variables_are_passed_unchanged() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let odd = "it's \"$HOME\" `id` \\ \n $(id) \u{e4} %s";
    let command = Command::new("printf %s \"$ODD\"").with_env("ODD", odd);
    assert_eq!(text(&backend, command).await, odd);
    let command = Command::new("printf %s 'a'\"'\"'b'\nprintf %s \"\\\\\"\n");
    assert_eq!(text(&backend, command).await, "a'b\\");

    // The command has lines that could end the script that passes it.
    let command = Command::new("cat <<'X'\nEND\nstop\nX\ncat; exit 0");
    assert_eq!(text(&backend, command).await, "END\nstop\n");
    let long = "x".repeat(60_000);
    let command = Command::new(format!("printf %s {long} | wc -c | tr -d ' '"));
    assert_eq!(text(&backend, command).await, "60000\n");
    let both = Command::new("echo 1; echo 2 >&2; echo 3").merged();
    assert_eq!(text(&backend, both).await, "1\n2\n3\n");
    let error = backend
        .execute(Command::new("true").with_env("A=B", "1"))
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
    let output = backend.execute(Command::new("kill -9 $$")).await.unwrap();
    assert_eq!(output.exit_code, Some(137));
}

#[tokio::test]
async fn command_has_the_environment_of_the_container() {
    // The script uses variables of these names before the command begins.
    let variables = "CDPATH=/x\nLC_ALL=C.UTF-8\nbase=1\nline=2\nlinks=3\nmake=4\nname=5\npart=6\n\
        relative=7\nrest=8\nroot=9\nshell=10\ntarget=11\nwork=12\n";
    let engine = Engine::new();
    std::fs::write(engine.base.join("env"), variables).unwrap();
    let backend = engine.start().await;
    backend.write("a/x", b"").await.unwrap();
    std::os::unix::fs::symlink("a", engine.workdir().join("link")).unwrap();
    let command = Command::new("env | grep -E '^(CDPATH|LC_ALL|[a-z]+)=' | sort").with_cwd("link");
    assert_eq!(text(&backend, command).await, variables);
    let unset = Command::new("echo ${relative-unset}");
    engine.clear("env");
    assert_eq!(text(&backend, unset).await, "unset\n");
}

#[tokio::test]
async fn command_runs_in_its_working_directory() {
    let engine = Engine::new();
    let backend = engine.start().await;
    backend.write("a b/x", b"").await.unwrap();
    std::os::unix::fs::symlink("/", engine.workdir().join("out")).unwrap();
    let folder = text(&backend, Command::new("pwd").with_cwd("a b")).await;
    assert_eq!(Path::new(folder.trim_end()), engine.workdir().join("a b"));
    for (cwd, kind) in [
        ("..", ErrorKind::PermissionDenied),
        ("out", ErrorKind::PermissionDenied),
        ("/etc", ErrorKind::PermissionDenied),
        ("none", ErrorKind::Io),
        ("a b/x", ErrorKind::Io),
    ] {
        let run = backend.execute(Command::new("pwd").with_cwd(cwd)).await;
        assert_eq!(run.unwrap_err().kind(), kind, "{cwd}");
    }
}

#[tokio::test]
async fn large_output_keeps_its_head_and_tail() {
    let engine = Engine::new();
    let backend = engine.builder().max_output(1_000).start().await.unwrap();
    let command = Command::new("echo first; yes | head -c 5000000; echo last");
    let output = backend.execute(command).await.unwrap();
    let stdout = output.stdout;
    assert_eq!(stdout.head.len() + stdout.tail.len(), 1_000);
    assert_eq!(stdout.total(), 5_000_000 + 6 + 5);
    assert!(stdout.tail.ends_with(b"y\nlast\n"));
}

#[tokio::test]
async fn command_for_bash_is_refused_where_there_is_none() {
    let engine = Engine::new();
    let bash_command = || Command::new("echo \"${BASH_VERSION:+bash}\"").with_shell(Shell::Bash);
    let backend = engine.start().await;
    assert_eq!(backend.shell(), Shell::Bash);
    assert_eq!(text(&backend, bash_command()).await, "bash\n");

    // The command was checked as bash, so no other shell may run it.
    engine.set("no-bash");
    let error = backend.execute(bash_command()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("the container does not have"),
        "{error}"
    );

    let backend = engine.start().await;
    assert_eq!(backend.shell(), Shell::Posix);
    let posix_command = Command::new("echo posix").with_shell(backend.shell());
    assert_eq!(text(&backend, posix_command).await, "posix\n");
    let error = backend.execute(bash_command()).await.unwrap_err();
    assert!(error.to_string().contains("checked for bash"), "{error}");

    // The shell of a container without `exec` is unknown.
    engine.set("no-exec");
    let error = engine.builder().start().await.unwrap_err();
    assert!(error.to_string().contains("exec failed"), "{error}");
    engine.clear("no-exec");

    let pinned = engine.builder().shell(Shell::Bash).start().await.unwrap();
    assert_eq!(pinned.shell(), Shell::Bash);
}

#[tokio::test]
async fn git_in_the_container_uses_no_repository_that_is_no_git_folder() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let shown = "env | grep ^GIT_CONFIG | sort; echo \"${count-unset}\"";
    assert_eq!(
        text(&backend, Command::new(shown)).await,
        "GIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=safe.bareRepository\nGIT_CONFIG_VALUE_0=explicit\nunset\n"
    );
    let command = Command::new("env | grep ^GIT_CONFIG | sort")
        .with_env("GIT_CONFIG_COUNT", "1")
        .with_env("GIT_CONFIG_KEY_0", "a.b")
        .with_env("GIT_CONFIG_VALUE_0", "c");
    assert_eq!(
        text(&backend, command).await,
        "GIT_CONFIG_COUNT=2\nGIT_CONFIG_KEY_0=a.b\nGIT_CONFIG_KEY_1=safe.bareRepository\n\
         GIT_CONFIG_VALUE_0=c\nGIT_CONFIG_VALUE_1=explicit\n"
    );

    // A value that is not a number is passed on unchanged, and is not evaluated.
    for count in ["x", "09", "a[$(echo 1 >&2)]"] {
        let command = Command::new("env | grep ^GIT_CONFIG").with_env("GIT_CONFIG_COUNT", count);
        let output = backend.execute(command).await.unwrap();
        assert_eq!(output.stdout.text(), format!("GIT_CONFIG_COUNT={count}\n"));
        assert_eq!(output.stderr.text(), "");
    }
}
