//! The changes that are stored, and the effects and reports of a rewind.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::backend::{Backend, LocalBackend, MemoryBackend};
use agentcore::hooks::{FileCheckpoints, FilesystemHook, RewindMode, RewindOutcome};
use agentcore::testing::{ScriptedModel, conformance};
use agentcore::tools::preset;
use agentcore::{AgentBuilder, AgentState, ErrorKind, FuncTool, Hook, ToolRegistry, hook};
use serde_json::{Value, json};

use super::{Place, rewind, told, tree};
use crate::kit::{any_object, results};

type Preset = fn(FileCheckpoints) -> ToolRegistry;

/// Checks every tool of this crate that writes.
#[tokio::test]
async fn writes_of_every_tool_are_undone() {
    let args = |path: &str, more: Value| {
        let mut args = json!({"file_path": path});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };

    let old = |name: &str| json!({format!("old_{name}"): "one", format!("new_{name}"): "two"});
    let presets: [(Preset, Vec<(&str, Value)>); 3] = [
        (
            |files| preset::coding(files),
            vec![
                ("Write", args("new/a", json!({"content": "new"}))),
                ("Write", args("old", json!({"content": "other"}))),
                ("Edit", args("edited", old("string"))),
            ],
        ),
        (
            |files| preset::wick(files),
            vec![
                ("write_file", args("new/a", json!({"content": "new"}))),
                ("write_file", args("old", json!({"content": "other"}))),
                ("edit_file", args("edited", old("text"))),
            ],
        ),
        (
            |files| preset::picoclaw(files),
            vec![
                ("append_file", args("new/a", json!({"content": "new"}))),
                ("append_file", args("old", json!({"content": "other"}))),
                ("append_file", args("old", json!({"content": "more"}))),
                ("edit_file", args("edited", old("text"))),
            ],
        ),
    ];
    for (preset, calls) in presets {
        let place = Place::new();
        place.put("old", "old");
        place.put("edited", "one\nthree\n");
        let before = tree(&place.root());
        let files = place.files();
        let model = calls
            .into_iter()
            .fold(ScriptedModel::new(), |model, (name, args)| {
                model.call(name, args)
            });
        let agent = AgentBuilder::new(model.say("done"))
            .registry(&preset(files.clone()))
            .hook(files.clone())
            .build()
            .unwrap();
        let output = agent.session("s").run("Go").await.unwrap();
        assert!(
            results(&output.messages)
                .iter()
                .all(|result| !result.is_error)
        );
        assert_eq!(tree(&place.root()).len(), 3);

        let files = place.files();
        let changes = rewind(&files, 0).await;
        assert_eq!(
            changes,
            [
                "change edited: done",
                "delete new/a: done",
                "change old: done"
            ]
        );
        assert_eq!(tree(&place.root()), before);
        assert!(rewind(&files, 0).await.is_empty());
    }
}

#[tokio::test]
async fn dry_run_reports_planned_changes_and_changes_nothing() {
    let place = Place::new();
    place.put("text", "a\nb\nc\n");
    place.put("bytes", b"\xff\x00");
    place.put("gone", "one\ntwo\n");
    let files = place.files();
    let ops = json!([
        ["write", "text", "a\nB\nc\nd\n"],
        ["write", "bytes", "text"],
        ["remove", "gone"],
        ["write", "new", "1\n2\n3\n"]
    ]);
    place.changes(&files, ops).await;
    let (after, kept) = (tree(&place.root()), tree(&place.folder()));
    let would = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    let root = place.root();
    let root = root.display();
    assert_eq!(
        would.to_string(),
        format!(
            "change {root}/bytes (4 to 2 bytes)\ncreate {root}/gone (+2 -0 lines)\n\
             delete {root}/new (+0 -3 lines)\nchange {root}/text (+1 -2 lines)\n"
        )
    );
    assert!(!would.is_complete());
    assert_eq!(
        serde_json::to_value(&would).unwrap()[1],
        json!({
            "path": format!("{root}/gone"), "action": "create", "outcome": "planned",
            "bytes_now": 0, "bytes_then": 8, "lines_added": 2, "lines_removed": 0
        })
    );
    assert_eq!((tree(&place.root()), tree(&place.folder())), (after, kept));
    assert!(
        files
            .rewind("s", 0, RewindMode::SkipChanged)
            .await
            .unwrap()
            .is_complete()
    );
    assert_eq!(place.get("gone").as_deref(), Some("one\ntwo\n"));
    assert_eq!(fs::read(place.root().join("bytes")).unwrap(), b"\xff\x00");
}

