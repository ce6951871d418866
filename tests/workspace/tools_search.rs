//! The tools that find files and lines.

use std::process::Command;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::tools::{coding, wick};
use agentcore::{Tool, ToolContext};
use serde_json::{Value, json};

use crate::kit::workspace::Workspace;

async fn text(tool: &impl Tool, args: Value) -> String {
    match tool.execute(ToolContext::detached(), args).await {
        Ok(output) => output.content.text().into_owned(),
        Err(error) => format!("Error: {error}"),
    }
}

const TREE: [(&str, &str); 8] = [
    ("src/lib.rs", "fn one() {}\nfn two() {}\nfn three() {}\n"),
    ("src/deep/mod.rs", "// One\nuse two;\n"),
    ("docs/a.md", "one\ntwo\nthree\nfour\none again\n"),
    ("target/made.rs", "fn one() {}\n"),
    ("keep.log", "one\n"),
    ("x.log", "one\n"),
    (".gitignore", "/target\n*.log\n!keep.log\n"),
    (".hidden/y.rs", "one\n"),
];

async fn tree() -> MemoryBackend {
    let backend = MemoryBackend::new();
    for (path, content) in TREE {
        backend.write(path, content.as_bytes()).await.unwrap();
    }
    backend
}

#[tokio::test]
async fn glob_applies_folders_and_ignore_files() {
    let tool = coding::glob(tree().await);
    for (args, expected) in [
        (json!({"pattern": "**/*.rs"}), "src/deep/mod.rs\nsrc/lib.rs"),
        (json!({"pattern": "*.rs"}), "No files found"),
        (json!({"pattern": "*.rs", "path": "src"}), "src/lib.rs"),
        (
            json!({"pattern": "*.rs", "path": "/workspace/src"}),
            "src/lib.rs",
        ),
        (json!({"pattern": "/workspace/src/*.rs"}), "src/lib.rs"),
        (json!({"pattern": "**/*.log"}), "keep.log"),
        (json!({"pattern": "target/*"}), "target/made.rs"),
        (json!({"pattern": "*", "path": "target"}), "target/made.rs"),
        (
            json!({"pattern": "src/{deep,none}/*.r?"}),
            "src/deep/mod.rs",
        ),
        (json!({"pattern": "[!d]*/*.rs"}), "src/lib.rs"),
        (
            json!({"pattern": "../*"}),
            "Error: path \"../*\" is outside workspace \"/workspace\"",
        ),
    ] {
        let output = text(&tool, args.clone()).await;
        if expected.starts_with("Error: ") {
            assert!(output.contains("is outside workspace"), "{args}: {output}");
        } else {
            assert_eq!(output, expected, "{args}");
        }
    }
}

#[tokio::test]
async fn wick_glob_matches_names_at_any_depth() {
    let tool = wick::glob(tree().await);
    assert_eq!(
        text(&tool, json!({"pattern": "*.rs"})).await,
        "src/deep/mod.rs\nsrc/lib.rs"
    );
    assert_eq!(
        text(&tool, json!({"pattern": "src/*.rs"})).await,
        "src/lib.rs"
    );
    let backend = MemoryBackend::new();
    for number in 0..150 {
        let path = format!("f{number:03}.txt");
        backend.write(&path, b"").await.unwrap();
    }

    let output = text(&wick::glob(backend), json!({"pattern": "*.txt"})).await;
    assert!(output.ends_with("f099.txt\n(truncated: only the first 100 files are shown)"));
}

