//! The remaining texts of long results, the place that they are moved to, and their removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::FilesystemHook;
use agentcore::testing::ScriptedModel;
use agentcore::{FuncTool, ToolOutput, ToolResult};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::kit::watched::Watched;
use crate::kit::{agent, any_object, result_texts, results, warnings, watch};

/// Returns the path in a marker.
fn path_of(text: &str) -> &str {
    let (_, rest) = text.split_once("full result: ").unwrap();
    rest.split_once(')').unwrap().0
}

/// A tool that returns its `text`.
fn say() -> FuncTool {
    FuncTool::new("say", "Says it", any_object(), |_cx, args| async move {
        args["text"].as_str().unwrap().to_owned()
    })
}

/// Returns the result of a tool that returns `output`.
async fn result(hook: FilesystemHook, output: ToolOutput) -> ToolResult {
    let tool = FuncTool::new("give", "Gives it", any_object(), move |_cx, _args| {
        let output = output.clone();
        async move { output }
    });
    let model = ScriptedModel::new().call("give", json!({})).say("done");
    let agent = agent(model).hook(hook).tool(tool).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    results(&output.messages).remove(0)
}

#[tokio::test]
async fn texts_of_any_length_are_whole_or_readable_from_the_file() {
    for (over, head, tail) in [(20, 3, 4), (20, 0, 0), (20, 12, 8), (0, 1, 0), (20, 0, 30)] {
        let backend = MemoryBackend::new();
        let hook = FilesystemHook::new(backend.clone())
            .evict_over(over)
            .keep_ends(head, tail);
        let all: Vec<String> = ["a", "é", "€", "😀", "a\u{301}"]
            .into_iter()
            .flat_map(|unit| (1..30).chain(180..200).map(|count| unit.repeat(count)))
            .collect();
        let calls = all.iter().map(|text| ("say", json!({"text": text})));
        let model = ScriptedModel::new().calls(calls).say("done");
        let agent = agent(model).hook(hook).tool(say()).build().unwrap();
        let output = agent.session("s").run("Go").await.unwrap();
        for (whole, text) in all.iter().zip(result_texts(&output.messages)) {
            let chars: Vec<char> = whole.chars().collect();
            if !text.contains("full result: ") {
                assert_eq!(text, *whole, "over {over}, ends {head} and {tail}");

                // The text is shorter than its marker would be.
                assert!(chars.len() < 150, "{} characters stay", chars.len());
                continue;
            }

            assert!(chars.len() > over.max(head + tail) && text.chars().count() < chars.len());
            let path = path_of(&text);
            assert_eq!(backend.read(path).await.unwrap(), *whole);
            let removed_count = chars.len() - head - tail;
            let start: String = chars[..head].iter().collect();
            let end: String = chars[chars.len() - tail..].iter().collect();
            assert_eq!(
                text,
                format!(
                    "{start}\n\n... (truncated {removed_count} characters; full result: {path}) ...\n\n{end}"
                )
            );
        }
    }
}

#[cfg(all(unix, feature = "jsonl"))]
#[tokio::test]
async fn complete_command_output_is_only_in_the_moved_file() {
    let workspace = crate::kit::workspace::Workspace::new();
    let store = agentcore::session::JsonlStore::open(&workspace.out).unwrap();
    let command = json!({"command": "seq 1 40000; seq 50000 90000 >&2; exit 3"});
    let model = ScriptedModel::new().call("execute", command).say("done");
    let hook = FilesystemHook::new(workspace.backend.clone());
    let agent = agent(model).hook(hook).store(store).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let output = output.unwrap();
    let result = results(&output.messages).remove(0);
    let details = result.details.unwrap();
    assert_eq!(details["exit_code"], 3);
    assert_eq!(details["stdout_bytes"], 228_894);
    for (name, first, last) in [
        ("stdout", "1\n2\n", "40000\n"),
        ("stderr", "50000\n", "90000\n"),
    ] {
        let text = details[name].as_str().unwrap();
        assert!(text.starts_with(first) && text.ends_with(last), "{text}");
        assert_eq!(path_of(text), path_of(&result.content.text()));
    }

    // The middle of both texts, as JSON.
    let is_in = |text: &str| text.contains("20000\\n20001") || text.contains("70000\\n70001");
    let stream = serde_json::to_string(&messages).unwrap();
    assert!(!is_in(&stream), "the stream has it");
    let state = serde_json::to_string(&output.state).unwrap();
    assert!(!is_in(&state), "the state has it");
    for entry in std::fs::read_dir(&workspace.out).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let stored = std::fs::read(&path).unwrap();
            assert!(!is_in(&String::from_utf8_lossy(&stored)), "{path:?} has it");
        }
    }
}

