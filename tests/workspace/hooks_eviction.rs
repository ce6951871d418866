//! Long results that are moved out of the conversation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::FilesystemHook;
use agentcore::message::Media;
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{Content, FuncTool, Part, RunOutput, ToolCall, ToolOutput, hook};
use serde_json::{Value, json};

use crate::kit::hooks::golden;
use crate::kit::watched::Watched;
use crate::kit::workspace::Workspace;
use crate::kit::{agent, any_object, result_texts, warnings, watch};

/// A tool that always returns this text.
fn saying(text: impl Into<String>) -> FuncTool {
    named("say", text)
}

fn named(name: &str, text: impl Into<String>) -> FuncTool {
    let text = text.into();
    FuncTool::new(name, "Says something", any_object(), move |_cx, _args| {
        let text = text.clone();
        async move { text }
    })
}

fn one_call() -> ScriptedModel {
    ScriptedModel::new().call("say", json!({})).say("done")
}

async fn run(model: ScriptedModel, hook: FilesystemHook, tool: FuncTool) -> RunOutput {
    let agent = agent(model).hook(hook).tool(tool).build().unwrap();
    agent.session("s").run("Go").await.unwrap()
}

/// Returns the path in a marker.
fn path_of(text: &str) -> String {
    let (_, rest) = text.split_once("full result: ").unwrap();
    rest.split_once(')').unwrap().0.to_owned()
}

fn stored(backend: &MemoryBackend) -> Vec<String> {
    let files = backend.files();
    let files = files.keys().filter(|path| path.ends_with(".txt"));
    files.cloned().collect()
}

#[tokio::test]
async fn result_over_80000_characters_becomes_head_marker_and_tail() {
    let whole = "ä".repeat(80_000);
    let backend = MemoryBackend::new();
    let output = run(
        one_call(),
        FilesystemHook::new(backend.clone()),
        saying(&whole),
    )
    .await;
    assert_eq!(result_texts(&output.messages), [&*whole]);
    assert!(backend.files().is_empty());

    let long = format!("{whole}€");
    let output = run(
        one_call(),
        FilesystemHook::new(backend.clone()),
        saying(&long),
    )
    .await;
    let text = &result_texts(&output.messages)[0];
    let path = path_of(text);
    let head = "ä".repeat(2_000);
    let tail = format!("{}€", "ä".repeat(1_999));
    assert_eq!(
        *text,
        format!("{head}\n\n... (truncated 76001 characters; full result: {path}) ...\n\n{tail}")
    );
    assert_eq!(backend.read(&path).await.unwrap(), long.as_bytes());
    let ignore = backend.read(".agentcore/tool-results/.gitignore").await;
    assert_eq!(ignore.unwrap(), "*\n");
}

#[tokio::test]
async fn evicted_result_matches_the_recorded_text() {
    let backend = MemoryBackend::new();
    let hook = FilesystemHook::new(backend).evict_over(20).keep_ends(7, 6);
    let middle = "abcdefghij".repeat(20);
    let output = run(
        one_call(),
        hook,
        saying(format!("0123456\n{middle}\nend.\n")),
    )
    .await;
    assert_eq!(
        result_texts(&output.messages)[0],
        golden(include_str!("../data/hooks/eviction.txt"))
    );
}

#[tokio::test]
async fn moved_result_can_be_read_and_searched() {
    let whole: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let backend = MemoryBackend::new();
    let output = run(
        one_call(),
        FilesystemHook::new(backend.clone()),
        saying(&whole),
    )
    .await;
    let path = path_of(&result_texts(&output.messages)[0]);
    let model = ScriptedModel::new()
        .call("read_file", json!({"path": path}))
        .call(
            "read_file",
            json!({"path": path, "offset": 12_346, "limit": 1}),
        )
        .call("grep", json!({"pattern": "line 777$", "path": path}))
        .call("grep", json!({"pattern": "line 777$"}))
        .call("glob", json!({"pattern": "*.txt"}))
        .say("done");
    let output = run(model, FilesystemHook::new(backend), saying("")).await;
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], whole, "and it is not moved again");
    assert!(texts[1].starts_with("line 12345\n"), "{}", texts[1]);
    assert!(texts[2].ends_with(":778:line 777"), "{}", texts[2]);
    assert_eq!(texts[3], "No matches found");
    assert_eq!(texts[4], "No files found");
}

