//! Sessions of a gateway by their keys, and their import from files.

use std::sync::Arc;

use agentcore::backend::{Backend, LocalBackend};
use agentcore::gateway::SessionManager;
use agentcore::message::ToolResult;
use agentcore::testing::ScriptedModel;
use agentcore::{ErrorKind, Message, Messages, Role, SessionStore, ThreadStore, ToolCall};
use serde_json::json;

use crate::kit::hooks::with;
use crate::kit::{agent, roles};

const KEY: &str = "telegram:123";
const FILE: &str = include_str!("../../data/gateway/session.json");

fn texts(messages: &Messages) -> Vec<String> {
    let texts = messages.iter().map(|message| message.text().into_owned());
    texts.collect()
}

#[tokio::test]
async fn messages_and_summaries_are_stored_by_key() {
    let store = ThreadStore::new();
    let sessions = SessionManager::new(store.clone());
    assert!(sessions.get_history(KEY).await.unwrap().is_empty());
    assert_eq!(sessions.get_summary(KEY).await.unwrap(), None);

    for (role, text) in [
        (Role::User, "one"),
        (Role::Assistant, "two"),
        (Role::User, "three"),
    ] {
        sessions.add_message(KEY, role, text).await.unwrap();
    }
    let call = ToolCall::new("c", "echo", json!({}));
    let result = ToolResult::ok(&call, "again");
    sessions
        .add_full_message(KEY, Message::ai_calling("", [call]))
        .await
        .unwrap();
    sessions
        .add_full_message(KEY, Message::Tool(result))
        .await
        .unwrap();
    sessions
        .add_message(KEY, Role::Assistant, "four")
        .await
        .unwrap();
    sessions.save(KEY).await.unwrap();
    let history = sessions.get_history(KEY).await.unwrap();
    assert_eq!(history.len(), 6);
    let error = sessions
        .add_message(KEY, Role::Tool, "x")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);

    // The boundary of the summary moves so that it does not separate a call from its result.
    sessions.set_summary(KEY, "They counted.").await.unwrap();
    assert_eq!(sessions.get_history(KEY).await.unwrap(), history);
    sessions.truncate_history(KEY, 2).await.unwrap();
    let history = sessions.get_history(KEY).await.unwrap();
    assert_eq!(texts(&history), ["", "again", "four"]);
    assert_eq!(
        sessions.get_summary(KEY).await.unwrap().as_deref(),
        Some("They counted.")
    );
    assert_eq!(
        store.get(KEY).unwrap().messages.len(),
        6,
        "nothing is destroyed"
    );

    let model = ScriptedModel::new().say("five");
    let agent = agent(model.clone()).store(store.clone()).build().unwrap();
    agent.session(KEY).run("go").await.unwrap();
    let sent = texts(&model.requests()[0].messages);
    assert!(sent[0].contains("They counted."), "{sent:?}");
    assert_eq!(sent[1..], ["", "again", "four", "go"]);

    sessions.set_summary(KEY, "").await.unwrap();
    assert_eq!(sessions.get_history(KEY).await.unwrap().len(), 8);
}

#[tokio::test]
async fn history_is_truncated_without_a_summary() {
    let sessions = SessionManager::new(ThreadStore::new());
    sessions.truncate_history(KEY, 2).await.unwrap();
    for number in 0..6 {
        sessions
            .add_message(KEY, Role::User, number.to_string())
            .await
            .unwrap();
    }
    sessions.truncate_history(KEY, 9).await.unwrap();
    assert_eq!(sessions.get_summary(KEY).await.unwrap(), None);
    sessions.truncate_history(KEY, 2).await.unwrap();
    assert_eq!(texts(&sessions.get_history(KEY).await.unwrap()), ["4", "5"]);
    let summary = sessions.get_summary(KEY).await.unwrap();
    assert_eq!(summary.as_deref(), Some("[Earlier messages are left out.]"));
}

#[tokio::test]
async fn change_waits_for_no_run() {
    let store = ThreadStore::new();
    let _lease = store.lease(KEY).await.unwrap();
    let sessions = SessionManager::new(store.clone());
    let error = sessions.set_summary(KEY, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionBusy);
}

