//! Arguments at and beyond their limits. These calls do not pass the check against the schema.

use std::sync::Arc;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::tool::check_arguments;
use agentcore::tools::{coding, picoclaw, preset, wick};
use agentcore::{Tool, ToolContext};
use serde_json::{Value, json};

use crate::kit::workspace::Workspace;

async fn text(tool: &dyn Tool, args: Value) -> String {
    match tool.execute(ToolContext::detached(), args).await {
        Ok(output) => output.content.text().into_owned(),
        Err(error) => format!("Error: {error}"),
    }
}

#[tokio::test]
async fn numeric_arguments_of_any_size_are_accepted() {
    let backend = MemoryBackend::new();
    backend.write("f", b"one\ntwo\n").await.unwrap();
    let read = coding::read(backend.clone());
    let raw = wick::read_file(backend.clone());
    for huge in [
        json!(u64::MAX),
        json!(u64::MAX - 1),
        json!(1e300),
        json!(i64::MAX),
    ] {
        let args = json!({"file_path": "f", "offset": huge});
        let only = "(the file has only 2 lines)";
        assert_eq!(text(&read, args.clone()).await, only, "{huge}");
        assert!(text(&raw, args).await.ends_with(only), "{huge}");
        let args = json!({"file_path": "f", "limit": huge});
        assert_eq!(text(&read, args.clone()).await, "     1\tone\n     2\ttwo");
        assert_eq!(text(&raw, args).await, "one\ntwo");
    }

    for none in [
        json!(0),
        json!(-1),
        json!(-1e300),
        json!(0.5),
        json!("1"),
        Value::Null,
    ] {
        let args = json!({"file_path": "f", "offset": none});
        assert_eq!(
            text(&read, args).await,
            "     1\tone\n     2\ttwo",
            "{none}"
        );
    }

    let grep = coding::grep(backend);
    for (field, expected) in [
        ("-A", "f:1:one\nf-2-two"),
        ("-B", "f:1:one"),
        ("-C", "f:1:one\nf-2-two"),
        ("head_limit", "f:1:one"),
    ] {
        let mut args = json!({"pattern": "one", "output_mode": "content"});
        args[field] = u64::MAX.into();
        assert_eq!(text(&grep, args).await, expected, "{field}");
    }
}

