//! Searches and listings, which leave out files that rules do not allow to be read.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::permission::{Behavior, PermissionRules};
use agentcore::testing::ScriptedModel;
use agentcore::tools::{picoclaw, preset};
use agentcore::{
    Answer, PermissionMode, PermissionRequest, ToolCall, async_trait,
    tool::{Asking, Confirmer},
};
use serde_json::{Value, json};

use crate::kit::{agent, results};

const TREE: [(&str, &str); 6] = [
    ("notes.txt", "the key is elsewhere\n"),
    ("secrets/a.txt", "the key is 1\n"),
    ("secrets/deep/b.txt", "the key is 2\n"),
    ("src/main.rs", "// the key\n"),
    ("src/.env.txt", "key=3\n"),
    ("src/server.pem", "the key is 4\n"),
];

const LEFT_OUT: &str = "\n(some files were left out: permission rules deny reading them)";
const WITHHELD: &str = "\n(entries were withheld: permission rules deny reading them)";

async fn tree() -> MemoryBackend {
    let backend = MemoryBackend::new();
    for (path, content) in TREE {
        backend.write(path, content.as_bytes()).await.unwrap();
    }
    backend
}

struct Yes;

#[async_trait]
impl Confirmer for Yes {
    async fn confirm(&self, _request: &PermissionRequest, _asking: &Asking) -> Answer {
        Answer::Allow
    }
}

/// Returns the text and the details of the result of one call under `permissions`.
async fn result_of(permissions: &PermissionRules, name: &str, args: Value) -> (String, String) {
    let backend = tree().await;
    let tools = match name {
        "list_dir" => preset::picoclaw(backend),
        _ if name.starts_with(char::is_uppercase) => preset::coding(backend),
        _ => preset::wick(backend),
    };

    let agent = agent(ScriptedModel::new().call(name, args).say("done"))
        .registry(&tools)
        .permissions(permissions.clone())
        .confirmer(Yes)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let result = results(&output.messages).remove(0);
    (
        result.content.text().into_owned(),
        format!("{:?}", result.details),
    )
}

fn denying(rule: &str) -> PermissionRules {
    PermissionRules::new()
        .workspace("/workspace")
        .deny(rule)
        .unwrap()
}

#[tokio::test]
async fn searches_leave_denied_files_out() {
    let content = json!({"pattern": "the key", "output_mode": "content"});
    let files = json!({"pattern": "the key"});
    let count = json!({"pattern": "the key", "output_mode": "count"});
    for (tool, args, free) in [
        (
            "Grep",
            &content,
            "notes.txt:1:the key is elsewhere\nsrc/main.rs:1:// the key\nsrc/server.pem:1:the key is 4",
        ),
        ("Grep", &files, "notes.txt\nsrc/main.rs\nsrc/server.pem"),
        (
            "Grep",
            &count,
            "notes.txt:1\nsrc/main.rs:1\nsrc/server.pem:1",
        ),
        (
            "grep",
            &files,
            "notes.txt:1:the key is elsewhere\nsrc/main.rs:1:// the key\nsrc/server.pem:1:the key is 4",
        ),
        ("Glob", &json!({"pattern": "**/*.txt"}), "notes.txt"),
        ("glob", &json!({"pattern": "*.txt"}), "notes.txt"),
        // Denied files do not count toward the limit.
        (
            "Grep",
            &json!({"pattern": "the key", "head_limit": 3}),
            "notes.txt\nsrc/main.rs\nsrc/server.pem",
        ),
        // The name of the folder is in the pattern, not in the path.
        (
            "Glob",
            &json!({"pattern": "secrets/*.txt"}),
            "No files found",
        ),
        (
            "Glob",
            &json!({"pattern": "/workspace/secrets/**"}),
            "No files found",
        ),
        (
            "Grep",
            &json!({"pattern": "the key is [12]"}),
            "No matches found",
        ),
    ] {
        for rule in [
            "Read(secrets/**)",
            "Read(/workspace/secrets/**)",
            "Read(./secrets/)",
        ] {
            let (text, details) = result_of(&denying(rule), tool, args.clone()).await;
            assert_eq!(text, format!("{free}{LEFT_OUT}"), "{tool} {args} {rule}");
            assert!(!details.contains("secrets/"), "{tool} {args}: {details}");
        }
    }
}

