//! Edits that would exhaust the host.

use std::time::Duration;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::tools::coding;
use agentcore::{Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

/// Much more time than any of these edits takes, and much less than without limits.
const LONG: Duration = Duration::from_secs(60);

async fn edit(content: &[u8], args: Value) -> (MemoryBackend, Result<ToolOutput, String>) {
    let backend = MemoryBackend::new();
    backend.write("a.txt", content).await.unwrap();
    let tool = coding::edit(backend.clone());
    let mut args = args;
    args["file_path"] = json!("a.txt");
    let edited = tokio::time::timeout(LONG, tool.execute(ToolContext::detached(), args)).await;
    let edited = edited
        .expect("the edit ends")
        .map_err(|error| error.to_string());
    (backend, edited)
}

#[tokio::test]
async fn edit_with_a_result_over_the_limit_is_an_error_and_leaves_the_file() {
    let content = vec![b'a'; 1024 * 1024];
    let new = "b".repeat(1_000_000);
    let args = json!({"old_string": "a", "new_string": new, "replace_all": true});
    let (backend, edited) = edit(&content, args).await;
    let error = edited.unwrap_err();
    assert!(error.contains("1048576 replacements"), "{error:.300}");
    assert!(error.contains("33554432"), "{error:.300}");
    assert_eq!(backend.read("a.txt").await.unwrap(), content);
}

#[tokio::test]
async fn edit_with_millions_of_matches_names_only_the_first_lines() {
    let content = b"a\n".repeat(4 * 1024 * 1024);
    let args = json!({"old_string": "a", "new_string": "b"});
    let (_, edited) = edit(&content, args).await;
    let error = edited.unwrap_err();
    assert!(error.contains("found 4194304 times"), "{error:.300}");
    assert!(error.contains("19, 20, ..."), "{error:.300}");
}

#[tokio::test]
async fn edit_with_a_missing_text_of_many_lines_ends_quickly() {
    let content = b" a\n".repeat(1_000_000);
    let old = format!("{}b", "a\n".repeat(100_000));
    let args = json!({"old_string": old, "new_string": "c"});
    let (_, edited) = edit(&content, args).await;
    let error = edited.unwrap_err();
    assert!(error.contains("not found"), "{error:.300}");
}

#[tokio::test]
async fn edit_of_a_text_that_differs_in_white_space_names_its_line() {
    for (content, old, line) in [
        ("x\n  fn a() {\n\tb();  \n}\n", "fn a() {\nb();\n}", Some(2)),
        ("xfn a() {\n fn a() {\nb\n", "fn a() {\n b ", Some(2)),
        ("fn a() {}\n}", "fn a() {\n}", None),
        ("a\r\n  b\r\n", "a\nb", Some(1)),
        ("ab\nc", "b \nc", None),
        ("a\n b c", " a\nb", None),
    ] {
        let args = json!({"old_string": old, "new_string": "new"});
        let (_, edited) = edit(content.as_bytes(), args).await;
        let error = edited.unwrap_err();
        match line {
            Some(line) => assert!(error.contains(&format!("; line {line} ")), "{error}"),
            None => assert!(!error.contains("; line"), "{error}"),
        }
    }
}

#[tokio::test]
async fn edit_of_a_large_or_binary_file_searches_no_similar_text() {
    let similar = "x\n  fn a() {\n\tb();  \n}\n";
    let large = format!("{similar}{}", "c\n".repeat(1024 * 512));
    let binary = [similar.as_bytes(), b"\xff\n"].concat();
    for (content, is_searched) in [
        (similar.as_bytes(), true),
        (large.as_bytes(), false),
        (&binary, false),
    ] {
        let args = json!({"old_string": "fn a() {\nb();\n}", "new_string": "new"});
        let (_, edited) = edit(content, args).await;
        let error = edited.unwrap_err();
        assert!(error.contains("not found"), "{error}");
        assert_eq!(error.contains("; line 2 "), is_searched, "{error}");
    }
}

#[tokio::test]
async fn edit_of_a_large_file_reports_a_short_diff() {
    let mut content = b"first\nsecond\n".repeat(1_200_000);
    let args = json!({"old_string": "first", "new_string": "third", "replace_all": true});
    let (_, edited) = edit(&content, args).await;
    let output = edited.unwrap();
    let details = output.details.unwrap();
    assert_eq!(details["replacements"], 1_200_000);
    let size = details.to_string().len();
    assert!(size < 64 * 1024, "{size}");
    assert!(output.content.text().len() < 64 * 1024);

    // A small change of the same file has a diff.
    content.extend_from_slice(b"last\n");
    let args = json!({"old_string": "last", "new_string": "end"});
    let (_, edited) = edit(&content, args).await;
    let diff = edited.unwrap().details.unwrap()["diff"]
        .as_str()
        .unwrap()
        .to_owned();
    let expected = "--- a/a.txt\n+++ b/a.txt\n@@ -2399998,4 +2399998,4 @@\n second\n first\n second\n\
        -last\n+end\n";
    assert_eq!(diff, expected);
}

#[tokio::test]
async fn edit_of_more_places_than_the_limit_is_an_error_and_leaves_the_file() {
    let content = vec![b'a'; 6 * 1024 * 1024];
    let args = json!({"old_string": "a", "new_string": "b", "replace_all": true});
    let (backend, edited) = edit(&content, args).await;
    let error = edited.unwrap_err();
    assert!(
        error.contains("at more than 4194304 places"),
        "{error:.300}"
    );
    assert!(error.contains("at most 2097152"), "{error:.300}");
    assert_eq!(backend.read("a.txt").await.unwrap(), content);
}
