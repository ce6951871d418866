//! Files that decide what runs later: nothing writes them without an answer, whether they are
//! there or not.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::permission::{Behavior, PermissionRules};
use agentcore::testing::ScriptedModel;
use agentcore::tools::preset;
use agentcore::{OnUnanswered, PermissionMode, ToolCall};
use serde_json::{Value, json};

use crate::kit::{agent, texts};

const PATHS: [&str; 14] = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".mcp.json",
    ".agentcore/settings.json",
    "sub/module/.git/hooks/post-checkout",
    "src/../.git/config",
    "/workspace/.git//hooks/x",
    ".GIT/Hooks/x",
    ".Mcp.JSON",
    // Letters that some file systems take for others, or for nothing.
    ".git/con\u{fb01}g",
    ".git/hoo\u{212a}s/x",
    ".g\u{200c}it/config",
    // A file of this name leads git to another repository.
    ".git",
    "own/settings.toml",
];

const MODES: [PermissionMode; 4] = [
    PermissionMode::Default,
    PermissionMode::AcceptEdits,
    PermissionMode::BypassPermissions,
    PermissionMode::DontAsk,
];

/// Everything is allowed, as far as rules can.
fn generous() -> PermissionRules {
    let mut permissions = PermissionRules::new().workspace("/workspace");
    for rule in ["Bash", "Write", "Edit", "Read", "*"] {
        permissions = permissions.allow(rule).unwrap();
    }
    permissions.protect("/workspace/own")
}

/// How each tool that writes is made to write `path`.
fn writers(path: &str) -> Vec<(&'static str, Value)> {
    let content = |content: &str| json!({"path": path, "file_path": path, "content": content});
    let edit = json!({"path": path, "file_path": path, "old_string": "a", "new_string": "b",
                      "old_text": "a", "new_text": "b"});
    let mut all = vec![
        ("Write", content("x")),
        ("write_file", content("x")),
        ("append_file", content("x")),
        ("Edit", edit.clone()),
        ("edit_file", edit),
    ];
    for command in [
        format!("echo x > '{path}'"),
        format!("echo x >> '{path}'"),
        format!("cp x '{path}'"),
        format!("ln -sf /tmp/x '{path}'"),
        format!("cd src && mv x ../'{path}'"),
    ] {
        let absolute = path.starts_with('/') && command.contains("../");
        if absolute {
            continue;
        }
        for tool in ["Bash", "execute", "exec"] {
            all.push((tool, json!({"command": command})));
        }
    }

    all
}

#[tokio::test]
async fn protected_paths_are_not_written_by_any_tool_in_any_mode() {
    for path in PATHS {
        for (tool, args) in writers(path) {
            for mode in MODES {
                let backend = MemoryBackend::new();
                let tools = match tool {
                    "append_file" | "exec" => preset::picoclaw(backend.clone()),
                    _ if tool.starts_with(char::is_uppercase) => preset::coding(backend.clone()),
                    _ => preset::wick(backend.clone()),
                };

                let agent = agent(ScriptedModel::new().call(tool, args.clone()).say("done"))
                    .registry(&tools)
                    .permissions(generous())
                    .permission_mode(mode)
                    .build()
                    .unwrap();
                let output = agent.run("Go").await.unwrap();
                let text = texts(&output.messages).remove(0);
                let row = format!("{mode} {tool} {args}: {text}");
                let hidden = text.contains("it holds the character \\u{200c}");
                assert!(hidden || text.contains("decides what runs later"), "{row}");
                assert!(backend.list("").await.unwrap().is_empty(), "{row}");
            }
        }
    }
}

/// The question can be answered, now or later: it is no denial.
#[tokio::test]
async fn write_to_a_protected_path_can_be_parked() {
    let args = json!({"file_path": ".git/config", "content": "x"});
    let agent = agent(ScriptedModel::new().call("Write", args))
        .registry(&preset::coding(MemoryBackend::new()))
        .permissions(generous())
        .permission_mode(PermissionMode::BypassPermissions)
        .unanswered(OnUnanswered::Park)
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    let pending = agent.session("s").state().await.unwrap().unwrap().pending;
    assert_eq!(pending.len(), 1);
    let question = &pending[0].question;
    assert!(
        question.starts_with("Write wants to write .git/config: "),
        "{question}"
    );
}

#[test]
fn similar_paths_and_reads_are_allowed() {
    let tools = preset::coding(MemoryBackend::new());
    let decide = |name: &str, args: Value| {
        let call = ToolCall::new("c", name, args);
        let tool = tools.get(name).unwrap();
        generous().explain(&call, &*tool).decision
    };

    for path in [
        ".gitignore",
        ".github/workflows/ci.yml",
        "git/hooks/x",
        "mcp.json",
        "src/.git.rs",
        "own.toml",
    ] {
        let args = json!({"file_path": path, "content": "x"});
        assert_eq!(decide("Write", args), Behavior::Allow, "{path}");
    }

    for path in PATHS {
        assert_eq!(
            decide("Read", json!({"file_path": path})),
            Behavior::Allow,
            "{path}"
        );
    }

    for command in [
        "cat .git/config",
        "git --git-dir=.git log",
        "git -C .git status",
        "ls -la .git",
        "find . -name .git -prune -o -type f -print",
        "grep -r x --exclude-dir=.git .",
        "cp -r src build",
        "mv a.git b",
        "rsync -a --exclude .git src/ build/",
    ] {
        assert_eq!(
            decide("Bash", json!({"command": command})),
            Behavior::Allow,
            "{command}"
        );
    }
}

/// On such a disk `SECRETS` is `secrets`; a rule to allow stays as it is written.
#[test]
fn case_insensitive_folds_case_in_deny_rules_only() {
    let tools = preset::coding(MemoryBackend::new());
    let decide = |permissions: &PermissionRules, name: &str, args: Value| {
        let call = ToolCall::new("c", name, args);
        let tool = tools.get(name).unwrap();
        permissions.explain(&call, &*tool).decision
    };

    let rules = |folds: bool| {
        PermissionRules::new()
            .workspace("/Work/Space")
            .allow("Bash")
            .unwrap()
            .allow("Write(src/**)")
            .unwrap()
            .deny("Read(Secrets/**)")
            .unwrap()
            .deny("Write(/work/space/locked)")
            .unwrap()
            .case_insensitive(folds)
    };

    for (name, args, folded, told_apart) in [
        (
            "Read",
            json!({"file_path": "secrets/a"}),
            Behavior::Deny,
            Behavior::Allow,
        ),
        (
            "Read",
            json!({"file_path": "Secrets/a"}),
            Behavior::Deny,
            Behavior::Deny,
        ),
        (
            "Bash",
            json!({"command": "cat SECRETS/a"}),
            Behavior::Deny,
            Behavior::Allow,
        ),
        (
            "Bash",
            json!({"command": "grep -r x /work"}),
            Behavior::Ask,
            Behavior::Allow,
        ),
        (
            "Write",
            json!({"file_path": "LOCKED", "content": ""}),
            Behavior::Deny,
            Behavior::Ask,
        ),
        (
            "Write",
            json!({"file_path": "SRC/a", "content": ""}),
            Behavior::Ask,
            Behavior::Ask,
        ),
        (
            "Write",
            json!({"file_path": "src/a", "content": ""}),
            Behavior::Allow,
            Behavior::Allow,
        ),
    ] {
        assert_eq!(
            decide(&rules(true), name, args.clone()),
            folded,
            "{name} {args}"
        );
        assert_eq!(
            decide(&rules(false), name, args.clone()),
            told_apart,
            "{name} {args}"
        );
    }
}