#[tokio::test]
async fn file_modes_are_restored() {
    let place = Place::new();
    place.put("run.sh", "#!/bin/sh\n");
    place.put("secret", "key");
    let mode = |path: &str, mode: u32| {
        let path = place.root().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };

    mode("run.sh", 0o755);
    mode("secret", 0o600);
    let before = tree(&place.root());
    let files = place.files();
    let ops = json!([
        ["remove", "run.sh"],
        ["write", "secret", "x"],
        ["mode", "secret", "644"]
    ]);
    let first = place.changes(&files, ops).await;

    // Only the mode is different.
    place
        .changes(&files, json!([["mode", "secret", "640"]]))
        .await;
    let second = files
        .rewind("s", first + 4, RewindMode::SkipChanged)
        .await
        .unwrap();
    assert_eq!(told(&second), ["change secret: done"]);
    assert_eq!(
        (
            second.changes[0].lines_added,
            second.changes[0].lines_removed
        ),
        (Some(0), Some(0))
    );
    rewind(&files, first).await;
    assert_eq!(tree(&place.root()), before);
}

#[tokio::test]
async fn paths_through_links_are_one_file() {
    let place = Place::new();
    place.put("a", "one");
    place.put("d/e/b", "two");
    symlink("a", place.root().join("link")).unwrap();
    symlink(place.root().join("d/e"), place.root().join("folder")).unwrap();
    symlink("new", place.root().join("nowhere")).unwrap();
    let before = tree(&place.root());
    let files = place.files();
    let ops = json!([
        ["write", "link", "1"],
        ["append", place.root().join("a"), "2"],
        ["write", "folder/b", "3"],
        ["write", "./d/../d/e/b", "4"],
        ["write", "folder/../c", "5"],
        ["write", "nowhere", "6"]
    ]);
    place.changes(&files, ops).await;
    assert_eq!(
        place.get("d/c").as_deref(),
        Some("5"),
        "links are resolved first"
    );
    assert_eq!(place.get("new").as_deref(), Some("6"));
    let listed = files.checkpoints("s").await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].files.len(), 4, "{:?}", listed[0].files);
    let changes = rewind(&files, 0).await;
    let expected = [
        "change a: done",
        "delete d/c: done",
        "change d/e/b: done",
        "delete new: done",
    ];
    assert_eq!(changes, expected);
    assert_eq!(tree(&place.root()), before);
    assert!(rewind(&files, 0).await.is_empty());
}

#[tokio::test]
async fn rewind_never_writes_outside_the_workspace() {
    let place = Place::new();
    let out = place.root().parent().unwrap().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("secret"), "mine").unwrap();
    symlink(&out, place.root().join("out")).unwrap();
    place.put("d/secret", "the agent's");
    let files = place.files();
    for path in ["../out/secret", "out/secret"] {
        let ops = json!({"ops": [["write", path, "x"]]});
        let output = place.message(&files, vec![("change", ops)]).await;
        assert!(
            results(&output.messages)
                .iter()
                .all(|result| result.is_error)
        );
    }

    place
        .changes(&files, json!([["write", "d/secret", "x"]]))
        .await;

    // A link replaces the folder: its target must not change.
    fs::remove_dir_all(place.root().join("d")).unwrap();
    symlink(&out, place.root().join("d")).unwrap();
    assert_eq!(rewind(&files, 0).await, ["change d/secret: failed"]);
    fs::remove_file(place.root().join("d")).unwrap();
    fs::create_dir(place.root().join("e")).unwrap();
    place.put("e/secret", "other");
    symlink("e", place.root().join("d")).unwrap();
    let forced = files.rewind("s", 0, RewindMode::Overwrite).await.unwrap();
    assert_eq!(told(&forced), ["change d/secret: failed"]);
    assert_eq!(fs::read(out.join("secret")).unwrap(), b"mine");
    assert_eq!(place.get("e/secret").as_deref(), Some("other"));
}

