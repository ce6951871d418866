//! The container, and calls of the engine.

use std::time::Duration;

use agentcore::ErrorKind;
use agentcore::backend::{Backend, Command, ContainerStatus, DockerBackend};

use super::Engine;
use crate::kit::processes::{until, written};

#[tokio::test]
async fn new_container_has_no_network_or_capabilities() {
    let engine = Engine::new();
    let backend = engine.builder().name("box").start().await.unwrap();
    let ws = engine.workdir();
    let expected = format!(
        "run --detach --init --label agentcore --name box --workdir {} --network none \
         --security-opt no-new-privileges --cap-drop ALL --memory 2147483648 \
         --memory-swap 2147483648 --pids-limit 512 --entrypoint tail image -f /dev/null",
        ws.display()
    );
    assert_eq!(engine.calls().last(), Some(&expected));
    assert_eq!(engine.calls()[0], "version");
    assert_eq!(backend.container(), "box");
    assert_eq!(backend.root(), ws.to_str().unwrap());
}

#[tokio::test]
async fn options_become_quoted_arguments() {
    let engine = Engine::new();
    let backend = engine
        .builder()
        .name("box")
        .host("ssh://user@machine")
        .network("bridge")
        .user("1000:1000")
        .capabilities(["CHOWN"])
        .memory(1 << 30)
        .cpus(1.5)
        .processes(64)
        .mount_read_only("/a,b \"c\"; $(d)", "/data")
        .start()
        .await
        .unwrap();
    let mut calls = engine.calls().into_iter();
    let call = calls.find(|call| call.contains(" run ")).unwrap();
    for part in [
        "--host ssh://user@machine run ",
        " --network bridge ",
        " --user 1000:1000 ",
        " --cap-drop ALL --cap-add CHOWN --user ",
        " --memory 1073741824 --memory-swap 1073741824 --cpus 1.5 --pids-limit 64 ",
        // The log of the fake engine quotes arguments: one word, with fields quoted as in CSV.
        r#" --mount type=bind\,\"source=/a\,b\ \"\"c\"\"\;\ \$\(d\)\"\,target=/data\,readonly "#,
    ] {
        assert!(call.contains(part), "{part} in {call}");
    }

    let log = || std::fs::read_to_string(engine.base.join("log")).unwrap();
    backend.execute(Command::new("true")).await.unwrap();
    let last = log().lines().last().unwrap().to_owned();
    let begin = "--host ssh://user@machine exec --interactive --user 1000:1000 box sh -c ";
    assert!(last.starts_with(begin), "{last}");
}

#[tokio::test]
async fn secrets_are_not_passed_as_arguments() {
    let engine = Engine::new();
    let backend = engine.builder().env("ONE", "hush-1").start().await.unwrap();
    let command = Command::new("echo $ONE $TWO # hush-3").with_env("TWO", "hush-2");
    let output = backend.execute(command).await.unwrap();
    assert_eq!(output.stdout.text(), "hush-1 hush-2\n");
    let log = std::fs::read_to_string(engine.base.join("log")).unwrap();
    assert!(!log.contains("hush"), "{log}");
}

#[tokio::test]
async fn invalid_options_are_rejected_before_the_engine_is_called() {
    let engine = Engine::new();
    let wrong = [
        engine.builder().name("-rm"),
        engine.builder().name("a b"),
        engine.builder().workdir("relative"),
        engine.builder().workdir("/a/../b"),
        engine.builder().mount_read_only("relative", "/data"),
        engine.builder().cpus(f64::NAN),
        engine.builder().memory(0),
        engine.builder().processes(0),
        engine.builder().capabilities(["--privileged"]),
        engine.builder().capabilities([""]),
        engine.builder().capabilities(["CHOWN SETUID"]),
        DockerBackend::run("--privileged").program(engine.base.join("docker")),
        engine.attach(""),
    ];
    for builder in wrong {
        let debug = format!("{builder:?}");
        let error = builder.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{debug}");
    }

    let error = engine.builder().env("A B", "1").start().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert!(engine.calls().is_empty());
}

#[tokio::test]
async fn engine_errors_name_the_cause_and_a_remedy() {
    let engine = Engine::new();
    let absent = engine.builder().program("/nowhere/docker");
    let error = absent.start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(
        text.contains("/nowhere/docker") && text.contains("install"),
        "{text}"
    );

    let image = DockerBackend::run("missing:1")
        .program(engine.base.join("docker"))
        .start()
        .await;
    let text = image.unwrap_err().to_string();
    assert!(
        text.contains("missing:1") && text.contains("pull access denied"),
        "{text}"
    );

    let backend = engine.start().await;
    engine.set("down");
    for error in [
        engine.builder().start().await.unwrap_err(),
        backend.read("x").await.unwrap_err(),
        backend.execute(Command::new("true")).await.unwrap_err(),
        backend.container_status().await.unwrap_err(),
        backend.remove_container().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Connect);
        let text = error.to_string();
        assert!(text.contains("start the engine"), "{text}");
    }

    engine.clear("down");
    backend.write("x", b"1").await.unwrap();
}