#[tokio::test]
async fn grep_applies_all_options() {
    let tool = coding::grep(tree().await);
    for (args, expected) in [
        (json!({"pattern": "one"}), "docs/a.md\nkeep.log\nsrc/lib.rs"),
        (json!({"pattern": "one", "glob": "*.rs"}), "src/lib.rs"),
        (json!({"pattern": "one", "glob": "x.*"}), "x.log"),
        (
            json!({"pattern": "one", "glob": "!*.rs"}),
            "docs/a.md\nkeep.log",
        ),
        (json!({"pattern": "one", "type": "rust"}), "src/lib.rs"),
        (
            json!({"pattern": "one", "-i": true, "type": "rust"}),
            "src/deep/mod.rs\nsrc/lib.rs",
        ),
        (
            json!({"pattern": "one", "output_mode": "count"}),
            "docs/a.md:2\nkeep.log:1\nsrc/lib.rs:1",
        ),
        (
            json!({"pattern": "one", "path": "docs", "output_mode": "content"}),
            "docs/a.md:1:one\ndocs/a.md:5:one again",
        ),
        (
            json!({"pattern": "one", "path": "docs/a.md", "output_mode": "content", "-n": false}),
            "docs/a.md:one\ndocs/a.md:one again",
        ),
        (
            json!({"pattern": "one", "path": "docs", "output_mode": "content", "-C": 1}),
            "docs/a.md:1:one\ndocs/a.md-2-two\n--\ndocs/a.md-4-four\ndocs/a.md:5:one again",
        ),
        (
            json!({"pattern": "two", "path": "docs", "output_mode": "content", "-A": 1}),
            "docs/a.md:2:two\ndocs/a.md-3-three",
        ),
        (
            json!({"pattern": "two", "path": "docs", "output_mode": "content", "-B": 1}),
            "docs/a.md-1-one\ndocs/a.md:2:two",
        ),
        (
            json!({"pattern": "one", "output_mode": "content", "head_limit": 1}),
            "docs/a.md:1:one\n(truncated: there may be more)",
        ),
        (
            json!({"pattern": "one", "output_mode": "content", "head_limit": 2}),
            "docs/a.md:1:one\ndocs/a.md:5:one again\n(truncated: there may be more)",
        ),
        (
            json!({"pattern": "two", "output_mode": "content", "head_limit": 3, "-B": 1}),
            "docs/a.md-1-one\ndocs/a.md:2:two\n(truncated: there may be more)",
        ),
        // If the limit is reached, lines before the first match are left out.
        (
            json!({"pattern": "four", "output_mode": "content", "head_limit": 2, "-C": 3}),
            "docs/a.md-3-three\ndocs/a.md:4:four\n(truncated: there may be more)",
        ),
        (
            json!({"pattern": "four", "output_mode": "content", "head_limit": 1, "-B": 3}),
            "docs/a.md:4:four\n(truncated: there may be more)",
        ),
        (
            json!({"pattern": "one", "output_mode": "content", "head_limit": 4}),
            "docs/a.md:1:one\ndocs/a.md:5:one again\nkeep.log:1:one\nsrc/lib.rs:1:fn one() {}",
        ),
        (
            json!({"pattern": "one", "head_limit": 2}),
            "docs/a.md\nkeep.log\n(truncated: there may be more)",
        ),
        (
            json!({"pattern": "two.*four", "multiline": true, "output_mode": "content"}),
            "docs/a.md:2:two\ndocs/a.md:3:three\ndocs/a.md:4:four",
        ),
        (json!({"pattern": "two.*four"}), "No matches found"),
        (
            json!({"pattern": "one", "path": "target"}),
            "target/made.rs",
        ),
        (json!({"pattern": "one", "path": ".hidden"}), ".hidden/y.rs"),
    ] {
        assert_eq!(text(&tool, args.clone()).await, expected, "{args}");
    }

    for args in [
        json!({"pattern": "[invalid"}),
        json!({"pattern": "x", "type": "no such type"}),
        json!({"pattern": "x", "glob": "["}),
        json!({"pattern": "x", "path": "none"}),
        json!({"pattern": "x", "path": "../out"}),
        json!({"pattern": "x", "output_mode": "other"}),
    ] {
        let output = text(&tool, args.clone()).await;
        assert!(output.starts_with("Error: "), "{args}: {output}");
    }
}

#[tokio::test]
async fn wick_grep_returns_lines_and_details() {
    let backend = MemoryBackend::new();
    backend
        .write("a", b"line1 foo\nline2 bar\nline3 foo")
        .await
        .unwrap();
    backend.write(".hidden/b", b"foo").await.unwrap();
    let tool = wick::grep(backend);
    let output = tool
        .execute(ToolContext::detached(), json!({"pattern": "foo"}))
        .await
        .unwrap();
    assert_eq!(output.content.text(), "a:1:line1 foo\na:3:line3 foo");
    let details = output.details.unwrap();
    let expected = json!([
        {"file": "a", "line": 1, "text": "line1 foo"},
        {"file": "a", "line": 3, "text": "line3 foo"},
    ]);
    assert_eq!(details["matches"], expected);
    assert_eq!(details["truncated"], false);
}

#[tokio::test]
async fn grep_handles_huge_binary_and_special_files() {
    let workspace = Workspace::new();
    workspace.put("line", vec![b'x'; 50_000_000]);
    workspace.put("bin", b"inside\0\n");
    workspace.put("utf16", b"\xff\xfei\0n\0s\0i\0d\0e\0\n\0");
    workspace.put("latin", b"\xe4 inside\r\n");
    workspace.fifo("fifo");
    workspace.link("/dev/zero", "zero");
    workspace.link(&workspace.out, "out");
    let huge = std::fs::File::create(workspace.root.join("huge")).unwrap();
    huge.set_len(100 << 30).unwrap();
    let tool = coding::grep(workspace.backend.clone());
    let args = json!({"pattern": "inside|SECRET|x$", "output_mode": "content"});
    let output = text(&tool, args).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "a/in.txt:1:inside");
    assert_eq!(lines[1], "latin:1:\u{FFFD} inside");
    assert!(lines[2].starts_with("line:1:xxx") && lines[2].len() < 2_100);
    assert_eq!(lines[3], "utf16:1:inside");
    assert_eq!(lines.len(), 4, "{:?}", &lines[4..]);
}

