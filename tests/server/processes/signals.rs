//! The signals that end the example server.

use std::process::Command;

use agentcore::SessionStore;

use super::{HANGS, ServerProcess, effects, files, input};

#[tokio::test]
async fn server_that_gets_a_signal_stores_its_runs_and_ends_with_success() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = ServerProcess::start(folder.path(), &[(HANGS, "1")]);
        let stream = server.post("ann", "/agents/stream", input("th", "go"));
        let mut stream = stream.open().await;
        stream.until("on_tool_start").await;

        let pid = server.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success());
        // The run is interrupted, and its stream is complete.
        assert_eq!(stream.events().await.last().unwrap().event, "error");
        let status = server.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {status}");

        let stored_session = files(folder.path()).load("th").await.unwrap();
        let messages = stored_session.unwrap().state.messages;
        messages.validate_for_model().unwrap();
        assert!(effects(folder.path(), "call_go") <= 1);
    }
}

#[tokio::test]
async fn server_that_gets_a_signal_stores_the_runs_of_all_its_users() {
    const RUNS: usize = 50;
    const USERS: usize = 7;
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(folder.path(), &[(HANGS, "1")]);
    let mut streams = Vec::new();
    for number in 0..RUNS {
        let (user, name) = (format!("user_{}", number % USERS), format!("go_{number}"));
        let body = input(&format!("th_{number}"), &name);
        let run = server.post(&user, "/agents/stream", body);
        let mut stream = run.open().await;
        stream.until("on_tool_start").await;
        streams.push(stream);
    }
    let pid = server.child.id().to_string();
    let status = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(status.success());
    for stream in streams {
        // Each run was stopped and stored; no run was dropped at the end of the time.
        let end = stream.events().await.pop().unwrap();
        let is_stop = end.data.contains("\"reason\":\"aborted_tools\"");
        assert!(end.event == "error" && is_stop, "{end:?}");
    }
    let status = server.child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");

    let store = files(folder.path());
    for number in 0..RUNS {
        let stored_session = store.load(&format!("th_{number}")).await.unwrap();
        let state = stored_session.unwrap().state;
        let user = format!("user_{}", number % USERS);
        assert_eq!(state.user_id.as_deref(), Some(&*user));
        state.messages.validate_for_model().unwrap();
        assert!(effects(folder.path(), &format!("call_go_{number}")) <= 1);
    }
}
