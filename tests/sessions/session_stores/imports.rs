//! Imports of sessions that are long, or that need much memory.

use agentcore::{ErrorKind, SessionStore, ThreadStore};
use futures::FutureExt;

/// A session with a call whose arguments have this number of objects.
fn session(count: usize) -> String {
    let values = vec![r#"{"a":0}"#; count].join(",");
    format!(
        r#"{{"messages":[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":"",
        "tool_calls":[{{"id":"c","name":"t","args":{{"a":[{values}]}}}}]}}]}}"#
    )
}

#[tokio::test]
async fn import_that_takes_much_memory_is_refused() {
    let store = ThreadStore::new();
    store.import("a", session(1_000).as_bytes()).await.unwrap();
    let json = session(300_000);
    let error = store.import("b", json.as_bytes()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessages);
    assert!(error.text().contains("bytes of memory"), "{error}");
    assert!(store.load("b").await.unwrap().is_none());

    let list = format!(
        "[{}]",
        vec![r#"{"role":"user","content":[]}"#; 300_000].join(",")
    );
    let error = store.import("b", list.as_bytes()).await.unwrap_err();
    assert!(error.text().contains("bytes of memory"), "{error}");
}

#[cfg(all(feature = "jsonl", unix))]
#[tokio::test]
async fn import_takes_as_much_memory_as_its_store_allows() {
    let folder = tempfile::tempdir().unwrap();
    let store = agentcore::session::JsonlStore::open(folder.path())
        .unwrap()
        .with_max_session_bytes(0);
    let json = session(60_000);
    let error = store.import("a", json.as_bytes()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessages);
    assert!(error.text().contains("more than 33554432 bytes"), "{error}");
    ThreadStore::new()
        .import("a", json.as_bytes())
        .await
        .unwrap();
}

#[tokio::test]
async fn long_import_is_read_on_another_thread() {
    let store = ThreadStore::new();
    let json = |len| format!(r#"[{{"role":"user","content":"{}"}}]"#, "x".repeat(len));
    let is_ready = |id, json: String| {
        let store = &store;
        async move { store.import(id, json.as_bytes()).now_or_never().is_some() }
    };
    assert!(is_ready("short", json(1_000)).await);
    assert!(!is_ready("long", json(300_000)).await);
}

#[tokio::test]
async fn import_error_quotes_little_of_a_long_text() {
    let store = ThreadStore::new();
    let message = format!(r#"{{"role":"{}","content":"Hi"}}"#, "x".repeat(10_000));
    for json in [
        format!("[{message}]"),
        format!(r#"{{"messages":[{message}]}}"#),
    ] {
        let error = store.import("a", json.as_bytes()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessages);
        assert!(format!("{error:?}").len() < 2_000, "{}", error.text().len());
    }
}