#[tokio::test]
async fn program_that_answers_without_end_is_ended() {
    let engine = Engine::new();
    let backend = engine.start().await;
    for state in ["flood", "flood-errors"] {
        engine.set(state);
        for error in [
            engine.builder().start().await.unwrap_err(),
            backend.read("x").await.unwrap_err(),
            backend.container_status().await.unwrap_err(),
            backend.remove_container().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Io);
            let text = error.to_string();
            assert!(
                text.contains("wrote more than") && text.contains("docker"),
                "{text}"
            );
        }
        assert!(backend.execute(Command::new("true")).await.is_err());
        engine.clear(state);
    }
    backend.write("x", b"1").await.unwrap();
}

#[tokio::test]
async fn call_ends_with_its_program_while_a_process_that_it_left_holds_the_pipes() {
    let engine = Engine::new();
    engine.set("leave-child");
    let work = async {
        let backend = engine.start().await;
        backend.write("x", b"1").await.unwrap();
        assert_eq!(&backend.read("x").await.unwrap()[..], b"1");
        let output = backend.execute(Command::new("echo hi")).await.unwrap();
        assert_eq!(output.stdout.text(), "hi\n");

        engine.set("no-exec");
        let error = backend.execute(Command::new("true")).await.unwrap_err();
        assert!(error.to_string().contains("container"), "{error}");
        backend.remove_container().await.unwrap();
    };
    // A single call may take a minute, and the start of a command two.
    let result = tokio::time::timeout(Duration::from_secs(50), work).await;
    result.expect("a call waited for the process that its program left");
}

#[tokio::test]
async fn container_is_removed_with_its_backend_unless_kept() {
    let engine = Engine::new();
    let gone = engine.builder().name("gone").start().await.unwrap();
    let kept = engine
        .builder()
        .name("kept")
        .keep(true)
        .start()
        .await
        .unwrap();
    let again = gone.clone();
    drop((gone, kept));
    assert_eq!(engine.containers().len(), 2);
    drop(again);
    until("it is not removed", || engine.containers() == ["kept"]).await;
    let attached = engine.attach("kept").keep(false).start().await.unwrap();
    attached.write("x", b"1").await.unwrap();
    drop(attached);
    let again = engine.attach("kept").start().await.unwrap();
    assert_eq!(&again.read("x").await.unwrap()[..], b"1");
    again.remove_container().await.unwrap();
    again.remove_container().await.unwrap();
    let status = again.container_status().await.unwrap();
    assert_eq!(status, ContainerStatus::Missing);
    let error = again.read("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = engine.attach("kept").start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn container_name_in_use_is_a_conflict() {
    let engine = Engine::new();
    let first = engine.builder().name("box").start().await.unwrap();
    let error = engine.builder().name("box").start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("attach"), "{error}");
    let status = first.container_status().await.unwrap();
    assert_eq!(status, ContainerStatus::Running);
    assert!(!engine.calls().iter().any(|call| call.contains("rm ")));
}

#[tokio::test]
async fn container_can_be_stopped_and_restarted() {
    let engine = Engine::new();
    let backend = engine.builder().name("box").start().await.unwrap();
    backend.write("x", b"1").await.unwrap();
    let command = Command::new("sleep 600 & echo > up; wait");
    let id = backend.start(command).await.unwrap();
    written(&engine.workdir().join("up")).await;
    backend.stop_container().await.unwrap();
    let status = backend.container_status().await.unwrap();
    assert_eq!(status, ContainerStatus::Stopped("exited".to_owned()));
    let error = backend.read("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("restart_container"), "{error}");
    let end = async {
        while backend.poll(&id).await.unwrap().running {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };

    tokio::time::timeout(Duration::from_secs(60), end)
        .await
        .unwrap();
    backend.restart_container().await.unwrap();
    assert_eq!(&backend.read("x").await.unwrap()[..], b"1");
    backend.stop_container().await.unwrap();
    let attached = engine.attach("box").start().await.unwrap();
    assert_eq!(&attached.read("x").await.unwrap()[..], b"1");
}

#[tokio::test]
async fn drop_does_not_wait_for_a_hanging_engine() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let reading = backend.read("x");
    engine.set("hang");
    // The read gets no answer, and its program must not remain.
    let asked = tokio::time::timeout(Duration::from_millis(200), reading).await;
    assert!(asked.is_err());
    let begun = std::time::Instant::now();
    drop(backend);
    assert!(begun.elapsed() < Duration::from_secs(60));
    engine.clear("hang");
}
