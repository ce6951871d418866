//! Names of files that would break the lines of a result, and results that would be too long.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::tools::{coding, picoclaw, wick};
use agentcore::{Tool, ToolContext};
use serde_json::{Value, json};

async fn text(tool: impl Tool, args: Value) -> String {
    let output = tool.execute(ToolContext::detached(), args).await.unwrap();
    output.content.text().into_owned()
}

async fn with_files(names: &[&str], content: &str) -> MemoryBackend {
    let backend = MemoryBackend::new();
    for name in names {
        backend.write(name, content.as_bytes()).await.unwrap();
    }
    backend
}

/// Names, and their form in results.
const NAMES: [(&str, &str); 7] = [
    ("a\nsecrets.rs:1:fn safe", r#""a\nsecrets.rs:1:fn safe""#),
    ("b\r\t\u{1b}[2K", r#""b\r\t\u001b[2K""#),
    ("\"c\"", r#""\"c\"""#),
    ("d\u{202e}sr.exe\\n", r#""d\u202esr.exe\\n""#),
    ("e\\n \"plain\" é", "e\\n \"plain\" é"),
    ("f\u{85}\u{7f}", r#""f\u0085\u007f""#),
    ("g\u{e0001}", r#""g\udb40\udc01""#),
];

#[tokio::test]
async fn special_names_are_quoted_in_search_results() {
    for (name, shown) in NAMES {
        let backend = with_files(&[name], "one\n").await;
        let globbed = text(coding::glob(backend.clone()), json!({"pattern": "*"})).await;
        assert_eq!(globbed, shown);
        let files = text(coding::grep(backend.clone()), json!({"pattern": "one"})).await;
        assert_eq!(files, shown);
        let args = json!({"pattern": "one", "output_mode": "count"});
        let counts = text(coding::grep(backend.clone()), args).await;
        assert_eq!(counts, format!("{shown}:1"));
        let lines = text(wick::grep(backend.clone()), json!({"pattern": "one"})).await;
        assert_eq!(lines, format!("{shown}:1:one"));
        let listed = text(picoclaw::list_dir(backend.clone()), json!({"path": "."})).await;
        assert_eq!(listed, format!("FILE: {shown}"));
        let entries = text(wick::ls(backend.clone()), json!({})).await;
        let json_name = if shown.starts_with('"') {
            shown.to_owned()
        } else {
            json!(name).to_string()
        };
        let entry = format!(r#""name":{json_name}"#);
        assert!(entries.contains(&entry), "{entries}");

        // The quoted form is a JSON string, so it is unambiguous.
        let read_back = if shown.starts_with('"') {
            serde_json::from_str(shown).unwrap()
        } else {
            shown.to_owned()
        };

        assert_eq!(read_back, name);
    }
}

#[tokio::test]
async fn unquoted_name_in_a_result_can_be_read() {
    let name = "src/ä b-1 (copy).rs";
    let backend = with_files(&[name], "one\n").await;
    let output = text(coding::glob(backend.clone()), json!({"pattern": "**/*.rs"})).await;
    let read = text(coding::read(backend), json!({"file_path": output})).await;
    assert!(read.contains("one"), "{read}");
}

#[tokio::test]
async fn head_limit_over_the_maximum_is_reduced_with_a_note() {
    let backend = with_files(&["a.txt"], &"one\n".repeat(50_000)).await;
    let args = json!({"pattern": "one", "output_mode": "content", "head_limit": 1_000_000_000});
    let output = text(coding::grep(backend), args).await;
    assert_eq!(output.matches(":one").count(), 10_000);
    let end = "\n(truncated: a result has at most 10000 entries)";
    assert!(output.ends_with(end), "{}", &output[output.len() - 100..]);
}

#[tokio::test]
async fn result_over_the_byte_limit_is_cut_with_a_note() {
    let line = format!("one{}\n", "x".repeat(1_900));
    let backend = with_files(&["a.txt"], &line.repeat(9_000)).await;
    let args = json!({"pattern": "one", "output_mode": "content", "head_limit": 9_000});
    let output = coding::grep(backend)
        .execute(ToolContext::detached(), args)
        .await
        .unwrap();
    let text = output.content.text();
    assert!(text.len() < 2 * 1024 * 1024 + 100, "{}", text.len());
    assert!(text.ends_with("\n(cut: a result has at most 2097152 bytes)"));
    let details = output.details.unwrap().to_string();
    assert!(details.len() < 3 * 1024 * 1024, "{}", details.len());
}