#[tokio::test]
async fn rules_without_a_workspace_leave_denied_files_out() {
    for rule in ["Read(secrets/**)", "Read(/workspace/secrets/**)"] {
        let permissions = PermissionRules::new().deny(rule).unwrap();
        let (text, _) = result_of(&permissions, "Glob", json!({"pattern": "**/*.txt"})).await;
        assert_eq!(text, format!("notes.txt{LEFT_OUT}"), "{rule}");
    }
}

#[tokio::test]
async fn note_about_left_out_files_appears_only_when_files_are_left_out() {
    for (rule, tool, args) in [
        ("Read(secrets/**)", "Glob", json!({"pattern": "src/*.rs"})),
        ("Read(*.pem)", "Glob", json!({"pattern": "**/*.rs"})),
        (
            "Read(*.pem)",
            "Grep",
            json!({"pattern": "key", "glob": "*.rs"}),
        ),
        ("Write(secrets/**)", "Glob", json!({"pattern": "**/*.txt"})),
        ("Bash(cat:*)", "Grep", json!({"pattern": "key"})),
    ] {
        let (text, _) = result_of(&denying(rule), tool, args.clone()).await;
        assert!(!text.contains("permission"), "{rule} {tool} {args}: {text}");
    }

    let (text, _) = result_of(&denying("Read(*.pem)"), "Glob", json!({"pattern": "src/*"})).await;
    assert_eq!(text, format!("src/main.rs{LEFT_OUT}"));
}

#[tokio::test]
async fn listings_leave_denied_entries_out() {
    let denied = denying("Read(secrets/**)");
    for (tool, path) in [
        ("ls", "secrets"),
        ("list_dir", "secrets"),
        ("ls", "secrets/deep"),
        ("ls", "src/../secrets"),
    ] {
        let (text, _) = result_of(&denied, tool, json!({"path": path})).await;
        assert_eq!(
            text, "Error: denied by rule deny:Read(secrets/**)",
            "{tool} {path}"
        );
    }

    let (text, details) = result_of(&denied, "ls", json!({})).await;
    let (array, note) = text.split_at(text.find('\n').unwrap());
    let array: Value = serde_json::from_str(array).unwrap();
    assert_eq!((array.as_array().unwrap().len(), note), (2, WITHHELD));
    assert!(!details.contains("secrets"), "{details}");
    let (text, _) = result_of(
        &denying("Read(*.pem)"),
        "list_dir",
        json!({"path": "/workspace/src"}),
    )
    .await;
    assert_eq!(text, format!("FILE: .env.txt\nFILE: main.rs{WITHHELD}"));
    let (text, _) = result_of(&denying("Read(src/*)"), "list_dir", json!({"path": "src"})).await;
    assert_eq!(text, WITHHELD);
}

#[tokio::test]
async fn files_that_need_an_answer_are_left_out_until_allowed() {
    let asking = PermissionRules::new()
        .workspace("/workspace")
        .ask("Read(secrets/**)")
        .unwrap();
    let grep = |path: &str| json!({"pattern": "the key is [12]", "path": path});
    let (text, _) = result_of(&asking, "Grep", grep(".")).await;
    assert_eq!(text, format!("No matches found{LEFT_OUT}"));

    // Here the rule asked about the call itself, which was allowed.
    let (text, _) = result_of(&asking, "Grep", grep("secrets")).await;
    assert_eq!(text, "secrets/a.txt\nsecrets/deep/b.txt");
    let both = asking.deny("Read(secrets/deep/**)").unwrap();
    let (text, _) = result_of(&both, "Grep", grep("secrets")).await;
    assert_eq!(text, format!("secrets/a.txt{LEFT_OUT}"));
}

#[tokio::test]
async fn search_with_two_paths_shows_the_folder_that_was_asked_about() {
    let asking = PermissionRules::new()
        .workspace("/workspace")
        .ask("Read(secrets/**)")
        .unwrap();
    for (file_path, free) in [
        ("secrets/a.txt", "secrets/a.txt"),
        ("", "secrets/a.txt\nsecrets/deep/b.txt"),
    ] {
        let args = json!({"pattern": "the key is [12]", "path": "secrets", "file_path": file_path});
        let (text, _) = result_of(&asking, "Grep", args).await;
        assert_eq!(text, free, "{file_path:?}");
    }

    let args = json!({"pattern": "**/*.txt", "path": "secrets", "file_path": "secrets/deep"});
    let (text, _) = result_of(&asking, "Glob", args).await;
    assert_eq!(text, "secrets/deep/b.txt");

    // The pattern leads to a folder above that of the rule.
    let args = json!({"pattern": "/workspace/*/*.txt", "path": "secrets/deep"});
    let (text, _) = result_of(&asking, "Glob", args).await;
    assert_eq!(text, format!("No files found{LEFT_OUT}"));
}