#[tokio::test]
async fn twenty_thousand_files_are_searched() {
    let workspace = Workspace::new();
    for folder in 0..100 {
        let folder = workspace.root.join(format!("f{folder:02}"));
        std::fs::create_dir(&folder).unwrap();
        for file in 0..200 {
            std::fs::File::create(folder.join(format!("{file:03}"))).unwrap();
        }
    }

    workspace.put("f99/199", "inside\n");
    let grep = coding::grep(workspace.backend.clone());
    let output = text(&grep, json!({"pattern": "inside"})).await;
    assert_eq!(output, "a/in.txt\nf99/199");
    let glob = coding::glob(workspace.backend.clone());
    let all = text(&glob, json!({"pattern": "**"})).await;
    let (first, note) = (all.lines().next(), all.lines().last().unwrap());
    assert_eq!(first, Some("a/in.txt"));
    assert!(note.starts_with("(truncated: only the first"), "{note}");
    assert_eq!(
        all,
        text(&glob, json!({"pattern": "**"})).await,
        "the result is deterministic"
    );
}

#[tokio::test]
async fn search_of_a_deep_tree_is_truncated() {
    let workspace = Workspace::new();
    let mut path = workspace.root.clone();
    for _ in 0..700 {
        path.push("d");
    }
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("x"), "inside").unwrap();
    let tool = coding::grep(workspace.backend.clone());
    let output = text(&tool, json!({"pattern": "inside"})).await;
    assert_eq!(output, "a/in.txt\n(truncated: there may be more)");
}

/// Both backends return the same results.
#[tokio::test]
async fn local_and_memory_backends_find_the_same() {
    let workspace = Workspace::new();
    std::fs::remove_dir_all(workspace.root.join("a")).unwrap();
    for (path, content) in TREE {
        workspace.put(path, content);
    }

    let memory = tree().await;
    for pattern in ["**", "**/*.rs", "*", "target/**", ".hidden/*", "src/*/*.rs"] {
        let args = json!({"pattern": pattern});
        let local = text(&coding::glob(workspace.backend.clone()), args.clone()).await;
        assert_eq!(
            local,
            text(&coding::glob(memory.clone()), args).await,
            "{pattern}"
        );
    }

    for pattern in ["one", "^fn", "t(wo|hree)$", "nowhere"] {
        let args = json!({"pattern": pattern, "output_mode": "content", "-C": 1});
        let local = text(&coding::grep(workspace.backend.clone()), args.clone()).await;
        assert_eq!(
            local,
            text(&coding::grep(memory.clone()), args).await,
            "{pattern}"
        );
    }
}

/// Compares the results with those of ripgrep, if it is installed.
#[tokio::test]
async fn search_agrees_with_ripgrep() {
    if Command::new("rg").arg("--version").output().is_err() {
        eprintln!("skipped: there is no rg on the path");
        return;
    }

    let workspace = Workspace::new();
    for (path, content) in TREE {
        workspace.put(path, content);
    }

    let rg = |args: &[&str]| {
        let output = Command::new("rg")
            .args(["--no-config", "--no-require-git", "--no-ignore-global"])
            .args(["--no-ignore-parent", "--sort=path", "--color=never", "-H"])
            .args(args)
            .current_dir(&workspace.root)
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    };

    let glob = coding::glob(workspace.backend.clone());
    assert_eq!(
        text(&glob, json!({"pattern": "**"})).await,
        rg(&["--files"])
    );
    let grep = coding::grep(workspace.backend.clone());
    for (flags, args) in [
        (
            &["-n", "one"][..],
            json!({"pattern": "one", "output_mode": "content"}),
        ),
        (
            &["-n", "-C1", "t[wh]"],
            json!({"pattern": "t[wh]", "output_mode": "content", "-C": 1}),
        ),
        (
            &["-c", "-i", "ONE"],
            json!({"pattern": "ONE", "-i": true, "output_mode": "count"}),
        ),
        (
            &["-l", "-trust", "fn"],
            json!({"pattern": "fn", "type": "rust"}),
        ),
        (
            &["-l", "-g*.rs", "one"],
            json!({"pattern": "one", "glob": "*.rs"}),
        ),
    ] {
        assert_eq!(text(&grep, args.clone()).await, rg(flags), "{args}");
    }
}
