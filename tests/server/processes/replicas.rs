//! Two servers on one database, one of which is killed, as `docs/replicas.md` describes.
//!
//! The test needs `AGENTCORE_TEST_POSTGRES`.

use std::time::Duration;

use agentcore::SessionStore;
use agentcore::session::{PostgresStore, ServerOptions};
use serde_json::json;

use super::{DATABASE, HANGS, PREFIX, ServerProcess, effects, input};

const THREAD: &str = "/agents/default/threads/th";

/// Returns the store of the servers. A lease lasts long enough for a busy machine to renew it, and
/// for a request after the end of its server.
pub(super) fn store_at(url: &str, prefix: &str) -> PostgresStore {
    let options = ServerOptions::default()
        .prefix(prefix)
        .lease_time(Duration::from_secs(15));
    PostgresStore::with_options(url, options).unwrap()
}

/// Removes the thread, whose lease may outlive its server for a moment.
async fn remove_thread(store: &PostgresStore) {
    for _ in 0..600 {
        if store.delete("th").await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the thread was not removed");
}

#[tokio::test]
async fn replica_continues_the_threads_of_one_that_was_killed() {
    let Ok(url) = std::env::var("AGENTCORE_TEST_POSTGRES") else {
        println!("skipped: AGENTCORE_TEST_POSTGRES names no server");
        return;
    };
    let prefix = format!("replicas_{}", std::process::id());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let variables = [(DATABASE, &*url), (PREFIX, &*prefix)];
    let hanging = [variables[0], variables[1], (HANGS, "1")];
    let mut first = ServerProcess::start(folder, &hanging);
    let second = ServerProcess::start(folder, &variables);

    let stream = first.post("ann", "/agents/stream", input("th", "go"));
    let mut stream = stream.open().await;
    stream.until("on_tool_start").await;

    // The thread runs on the other server.
    let list = second.get("ann", "/agents/default/threads").send().await;
    let list = list.ok(200);
    assert_eq!(
        (
            &list["threads"][0]["id"],
            list["threads"].as_array().unwrap().len()
        ),
        (&json!("th"), 1)
    );
    let thread = second.get("ann", THREAD).send().await.ok(200);
    assert_eq!(
        (&thread["running"], &thread["interrupted"]),
        (&json!(false), &json!(false))
    );
    for path in ["/agents/invoke", "/agents/stream"] {
        let send = || second.post("ann", path, input("th", "other")).send();
        let mut reply = send().await;
        for _ in 0..10 {
            if reply.status == 409 {
                break;
            }
            // The run took too long to open, so its stream had already begun.
            reply = send().await;
        }
        reply.error(409);
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    let control = second.post("ann", &format!("{THREAD}/interrupt"), json!({}));
    control.send().await.error(404);
    let mut events = second.get("ann", &format!("{THREAD}/events")).open().await;
    assert_eq!(events.event().await.unwrap().event, "state");
    second.get("bob", THREAD).send().await.error(404);
    let list = second.get("bob", "/agents/default/threads").send().await;
    assert_eq!(list.ok(200)["threads"], json!([]));

    first.kill();
    let reply = second
        .post("ann", "/agents/invoke", input("th", "go"))
        .send()
        .await;
    reply.error(409);
    let events = events.events().await;
    let last = events.last().unwrap();
    assert_eq!(last.event, "error");
    assert!(
        last.data.contains("ended before it had answered"),
        "{last:?}"
    );

    // The lease has expired: for this server, and for one that was started since.
    let third = ServerProcess::start(folder, &variables);
    for server in [&second, &third] {
        let thread = server.get("ann", THREAD).send().await.ok(200);
        assert_eq!(
            (&thread["running"], &thread["interrupted"]),
            (&json!(false), &json!(true))
        );
        let events = server.get("ann", &format!("{THREAD}/events"));
        assert_eq!(events.send().await.status, 204);
        server.get("bob", THREAD).send().await.error(404);
    }
    let reply = third
        .post("ann", "/agents/invoke", input("th", "go"))
        .send()
        .await
        .ok(200);
    let response = reply["response"].as_str().unwrap();
    assert!(response.starts_with("Done for go: "), "{response}");
    assert!(!response.contains("acted"), "{response}");
    assert_eq!(effects(folder, "call_go"), 1);
    let reply = second
        .post("ann", "/agents/invoke", input("th", "next"))
        .send()
        .await
        .ok(200);
    assert!(
        reply["response"]
            .as_str()
            .unwrap()
            .contains("acted for call_next"),
        "{reply}"
    );

    drop((second, third));
    let store = store_at(&url, &prefix);
    let state = store.load("th").await.unwrap().unwrap().state;
    state.messages.validate_for_model().unwrap();
    remove_thread(&store).await;
}
