//! Long-term memory and daily notes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::permission::PermissionRules;
use agentcore::prompt::MemoryStore;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, BoxError, ErrorKind, FuncTool, Tool, tools};
use serde_json::json;

/// 2026-02-01 09:00 in UTC.
const MORNING: u64 = 1_769_936_400;
const DAY: u64 = 24 * 60 * 60;

/// A clock that tests set.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn at(second: u64) -> Self {
        Self(Arc::new(AtomicU64::new(second)))
    }

    fn set(&self, second: u64) {
        self.0.store(second, Ordering::Relaxed);
    }
}

fn store(backend: &MemoryBackend, clock: &Clock) -> MemoryStore {
    let clock = clock.clone();
    MemoryStore::new(backend.clone())
        .with_clock(move || {
            SystemTime::UNIX_EPOCH + Duration::from_secs(clock.0.load(Ordering::Relaxed))
        })
        .with_zone("UTC")
        .unwrap()
}

#[tokio::test]
async fn notes_are_kept_by_the_local_day() {
    let (backend, clock) = (MemoryBackend::new(), Clock::at(MORNING));
    let utc = store(&backend, &clock);
    assert_eq!(utc.read_today().await.unwrap(), "");
    utc.append_today("one").await.unwrap();
    utc.append_today("two").await.unwrap();
    let notes = backend.read("memory/202602/20260201.md").await.unwrap();
    assert_eq!(&notes[..], b"# 2026-02-01\n\none\ntwo");

    // In Tokyo, the next day begins at 15:00 UTC.
    let tokyo = utc.clone().with_zone("Asia/Tokyo").unwrap();
    clock.set(MORNING + 6 * 60 * 60);
    assert_eq!(utc.today_file().unwrap(), "memory/202602/20260201.md");
    assert_eq!(tokyo.today_file().unwrap(), "memory/202602/20260202.md");
    let error = utc.clone().with_zone("Nowhere").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("unknown time zone \"Nowhere\""));
    let error = utc.with_zone(&"z".repeat(1_000_000)).unwrap_err();
    assert!(error.to_string().len() < 200);
}

#[tokio::test]
async fn memory_context_has_long_term_memory_and_the_notes_of_three_days() {
    let (backend, clock) = (MemoryBackend::new(), Clock::at(MORNING));
    let memory = store(&backend, &clock);
    assert_eq!(memory.memory_context().await.unwrap(), "");
    for (age, note) in [(3, "too old"), (2, "first"), (0, "last")] {
        clock.set(MORNING - age * DAY);
        memory.append_today(note).await.unwrap();
    }
    let notes = "# 2026-02-01\n\nlast\n\n---\n\n# 2026-01-30\n\nfirst";
    assert_eq!(memory.recent_daily_notes(3).await.unwrap(), notes);
    assert_eq!(memory.recent_daily_notes(0).await.unwrap(), "");
    let notes_of_all_days = memory.recent_daily_notes(u32::MAX).await.unwrap();
    assert!(
        notes_of_all_days.ends_with("# 2026-01-29\n\ntoo old"),
        "{notes_of_all_days}"
    );

    memory.write_long_term("- Ann\n").await.unwrap();
    let expected =
        format!("## Long-term Memory\n\n- Ann\n\n---\n\n## Recent Daily Notes\n\n{notes}");
    assert_eq!(memory.memory_context().await.unwrap(), expected);
}

#[tokio::test]
async fn notes_that_are_appended_at_once_have_one_heading() {
    let memory = store(&MemoryBackend::new(), &Clock::at(MORNING));
    let appends = (0..20).map(|_| memory.append_today("note"));
    for outcome in futures::future::join_all(appends).await {
        outcome.unwrap();
    }
    let notes = memory.read_today().await.unwrap();
    assert_eq!(notes.matches("# 2026-02-01").count(), 1);
    assert_eq!(notes.matches("note").count(), 20);
}

#[tokio::test]
async fn memory_has_a_limit() {
    let backend = MemoryBackend::new();
    let memory = store(&backend, &Clock::at(MORNING));
    let long = format!("a{}", "é".repeat(200_000));
    for error in [
        memory.write_long_term(&long).await.unwrap_err(),
        memory.append_today(&long).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
    backend
        .write("memory/MEMORY.md", long.as_bytes())
        .await
        .unwrap();
    let text = memory.read_long_term().await.unwrap();
    assert!(
        text.len() <= 256 * 1024 && text.ends_with('é'),
        "{}",
        text.len()
    );
    backend
        .write("memory/MEMORY.md", &[0xff; 262_144])
        .await
        .unwrap();
    assert!(memory.read_long_term().await.unwrap().len() <= 256 * 1024);
}

#[tokio::test]
async fn model_keeps_its_memory_with_tools_that_rules_cover() {
    let memory = store(&MemoryBackend::new(), &Clock::at(MORNING));
    let content = |text: &str| json!({"content": text});
    let model = ScriptedModel::new()
        .call("read_memory", json!({}))
        .call("write_long_term_memory", content("- Ann"))
        .call("append_daily_note", content("Met Ann."))
        .call("read_memory", json!({}))
        .say("done");
    let agent = AgentBuilder::new(model).tools(tools::memory(&memory));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    let texts = crate::kit::result_texts(&output.messages);
    assert_eq!(texts[0], "The memory is empty.");
    let expected =
        "## Long-term Memory\n\n- Ann\n\n---\n\n## Recent Daily Notes\n\n# 2026-02-01\n\nMet Ann.";
    assert_eq!(texts[3], expected);

    let rules = PermissionRules::new().allow("*").unwrap();
    let rules = rules.deny("Write(memory/**)").unwrap();
    let model = ScriptedModel::new()
        .call("write_long_term_memory", content("- Bob"))
        .call("append_daily_note", content("Met Bob."))
        .call("read_memory", json!({}))
        .say("done");
    let agent = AgentBuilder::new(model)
        .tools(tools::memory(&memory))
        .permissions(rules);
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.permission_denials.len(), 2);
    assert_eq!(crate::kit::result_texts(&output.messages)[2], expected);
    let names = tools::memory(&memory).map(|tool| tool.name().to_owned());
    assert_eq!(
        names,
        ["read_memory", "write_long_term_memory", "append_daily_note"]
    );
}