#[tokio::test]
async fn files_that_were_not_kept_are_reported() {
    let place = Place::new();
    place.put("large", "0123456789a");
    place.put("small", "0123456789");
    symlink("small", place.root().join("link")).unwrap();
    let files = place.files().max_file_size(10);
    let ops = json!([
        ["write", "large", "x"],
        ["write", "small", "x"],
        ["remove", "link"]
    ]);
    place.changes(&files, ops).await;
    let report = files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    assert_eq!(
        told(&report),
        [
            "change large: not kept",
            "change link: not kept",
            "change small: done"
        ]
    );
    assert!(!report.is_complete());
    let why = |at: usize| match &report.changes[at].outcome {
        RewindOutcome::NotKept(why) => why.clone(),
        other => panic!("{other:?}"),
    };

    assert_eq!(why(0), "it had 11 bytes, more than the 10 that are kept");
    assert_eq!(why(1), "it was a symbolic link");
    assert_eq!(place.get("large").as_deref(), Some("x"));
    assert_eq!(place.get("small").as_deref(), Some("0123456789"));
}

#[tokio::test]
async fn checkpoints_in_memory_are_bounded() {
    let place = Place::new();
    let large = "line\n".repeat(4_000_000);
    place.put("a", &large);
    place.put("b", &large);
    place.put("small", "before");
    let files = FileCheckpoints::new(LocalBackend::new(place.root()).unwrap());
    let ops = json!([
        ["write", "a", "x"],
        ["write", "b", "x"],
        ["write", "small", "x"]
    ]);
    place.changes(&files, ops).await;
    let report = files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    let expected = ["change a: done", "change b: not kept", "change small: done"];
    assert_eq!(told(&report), expected);
    let RewindOutcome::NotKept(why) = &report.changes[1].outcome else {
        panic!("{:?}", report.changes[1].outcome);
    };

    assert!(why.contains("in memory take at most 33554432"), "{why}");
}

/// The limit on reads of a backend does not limit checkpoints.
#[tokio::test]
async fn file_over_the_read_limit_is_kept_in_pieces() {
    let place = Place::new();
    let large = "line\n".repeat(500_000);
    place.put("large", &large);
    let backend = LocalBackend::new(place.root()).unwrap().with_max_read(1000);
    let files = FileCheckpoints::open(backend, place.folder()).unwrap();
    let at = place
        .changes(&files, json!([["append", "large", "more"]]))
        .await;
    assert_eq!(rewind(&files, at).await, ["change large: done"]);
    assert!(place.get("large").as_deref() == Some(&*large));
}

/// A command has replaced a file by a folder, or a folder by a file. Other files are rewound.
#[tokio::test]
async fn path_that_is_no_longer_a_file_fails_alone() {
    let place = Place::new();
    for name in ["a", "d/b", "e/c", "f"] {
        place.put(name, "before\r\n");
    }

    let files = place.files();
    let ops = json!([
        ["write", "a", "x"],
        ["write", "d/b", "x"],
        ["write", "e/c", "x"],
        ["write", "f", "x"],
        ["write", "new", "x"]
    ]);
    place.changes(&files, ops).await;
    for file in ["a", "new"] {
        fs::remove_file(place.root().join(file)).unwrap();
        place.put(&format!("{file}/within"), "a person's");
    }

    for folder in ["d", "e"] {
        fs::remove_dir_all(place.root().join(folder)).unwrap();
    }

    place.put("d", "a person's");
    let expected = [
        "change a: failed",
        "change d/b: failed",
        "create e/c: done",
        "change f: done",
        "change new: failed",
    ];
    let forced = files.rewind("s", 0, RewindMode::Overwrite).await.unwrap();
    assert_eq!(told(&forced), expected);
    assert!(
        forced.to_string().contains("a dir has taken its place"),
        "{forced}"
    );
    let content = |path: &str| place.get(path);
    assert_eq!(content("e/c").as_deref(), Some("before\r\n"));
    assert_eq!(content("f").as_deref(), Some("before\r\n"));
    for kept in ["a/within", "d", "new/within"] {
        assert_eq!(content(kept).as_deref(), Some("a person's"), "{kept}");
    }
}

/// A file replaces a folder, and a folder replaces a file.
#[tokio::test]
async fn file_replaced_by_a_folder_is_restored() {
    let files = FileCheckpoints::new(MemoryBackend::new());
    files.write("a", b"file").await.unwrap();
    let place = Place::new();
    place
        .changes(
            &files,
            json!([["remove", "a"], ["write", "a/b", "in a folder"]]),
        )
        .await;
    let report = files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    assert!(report.is_complete(), "{report}");
    assert_eq!(&files.read("a").await.unwrap()[..], b"file");
}