#[tokio::test]
async fn file_that_the_backend_reads_in_pieces_is_imported_whole() {
    const PIECE: usize = 1024 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let backend = LocalBackend::new(folder.path())
        .unwrap()
        .with_max_read(PIECE as u64);
    let json = |text: &str| json!({"messages": [{"role": "user", "content": text}]}).to_string();
    let overhead = json("").len();
    let lengths = [PIECE - overhead, 3 * PIECE - overhead, 3 * PIECE];
    for (number, length) in lengths.into_iter().enumerate() {
        let path = format!("sessions/{number}.json");
        let file = json(&"x".repeat(length));
        backend.write(&path, file.as_bytes()).await.unwrap();
    }
    let sessions = SessionManager::new(ThreadStore::new());
    let outcome = sessions
        .import_sessions(&backend, "sessions")
        .await
        .unwrap();
    assert_eq!(outcome.imported.len(), 3, "{:?}", outcome.failed);
    for (number, length) in lengths.into_iter().enumerate() {
        let history = sessions.get_history(&number.to_string()).await.unwrap();
        assert_eq!(texts(&history)[0].len(), length);
    }
}

#[tokio::test]
async fn files_of_a_folder_are_imported_once() {
    let workspace = with(&[
        ("sessions/telegram_123.json", FILE.as_bytes()),
        (
            "sessions/cli.json",
            br#"{"messages":[{"role":"user","content":"hi"}]}"#,
        ),
        ("sessions/broken.json", b"{"),
        ("sessions/empty.json", br#"{"key":"x"}"#),
        ("sessions/notes.txt", b"no session"),
        ("sessions/more.json/x", b"a folder"),
    ])
    .await;
    let store = ThreadStore::new();
    let sessions = SessionManager::new(store.clone());
    let keys: [Arc<str>; 2] = ["cli".into(), KEY.into()];
    let outcome = sessions
        .import_sessions(&workspace, "sessions")
        .await
        .unwrap();
    assert_eq!(outcome.imported, keys);
    assert!(outcome.existing.is_empty());
    let names: Vec<_> = outcome.failed.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["broken.json", "empty.json"]);

    let outcome = sessions
        .import_sessions(&workspace, "sessions/")
        .await
        .unwrap();
    assert!(outcome.imported.is_empty());
    assert_eq!(outcome.existing, keys);
    assert!(
        sessions
            .import_sessions(&workspace, "missing")
            .await
            .is_err()
    );

    let history = sessions.get_history(KEY).await.unwrap();
    let call = history.get(1).unwrap().tool_calls().next().unwrap();
    assert_eq!((&*call.id, &*call.name), ("call_1", "read_file"));
    assert_eq!(*call.args, json!({"path": "notes.txt"}));
    assert_eq!(
        sessions.get_summary(KEY).await.unwrap().as_deref(),
        Some("They met.")
    );

    let model = ScriptedModel::new().say("Yes.");
    let agent = agent(model.clone()).store(store).build().unwrap();
    agent.session(KEY).run("Tea?").await.unwrap();
    let sent = &model.requests()[0].messages;
    assert_eq!(roles(sent), "user assistant tool assistant user");
    sent.validate_for_model().unwrap();
}

#[tokio::test]
async fn files_of_the_root_are_imported() {
    let workspace = with(&[("telegram_123.json", FILE.as_bytes())]).await;
    let sessions = SessionManager::new(ThreadStore::new());
    let outcome = sessions.import_sessions(&workspace, "").await.unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert_eq!(outcome.imported, [Arc::<str>::from(KEY)]);
}

#[test]
fn calls_are_read_as_chat_completions_writes_them() {
    let read = |call: serde_json::Value| -> ToolCall {
        let message = json!([{"role": "assistant", "content": "", "tool_calls": [call]}]);
        let messages = Messages::from_json(message.to_string()).unwrap();
        let mut calls = messages.get(0).unwrap().tool_calls();
        calls.next().unwrap().clone()
    };
    let function = json!({"name": "echo", "arguments": {"a": 1}});
    let call = read(json!({"id": "c", "type": "function", "function": function}));
    assert_eq!((&*call.name, &*call.args), ("echo", &json!({"a": 1})));

    // The fields of the call take precedence over those of `function`.
    let call = read(json!({"id": "c", "name": "own", "args": {}, "function": function}));
    assert_eq!((&*call.name, &*call.args), ("own", &json!({})));
    let call = read(json!({"id": "c", "function": {"name": "echo", "arguments": "{broken"}}));
    assert_eq!(call.raw_args.as_deref(), Some("{broken"));
    let call = read(json!({"id": "c", "function": null, "name": "own"}));
    assert_eq!(&*call.name, "own");
}
