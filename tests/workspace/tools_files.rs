//! The tools that read, write, edit and list files.

use agentcore::backend::{Backend, LocalBackend, MemoryBackend};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Access, Concurrency, SideEffect, check_arguments};
use agentcore::tools::{EditPolicy, coding, picoclaw, preset, wick};
use agentcore::{AgentBuilder, BoxError, Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::kit::workspace::Workspace;

async fn call(tool: &impl Tool, args: Value) -> Result<ToolOutput, BoxError> {
    check_arguments(tool.parameters(), &args)?;
    tool.execute(ToolContext::detached(), args).await
}

async fn text(tool: &impl Tool, args: Value) -> String {
    match call(tool, args).await {
        Ok(output) => output.content.text().into_owned(),
        Err(error) => format!("Error: {error}"),
    }
}

async fn with(path: &str, content: impl AsRef<[u8]>) -> MemoryBackend {
    let backend = MemoryBackend::new();
    backend.write(path, content.as_ref()).await.unwrap();
    backend
}

#[test]
fn presets_contain_the_listed_tools() {
    let backend = MemoryBackend::new();
    let coding = preset::coding(backend.clone());
    assert_eq!(
        coding.names(),
        ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]
    );
    let wick = preset::wick(backend.clone());
    let names = [
        #[cfg(feature = "calc")]
        "calculate",
        #[cfg(feature = "time")]
        "current_datetime",
        "edit_file",
        "execute",
        "glob",
        "grep",
        "ls",
        "read_file",
        "write_file",
    ];
    assert_eq!(wick.names(), names);
    let pico = preset::picoclaw(backend);
    let names = [
        "append_file",
        "edit_file",
        "exec",
        "list_dir",
        "read_file",
        #[cfg(feature = "web")]
        "web_fetch",
        "write_file",
    ];
    assert_eq!(pico.names(), names);
    for tool in [coding.tools(), wick.tools(), pico.tools()].concat() {
        let writes = tool.side_effect() == SideEffect::Mutating;
        let alone = tool.concurrency() == Concurrency::Exclusive;
        assert_eq!(writes, alone, "{}", tool.name());
        assert_eq!(tool.is_idempotent(), !writes, "{}", tool.name());
    }
}

#[test]
fn tools_declare_their_accesses() {
    let all = preset::coding(MemoryBackend::new());
    let accesses = |name: &str, args: Value| all.get(name).unwrap().accesses(&args);
    let read = || Access::Read("a".into());
    let write = || Access::Write("a".into());
    assert_eq!(accesses("Read", json!({"file_path": "a"})), [read()]);
    assert_eq!(accesses("Write", json!({"file_path": "a"})), [write()]);
    assert_eq!(
        accesses("Edit", json!({"file_path": "a"})),
        [write(), read()]
    );
    assert_eq!(accesses("Grep", json!({"path": "a"})), [read()]);
    assert_eq!(
        accesses("Glob", json!({"pattern": "*"})),
        [Access::Read(".".into())]
    );
    assert_eq!(
        accesses("Bash", json!({"command": "ls"})),
        [Access::Command("ls".into())]
    );
    let snake = wick::edit_file(MemoryBackend::new(), EditPolicy::First);
    assert_eq!(
        Tool::accesses(&snake, &json!({"file_path": "a"})),
        [write(), read()]
    );
    assert_eq!(
        Tool::accesses(&snake, &json!({"path": "a"})),
        [write(), read()]
    );
}

#[tokio::test]
async fn read_shows_numbered_lines() {
    let tool = coding::read(with("a", "one\ntwo\r\nthree").await);
    let path = json!({"file_path": "a"});
    assert_eq!(
        text(&tool, path).await,
        "     1\tone\n     2\ttwo\n     3\tthree"
    );
    let part = json!({"file_path": "/workspace/a", "offset": 2, "limit": 1});
    let output = text(&tool, part).await;
    assert_eq!(
        output,
        "     2\ttwo\n... (more lines follow; continue with offset 3)"
    );
    let past = json!({"file_path": "a", "offset": 9});
    assert_eq!(text(&tool, past).await, "(the file has only 3 lines)");
    let missing = json!({"file_path": "none"});
    assert_eq!(text(&tool, missing).await, "Error: \"none\" does not exist");
}