#[tokio::test]
async fn long_path_is_cut_in_the_middle_of_an_error() {
    let workspace = Workspace::new();
    let memory = MemoryBackend::new();
    memory.write("file", b"text").await.unwrap();
    workspace.backend.write("file", b"text").await.unwrap();
    let local: Arc<dyn Backend> = Arc::new(workspace.backend.clone());
    let backends = [local, Arc::new(memory)];
    for backend in &backends {
        for path in [
            "r/".repeat(20_000),
            format!("/{}", "x".repeat(40_000)),
            "../".repeat(20_000),
        ] {
            let path = format!("{path}end");
            let edit = json!({"file_path": path, "old_string": "a", "new_string": "b"});
            let tools = [
                (coding::read(backend.clone()), json!({"file_path": path})),
                (coding::edit(backend.clone()), edit),
                (
                    coding::glob(backend.clone()),
                    json!({"pattern": "*", "path": path}),
                ),
                (
                    coding::grep(backend.clone()),
                    json!({"pattern": "a", "path": path}),
                ),
                (picoclaw::list_dir(backend.clone()), json!({"path": path})),
                (
                    picoclaw::append_file(backend.clone()),
                    json!({"path": format!("file/{path}"), "content": ""}),
                ),
            ];
            for (tool, args) in tools {
                let text = text(&tool, args).await;
                let name = tool.name();
                assert!(text.starts_with("Error: "), "{name}: {text:.50}");
                assert!(text.len() < 1_000, "{name}: {}", text.len());
                assert!(text.contains("characters left out"), "{name}: {text}");
                assert!(text.contains("end\""), "{name}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn schemas_reject_out_of_range_and_mistyped_arguments() {
    let tools = preset::coding(MemoryBackend::new());
    for (name, args) in [
        ("Read", json!({"file_path": "f", "offset": -1})),
        ("Read", json!({"file_path": "f", "limit": 0})),
        ("Read", json!({"file_path": 1})),
        ("Bash", json!({"command": "x", "timeout": 0})),
        ("Bash", json!({"command": "x", "timeout": 600_001})),
        ("Bash", json!({"command": "x", "run_in_background": "yes"})),
        ("Bash", json!({"command": ["x"]})),
        ("Grep", json!({"pattern": "x", "-A": -1})),
        ("Grep", json!({"pattern": "x", "output_mode": "all"})),
        ("Grep", json!({"pattern": "x", "-i": 1})),
        (
            "Edit",
            json!({"file_path": "f", "old_string": "a", "new_string": null}),
        ),
        ("Write", json!({"file_path": "f"})),
        ("Glob", json!({"path": "."})),
    ] {
        let tool = tools.get(name).unwrap();
        assert!(
            check_arguments(tool.parameters(), &args).is_err(),
            "{name} {args}"
        );
    }
}

#[tokio::test]
async fn invalid_paths_are_errors_and_create_nothing() {
    let workspace = Workspace::new();
    let backend = &workspace.backend;
    let long = "x".repeat(5_000);
    let deep = "d/".repeat(3_000);
    let (write, read) = (
        coding::write(backend.clone()),
        coding::read(backend.clone()),
    );
    let (edit, append) = (
        coding::edit(backend.clone()),
        picoclaw::append_file(backend.clone()),
    );
    for path in [
        "",
        ".",
        "a",
        "a/",
        "a\0b",
        "/",
        "//",
        &long,
        &deep,
        "a/in.txt/x",
        "../x",
    ] {
        let start: String = path.chars().take(20).collect();
        let calls: [(&dyn Tool, Value); 4] = [
            (&write, json!({"file_path": path, "content": "x"})),
            (&append, json!({"path": path, "content": "x"})),
            (&read, json!({"file_path": path})),
            (
                &edit,
                json!({"file_path": path, "old_string": "a", "new_string": "b"}),
            ),
        ];
        for (tool, args) in calls {
            let output = text(tool, args).await;
            assert!(
                output.starts_with("Error: "),
                "{} {start:?}: {output}",
                tool.name()
            );
        }
    }

    assert_eq!(workspace.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!(std::fs::read_dir(&workspace.root).unwrap().count(), 1);
}

#[tokio::test]
async fn unusual_commands_run_or_are_errors() {
    let workspace = Workspace::new();
    let bash = coding::bash(workspace.backend.clone());
    for (command, says) in [
        ("", "Command must be a non-empty string."),
        (" \n\t", "Command must be a non-empty string."),
        ("echo a\0b", "could not be started"),
        ("(", "Exit code: 2"),
        ("exit 300", "Exit code: 44"),
        ("-x", "Exit code: 127"),
        ("--help", "Exit code: 127"),
        ("# nothing", "(no output)"),
        ("echo \u{1F600}", "\u{1F600}"),
        ("printf 'a\\r\\nb'", "a\r\nb"),
        ("printf '\\377'", "[not UTF-8: 1 bytes"),
        ("printf '\\0'", "\0"),
    ] {
        let output = text(&bash, json!({"command": command})).await;
        assert!(output.contains(says), "{command:?}: {output}");
    }

    let huge = format!("true {}", "x".repeat(3 << 20));
    let output = text(&bash, json!({"command": huge})).await;
    assert!(
        output.starts_with("Error: the command could not be started"),
        "{output}"
    );
    let output = text(&bash, json!({"command": "sleep 60", "timeout": 1})).await;
    assert!(
        output.starts_with("Command timed out after 0.0 seconds."),
        "{output}"
    );
    for timeout in [json!(1e300), json!(u64::MAX), json!(-5), json!("x")] {
        let output = text(&bash, json!({"command": "echo hi", "timeout": timeout})).await;
        assert_eq!(output, "hi", "{timeout}");
    }
}

#[tokio::test]
async fn missing_working_directory_is_an_error() {
    let workspace = Workspace::new();
    let exec = picoclaw::exec(workspace.backend.clone());
    let bash = coding::bash(workspace.backend.clone());
    for folder in ["none", "a/in.txt", "..", "/", "a\0"] {
        let output = text(&exec, json!({"command": "pwd", "working_dir": folder})).await;
        assert!(output.starts_with("Error: "), "{folder:?}: {output}");
    }

    std::fs::remove_dir_all(&workspace.root).unwrap();
    let output = text(&bash, json!({"command": "pwd"})).await;
    assert!(output.starts_with("Error: "), "{output}");
    std::fs::create_dir(&workspace.root).unwrap();

    // The new folder of the same name is not the workspace.
    let output = text(&bash, json!({"command": "pwd"})).await;
    assert!(output.starts_with("Error: "), "{output}");
}

#[tokio::test]
async fn unusual_patterns_are_errors_or_match_as_expected() {
    let workspace = Workspace::new();
    let glob = coding::glob(workspace.backend.clone());
    for (pattern, says) in [
        ("", "Error: "),
        ("[", "Error: "),
        ("{a", "Error: "),
        ("../**", "Error: "),
        ("/etc/*", "Error: "),
        ("\0", "No files found"),
        ("a/**/**/**/**/in.txt", "a/in.txt"),
        ("./a/*", "a/in.txt"),
        ("a//in.txt", "a/in.txt"),
    ] {
        let output = text(&glob, json!({"pattern": pattern})).await;
        assert!(output.starts_with(says), "{pattern:?}: {output}");
    }

    let grep = coding::grep(workspace.backend.clone());
    for (args, says) in [
        (json!({"pattern": "["}), "Error: "),
        (json!({"pattern": "(?P<n>a)\\k<n>"}), "Error: "),
        (json!({"pattern": "x{1000000000}"}), "Error: "),
        (json!({"pattern": ""}), "a/in.txt"),
        (json!({"pattern": "\0"}), "No matches found"),
        (json!({"pattern": "inside", "glob": "["}), "Error: "),
        (
            json!({"pattern": "inside", "glob": "!*.txt"}),
            "No matches found",
        ),
        (json!({"pattern": "inside", "type": "none"}), "Error: "),
        (json!({"pattern": "inside", "path": "/etc"}), "Error: "),
        (json!({"pattern": "inside", "path": "none"}), "Error: "),
        (
            json!({"pattern": "inside\n", "multiline": false}),
            "Error: ",
        ),
        (
            json!({"pattern": "inside\n", "multiline": true}),
            "a/in.txt",
        ),
    ] {
        let output = text(&grep, args.clone()).await;
        assert!(output.starts_with(says), "{args}: {output}");
    }
}
