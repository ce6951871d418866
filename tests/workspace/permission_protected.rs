//! Files that decide which programs run later: they are not written without an answer, whether they
//! exist or not.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::MemoryHook;
use agentcore::permission::{Behavior, PermissionRules};
use agentcore::testing::ScriptedModel;
use agentcore::tools::preset;
use agentcore::{OnUnanswered, PermissionMode, ToolCall};
use serde_json::{Value, json};

use crate::kit::{Log, agent, logged, result_texts};

const PATHS: [&str; 41] = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".mcp.json",
    ".agentcore/settings.json",
    "sub/module/.git/hooks/post-checkout",
    "src/../.git/config",
    "/workspace/.git//hooks/x",
    ".GIT/Hooks/x",
    ".Mcp.JSON",
    // Some file systems treat these characters as others, or ignore them.
    ".git/con\u{fb01}g",
    ".git/hoo\u{212a}s/x",
    ".g\u{200c}it/config",
    // A file of this name directs git to another repository.
    ".git",
    "own/settings.toml",
    ".git/HEAD",
    ".git/modules/lib/HEAD",
    ".claude/settings.json",
    "sub/.claude/commands/x.md",
    ".vscode/tasks.json",
    ".vscode",
    ".idea/workspace.xml",
    ".envrc",
    "sub/.envrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".npmrc",
    "packages/a/.npmrc",
    ".husky/pre-commit",
    ".cargo/config.toml",
    ".cargo/config",
    "AGENTS.md",
    "agents.MD",
    "sub/AGENTS.md",
    "CLAUDE.md",
    "skills/greet/SKILL.md",
    "skills/greet/scripts/run.sh",
    "tools/SKILL.md",
    "src/../.Claude/x",
];

const MODES: [PermissionMode; 4] = [
    PermissionMode::Default,
    PermissionMode::AcceptEdits,
    PermissionMode::BypassPermissions,
    PermissionMode::DontAsk,
];

/// Rules that allow everything that rules can allow.
fn generous() -> PermissionRules {
    let mut permissions = PermissionRules::new().workspace("/workspace");
    for rule in ["Bash", "Write", "Edit", "Read", "*"] {
        permissions = permissions.allow(rule).unwrap();
    }
    permissions.protect("/workspace/own")
}

#[test]
fn what_is_cut_out_of_a_folder_above_a_path_of_the_program_is_asked_about() {
    let decision = |command: &str| generous().explain_command(command).decision;
    for command in [
        "find . -name k.txt -delete",
        "find . -name '*.txt' -exec rm {} +",
        "chmod -R 600 .",
    ] {
        assert_eq!(decision(command), Behavior::Ask, "{command}");
    }
    for command in ["find src -name '*.txt' -delete", "find . -name k.txt"] {
        assert_eq!(decision(command), Behavior::Allow, "{command}");
    }
}

/// Returns the calls of each tool that write `path`.
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

/// The mode changes with each path and each call, so that every path and every call is checked in
/// every mode.
#[tokio::test]
async fn protected_paths_are_not_written_by_any_tool_in_any_mode() {
    let permissions = generous();
    for (row, path) in PATHS.into_iter().enumerate() {
        for (column, (tool, args)) in writers(path).into_iter().enumerate() {
            let mode = MODES[(row + column) % MODES.len()];
            let backend = MemoryBackend::new();
            let tools = match tool {
                "append_file" | "exec" => preset::picoclaw(backend.clone()),
                _ if tool.starts_with(char::is_uppercase) => preset::coding(backend.clone()),
                _ => preset::wick(backend.clone()),
            };

            let agent = agent(ScriptedModel::new().call(tool, args.clone()).say("done"))
                .registry(&tools)
                .permissions(permissions.clone())
                .permission_mode(mode)
                .build()
                .unwrap();
            let output = agent.run("Go").await.unwrap();
            let text = result_texts(&output.messages).remove(0);
            let row = format!("{mode} {tool} {args}: {text}");
            let hidden = text.contains("it holds the character \\u{200c}");
            assert!(hidden || text.contains("decides what runs later"), "{row}");
            assert!(backend.list("").await.unwrap().is_empty(), "{row}");
        }
    }
}