#[tokio::test]
async fn read_handles_empty_binary_and_long_files() {
    let long = "x".repeat(3_000);
    let many = "l\n".repeat(2_500);
    for (content, expected) in [
        (&b""[..], "(empty file)".to_owned()),
        (b"\n", "     1\t".to_owned()),
        (b"\xef\xbb\xbfbom", "     1\tbom".to_owned()),
        (
            b"ok\n\xff\xfe",
            "[not UTF-8: invalid bytes are shown as \u{FFFD}]\n     1\tok\n     2\t\u{FFFD}\u{FFFD}"
                .to_owned(),
        ),
        (
            b"\xff\xfe\x00\x01",
            "Error: a is a binary file (4 bytes), not text".to_owned(),
        ),
        (
            long.as_bytes(),
            format!("     1\t{}... (line of 3000 bytes cut)", "x".repeat(2_000)),
        ),
    ] {
        let tool = coding::read(with("a", content).await);
        assert_eq!(text(&tool, json!({"file_path": "a"})).await, expected);
    }

    let tool = coding::read(with("a", many).await);
    let output = text(&tool, json!({"file_path": "a"})).await;
    assert_eq!(output.lines().count(), 2_001);
    assert!(output.ends_with("continue with offset 2001)"));
}

#[tokio::test]
async fn read_is_bounded_for_huge_and_special_files() {
    let workspace = Workspace::new();
    let tool = coding::read(workspace.backend.clone());
    workspace.put("line", vec![b'x'; 50_000_000]);
    let output = text(&tool, json!({"file_path": "line"})).await;
    assert!(output.len() < 3_000 && output.ends_with("(line of 50000000 bytes cut)"));
    let wide = format!("{}\n", "y".repeat(1_999)).repeat(2_000);
    workspace.put("wide", wide);
    let output = text(&tool, json!({"file_path": "wide"})).await;
    assert!(
        output.len() < 300_000 && output.contains("continue with offset"),
        "{}",
        output.len()
    );
    let huge = std::fs::File::create(workspace.root.join("huge")).unwrap();
    huge.set_len(100 << 30).unwrap();
    workspace.fifo("fifo");
    for path in ["huge", "fifo", "/dev/zero", "a", "../out/secret"] {
        let output = text(&tool, json!({"file_path": path})).await;
        assert!(
            output.starts_with("Error: ") && output.len() < 300,
            "{path}: {output}"
        );
    }
}

#[tokio::test]
async fn wick_read_file_returns_unchanged_text() {
    let raw = "\u{feff}a\r\nb";
    let tool = wick::read_file(with("a", raw).await);
    assert_eq!(text(&tool, json!({"path": "a"})).await, raw);
    assert_eq!(text(&tool, json!({"file_path": "a"})).await, raw);
    assert_eq!(text(&tool, json!({"path": "a", "offset": 2})).await, "b");
    assert_eq!(text(&tool, json!({})).await, "Error: file_path is required");
    let tool = wick::read_file(with("a", [0xff, 0xfe, 0, 1]).await);
    assert_eq!(text(&tool, json!({"path": "a"})).await, "base64://4AAQ==");
}

#[tokio::test]
async fn write_creates_folders_and_reports_the_size() {
    let workspace = Workspace::new();
    let tool = coding::write(workspace.backend.clone());
    let args = json!({"file_path": "a/b/c.txt", "content": "hello"});
    let output = call(&tool, args).await.unwrap();
    assert_eq!(
        output.content.text(),
        "File written: a/b/c.txt (5 bytes, 1 line)"
    );
    assert_eq!(output.details.unwrap()["bytes_written"], 5);
    assert_eq!(workspace.get("a/b/c.txt"), b"hello");
    let empty = json!({"file_path": "a/b/c.txt", "content": ""});
    let output = text(&tool, empty).await;
    assert_eq!(output, "File written: a/b/c.txt (0 bytes, 0 lines)");
    assert_eq!(workspace.get("a/b/c.txt"), b"");
    assert!(call(&tool, json!({"file_path": "x"})).await.is_err());
}