#[tokio::test]
async fn display_and_details_of_a_moved_result_are_cut() {
    let hook = || {
        FilesystemHook::new(MemoryBackend::new())
            .evict_over(1_000)
            .keep_ends(10, 10)
    };

    let long = "ä".repeat(2_000);
    let mut output = ToolOutput::new(long.as_str())
        .with_details(json!({"rows": [{"text": long, "n": 1}, "short"], "ok": true}));
    output.display = Some(long.clone());
    let moved = result(hook(), output).await;
    let text = moved.content.text().into_owned();
    assert!(text.starts_with(&"ä".repeat(10)) && text.contains("truncated 1980"));
    let details = moved.details.unwrap();
    assert_eq!(details["rows"][0], json!({"text": text, "n": 1}));
    assert_eq!(
        (&details["rows"][1], &details["ok"]),
        (&"short".into(), &true.into())
    );
    assert_eq!(moved.display.unwrap(), text);

    // Details with short texts stay, and so do texts that a marker would make longer.
    let few = json!({"text": "x".repeat(40)});
    let output = ToolOutput::new(long.as_str()).with_details(few.clone());
    assert_eq!(result(hook(), output).await.details, Some(few));

    // Long details without long texts are removed.
    let many: Vec<u32> = (0..40_000).collect();
    let output = ToolOutput::new(long.as_str()).with_details(many.clone());
    assert_eq!(result(hook(), output).await.details, None);

    // The details of a result that stays are not changed.
    let output = ToolOutput::new("short").with_details(many.clone());
    assert_eq!(result(hook(), output).await.details, Some(many.into()));
}

#[tokio::test]
async fn file_in_place_of_the_results_folder_keeps_results_in_the_state() {
    for file in [".agentcore", ".agentcore/tool-results"] {
        let backend = MemoryBackend::new();
        backend.write(file, b"in the way").await.unwrap();
        let hook = FilesystemHook::new(backend.clone())
            .evict_over(50)
            .keep_ends(1, 1);
        let text = "0123456789".repeat(20);
        let calls = [
            ("say", json!({"text": text})),
            ("say", json!({"text": text})),
        ];
        let model = ScriptedModel::new().calls(calls).say("done");
        let agent = agent(model).hook(hook).tool(say()).build().unwrap();
        let (messages, output) = watch(agent.session("s").run("Go")).await;
        let output = output.unwrap();
        assert_eq!(warnings(&messages).len(), 2, "{:?}", warnings(&messages));
        for result in result_texts(&output.messages) {
            assert_eq!(*output.state.files[path_of(&result)], text);
        }

        assert_eq!(backend.read(file).await.unwrap(), "in the way");
    }
}

/// Files in memory, some of which appear to be old.
struct Dated {
    backend: Watched,
    old: Arc<Mutex<BTreeSet<String>>>,
}

impl Dated {
    fn new() -> Self {
        let old = Arc::<Mutex<BTreeSet<String>>>::default();
        let old_paths = old.clone();
        let backend = Watched::new(MemoryBackend::new()).on_stat(move |path, metadata| {
            let old_paths = old_paths.lock().unwrap();
            let is_old = old_paths.iter().any(|old| path.ends_with(old));
            let age = Duration::from_secs(if is_old { 31 } else { 29 } * 24 * 60 * 60);
            metadata.with_modified(SystemTime::now() - age)
        });
        Self { backend, old }
    }

    /// Runs a session with one result that is moved. Returns the files that exist afterwards.
    async fn moves(&self, hook: &FilesystemHook, session: &str) -> BTreeMap<String, Bytes> {
        let text = json!({"text": "0123456789".repeat(20)});
        let model = ScriptedModel::new().call("say", text).say("done");
        let agent = agent(model).hook(hook.clone()).tool(say()).build().unwrap();
        let (messages, output) = watch(agent.session(session).run("Go")).await;
        output.unwrap();
        assert_eq!(warnings(&messages), Vec::<String>::new());
        let mut files = self.backend.files.files();
        files.remove(".agentcore/tool-results/.gitignore").unwrap();
        files
    }

    fn age(&self, path: &str) {
        self.old.lock().unwrap().insert(path.to_owned());
    }
}

fn moving(backend: &Dated) -> FilesystemHook {
    FilesystemHook::new(backend.backend.clone())
        .evict_over(8)
        .keep_ends(1, 1)
}

