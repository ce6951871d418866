//! The heartbeat of a gateway.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::gateway::{DeliveryPolicy, Gateway, Heartbeat, HeartbeatReply, InProcessBus};
use agentcore::testing::FunctionModel;
use agentcore::{
    AgentBuilder, Error, ErrorKind, ModelEvent, ModelRequest, SessionStore, ThreadStore, ToolCall,
};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::hooks::{golden, with};

use super::{answer, read_text, run_with};

/// 2026-02-01 09:00 in UTC, a Sunday.
fn morning() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_769_936_400)
}

fn heartbeat(workspace: &MemoryBackend) -> Heartbeat {
    let heartbeat = Heartbeat::new(workspace.clone()).clock(morning);
    heartbeat.zone("UTC").unwrap()
}

async fn tasks() -> MemoryBackend {
    with(&[("HEARTBEAT.md", b"\xef\xbb\xbf- Is the build green?\n")]).await
}

async fn text_of(workspace: &MemoryBackend, path: &str) -> String {
    String::from_utf8(workspace.read(path).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn missing_file_is_made_from_the_template_without_a_run() {
    let workspace = MemoryBackend::new();
    let run_count = AtomicUsize::new(0);
    let beat = || {
        let heartbeat = heartbeat(&workspace);
        let run_count = &run_count;
        async move {
            let reply = |_| async {
                run_count.fetch_add(1, Ordering::Relaxed);
                Ok(HeartbeatReply::Text("done".to_owned()))
            };
            heartbeat.beat(reply).await
        }
    };
    assert_eq!(beat().await, None);
    let template = text_of(&workspace, "HEARTBEAT.md").await;
    assert_eq!(
        template,
        include_str!("../../data/gateway/heartbeat_template.md")
    );
    let log = "[2026-02-01 09:00:00] [INFO] HEARTBEAT.md was made from the template\n";
    assert_eq!(text_of(&workspace, "heartbeat.log").await, log);

    // The template has no tasks.
    assert_eq!(beat().await, None);
    workspace.write("HEARTBEAT.md", b" \n").await.unwrap();
    assert_eq!(beat().await, None);
    assert_eq!(run_count.load(Ordering::Relaxed), 0);

    let with_task = format!("{template}\n- Is the build green?");
    workspace
        .write("HEARTBEAT.md", with_task.as_bytes())
        .await
        .unwrap();
    assert_eq!(beat().await.as_deref(), Some("done"));
    assert_eq!(run_count.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn tasks_are_in_the_prompt() {
    let workspace = tasks().await;
    let heartbeat = heartbeat(&workspace);
    let text = heartbeat.beat(|prompt| async move {
        assert_eq!(
            prompt,
            golden(include_str!("../../data/gateway/heartbeat_prompt.txt"))
        );
        Ok(HeartbeatReply::Text(" The build is\nred.\n".to_owned()))
    });
    assert_eq!(text.await.as_deref(), Some("The build is\nred."));
    let log = "[2026-02-01 09:00:00] [INFO] Heartbeat completed: The build is red.\n";
    assert_eq!(text_of(&workspace, "heartbeat.log").await, log);
}

#[tokio::test]
async fn errors_and_replies_without_news_send_nothing() {
    for (reply, line) in [
        (
            Ok(HeartbeatReply::Text("HEARTBEAT_OK\n".to_owned())),
            "[INFO] Nothing needs attention",
        ),
        (
            Ok(HeartbeatReply::Text(String::new())),
            "[INFO] Nothing needs attention",
        ),
        (
            Ok(HeartbeatReply::Async),
            "[INFO] The agent works in the background",
        ),
        (
            Ok(HeartbeatReply::Silent),
            "[INFO] The agent has sent its messages",
        ),
        (
            Err(Error::new(
                ErrorKind::RateLimited,
                "too many\n[ERROR] requests",
            )),
            "[ERROR] Heartbeat failed: too many [ERROR] requests",
        ),
    ] {
        let workspace = tasks().await;
        let heartbeat = heartbeat(&workspace);
        let text = heartbeat.beat(|_| async { reply });
        assert_eq!(text.await, None);
        let log = text_of(&workspace, "heartbeat.log").await;
        assert_eq!(log, format!("[2026-02-01 09:00:00] {line}\n"));
    }
}

#[tokio::test]
async fn workspace_that_cannot_be_read_sends_nothing() {
    let workspace = with(&[("HEARTBEAT.md/x", b"a folder")]).await;
    let heartbeat = heartbeat(&workspace);
    let text = heartbeat.beat(|_| async { unreachable!("there is no prompt") });
    assert_eq!(text.await, None);
    let log = text_of(&workspace, "heartbeat.log").await;
    assert!(log.contains("[ERROR] Heartbeat failed: "), "{log}");
}

#[tokio::test(start_paused = true)]
async fn task_of_a_heartbeat_leaves_no_session_and_is_reported_in_the_chat() {
    let store = ThreadStore::new();
    let model = FunctionModel::stream(|request: ModelRequest| async move {
        let is_subagent = request.system.to_string().contains("You are a subagent");
        if is_subagent {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let text = request.messages.last_content().into_owned();
        let args = json!({"task": "Look", "label": "scout"});
        let call = ToolCall::new("call_1", "spawn", args);
        Ok(answer(match (&*text, is_subagent) {
            ("Check", _) => ModelEvent::ToolCall(call),
            (_, true) => ModelEvent::Text("All quiet.".into()),
            _ => ModelEvent::Text(format!("re: {text}")),
        }))
    });
    let bus = InProcessBus::default();
    let gateway = Gateway::builder(AgentBuilder::new(model).store(store.clone()))
        .bus(bus.clone())
        .delivery(DeliveryPolicy::HandToAgent)
        .build()
        .unwrap();
    run_with(&gateway, async {
        gateway.process_heartbeat("Check", "tg", "1").await.unwrap();
        let report = read_text(&bus).await;
        assert_eq!(report, "re: Task 'scout' completed.\n\nResult:\nAll quiet.");
    })
    .await;
    let sessions = store.list().await.unwrap();
    let ids: Vec<_> = sessions.iter().map(|info| &*info.id).collect();
    assert_eq!(ids, ["tg:1"]);
}

#[tokio::test(start_paused = true)]
async fn interval_is_half_an_hour_and_at_least_five_minutes() {
    let heartbeat = Heartbeat::new(MemoryBackend::new());
    for (heartbeat, minutes) in [
        (heartbeat.clone(), 30),
        (heartbeat.clone().interval(Duration::from_secs(3_600)), 60),
        (heartbeat.clone().interval(Duration::ZERO), 5),
    ] {
        let start = Instant::now();
        heartbeat.wait().await;
        assert_eq!(start.elapsed().as_secs() / 60, minutes);
    }
    let year = Duration::from_secs(365 * 24 * 3_600);
    let outcome = tokio::time::timeout(year, heartbeat.off().wait()).await;
    assert!(outcome.is_err(), "it is off");
}