#[tokio::test]
async fn append_adds_to_the_end() {
    let backend = with("a", "Initial content\n").await;
    let tool = picoclaw::append_file(backend.clone());
    let output = text(&tool, json!({"path": "a", "content": "more"})).await;
    assert_eq!(output, "Appended to: a (4 bytes, 1 line)");
    assert_eq!(backend.read("a").await.unwrap(), "Initial content\nmore");
    let output = text(&tool, json!({"content": "x"})).await;
    assert_eq!(output, "Error: file_path is required");
    let output = text(&tool, json!({"path": "a"})).await;
    assert_eq!(output, "Error: content is required");
}

#[tokio::test]
async fn folders_are_listed_as_json_and_as_text() {
    let backend = with("file1.txt", "12").await;
    backend.write("subdir/x", b"").await.unwrap();
    let ls = wick::ls(backend.clone());
    let listed: Value = serde_json::from_str(&text(&ls, json!({})).await).unwrap();
    let expected = json!([
        {"name": "file1.txt", "type": "file", "size": 2},
        {"name": "subdir", "type": "dir", "size": 0},
    ]);
    assert_eq!(listed, expected);
    let list_dir = picoclaw::list_dir(backend);
    assert_eq!(
        text(&list_dir, json!({"path": "."})).await,
        "FILE: file1.txt\nDIR:  subdir"
    );
    assert!(
        text(&ls, json!({"path": "none"}))
            .await
            .starts_with("Error: ")
    );
    assert_eq!(text(&wick::ls(MemoryBackend::new()), json!({})).await, "[]");
}

#[tokio::test]
async fn edit_replaces_a_unique_text_and_reports_a_diff() {
    let backend = with("a", "hello world").await;
    let tool = coding::edit(backend.clone());
    let edit =
        |old: &str, new: &str| json!({"file_path": "a", "old_string": old, "new_string": new});
    let output = call(&tool, edit("world", "go")).await.unwrap();
    assert_eq!(backend.read("a").await.unwrap(), "hello go");
    let output_text = output.content.text();
    assert!(
        output_text.starts_with("Edited a (1 replacement)\n--- a/a\n+++ b/a\n@@"),
        "{output_text}"
    );
    assert!(
        output_text.contains("-hello world\n") && output_text.contains("+hello go\n"),
        "{output_text}"
    );
    let details = output.details.unwrap();
    assert_eq!(details["replacements"], 1);
    for (old, new, expected) in [
        ("none", "x", "the text to replace was not found in a"),
        ("", "x", "is empty"),
        ("go", "go", "are the same"),
    ] {
        let output = text(&tool, edit(old, new)).await;
        assert!(output.contains(expected), "{output}");
    }

    assert_eq!(backend.read("a").await.unwrap(), "hello go");
}

#[tokio::test]
async fn edit_with_several_matches_names_their_lines() {
    let backend = with("a", "x\ny\nx x\n").await;
    let tool = coding::edit(backend.clone());
    let mut args = json!({"file_path": "a", "old_string": "x", "new_string": "z"});
    let error = call(&tool, args.clone()).await.unwrap_err();
    let error = error.downcast_ref::<ToolError>().unwrap();
    assert!(
        error.text().contains("3 times in a (lines 1, 3, 3)"),
        "{error}"
    );
    assert_eq!(
        error.details(),
        Some(&json!({"matches": 3, "lines": [1, 3, 3]}))
    );
    assert_eq!(backend.read("a").await.unwrap(), "x\ny\nx x\n");
    args["replace_all"] = true.into();
    assert!(
        text(&tool, args)
            .await
            .starts_with("Edited a (3 replacements)")
    );
    assert_eq!(backend.read("a").await.unwrap(), "z\ny\nz z\n");
}

