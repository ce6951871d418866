//! State of a gateway that outlives its process.

use std::time::{Duration, SystemTime};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::gateway::StateManager;
use agentcore::prompt::Conversation;

use crate::kit::hooks::with;

const FILE: &str = "state/state.json";

/// 2026-02-01 09:00 in UTC.
fn morning() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_936_400)
}

async fn state(workspace: &MemoryBackend) -> StateManager {
    let state = StateManager::load(workspace.clone()).await.unwrap();
    state.with_clock(morning)
}

#[tokio::test]
async fn last_chat_is_stored_with_its_time() {
    let workspace = MemoryBackend::new();
    let first = state(&workspace).await;
    assert_eq!((first.last_channel(), first.last_chat_id()), (None, None));
    assert_eq!(first.last_conversation(), None);
    first.record("telegram", "-100:7").await.unwrap();
    let json = r#"{"last_channel":"telegram:-100:7","last_chat_id":"-100:7","timestamp":"2026-02-01T09:00:00Z"}"#;
    assert_eq!(workspace.read(FILE).await.unwrap(), json);

    let second = state(&workspace).await;
    let chat = Conversation::new("telegram", "-100:7");
    assert_eq!(second.last_conversation(), Some(chat));
    second.set_last_channel("slack:9").await.unwrap();
    second.set_last_chat_id("9").await.unwrap();
    let third = state(&workspace).await;
    assert_eq!(third.last_channel().as_deref(), Some("slack:9"));
    assert_eq!(third.last_chat_id().as_deref(), Some("9"));
}

#[tokio::test]
async fn same_chat_is_not_written_twice() {
    let workspace = MemoryBackend::new();
    let state = state(&workspace).await;
    state.record("telegram", "1").await.unwrap();
    workspace.remove(FILE).await.unwrap();
    state.clone().record("telegram", "1").await.unwrap();
    assert!(!workspace.exists(FILE).await.unwrap());
    state.record("telegram", "2").await.unwrap();
    assert!(workspace.exists(FILE).await.unwrap());
}

#[tokio::test]
async fn one_of_the_concurrently_recorded_chats_is_stored() {
    let workspace = MemoryBackend::new();
    let manager = state(&workspace).await;
    let chats: Vec<String> = (0..50).map(|chat| chat.to_string()).collect();
    let records = chats.iter().map(|chat| manager.record("telegram", chat));
    futures::future::try_join_all(records).await.unwrap();
    let stored = state(&workspace).await;
    assert_eq!(stored.last_channel(), manager.last_channel());
}

#[tokio::test]
async fn damaged_state_is_an_empty_one() {
    for content in ["", "{", "[]x", r#"{"last_channel":7}"#] {
        let workspace = with(&[(FILE, content.as_bytes())]).await;
        let manager = state(&workspace).await;
        assert_eq!(manager.last_channel(), None, "{content}");
        manager.record("telegram", "1").await.unwrap();
        assert!(state(&workspace).await.last_channel().is_some());
    }
    let workspace = with(&[("state/state.json/x", b"a folder")]).await;
    assert!(StateManager::load(workspace).await.is_err());
}

#[tokio::test]
async fn state_that_is_too_long_to_be_read_again_is_refused() {
    let workspace = MemoryBackend::new();
    let manager = state(&workspace).await;
    manager.record("telegram", "1").await.unwrap();
    let error = manager.record("telegram", &"x".repeat(64 << 10)).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), agentcore::ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("65536 are the limit"), "{error}");
    assert_eq!(manager.last_channel().as_deref(), Some("telegram:1"));
    let again = state(&workspace).await;
    assert_eq!(again.last_channel().as_deref(), Some("telegram:1"));
}
