//! Tests with a real engine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::backend::{Backend, Command, ContainerStatus, DockerBackend};
use agentcore::testing::conformance;

const IMAGE: &str = "AGENTCORE_TEST_DOCKER";

#[tokio::test]
async fn real_docker() {
    let Ok(image) = std::env::var(IMAGE) else {
        eprintln!("skipped: set {IMAGE} to an image, such as debian:stable-slim, to run this test");
        return;
    };

    let backend = DockerBackend::run(&image).start().await.unwrap();
    let name = backend.container().to_owned();

    // One container has all workspaces that the suite needs.
    let mut workspaces = Vec::new();
    for number in 0..16 {
        let workdir = format!("/workspace/{number}");
        let outcome = backend
            .execute(Command::new(format!("mkdir {workdir}")))
            .await;
        assert!(outcome.unwrap().is_success());
        let attached = DockerBackend::attach(&name).workdir(workdir).start().await;
        workspaces.push(attached.unwrap());
    }

    let next = AtomicUsize::new(0);
    let make = || workspaces[next.fetch_add(1, Ordering::Relaxed)].clone();
    conformance::backend(make).await.unwrap();

    let family = "echo $$ > one; sleep 300 & echo $! > two; wait";
    let command = Command::new(family).with_timeout(Duration::from_secs(2));
    assert!(backend.execute(command).await.unwrap().timed_out);
    let running = tokio::spawn({
        let backend = backend.clone();
        async move {
            backend
                .execute(Command::new("echo > up; exec sleep 301"))
                .await
        }
    });

    while !backend.exists("up").await.unwrap() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    running.abort();
    let sleepers = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p; echo; done | \
        grep -c '^sleep 30[01]'";
    loop {
        let output = backend.execute(Command::new(sleepers)).await.unwrap();
        if output.stdout.text() == "0\n" {
            break;
        }

        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let reached =
        Command::new("cat /sys/class/net/*/operstate").with_timeout(Duration::from_secs(9));
    let reached = backend.execute(reached).await.unwrap();
    assert!(
        !reached.stdout.text().contains("up"),
        "the container has no network"
    );
    backend.restart_container().await.unwrap();
    assert!(backend.exists("up").await.unwrap());
    backend.remove_container().await.unwrap();
    let status = backend.container_status().await.unwrap();
    assert_eq!(status, ContainerStatus::Missing);
}