#[tokio::test]
async fn results_of_file_tools_are_not_moved() {
    let long = "x".repeat(100);
    for name in [
        "ls",
        "glob",
        "grep",
        "read_file",
        "edit_file",
        "write_file",
        "read_memory",
        "mine",
    ] {
        let backend = MemoryBackend::new();
        let hook = FilesystemHook::new(backend.clone())
            .evict_over(50)
            .keep_ends(5, 5)
            .never_evict("mine");
        // Hooks that run earlier register their tools first, and the first tool of a name is used.
        let replace = hook::before_agent_with("replace", long.clone(), move |long, _cx, state| {
            let mut state: agentcore::AgentState = state;
            state.register_tool(named(name, long));
            async move { Ok(state) }
        });
        let model = ScriptedModel::new().call(name, json!({})).say("done");
        let agent = agent(model).hook(replace).hook(hook).build().unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(result_texts(&output.messages), [&*long], "{name}");
        assert!(backend.files().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn text_of_error_results_is_moved_and_other_parts_are_kept() {
    let tool = FuncTool::new("say", "Fails", any_object(), |_cx, _args| async {
        let mut content = Content::new();
        content.push(Part::text("a".repeat(300)));
        content.push(Part::Image(Media::base64("image/png", "aGk=")));
        content.push(Part::text("b".repeat(300)));
        ToolOutput::error(content)
    });

    let backend = MemoryBackend::new();
    let hook = FilesystemHook::new(backend.clone())
        .evict_over(50)
        .keep_ends(3, 3);
    let output = run(one_call(), hook, tool).await;
    let results = crate::kit::results(&output.messages);
    let parts = results[0].content.parts();
    assert_eq!(parts.len(), 2);
    let text = parts[0].as_text().unwrap();
    assert!(text.starts_with("aaa\n\n... (truncated 594 characters; "));
    assert!(text.ends_with(") ...\n\nbbb"));
    assert!(matches!(parts[1], Part::Image(_)));
    assert!(results[0].is_error);
    let whole = format!("{}{}", "a".repeat(300), "b".repeat(300));
    assert_eq!(backend.read(&path_of(text)).await.unwrap(), whole);
}

#[tokio::test]
async fn result_that_cannot_be_written_is_kept_in_the_state() {
    let whole: String = (0..30).map(|n| format!("line {n}\n")).collect();
    let read = |path: &str| {
        [
            ("read_file", json!({"path": path})),
            (
                "read_file",
                json!({"file_path": path, "offset": 3, "limit": 2}),
            ),
            ("read_file", json!({"path": ".agentcore/tool-results/none"})),
        ]
    };

    let hook = FilesystemHook::new(Watched::read_only(MemoryBackend::new()))
        .evict_over(100)
        .keep_ends(10, 10);
    let model = one_call();
    let agent = agent(model.clone())
        .hook(hook)
        .tool(saying(&whole))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let output = output.unwrap();
    let path = path_of(&result_texts(&output.messages)[0]);
    assert_eq!(
        warnings(&messages),
        [format!(
            "filesystem: a long result of say is kept in the session's state: {path} was not \
             written: the disk is read-only"
        )]
    );
    assert_eq!(*output.state.files[&*path], whole);

    // A later run of the session can still read the file.
    let model = model.clone().calls(read(&path)).say("done");
    let output = agent.session("s").run("Read it").await.unwrap();
    drop(model);
    let texts = result_texts(&output.messages);
    assert_eq!(texts[1], whole);
    assert_eq!(
        texts[2],
        "line 2\nline 3\n... (more lines follow; continue with offset 5)"
    );
    assert!(texts[3].contains("does not exist"), "{}", texts[3]);
}

#[tokio::test]
async fn result_file_names_are_safe_and_unique() {
    let ids = ["a/b", "a_b", "A_b", "..", "", "é\n", &"x".repeat(300)].map(str::to_owned);
    let step = ids.iter().fold(Step::new(), |step, id| {
        step.and_tool_call(ToolCall::new(id.as_str(), "say", json!({})))
    });

    let model = ScriptedModel::new().step(step).say("done");
    let backend = MemoryBackend::new();
    let hook = FilesystemHook::new(backend.clone())
        .evict_over(8)
        .keep_ends(1, 1);
    let agent = agent(model)
        .hook(hook)
        .tool(saying("0123456789".repeat(40)))
        .build()
        .unwrap();
    agent.session("../up and away").run("Go").await.unwrap();
    let paths = stored(&backend);
    assert_eq!(paths.len(), ids.len(), "{paths:?}");
    for path in paths {
        let rest = path.strip_prefix(".agentcore/tool-results/___up_and_away-");
        let (hash, name) = rest.unwrap().split_once('/').unwrap();
        assert_eq!(hash.len(), 16, "{hash}");
        let name = name.strip_suffix(".txt").unwrap();
        assert!(name.len() < 100, "{name}");
        let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(name.chars().all(is_safe), "{name}");
    }
}

#[tokio::test]
async fn results_folder_can_be_set_and_its_ignore_file_is_not_trusted() {
    let backend = MemoryBackend::new();
    backend.write("big/.gitignore", b"mine").await.unwrap();
    let hook = FilesystemHook::new(backend.clone())
        .results_folder("/workspace/big/")
        .evict_over(8)
        .keep_ends(1, 1);
    run(one_call(), hook, saying("0123456789".repeat(20))).await;
    assert!(stored(&backend)[0].starts_with("big/s/call_1-"));
    assert_eq!(backend.read("big/.gitignore").await.unwrap(), "*\n");
}

#[cfg(unix)]
#[tokio::test]
async fn ignore_file_that_is_a_link_is_replaced() {
    for target in ["../../own.txt", "/etc/hostname", "missing"] {
        let workspace = Workspace::new();
        let folder = workspace.root.join(".agentcore/tool-results");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(workspace.root.join("own.txt"), "*\n").unwrap();
        let ignore = folder.join(".gitignore");
        std::os::unix::fs::symlink(target, &ignore).unwrap();
        let hook = FilesystemHook::new(workspace.backend.clone()).evict_over(8);
        run(
            one_call(),
            hook.keep_ends(1, 1),
            saying("0123456789".repeat(20)),
        )
        .await;
        assert!(!ignore.is_symlink(), "{target}");
        assert_eq!(std::fs::read_to_string(&ignore).unwrap(), "*\n", "{target}");
        assert_eq!(
            std::fs::read_to_string(workspace.root.join("own.txt")).unwrap(),
            "*\n"
        );
    }
}

#[tokio::test]
async fn result_is_not_moved_without_eviction_or_without_gain() {
    let long = "x".repeat(100_000);
    for hook in [
        FilesystemHook::new(MemoryBackend::new()).without_eviction(),
        FilesystemHook::new(MemoryBackend::new()).evict_over(100_000),
        // These ends cover the whole result.
        FilesystemHook::new(MemoryBackend::new()).keep_ends(50_000, 50_000),
        FilesystemHook::new(MemoryBackend::new()).keep_ends(usize::MAX, usize::MAX),
    ] {
        let output = run(one_call(), hook, saying(&long)).await;
        assert_eq!(result_texts(&output.messages)[0].len(), long.len());
    }
}

#[tokio::test]
async fn kept_ends_scale_with_the_limit_unless_set() {
    let long = "x".repeat(100_000);
    for (over, each) in [
        (1_000, 450),
        (400, 200),
        (300, 200),
        (0, 200),
        (4_000, 1_950),
        (10_000, 2_000),
        (80_000, 2_000),
    ] {
        let hook = FilesystemHook::new(MemoryBackend::new()).evict_over(over);
        let output = run(one_call(), hook, saying(&long)).await;
        let text = &result_texts(&output.messages)[0];
        let ends = text.split("\n\n").map(str::len);
        assert_eq!(ends.collect::<Vec<_>>()[0], each, "over {over}");
        assert!(text.contains(&format!("(truncated {} characters", 100_000 - 2 * each)));
    }

    for hook in [
        FilesystemHook::new(MemoryBackend::new())
            .keep_ends(7, 6)
            .evict_over(1_000),
        FilesystemHook::new(MemoryBackend::new())
            .evict_over(1_000)
            .keep_ends(7, 6),
    ] {
        let output = run(one_call(), hook, saying(&long)).await;
        let text = &result_texts(&output.messages)[0];
        assert!(
            text.starts_with("xxxxxxx\n") && text.ends_with("\nxxxxxx"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn result_that_would_not_shrink_is_not_moved() {
    for (length, over) in [(4_100, 4_000), (300, 250)] {
        let long = "ä".repeat(length);
        let backend = MemoryBackend::new();
        let hook = FilesystemHook::new(backend.clone()).evict_over(over);
        let hook = hook.keep_ends(length / 2 - 50, length / 2 - 50);
        let output = run(one_call(), hook, saying(&long)).await;
        assert_eq!(result_texts(&output.messages), [&*long]);
        assert!(backend.files().is_empty());
    }
}

#[tokio::test]
async fn search_for_old_results_looks_at_a_bounded_number_of_files() {
    let files = MemoryBackend::new();
    for at in 0..2_500 {
        let path = format!(".agentcore/tool-results/old{}/c-{at:016x}.txt", at % 2);
        files.write(&path, b"old").await.unwrap();
    }

    let stat_count = Arc::new(AtomicUsize::new(0));
    let count = stat_count.clone();
    let backend = Watched::new(files.clone()).on_stat(move |path, metadata| {
        count.fetch_add(usize::from(path.contains("/old")), Ordering::Relaxed);
        metadata.with_modified(UNIX_EPOCH)
    });
    let hook = FilesystemHook::new(backend);
    run(one_call(), hook, saying("x".repeat(100_000))).await;
    // The search may or may not include the new result among the first thousand.
    assert!((999..=1_000).contains(&stat_count.load(Ordering::Relaxed)));
    assert_eq!(stored(&files).len(), 2_500 - 1_000 + 1);
}

#[tokio::test]
async fn results_that_cannot_be_written_take_bounded_memory() {
    let long = "x".repeat(1_000_000);
    let mut model = ScriptedModel::new();
    for _ in 0..20 {
        model = model.call("say", json!({}));
    }

    let hook = FilesystemHook::new(Watched::read_only(MemoryBackend::new()));
    let agent = agent(model.say("done"))
        .hook(hook)
        .tool(saying(&long))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let len: usize = output
        .unwrap()
        .state
        .files
        .values()
        .map(|file| file.len())
        .sum();
    assert!((8_000_000..=16 * 1024 * 1024).contains(&len), "{len}");
    let lost = warnings(&messages);
    assert!(lost.last().unwrap().contains("is not kept"), "{lost:?}");
}

#[tokio::test]
async fn complete_command_output_is_moved() {
    let workspace = Workspace::new();
    let model = ScriptedModel::new()
        .call("execute", json!({"command": "seq 1 40000"}))
        .call("grep", json!({"pattern": "20000"}))
        .say("done");
    let hook = FilesystemHook::new(workspace.backend.clone());
    let agent = agent(model).hook(hook).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    let path = path_of(&texts[0]);
    let lines: Vec<Value> = workspace
        .backend
        .read(&path)
        .await
        .unwrap()
        .split(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines, (1..=40_000).map(Value::from).collect::<Vec<_>>());
    assert_eq!(texts[1], "No matches found");
}

/// Blocks the only thread for blocking work until another task increments the counter.
fn occupy(count: &Arc<AtomicUsize>) {
    let (count, start) = (count.clone(), count.load(Ordering::SeqCst));
    drop(tokio::task::spawn_blocking(move || {
        while count.load(Ordering::SeqCst) <= start {
            std::thread::yield_now();
        }
    }));
}

#[test]
fn other_tasks_run_while_long_results_are_limited_and_moved() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    runtime
        .unwrap()
        .block_on(limit_and_move_beside_another_task());
}

async fn limit_and_move_beside_another_task() {
    let at_returns = Arc::new(Mutex::new(Vec::new()));
    let at_results = Arc::new(Mutex::new(Vec::new()));
    let at_writes = Arc::new(Mutex::new(Vec::new()));
    let count = Arc::new(AtomicUsize::new(0));
    let backend = Watched::new(MemoryBackend::new()).on_change({
        let (count, at_writes) = (count.clone(), at_writes.clone());
        move |path| {
            if path.ends_with(".txt") {
                let now = count.load(Ordering::SeqCst);
                at_writes.lock().unwrap().push(now);
            }
            Ok(())
        }
    });
    let ticking = tokio::spawn({
        let count = count.clone();
        async move {
            loop {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        }
    });

    let text = "é\u{1}".repeat(300_000);
    let noting = hook::wrap_tool_call("note", {
        let (count, at_results) = (count.clone(), at_results.clone());
        move |call, next| {
            let (count, at_results) = (count.clone(), at_results.clone());
            async move {
                let result = next.run(call).await?;
                let now = count.load(Ordering::SeqCst);
                at_results.lock().unwrap().push(now);
                occupy(&count);
                Ok(result)
            }
        }
    });
    let say = FuncTool::new("say", "Says something", any_object(), {
        let (text, at_returns) = (text.clone(), at_returns.clone());
        move |_cx, _args| {
            let (count, at_returns, text) = (count.clone(), at_returns.clone(), text.clone());
            async move {
                at_returns
                    .lock()
                    .unwrap()
                    .push(count.load(Ordering::SeqCst));
                occupy(&count);
                text
            }
        }
    });

    let agent = agent(one_call())
        .hook(FilesystemHook::new(backend.clone()))
        .hook(noting)
        .tool(say)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    ticking.abort();
    let path = path_of(&result_texts(&output.messages)[0]);
    assert_eq!(backend.read(&path).await.unwrap(), text.as_bytes());

    let counts = [&at_returns, &at_results, &at_writes].map(|list| list.lock().unwrap()[0]);
    assert!(counts[0] < counts[1], "limited: {counts:?}");
    assert!(counts[1] < counts[2], "moved: {counts:?}");
}