#[tokio::test]
async fn edit_policy_selects_among_several_matches() {
    for (policy, expected) in [
        (EditPolicy::First, "z x"),
        (EditPolicy::Unique, "x x"),
        (EditPolicy::All, "z z"),
    ] {
        let backend = with("a", "x x").await;
        let tool = wick::edit_file(backend.clone(), policy);
        // Either of the two pairs may be used.
        let _ = call(
            &tool,
            json!({"path": "a", "old_string": "x", "new_text": "z"}),
        )
        .await;
        assert_eq!(backend.read("a").await.unwrap(), expected);
    }
}

#[tokio::test]
async fn edit_keeps_all_other_bytes() {
    for (content, old, new, expected) in [
        // A BOM, CRLF line ends, and no end of the last line.
        (
            &b"\xef\xbb\xbfa\r\nb\r\nc"[..],
            "a\nb",
            "a\nx\nb",
            &b"\xef\xbb\xbfa\r\nx\r\nb\r\nc"[..],
        ),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        // With mixed line ends, an exact match is not converted.
        (b"a\nb\r\nc\n", "a\nb", "x\ny", b"x\ny\r\nc\n"),
        // The content is not UTF-8.
        (b"\xff\xfe a \x00", "a", "b", b"\xff\xfe b \x00"),
        (b"tail", "tail", "", b""),
    ] {
        let backend = with("a", content).await;
        let tool = coding::edit(backend.clone());
        let args = json!({"file_path": "a", "old_string": old, "new_string": new});
        call(&tool, args).await.unwrap();
        assert_eq!(&backend.read("a").await.unwrap()[..], expected);
    }
}

#[tokio::test]
async fn edit_error_hints_at_white_space_differences() {
    let tool = coding::edit(with("a", "one\n\tif x {\n\t}\n").await);
    let args = json!({"file_path": "a", "old_string": "    if x {\n    }", "new_string": "y"});
    let output = text(&tool, args).await;
    assert!(
        output.contains("line 2 differs from it only in whitespace"),
        "{output}"
    );
}

#[tokio::test]
async fn concurrent_edits_report_every_lost_change() {
    let workspace = Workspace::new();
    workspace.put("n", "0 1 2 3 4 5 6 7 8 9");
    let tool = coding::edit(workspace.backend.clone());
    let edits = (0..10).map(|number| {
        let old = number.to_string();
        call(
            &tool,
            json!({"file_path": "n", "old_string": old, "new_string": "x"}),
        )
    });

    let outcomes = futures::future::join_all(edits).await;
    let count = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let content = String::from_utf8(workspace.get("n")).unwrap();
    assert_eq!(content.matches('x').count(), count, "{content}");
    assert!(count >= 1);
}

#[test]
fn presets_accept_a_shared_backend() {
    let workspace = Workspace::new();
    let shared: std::sync::Arc<dyn Backend> = std::sync::Arc::new(workspace.backend.clone());
    assert_eq!(preset::coding(shared.clone()).names().len(), 6);
    assert_eq!(
        shared.root(),
        LocalBackend::new(&workspace.root).unwrap().root()
    );
}

#[tokio::test]
async fn listing_of_many_entries_is_cut_and_says_so() {
    let backend = MemoryBackend::new();
    for n in 0..10_003 {
        backend.write(&format!("d/{n:05}"), b"").await.unwrap();
    }

    let output = wick::ls(backend.clone())
        .execute(ToolContext::detached(), json!({"path": "d"}))
        .await
        .unwrap();
    let [array, note] = output.content.parts() else {
        panic!("{} parts", output.content.parts().len());
    };

    let array: Value = serde_json::from_str(array.as_text().unwrap()).unwrap();
    assert_eq!(array.as_array().unwrap().len(), 10_000);
    assert_eq!(output.details, Some(array));
    let expected = "\n(truncated: only the first 10000 of 10003 entries are shown)";
    assert_eq!(note.as_text(), Some(expected));
    let output = picoclaw::list_dir(backend)
        .execute(ToolContext::detached(), json!({"path": "d"}))
        .await
        .unwrap();
    let listed = output.content.text();
    assert_eq!(listed.lines().count(), 10_001);
    assert!(listed.ends_with(&format!("FILE: 09999{expected}")));
}