/// A tool that writes to the memory, as another run would.
fn other_run(memory: &MemoryStore, text: &'static str) -> FuncTool {
    let memory = memory.clone();
    let parameters = json!({"type": "object"});
    FuncTool::new("other_run", "Writes", parameters, move |_cx, _args| {
        let memory = memory.clone();
        async move {
            memory.write_long_term(text).await?;
            Ok::<_, BoxError>("written")
        }
    })
}

#[tokio::test]
async fn long_term_memory_that_has_changed_since_it_was_read_is_not_replaced() {
    let content = |text: &str| json!({"content": text});
    for old in [Some("- Ann"), None] {
        let memory = store(&MemoryBackend::new(), &Clock::at(MORNING));
        if let Some(old) = old {
            memory.write_long_term(old).await.unwrap();
        }
        let model = ScriptedModel::new()
            .call("read_memory", json!({}))
            .call("other_run", json!({}))
            .call("write_long_term_memory", content("- Ann\n- Likes tea."))
            .call("read_memory", json!({}))
            .call("write_long_term_memory", content("- Bob\n- Likes tea."))
            .call("write_long_term_memory", content("- Bob"))
            .say("done");
        let agent = AgentBuilder::new(model)
            .tools(tools::memory(&memory))
            .tool(other_run(&memory, "- Bob\n"));
        let output = agent.build().unwrap().run("Go").await.unwrap();
        let texts = crate::kit::result_texts(&output.messages);
        assert!(texts[2].contains("read_memory"), "{}", texts[2]);
        assert!(texts[3].ends_with("- Bob"), "{}", texts[3]);
        assert_eq!(texts[5], "The long-term memory is written.");
        assert_eq!(memory.read_long_term().await.unwrap(), "- Bob");
    }
}

#[tokio::test]
async fn long_term_memory_that_was_not_read_whole_is_not_replaced() {
    let backend = MemoryBackend::new();
    let memory = store(&backend, &Clock::at(MORNING));
    let long = "a".repeat(256 * 1024 + 1);
    let file = memory.long_term_file();
    backend.write(file, long.as_bytes()).await.unwrap();
    let text = memory.memory_context().await.unwrap();
    let note = "\n\n(memory/MEMORY.md is cut: the first 262144 bytes are read)";
    assert!(text.ends_with(note), "{}", &text[text.len() - 100..]);

    let model = ScriptedModel::new()
        .call("read_memory", json!({}))
        .call("write_long_term_memory", json!({"content": "a"}))
        .say("done");
    let agent = AgentBuilder::new(model).tools(tools::memory(&memory));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    let texts = crate::kit::result_texts(&output.messages);
    assert!(texts[1].contains("would be lost"), "{}", texts[1]);
    assert_eq!(backend.read(file).await.unwrap(), long);
}

#[tokio::test]
async fn long_term_memory_that_a_result_cuts_is_not_replaced() {
    let content = json!({"content": "a"});
    for (len, is_replaced) in [(2_000, false), (500, true)] {
        let backend = MemoryBackend::new();
        let memory = store(&backend, &Clock::at(MORNING));
        let long = "m".repeat(len);
        memory.write_long_term(&long).await.unwrap();
        memory.append_today(&"n".repeat(2_000)).await.unwrap();
        let model = ScriptedModel::new()
            .call("read_memory", json!({}))
            .call("write_long_term_memory", content.clone())
            .say("done");
        let agent = AgentBuilder::new(model).tools(tools::memory(&memory));
        let agent = agent.max_result_bytes(1024).build().unwrap();
        let output = agent.run("Go").await.unwrap();
        let texts = crate::kit::result_texts(&output.messages);
        assert!(texts[0].contains("(cut: "), "{}", texts[0]);
        assert_eq!(texts[1].contains("was cut"), !is_replaced, "{}", texts[1]);
        let expected = if is_replaced { "a" } else { &*long };
        assert_eq!(memory.read_long_term().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn notes_of_a_day_have_a_limit_together() {
    let memory = store(&MemoryBackend::new(), &Clock::at(MORNING));
    let note = "a".repeat(200 * 1024);
    memory.append_today(&note).await.unwrap();
    let error = memory.append_today(&note).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    let text = error.to_string();
    assert!(text.contains("more than 262144"), "{text}");
    assert_eq!(
        memory.read_today().await.unwrap().matches('a').count(),
        note.len()
    );
}
