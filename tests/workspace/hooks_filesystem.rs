//! The hook that adds tools for files, and tracks written files.

use std::sync::Arc;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hook::before_agent;
use agentcore::hooks::FilesystemHook;
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::tools::EditPolicy;
use agentcore::{Hook, Messages, Result, RunOutput, SdkMessage, async_trait};
use serde_json::{Value, json};

use crate::kit::hooks::{golden, pretty};
use crate::kit::{agent, result_texts, warnings, watch};

const SEVEN: [&str; 7] = [
    "ls",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "execute",
];

/// Runs an agent that makes these calls in one turn each. Returns the messages and the output.
async fn run<const N: usize>(
    hook: FilesystemHook,
    calls: [(&'static str, Value); N],
) -> (Vec<SdkMessage>, RunOutput) {
    let model = calls
        .into_iter()
        .fold(ScriptedModel::new(), |model, (name, args)| {
            model.call(name, args)
        })
        .say("done");
    let agent = agent(model).hook(hook).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    (messages, output.unwrap())
}

fn changed_files(messages: &[SdkMessage]) -> Vec<Vec<String>> {
    let changes = messages.iter().filter_map(|message| match message {
        SdkMessage::System(event) => match &event.kind {
            SystemKind::StateChanged { files, .. } => files.clone(),
            _ => None,
        },
        _ => None,
    });
    changes.collect()
}

#[tokio::test]
async fn filesystem_hook_adds_seven_tools() {
    let hook = FilesystemHook::new(MemoryBackend::new());
    assert_eq!(hook.tools(), SEVEN);
    assert_eq!(hook.phases().to_string(), "before_agent, wrap_tool_call");
    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone()).hook(hook).build().unwrap();
    agent.run("Go").await.unwrap();
    let request = &model.requests()[0];
    let definitions = request.tools.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "parameters": *tool.parameters})
    });

    let definitions: Vec<Value> = definitions.collect();
    assert_eq!(
        pretty(&definitions),
        golden(include_str!("../data/hooks/filesystem_tools.json"))
    );
}

