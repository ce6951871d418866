//! Files and lists that models and people write for later runs: notes, tasks, exported sessions.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::gateway::{Heartbeat, HeartbeatReply};
use agentcore::hooks::TodoListHook;
use agentcore::prompt::MemoryStore;
use agentcore::testing::ScriptedModel;
use agentcore::{SessionStore, ThreadStore, ToolCall};
use fastrand::Rng;
use futures::executor::block_on;

use super::fuzz;
use super::texts::{JSON, YAML};

/// Returns a text, or bytes that are not UTF-8.
fn note(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = YAML.text(rng, 64 * 1024).into_bytes();
    if rng.bool() {
        let at = rng.usize(..=bytes.len());
        bytes.insert(at, rng.u8(..));
    }
    bytes
}

#[test]
fn memory_notes_are_read_without_panic() {
    let backend = MemoryBackend::new();
    let memory = MemoryStore::new(backend.clone()).with_zone("UTC").unwrap();
    let today = memory.today_file().unwrap();
    fuzz("memory notes", |rng| {
        let bytes = note(rng);
        block_on(async {
            backend
                .write(memory.long_term_file(), &bytes)
                .await
                .unwrap();
            backend.write(&today, &bytes).await.unwrap();
            drop(memory.append_today("a line").await);
            std::hint::black_box(memory.memory_context().await.is_ok());
        });
        bytes.len()
    });
}

#[test]
fn heartbeat_files_are_read_without_panic() {
    let backend = MemoryBackend::new();
    let heartbeat = Heartbeat::new(backend.clone());
    fuzz("heartbeat file", |rng| {
        let bytes = note(rng);
        block_on(async {
            backend.write("HEARTBEAT.md", &bytes).await.unwrap();
            let answer = |prompt| async move { Ok(HeartbeatReply::Text(prompt)) };
            std::hint::black_box(heartbeat.beat(answer).await);
            drop(backend.remove("heartbeat.log").await);
        });
        bytes.len()
    });
}

#[test]
fn imported_sessions_are_read_without_panic() {
    let store = ThreadStore::new();
    fuzz("imported session", |rng| {
        let json = match rng.u8(..4) {
            0 => JSON.text(rng, 64 * 1024),
            1 => format!("{{\"messages\": {}}}", JSON.text(rng, 64 * 1024)),
            2 => format!(
                "[{{\"role\": \"user\", \"content\": {}}}]",
                JSON.text(rng, 64 * 1024)
            ),
            _ => format!(
                "{{\"messages\": [], \"summary\": {}}}",
                JSON.text(rng, 64 * 1024)
            ),
        };
        if block_on(store.import("a", json.as_bytes())).is_ok() {
            std::hint::black_box(block_on(store.export("a")).is_ok());
            store.delete("a");
        }
        json.len()
    });
}

#[test]
fn task_lists_are_read_without_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    fuzz("task list", |rng| {
        let list = JSON.text(rng, 16 * 1024);
        let args = if rng.bool() {
            format!("{{\"todos\": {list}}}")
        } else {
            format!("{{\"todos\": [{{\"id\": \"1\", \"title\": {list}}}]}}")
        };
        let size = args.len();
        let call = ToolCall::from_raw("c", "write_todos", args);
        let model = ScriptedModel::new()
            .events(vec![
                Ok(agentcore::ModelEvent::ToolCall(call)),
                Ok(agentcore::ModelEvent::stop(agentcore::StopReason::ToolUse)),
            ])
            .say("Done.");
        let agent = crate::kit::agent(model)
            .hook(TodoListHook::new())
            .build()
            .unwrap();
        runtime.block_on(async { agent.run("Go").await.unwrap() });
        size
    });
}