/// A question may be answered later, so it is no denial.
#[tokio::test]
async fn write_to_a_protected_path_can_stay_pending() {
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
        ".claudeignore",
        ".bashrc.d/x",
        "docs/AGENTS.txt",
        "AGENTS.md.orig",
        ".cargo/credentials.toml",
        "src/skills/x.rs",
        "idea/x",
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
        "cat AGENTS.md .npmrc",
        "grep -rn x .claude skills",
        "git add AGENTS.md CLAUDE.md .vscode",
        "git diff -- AGENTS.md",
        "git commit -m 'skills' CLAUDE.md",
        "cp AGENTS.md docs/agents.txt",
        "cp -r .vscode build",
        "source ~/.bashrc && npm test",
        ". .envrc; make",
        "cargo test skills",
        "git switch skills",
        "rm -rf build/*",
        "chmod 644 docs/*.md",
    ] {
        assert_eq!(
            decide("Bash", json!({"command": command})),
            Behavior::Allow,
            "{command}"
        );
    }
}

#[test]
fn command_that_may_write_a_protected_file_is_asked_about() {
    for command in [
        "mkdir .vscode",
        "rm -f CLAUDE.md",
        "mv AGENTS.md old.md",
        "mv other skills",
        "cp -r x skills",
        "cp x AGENTS.md -v",
        "cp x AGENTS.md $v",
        "git checkout -- AGENTS.md",
        "git diff --output AGENTS.md",
        "git diff --output=.npmrc HEAD",
        "git log $x AGENTS.md",
        "touch ~/.bashrc",
        "echo x >> $HOME/.profile",
        "sed -i s/x/y/ .husky/pre-push",
        "tee -a .envrc < x",
        "tee skills/a/SKILL.md",
    ] {
        let explanation = generous().explain_command(command);
        assert_eq!(
            explanation.decision,
            Behavior::Ask,
            "{command}: {explanation}"
        );
        assert!(
            explanation.why.ends_with("decides what runs later"),
            "{explanation}"
        );
    }
}

#[cfg(unix)]
#[test]
fn wildcard_is_compared_with_the_files_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let rules = generous().workspace(folder.path().to_str().unwrap());
    let decide = |command: &str| rules.explain_command(command).decision;
    for name in ["a.md", "docs/a.md", "docs/b.txt"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }

    let commands = ["sed -i s/x/y/ *.md", "rm docs/*", "cd docs && rm [Aa]*"];
    for command in commands {
        assert_eq!(decide(command), Behavior::Allow, "{command}");
    }
    std::fs::write(folder.path().join("docs/AGENTS.md"), "x").unwrap();
    std::fs::write(folder.path().join("CLAUDE.md"), "x").unwrap();
    for command in commands {
        assert_eq!(decide(command), Behavior::Ask, "{command}");
    }
    let elsewhere = rules.clone().follow_links(false);
    assert_eq!(
        elsewhere.explain_command("rm src/*.md").decision,
        Behavior::Ask
    );
}

/// Returns the result of a call by an agent with this hook, in a mode that accepts edits.
async fn outcome(hook: MemoryHook, tool: &str, args: Value) -> String {
    let log = Log::default();
    let agent = agent(ScriptedModel::new().call(tool, args).say("done"))
        .tools([logged("Bash", &log), logged("Write", &log)])
        .hook(hook)
        .permissions(generous())
        .permission_mode(PermissionMode::AcceptEdits)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    result_texts(&output.messages).remove(0)
}

#[tokio::test]
async fn memory_file_that_the_program_named_is_written_without_a_question() {
    let named = |path: &str| MemoryHook::new(MemoryBackend::new()).paths([path]);
    let write = |path: &str| json!({"file_path": path, "content": "x"});
    let append = |path: &str| json!({"command": format!("echo x >> {path}")});
    for (hook, tool, args, is_asked) in [
        (named("AGENTS.md"), "Write", write("AGENTS.md"), false),
        (
            named("/workspace/AGENTS.md"),
            "Write",
            write("./AGENTS.md"),
            false,
        ),
        (named("AGENTS.md"), "Bash", append("AGENTS.md"), false),
        (
            named("notes/CLAUDE.md"),
            "Bash",
            append("/workspace/notes/CLAUDE.md"),
            false,
        ),
        (named("AGENTS.md"), "Write", write("CLAUDE.md"), true),
        (named("AGENTS.md"), "Write", write("sub/AGENTS.md"), true),
        (named("AGENTS.md"), "Bash", append("agents.md"), true),
        (named("AGENTS.md"), "Bash", append("$x"), true),
        (
            named("/elsewhere/AGENTS.md"),
            "Write",
            write("AGENTS.md"),
            true,
        ),
        (
            MemoryHook::new(MemoryBackend::new()),
            "Write",
            write("AGENTS.md"),
            true,
        ),
    ] {
        let row = format!("{hook:?} {tool} {args}");
        let text = outcome(hook, tool, args).await;
        assert_eq!(
            text.contains("decides what runs later"),
            is_asked,
            "{row}: {text}"
        );
    }
}

/// On a case-insensitive disk, `SECRETS` is `secrets`; rules that allow stay case-sensitive.
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