#[test]
fn pattern_that_leaves_its_folder_is_checked_as_the_folder_it_leads_to() {
    let permissions = PermissionRules::new()
        .workspace("/workspace")
        .ask("Read(secrets/**)")
        .unwrap();
    for (path, pattern, decision) in [
        ("src", "*.rs", Behavior::Allow),
        ("src", "../src/*.rs", Behavior::Allow),
        ("src", "*/../../secrets/*", Behavior::Allow),
        ("src", "../secrets/*", Behavior::Ask),
        ("src", "x/../../secrets/deep/b.txt", Behavior::Ask),
        ("src", "/workspace/secrets/*", Behavior::Ask),
        ("src", "/workspace/src/*", Behavior::Allow),
        // Only the folder of the pattern is searched.
        ("secrets/deep", "/workspace/*/*.txt", Behavior::Allow),
        ("secrets/deep", "../../*/*.txt", Behavior::Allow),
        ("secrets", "../src/*", Behavior::Allow),
        (".", "/workspace/secrets/*", Behavior::Allow),
        // The search may access all files, and leaves out those that a rule asks about.
        ("", "/workspace/secrets/*", Behavior::Allow),
        ("", "secrets/*", Behavior::Allow),
    ] {
        let args = json!({"pattern": pattern, "path": path});
        for (name, tools) in [
            ("Glob", preset::coding(MemoryBackend::new())),
            ("glob", preset::wick(MemoryBackend::new())),
        ] {
            let tool = tools.get(name).unwrap();
            let call = ToolCall::new("c", name, args.clone());
            let explanation = permissions.explain(&call, &*tool);
            assert_eq!(explanation.decision, decision, "{name} {args}");
        }
    }
}

#[tokio::test]
async fn denied_files_are_left_out_in_every_mode() {
    for mode in [
        PermissionMode::BypassPermissions,
        PermissionMode::AcceptEdits,
        PermissionMode::Plan,
        PermissionMode::DontAsk,
    ] {
        let permissions = denying("Read(secrets/**)").mode(mode);
        let (text, _) = result_of(&permissions, "Glob", json!({"pattern": "**/*.txt"})).await;
        assert_eq!(text, format!("notes.txt{LEFT_OUT}"), "{mode}");
    }
}

#[test]
fn working_directory_is_part_of_the_paths_of_a_command() {
    let exec = picoclaw::exec(MemoryBackend::new());
    let permissions = PermissionRules::new()
        .workspace("/workspace")
        .allow("Bash(cat:*)")
        .unwrap()
        .allow("Bash(cd:*)")
        .unwrap()
        .deny("Read(secrets/**)")
        .unwrap();
    let verdict = |folder: &str, command: &str| {
        let args = json!({"command": command, "working_dir": folder});
        let call = ToolCall::new("c", "exec", args);
        permissions.explain(&call, &exec).decision
    };

    assert_eq!(verdict("secrets", "cat a.txt"), Behavior::Deny);
    assert_eq!(verdict("src/../secrets/deep", "cat b.txt"), Behavior::Deny);
    assert_eq!(verdict("src", "cat ../secrets/a.txt"), Behavior::Deny);
    assert_eq!(verdict("src", "cat main.rs"), Behavior::Allow);
    assert_eq!(verdict("", "cat notes.txt"), Behavior::Allow);
    assert_eq!(verdict("it's", "cat notes.txt"), Behavior::Allow);
    assert_eq!(verdict("x'; id; '", "cat notes.txt"), Behavior::Allow);
    assert_eq!(verdict("src", "cat main.rs; id"), Behavior::Ask);
}

#[test]
fn reading_tool_without_its_path_is_denied_and_searching_starts_at_the_root() {
    let permissions = PermissionRules::new()
        .workspace("/workspace")
        .allow("Read")
        .unwrap()
        .deny("Read(/etc/**)")
        .unwrap();
    let tools = preset::coding(MemoryBackend::new());
    for (name, decision) in [
        ("Read", Behavior::Deny),
        ("Glob", Behavior::Allow),
        ("Grep", Behavior::Allow),
    ] {
        let tool = tools.get(name).unwrap();
        let call = ToolCall::new("c", name, json!({}));
        assert_eq!(permissions.explain(&call, &*tool).decision, decision);
    }
}
