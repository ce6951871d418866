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
        // The run is interrupted, and the stream has its end.
        assert_eq!(stream.events().await.last().unwrap().event, "error");
        let status = server.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {status}");

        let stored_session = files(folder.path()).load("th").await.unwrap();
        let messages = stored_session.unwrap().state.messages;
        messages.validate_for_model().unwrap();
        assert!(effects(folder.path(), "call_go") <= 1);
    }
}