#[tokio::test(start_paused = true)]
async fn results_are_removed_after_thirty_days() {
    let backend = Dated::new();
    let foreign = ".agentcore/tool-results/one/notes.txt";
    backend.backend.files.write(foreign, b"mine").await.unwrap();
    backend.age(foreign);
    let hook = moving(&backend);
    let first = backend.moves(&hook, "one").await;
    let of_one = first.keys().find(|path| *path != foreign).unwrap().clone();
    assert_eq!(first.len(), 2);
    backend.age(&of_one);

    // This hook has searched for old results recently; other hooks have not.
    assert_eq!(backend.moves(&hook, "two").await.len(), 3);
    tokio::time::advance(Duration::from_secs(24 * 60 * 60)).await;
    let keeps = moving(&backend).keep_results_for(Duration::MAX);
    assert_eq!(backend.moves(&keeps, "three").await.len(), 4);
    let keeps = moving(&backend).keep_results_for(Duration::from_secs(32 * 24 * 60 * 60));
    assert_eq!(backend.moves(&keeps, "four").await.len(), 5);
    let files = backend.moves(&hook, "five").await;
    assert!(
        !files.contains_key(&of_one) && files.contains_key(foreign),
        "{files:?}"
    );
    assert_eq!(files.len(), 5);
}

#[tokio::test]
async fn remove_results_removes_results_of_one_session() {
    let backend = Dated::new();
    let hook = moving(&backend);
    for session in ["a/b", "a_b", "A_b", "a_b"] {
        backend.moves(&hook, session).await;
    }

    assert_eq!(hook.remove_results("none").await.unwrap(), 0);
    assert_eq!(hook.remove_results("..").await.unwrap(), 0);
    assert_eq!(hook.remove_results("").await.unwrap(), 0);
    assert_eq!(
        hook.remove_results("a_b").await.unwrap(),
        1,
        "twice the same text"
    );
    assert_eq!(hook.remove_results("a/b").await.unwrap(), 1);
    assert_eq!(hook.remove_results("a/b").await.unwrap(), 0);
    let files = backend.backend.files.files();
    assert_eq!(
        files.keys().filter(|path| path.ends_with(".txt")).count(),
        1
    );
    let none = moving(&backend).without_eviction();
    assert_eq!(none.remove_results("A_b").await.unwrap(), 0);

    let read_only = FilesystemHook::new(Watched::read_only(backend.backend.files.clone()));
    let error = read_only.remove_results("A_b").await.unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// Moves a result for each text in one session. Returns the warnings.
async fn move_texts(hook: FilesystemHook, texts: &[String]) -> Vec<String> {
    let calls = texts.iter().map(|text| json!({"text": text}));
    let model = calls.fold(ScriptedModel::new(), |model, args| model.call("say", args));
    let agent = agent(model.say("done")).hook(hook).tool(say());
    let agent = agent.loop_detection(false).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    output.unwrap();
    warnings(&messages)
}

#[tokio::test]
async fn results_over_the_size_of_a_session_remove_its_oldest() {
    let backend = Dated::new();
    let others = backend.moves(&moving(&backend), "other").await;
    let texts = ["b", "a", "c", "d", "e"].map(|unit| unit.repeat(200));
    // The order of results from an earlier process depends only on their times.
    for text in &texts[..2] {
        move_texts(moving(&backend), std::slice::from_ref(text)).await;
    }
    let files = backend.backend.files.files();
    let oldest = files.iter().find(|(_, content)| **content == texts[0]);
    backend.age(oldest.unwrap().0);

    // No result is removed because of its age.
    let moving = || moving(&backend).keep_results_for(Duration::MAX);
    let hook = moving().keep_results_within(700);
    let warnings = move_texts(hook.clone(), &texts[2..4]).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("the 1 oldest") && warnings[0].contains("700 bytes"),
        "{warnings:?}"
    );
    let remaining = || {
        let files = backend.backend.files.files().into_iter();
        let mut files: BTreeMap<String, Bytes> = files.collect();
        files.retain(|path, _| path.ends_with(".txt") && !others.contains_key(path));
        files.into_values().collect::<BTreeSet<Bytes>>()
    };
    let expected = |texts: &[String]| {
        let contents = texts.iter().map(|text| Bytes::from(text.clone()));
        contents.collect::<BTreeSet<Bytes>>()
    };
    assert_eq!(remaining(), expected(&texts[1..4]));
    assert_eq!(move_texts(hook, &texts[4..]).await.len(), 1);
    assert_eq!(remaining(), expected(&texts[2..]));
    assert!(
        others
            .keys()
            .all(|path| backend.backend.files.files().contains_key(path))
    );

    // A single result that exceeds the limit stays.
    let hook = moving().keep_results_within(100);
    assert_eq!(move_texts(hook, &["f".repeat(300)]).await.len(), 1);
    assert_eq!(remaining(), expected(&["f".repeat(300)]));
}

#[tokio::test]
async fn details_that_are_not_objects_are_kept() {
    let values = [json!(null), json!(1.5), json!([]), json!({}), json!("x")];
    for value in values {
        let tool_output = ToolOutput::new("x".repeat(100)).with_details(value.clone());
        let hook = FilesystemHook::new(MemoryBackend::new())
            .evict_over(50)
            .keep_ends(0, 0);
        let details = result(hook, tool_output).await.details;
        assert_eq!(details.unwrap_or(Value::Null), value);
    }
}