#[tokio::test]
async fn filesystem_tools_operate_on_the_backend() {
    let backend = MemoryBackend::new();
    let (_, output) = run(
        FilesystemHook::new(backend.clone()),
        [
            (
                "write_file",
                json!({"path": "a/b.txt", "content": "one two one\n"}),
            ),
            (
                "edit_file",
                json!({"path": "a/b.txt", "old_text": "one", "new_text": "1"}),
            ),
            ("read_file", json!({"file_path": "/workspace/a/b.txt"})),
            ("ls", json!({"path": "a"})),
            ("glob", json!({"pattern": "*.txt"})),
            ("grep", json!({"pattern": "two"})),
            ("execute", json!({"command": "true"})),
        ],
    )
    .await;
    let texts = result_texts(&output.messages);
    assert_eq!(texts[0], "File written: a/b.txt (12 bytes, 1 line)");
    assert!(texts[1].starts_with("Edited a/b.txt (1 replacement)"));
    assert_eq!(texts[2], "1 two one\n");
    assert_eq!(texts[3], r#"[{"name":"b.txt","size":10,"type":"file"}]"#);
    assert_eq!(texts[4], "a/b.txt");
    assert_eq!(texts[5], "a/b.txt:1:1 two one");
    assert_eq!(texts[6], "Error: this backend runs no commands");
}

#[tokio::test]
async fn written_and_edited_files_are_tracked() {
    let backend = MemoryBackend::new();
    backend.write("old.txt", b"red red").await.unwrap();
    let (messages, output) = run(
        FilesystemHook::new(backend),
        [
            (
                "write_file",
                json!({"path": "./a/../new.txt", "content": "x"}),
            ),
            (
                "edit_file",
                json!({"path": "old.txt", "old_text": "red", "new_text": "blue"}),
            ),
            (
                "write_file",
                json!({"file_path": "/workspace/new.txt", "content": "y"}),
            ),
            (
                "edit_file",
                json!({"path": "old.txt", "old_text": "none", "new_text": "?"}),
            ),
            ("write_file", json!({"path": "../out.txt", "content": "z"})),
            ("read_file", json!({"path": "old.txt"})),
        ],
    )
    .await;
    let files: Vec<_> = output
        .state
        .files
        .iter()
        .map(|(path, content)| (&**path, &**content))
        .collect();
    assert_eq!(
        files,
        [
            ("/workspace/new.txt", "y"),
            ("/workspace/old.txt", "blue red"),
        ]
    );

    // Each message has only the files that changed.
    assert_eq!(
        changed_files(&messages),
        [
            ["/workspace/new.txt"],
            ["/workspace/old.txt"],
            ["/workspace/new.txt"],
        ]
    );
}

#[tokio::test]
async fn tracked_files_are_stored_in_the_session() {
    let model = ScriptedModel::new()
        .call("write_file", json!({"path": "a", "content": "1"}))
        .say("done")
        .call("write_file", json!({"path": "b", "content": "2"}))
        .say("done");
    let hook = FilesystemHook::new(MemoryBackend::new());
    let agent = agent(model).hook(hook).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let output = agent.session("s").run("Go on").await.unwrap();
    assert_eq!(output.state.files.len(), 2);
    let stored = agent.session("s").state().await.unwrap().unwrap();
    let stored = serde_json::to_value(&stored).unwrap();
    assert_eq!(
        stored["files"],
        json!({"/workspace/a": "1", "/workspace/b": "2"})
    );
}

/// A compactor that is due from the third message on.
struct Always;

#[async_trait]
impl Compactor for Always {
    fn should_compact(&self, messages: &Messages, _: u64, _: &ModelProfile) -> bool {
        messages.len() > 2
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        let through = request.messages.len();
        Ok(Some(Compaction::new("It wrote a file.", through)))
    }
}

#[tokio::test]
async fn tracked_files_are_kept_after_compaction() {
    let model = ScriptedModel::new()
        .call("write_file", json!({"path": "a", "content": "1"}))
        .say("done");
    let agent = agent(model)
        .hook(FilesystemHook::new(MemoryBackend::new()))
        .compactor(Always)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert!(output.state.compaction.is_some());
    assert_eq!(&*output.state.files["/workspace/a"], "1");
    let stored = agent.session("s").state().await.unwrap().unwrap();
    assert_eq!(stored.files, output.state.files);
}

#[tokio::test]
async fn paths_of_empty_files_count_toward_the_limit() {
    let fill = before_agent("fill", |_, mut state| async {
        let path = |number| format!("/workspace/{number:04000}").into();
        let files = (0..8_000).map(|number| (path(number), "".into()));
        Arc::make_mut(&mut state.files).extend(files);
        Ok(state)
    });
    let model = ScriptedModel::new()
        .call("write_file", json!({"path": "empty", "content": ""}))
        .say("done");
    let agent = agent(model)
        .hook(fill)
        .hook(FilesystemHook::new(MemoryBackend::new()))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let text = "filesystem: /workspace/empty is not kept in the state: all files in it would have \
                more than 33554432 bytes";
    assert_eq!(warnings(&messages), [text]);
    assert_eq!(output.unwrap().state.files.len(), 8_000);
}

#[tokio::test]
async fn large_and_binary_files_are_not_tracked() {
    let backend = MemoryBackend::new();
    backend.write("binary", b"\xff mark").await.unwrap();
    let (messages, output) = run(
        FilesystemHook::new(backend).track_up_to(4),
        [
            ("write_file", json!({"path": "kept", "content": "1234"})),
            ("write_file", json!({"path": "grown", "content": "1"})),
            ("write_file", json!({"path": "grown", "content": "12345"})),
            (
                "edit_file",
                json!({"path": "binary", "old_text": " mark", "new_text": ""}),
            ),
        ],
    )
    .await;
    let paths: Vec<_> = output.state.files.keys().map(|path| &**path).collect();
    assert_eq!(paths, ["/workspace/kept"]);
    assert_eq!(
        warnings(&messages),
        ["filesystem: /workspace/grown is not kept in the state: it is larger than 4 bytes"]
    );
    assert_eq!(
        changed_files(&messages).len(),
        3,
        "the last message removes the file"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn file_over_the_limit_of_the_backend_is_tracked_as_a_whole_or_not_at_all() {
    const MIB: usize = 1024 * 1024;
    let content = "x".repeat(MIB + 1_000);
    for (limit, count) in [(MIB, 0), (2 * MIB, 1)] {
        let workspace = tempfile::tempdir().unwrap();
        let backend = agentcore::backend::LocalBackend::new(workspace.path()).unwrap();
        let backend = backend.with_max_read(MIB as u64);
        let (messages, output) = run(
            FilesystemHook::new(backend).track_up_to(limit),
            [("write_file", json!({"path": "a", "content": content}))],
        )
        .await;
        let files = &output.state.files;
        assert_eq!((files.len(), warnings(&messages).len()), (count, 1 - count));
        assert!(files.values().all(|text| **text == *content), "{limit}");
    }
}

#[tokio::test]
async fn edit_policy_can_be_set() {
    for (policy, expected) in [
        (EditPolicy::First, Ok("2 1")),
        (EditPolicy::All, Ok("2 2")),
        (EditPolicy::Unique, Err("was found 2 times")),
    ] {
        let backend = MemoryBackend::new();
        backend.write("a", b"1 1").await.unwrap();
        let edit = json!({"path": "a", "old_text": "1", "new_text": "2"});
        let hook = FilesystemHook::new(backend).edit_policy(policy);
        let (_, output) = run(hook, [("edit_file", edit)]).await;
        match expected {
            Ok(content) => assert_eq!(&*output.state.files["/workspace/a"], content),
            Err(text) => assert!(result_texts(&output.messages)[0].contains(text)),
        }
    }
}

#[tokio::test]
async fn keys_are_redacted_from_tracked_files() {
    let key = agentcore::Secret::new("sk-canary-of-tracked-files");
    let backend = MemoryBackend::new();
    let file = format!("KEY={}\nDEBUG=0\n", key.expose());
    backend.write(".env", file.as_bytes()).await.unwrap();
    let (messages, output) = run(
        FilesystemHook::new(backend.clone()),
        [(
            "edit_file",
            json!({"path": ".env", "old_text": "DEBUG=0", "new_text": "DEBUG=1"}),
        )],
    )
    .await;
    assert_eq!(
        &*output.state.files["/workspace/.env"],
        "KEY=[redacted]\nDEBUG=1\n"
    );
    let json = serde_json::to_string(&messages).unwrap();
    assert!(!json.contains(key.expose()));
    let file = backend.read(".env").await.unwrap();
    assert!(file.starts_with(b"KEY=sk-canary"), "the file has it");
}

#[tokio::test]
async fn files_beyond_what_the_state_may_hold_are_left_out_with_a_warning() {
    let backend = MemoryBackend::new();
    let content = "x".repeat(1024 * 1024 - 300);
    let mut model = ScriptedModel::new();
    for n in 0..34 {
        let path = format!("f{n}");
        backend.write(&path, content.as_bytes()).await.unwrap();
        let args = json!({"path": path, "old_text": "x", "new_text": "yy"});
        model = model.call("edit_file", args);
    }

    let again = json!({"path": "f0", "old_text": "yy", "new_text": "zz"});
    let model = model.call("edit_file", again).say("done");
    let agent = agent(model).hook(FilesystemHook::new(backend));
    let agent = agent.build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let files = output.unwrap().state.files.clone();
    assert_eq!(files.len(), 32);
    assert!(
        files["/workspace/f0"].starts_with("zz"),
        "a file that is already kept may change"
    );
    let warnings = warnings(&messages);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("33554432 bytes"), "{warnings:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn limits_of_commands_replace_those_of_the_backend() {
    use std::time::Duration;

    use agentcore::backend::LocalBackend;

    use crate::kit::processes::{timed_out, written};

    let limit = Duration::from_millis(60_300);
    let folder = tempfile::tempdir().unwrap();
    let backend = LocalBackend::new(folder.path()).unwrap();
    let backend = backend
        .with_timeout(Duration::from_secs(600))
        .with_max_output(50_000);
    let hook = FilesystemHook::new(backend)
        .command_timeout(limit)
        .max_command_output(1_000);
    let model = ScriptedModel::new()
        .call("execute", json!({"command": ": > up; sleep 600"}))
        .call(
            "execute",
            json!({"command": "head -c 20000 /dev/zero | tr '\\0' x"}),
        )
        .say("done");
    let agent = agent(model).hook(hook).build().unwrap();
    let up = folder.path().join("up");
    let run = async { agent.run("Go").await.unwrap() };
    let (output, ()) = timed_out(run, written(&up), limit).await;
    let results = output
        .messages
        .iter()
        .filter_map(|message| message.as_tool_result());
    let texts: Vec<_> = results
        .map(|result| result.content.text().into_owned())
        .collect();
    assert!(
        texts[0].contains("timed out after 60.3 seconds"),
        "{}",
        texts[0]
    );
    let length = texts[1].matches('x').count();
    assert!((900..=1_100).contains(&length), "{length}");
}
