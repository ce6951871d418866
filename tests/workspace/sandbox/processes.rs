//! The processes that are confined, and the processes that are hidden from them.

use std::process::{Child, Stdio};
use std::time::Duration;

use agentcore::backend::{Backend, Command, Sandbox};

use super::{Confined, is_able};

/// A process outside of the sandbox, which ends with the test.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        let mut sleep = std::process::Command::new("sleep");
        Self(sleep.arg("600").stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn daemons_stay_confined() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    for start in [
        "setsid sh -c 'WORK'",
        "(setsid sh -c '(WORK) &' &)",
        "env -i /bin/sh -c 'WORK'",
        "nohup sh -c 'WORK' > /dev/null",
    ] {
        let work = "echo x > ../out/new; cat ../out/secret > got; echo > done";
        let start = start.replace("WORK", work);
        let wait = "until [ -e done ]; do sleep 0.01; done; rm done";
        let output = confined.run(&format!("{start}; {wait}")).await;
        assert!(output.is_success(), "{start}: {output:?}");
        assert!(!confined.workspace.out.join("new").exists(), "{start}");
        assert_eq!(confined.workspace.get("got"), b"", "{start}");
    }
}

#[tokio::test]
async fn background_commands_are_confined() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    let command = "echo x > ../out/new; cat ../out/secret; echo end";
    let id = confined.backend.start(Command::new(command)).await.unwrap();
    let mut text = String::new();
    loop {
        let output = confined.backend.poll(&id).await.unwrap();
        text.push_str(&output.output.stdout.text());
        if !output.running {
            break;
        }

        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    assert_eq!(text, "end\n");
    assert!(!confined.workspace.out.join("new").exists());
    let id = confined.backend.start(Command::new("sleep 600")).await;
    let output = confined.backend.stop(&id.unwrap()).await.unwrap();
    assert!(!output.running);
}

#[tokio::test]
async fn processes_outside_cannot_be_signalled() {
    if !is_able() {
        return;
    }

    let mut bystander = Bystander::new();
    let pid = bystander.0.id();
    let confined = Confined::new();
    confined.refused(&format!("kill -KILL {pid}")).await;
    confined.refused("kill -CONT $PPID").await;
    assert!(bystander.0.try_wait().unwrap().is_none());
    let own = "sleep 600 & kill $!; wait $!; echo $?";
    assert_eq!(confined.run(own).await.stdout.text(), "143\n");
    let open = Confined::with(Sandbox::signals);
    assert!(open.run(&format!("kill -KILL {pid}")).await.is_success());
    assert!(!bystander.0.wait().unwrap().success());
}

#[tokio::test]
async fn host_environment_is_hidden() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    let read = "cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -c '^PATH='";

    // Without a sandbox, the file can be read.
    let plain = confined.workspace.backend.execute(Command::new(read)).await;
    assert_eq!(plain.unwrap().stdout.text(), "1\n");
    assert_eq!(confined.run(read).await.stdout.text(), "0\n");
    confined.refused("cat /proc/$PPID/cmdline").await;
    confined.refused("ls /proc").await;

    // The memory of other processes is protected even if `/proc` may be read.
    let open = Confined::with(|sandbox| sandbox.read("/proc"));
    assert!(open.run("cat /proc/$PPID/cmdline").await.is_success());
    assert!(open.run("cat /proc/self/environ").await.is_success());
    open.refused("cat /proc/$PPID/mem").await;

    // A privileged user may read the mappings despite the sandbox.
    if open.run("id -u").await.stdout.text() != "0\n" {
        open.refused("cat /proc/$PPID/environ").await;
        open.refused("cat /proc/$PPID/maps").await;
    }
}

#[tokio::test]
async fn calling_thread_is_not_confined() {
    if !is_able() {
        return;
    }
    let confined = Confined::new();
    assert!(confined.run("true").await.is_success());
    let out = confined.workspace.out.join("mine");
    std::fs::write(&out, "1").unwrap();
    drop(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let plain = &confined.workspace.backend;
    let plain = plain.execute(Command::new("cat ../out/mine")).await;
    assert_eq!(plain.unwrap().stdout.text(), "1");
}