#[tokio::test]
async fn listing_of_long_names_is_cut_by_whole_entries() {
    let backend = MemoryBackend::new();
    for n in 0..800 {
        let name = format!("d/{n:03}{}", "x".repeat(3_000));
        backend.write(&name, b"").await.unwrap();
    }

    let output = picoclaw::list_dir(backend)
        .execute(ToolContext::detached(), json!({"path": "d"}))
        .await
        .unwrap();
    let listed = output.content.text();
    assert!(listed.len() < 2 * 1024 * 1024 + 100, "{}", listed.len());
    let expected = "x\n(truncated: only the first 696 of 800 entries are shown)";
    assert!(
        listed.ends_with(expected),
        "{}",
        &listed[listed.len() - 80..]
    );
}

/// Returns the result of a run in which `read_file` reads `content`, with a limit on its size.
async fn read_in_a_run(content: &[u8], max_bytes: usize) -> String {
    let backend = MemoryBackend::new();
    backend.write("a", content).await.unwrap();
    let model = ScriptedModel::new()
        .call("read_file", json!({"path": "a"}))
        .say("Done.");
    let agent = AgentBuilder::new(model)
        .tool(wick::read_file(backend))
        .max_result_bytes(max_bytes)
        .build()
        .unwrap();
    let messages = agent.run("Go").await.unwrap().messages;
    let result = messages.tool_messages().next().unwrap();
    result.text().into_owned()
}

#[tokio::test]
async fn file_beyond_the_limit_of_results_is_cut_as_any_result() {
    use base64::Engine;

    for len in [100, 2_000, 3_000_000] {
        let text = "é".repeat(len / 2);
        let expected = match len {
            100 => text.clone(),
            _ => {
                let note = format!("\n... (cut: {len} bytes are more than the limit of 1500)");
                // The line end before the note takes two bytes in JSON.
                let room = (1_500 - note.len() - 1) / 2;
                format!("{}{note}", "é".repeat(room))
            }
        };

        assert_eq!(read_in_a_run(text.as_bytes(), 1_500).await, expected);
        let bytes = vec![0xff; len];
        let full = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let full = format!("base64:{full}");
        let expected = match full.len() {
            0..=1_500 => full,
            size => {
                let note = format!("\n... (cut: {size} bytes are more than the limit of 1500)");
                format!("{}{note}", &full[..1_500 - note.len() - 1])
            }
        };

        assert_eq!(read_in_a_run(&bytes, 1_500).await, expected);
    }
}

#[tokio::test]
async fn empty_lines_count_toward_the_limits() {
    let backend = MemoryBackend::new();
    backend.write("a", &b"\n".repeat(1_000_000)).await.unwrap();
    let args = json!({"path": "a", "offset": 1, "limit": 100_000_000});
    let read = wick::read_file(backend);
    let output = read.execute(ToolContext::detached(), args).await.unwrap();
    let text = output.content.text();
    let lines = text.matches('\n').count();
    assert_eq!(lines, 256 * 1024 / 8);
    assert!(
        text.ends_with("continue with offset 32769)"),
        "{}",
        &text[text.len() - 80..]
    );
}

#[tokio::test]
async fn file_of_which_the_backend_reads_less_than_a_result_is_cut_with_a_note() {
    const MIB: usize = 1024 * 1024;
    let workspace = Workspace::new();
    workspace.put("large.txt", "é".repeat(5 * MIB));
    let backend = LocalBackend::new(&workspace.root)
        .unwrap()
        .with_max_read(2 * MIB as u64);
    let model = ScriptedModel::new()
        .call("read_file", json!({"path": "large.txt"}))
        .say("Done.");
    let agent = AgentBuilder::new(model).tool(wick::read_file(backend));
    let messages = agent.build().unwrap().run("Go").await.unwrap().messages;
    let text = messages.tool_messages().next().unwrap().text().into_owned();
    assert!(text.len() > 2 * MIB - 100 && text.len() < 2 * MIB);
    assert!(
        text.contains("(cut: 10485760 bytes are more than"),
        "{}",
        &text[text.len() - 90..]
    );
}