#[tokio::test]
async fn checkpoint_folder_is_private_and_outside_the_workspace() {
    let place = Place::new();
    place.put("a", "secret");
    let files = place.files();
    place.changes(&files, json!([["write", "a", "x"]])).await;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.folder()), 0o700);
    assert_eq!(mode(&place.folder().join("s.files")), 0o600);
    symlink(place.root(), place.root().with_file_name("alias")).unwrap();
    for folder in [
        place.root().join("x"),
        place.root().with_file_name("alias").join("y"),
    ] {
        let backend = LocalBackend::new(place.root()).unwrap();
        let error = FileCheckpoints::open(backend, folder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}

#[tokio::test]
async fn writes_of_other_hooks_are_kept() {
    let files = FileCheckpoints::new(MemoryBackend::new());
    let model = ScriptedModel::new()
        .call("write_file", json!({"path": "a", "content": "x"}))
        .say("done");
    let agent = AgentBuilder::new(model)
        .hook(files.clone())
        .hook(FilesystemHook::new(files.clone()))
        .build()
        .unwrap();
    agent.session("s").run("Write it down").await.unwrap();
    let listed = files.checkpoints("s").await.unwrap();
    assert_eq!(
        serde_json::to_value(&listed).unwrap(),
        json!([{"message": 0, "title": "Write it down", "files": ["/workspace/a"]}])
    );
    files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    assert!(!files.exists("a").await.unwrap());
}

#[tokio::test]
async fn name_that_would_add_a_line_to_the_report_is_quoted() {
    let files = FileCheckpoints::new(MemoryBackend::new());
    let model = ScriptedModel::new()
        .call(
            "write_file",
            json!({"path": "a\n\u{202e}b", "content": "x"}),
        )
        .say("done");
    let agent = AgentBuilder::new(model)
        .hook(files.clone())
        .hook(FilesystemHook::new(files.clone()))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let preview = files.rewind("s", 0, RewindMode::DryRun).await.unwrap();
    assert_eq!(
        preview.to_string(),
        "delete \"/workspace/a\\n\\u202eb\" (+0 -1 lines)\n"
    );
}

/// The `.gitignore` concerns the results of all sessions, and the conversation still refers to the
/// results.
#[tokio::test]
async fn moved_results_stay_when_files_are_rewound() {
    let files = FileCheckpoints::new(MemoryBackend::new());
    let long = FuncTool::new("long", "Long", any_object(), |_cx, _args| async move {
        "x".repeat(10_000)
    });
    let model = ScriptedModel::new()
        .call("long", json!({}))
        .call("write_file", json!({"path": "a", "content": "x"}))
        .say("done");
    let agent = AgentBuilder::new(model)
        .tool(long)
        .hook(files.clone())
        .hook(FilesystemHook::new(files.clone()).evict_over(5_000))
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let rewind = files.rewind("s", 0, RewindMode::SkipChanged).await.unwrap();
    let paths: Vec<_> = rewind.changes.iter().map(|change| &*change.path).collect();
    assert_eq!(paths, ["/workspace/a"]);
    let folder = ".agentcore/tool-results";
    let ignore = files.read(&format!("{folder}/.gitignore")).await.unwrap();
    assert_eq!(&ignore[..], b"*\n");
    assert_eq!(files.list(&format!("{folder}/s")).await.unwrap().len(), 1);
}

/// Within a run, where all changes are stored, the backend passes the same suite as its inner
/// backend.
#[tokio::test]
async fn file_checkpoints_pass_the_backend_suite() {
    let place = Place::new();
    let root = place.root();
    let suite = hook::before_agent("suite", move |cx, state| {
        let root = root.clone();
        async move {
            let hooked = |files: FileCheckpoints| {
                let begun = files.before_agent(&cx, AgentState::new("s"));
                futures::executor::block_on(begun).unwrap();
                files
            };

            let memory = || hooked(FileCheckpoints::new(MemoryBackend::new()));
            conformance::backend(memory).await?;
            let count = AtomicUsize::new(0);
            let local = || {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let root = root.join(number.to_string());
                fs::create_dir(&root).unwrap();
                hooked(FileCheckpoints::new(LocalBackend::new(root).unwrap()))
            };

            conformance::backend(local).await?;
            let files = memory();
            files.write("a", b"").await?;
            assert_eq!(
                files.checkpoints("s").await?.len(),
                1,
                "the change was stored"
            );
            Ok(state)
        }
    });

    let model = ScriptedModel::new().say("done");
    let agent = AgentBuilder::new(model).hook(suite).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
}
