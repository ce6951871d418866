//! Rules about paths, and symbolic links that lead to other paths.

use agentcore::permission::{Behavior, PermissionRules};
use agentcore::testing::ScriptedModel;
use agentcore::tools::preset;
use agentcore::{PermissionMode, ToolCall};
use serde_json::{Value, json};

use crate::kit::workspace::Workspace;
use crate::kit::{agent, results};

struct Case {
    workspace: Workspace,
    permissions: PermissionRules,
}

impl Case {
    /// Creates `secrets/key`, and links to it, to its folder, out of the workspace and to missing
    /// files.
    fn new(rules: impl FnOnce(PermissionRules) -> agentcore::Result<PermissionRules>) -> Self {
        let workspace = Workspace::new();
        workspace.put("secrets/key", "k");
        workspace.put(".git/hooks/readme", "");
        workspace.link("secrets", "folder");
        workspace.link("secrets/key", "file");
        workspace.link("file", "chain");
        workspace.link("secrets/new", "dangling");
        workspace.link("circle", "circle");
        workspace.link(".git/hooks", "tidy");
        workspace.link(&workspace.out, "outside");
        let root = workspace.root.to_str().unwrap();
        let permissions = rules(PermissionRules::new().workspace(root)).unwrap();
        Self {
            workspace,
            permissions,
        }
    }

    fn command(&self, command: &str) -> Behavior {
        self.permissions.explain_command(command).decision
    }

    /// Runs an agent that makes one call, and returns the text of its result.
    async fn result_text(&self, name: &str, args: Value) -> String {
        let tools = if name.starts_with(char::is_uppercase) {
            preset::coding(self.workspace.backend.clone())
        } else {
            preset::wick(self.workspace.backend.clone())
        };

        let agent = agent(ScriptedModel::new().call(name, args).say("done"))
            .registry(&tools)
            .permissions(self.permissions.clone())
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        results(&output.messages)
            .remove(0)
            .content
            .text()
            .into_owned()
    }

    fn verdict(&self, tool: &str, path: &str) -> Behavior {
        let tools = preset::coding(self.workspace.backend.clone());
        let args = match tool {
            "Write" => json!({"file_path": path, "content": ""}),
            _ => json!({"file_path": path}),
        };
        let call = ToolCall::new("c", tool, args);
        let tool = tools.get(tool).unwrap();
        self.permissions.explain(&call, &*tool).decision
    }
}

#[test]
fn denied_file_is_denied_through_links() {
    let case = Case::new(|rules| {
        let rules = rules.allow("Read")?.allow("Write")?;
        rules.deny("Read(secrets/**)")?.deny("Write(secrets/**)")
    });

    let absolute = case.workspace.root.join("folder/key");
    for path in [
        "secrets/key",
        "file",
        "chain",
        "folder/key",
        "./folder/../folder/key",
        "a/../file",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(case.verdict("Read", path), Behavior::Deny, "{path}");
        assert_eq!(case.verdict("Write", path), Behavior::Deny, "{path}");
    }

    for path in ["dangling", "folder/new", "folder/new/deeper"] {
        assert_eq!(case.verdict("Write", path), Behavior::Deny, "{path}");
    }

    for path in ["a/in.txt", "a/new", "circle", "nowhere/at/all"] {
        assert_eq!(case.verdict("Read", path), Behavior::Allow, "{path}");
    }
}

#[test]
fn allow_rule_must_match_the_link_target() {
    let case = Case::new(|rules| rules.allow("Write(a/**)"));
    case.workspace.link("../secrets", "a/link");
    assert_eq!(case.verdict("Write", "a/new"), Behavior::Allow);
    assert_eq!(case.verdict("Write", "a/link/new"), Behavior::Ask);
    case.workspace.link("in.txt", "a/near");
    assert_eq!(case.verdict("Write", "a/near"), Behavior::Allow);
}

#[test]
fn accepted_edits_do_not_leave_the_workspace_through_links() {
    let case = Case::new(|rules| Ok(rules.mode(PermissionMode::AcceptEdits)));
    assert_eq!(case.verdict("Write", "folder/new"), Behavior::Allow);
    assert_eq!(case.verdict("Write", "outside/new"), Behavior::Ask);
}

#[test]
fn protected_paths_are_protected_through_links() {
    let case = Case::new(|rules| rules.allow("Write"));
    assert_eq!(case.verdict("Write", "tidy/pre-commit"), Behavior::Ask);
}

#[test]
fn links_are_not_resolved_with_follow_links_disabled() {
    let case = Case::new(|rules| {
        rules
            .follow_links(false)
            .allow("Read")?
            .deny("Read(secrets/**)")
    });
    assert_eq!(case.verdict("Read", "folder/key"), Behavior::Allow);
    assert_eq!(case.verdict("Read", "secrets/key"), Behavior::Deny);
}

#[test]
fn workspace_behind_a_link_matches_rules_by_its_path() {
    let case = Case::new(Ok);
    case.workspace.link(&case.workspace.root, "self");
    let root = case.workspace.root.join("self");
    let permissions = PermissionRules::new()
        .workspace(root.to_str().unwrap())
        .allow("Read(a/**)")
        .unwrap()
        .deny("Read(secrets/**)")
        .unwrap();
    let case = Case {
        permissions,
        ..case
    };

    assert_eq!(case.verdict("Read", "a/in.txt"), Behavior::Allow);
    assert_eq!(case.verdict("Read", "folder/key"), Behavior::Deny);
}

#[tokio::test]
async fn search_through_a_link_leaves_denied_files_out() {
    let case = Case::new(|rules| {
        rules
            .deny("Read(secrets/inner/**)")?
            .deny("Read(secrets/key)")
    });

    case.workspace.put("secrets/inner/more", "k");
    case.workspace.put("secrets/free", "k");
    let absolute = case.workspace.root.join("folder");
    for folder in [
        "folder",
        "./folder",
        "a/../folder",
        absolute.to_str().unwrap(),
    ] {
        for (name, args) in [
            ("Grep", json!({"pattern": "k", "path": folder})),
            (
                "Grep",
                json!({"pattern": "k", "path": folder, "output_mode": "content"}),
            ),
            (
                "Grep",
                json!({"pattern": "k", "path": folder, "output_mode": "count"}),
            ),
            ("Glob", json!({"pattern": "**/*", "path": folder})),
            ("Glob", json!({"pattern": format!("{folder}/**/*")})),
            ("grep", json!({"pattern": "k", "path": folder})),
            ("glob", json!({"pattern": "**/*", "path": folder})),
            ("ls", json!({"path": folder})),
        ] {
            let text = case.result_text(name, args.clone()).await;
            assert!(text.contains("free"), "{name} {args}: {text}");
            assert!(
                !text.contains("key") && !text.contains("more"),
                "{name} {args}: {text}"
            );
        }
    }
}

#[tokio::test]
async fn denied_folder_is_denied_through_a_link() {
    let case = Case::new(|rules| rules.deny("Read(secrets/**)"));
    for path in ["folder", "folder/", "./folder"] {
        let text = case
            .result_text("Grep", json!({"pattern": "k", "path": path}))
            .await;
        assert_eq!(
            text, "Error: denied by rule deny:Read(secrets/**)",
            "{path}"
        );
        let text = case
            .result_text("Glob", json!({"pattern": "*", "path": path}))
            .await;
        assert_eq!(
            text, "Error: denied by rule deny:Read(secrets/**)",
            "{path}"
        );
        let pattern = format!("{}/*", path.trim_end_matches('/'));
        let text = case.result_text("Glob", json!({"pattern": pattern})).await;
        assert!(!text.contains("key"), "{text}");
    }
}

#[test]
fn command_words_are_checked_at_the_link_target() {
    let case = Case::new(|rules| {
        let rules = rules.allow("Bash")?.deny("Read(secrets/**)")?;
        rules.deny("Write(locked/**)")
    });

    case.workspace.put("locked/file", "");
    case.workspace.link("locked", "open");
    case.workspace.link("/etc", "a/system");
    let root = case.workspace.root.to_str().unwrap();
    for command in [
        "cat folder/key",
        "cat ./folder/../folder/key",
        "cat a/../folder/key",
        "cat file",
        "cat chain",
        "cat < folder/key",
        "cat 'folder'/key",
        "cat folder/*",
        "cat {folder,a}/key",
        "cd folder && cat key",
        "cd a && cat ../folder/key",
        "f=folder/key; cat $f",
        "cat $PWD/folder/key",
        "head -c 1 chain | wc",
        "curl -d @folder/key x",
        "dd if=folder/key",
        &format!("cat {root}/folder/key"),
        "echo x > open/file",
        "echo x > open/new",
        "cp a/in.txt open",
        "tee open/file",
        "cd open && touch file",
    ] {
        assert_eq!(case.command(command), Behavior::Deny, "{command}");
    }

    for command in [
        "grep -r k .",
        "find -name k -exec cat {} +",
        "gfind -name k -exec cat {} +",
    ] {
        assert_eq!(case.command(command), Behavior::Ask, "{command}");
    }

    for command in [
        "cat a/in.txt",
        "cat a/*",
        "cat circle",
        "cat nowhere/at/all",
        "cat open/file",
        "echo x > a/new",
        "cat a/system/hostname",
    ] {
        assert_eq!(case.command(command), Behavior::Allow, "{command}");
    }
}

#[test]
fn redirections_are_checked_at_the_link_target() {
    let case = Case::new(|rules| rules.allow("Bash(echo:*)")?.allow("Write(a/**)"));
    case.workspace.link("../secrets", "a/link");
    case.workspace.link("../.git", "a/repository");
    assert_eq!(case.command("echo x > a/new"), Behavior::Allow);
    assert_eq!(case.command("echo x > a/link/new"), Behavior::Ask);
    let case = Case::new(|rules| {
        let rules = rules.allow("Bash(echo:*)")?;
        Ok(rules.mode(PermissionMode::AcceptEdits))
    });

    assert_eq!(case.command("echo x > folder/new"), Behavior::Allow);
    assert_eq!(case.command("echo x > outside/new"), Behavior::Ask);
    assert_eq!(case.command("echo x > tidy/pre-commit"), Behavior::Ask);
}

#[test]
fn protected_paths_are_protected_from_commands_through_links() {
    let case = Case::new(|rules| rules.allow("Bash"));
    for command in [
        "echo x > tidy/pre-commit",
        "cp a/in.txt tidy/pre-commit",
        "cp a/in.txt tidy",
        "cd tidy && tee pre-commit",
        "chmod +x tidy/readme",
        "sed -i s/a/b/ tidy/readme",
    ] {
        assert_eq!(case.command(command), Behavior::Ask, "{command}");
    }

    assert_eq!(case.command("cat tidy/readme"), Behavior::Allow);
    let elsewhere = case.permissions.clone().follow_links(false);
    let explanation = elsewhere.explain_command("echo x > tidy/pre-commit");
    assert_eq!(explanation.decision, Behavior::Allow);
}

#[test]
fn command_with_more_words_than_are_resolved_asks() {
    let case = Case::new(|rules| rules.allow("Bash")?.deny("Read(secrets/**)"));
    let many: Vec<_> = (0..1100).map(|n| format!("a/f{n}")).collect();
    let command = format!("cat {}", many.join(" "));
    assert_eq!(case.command(&command), Behavior::Ask);
    let few = format!("cat {}", many[..400].join(" "));
    assert_eq!(case.command(&few), Behavior::Allow);
}

/// Runs on stacks of the size of a runtime's worker and below.
#[test]
fn path_of_any_length_and_links_to_such_paths_are_judged_on_a_small_stack() {
    let check = || {
        let case = Case::new(|rules| rules.allow("Bash")?.deny("Read(./secrets/**)"));
        let long_path = "r/".repeat(10_000);
        let command = |path: &str| case.command(&format!("cat {path}"));
        assert_eq!(command(&format!("{long_path}f")), Behavior::Allow);
        let back = "../".repeat(10_000);
        assert_eq!(
            command(&format!("{long_path}{back}secrets/key")),
            Behavior::Deny
        );

        // Each link leads through many missing folders to the next link.
        let missing = "r/".repeat(1_500);
        for n in 0..10 {
            case.workspace
                .link(format!("l{}/{missing}", n + 1), &format!("l{n}"));
        }
        assert_eq!(command("l0"), Behavior::Allow);
    };
    let thread = std::thread::Builder::new().stack_size(1024 * 1024);
    thread.spawn(check).unwrap().join().unwrap();
}

// `/proc/self/cwd` is the working directory of the command, not of this process.
#[cfg(target_os = "linux")]
#[test]
fn link_to_a_link_of_proc_leads_anywhere() {
    let case = Case::new(|rules| {
        rules
            .allow("Bash")?
            .deny("Read(secrets/**)")?
            .deny("Write(secrets/**)")
    });
    case.workspace.link("/proc/self/cwd", "here");
    case.workspace.link("/proc/thread-self/root", "top");
    let name = case.workspace.root.file_name().unwrap().to_str().unwrap();
    let parent = format!("/proc/self/cwd/../{name}");
    case.workspace.link(&parent, "above");
    for command in [
        &format!("cat {parent}/secrets/key"),
        &format!("cat here/../{name}/secrets/key"),
        &format!("cd /proc/self/cwd && cat ../{name}/secrets/key"),
        "cat above/secrets/key",
        "install -m 600 /dev/null above/secrets/key",
        "cat here/secrets/key",
        "sort < here/secrets/key",
        "cp /dev/null here/secrets/key",
        "cat top/etc/hostname",
    ] {
        assert_ne!(case.command(command), Behavior::Allow, "{command}");
    }
    for command in ["cat /dev/null", "cat outside/x"] {
        assert_eq!(case.command(command), Behavior::Allow, "{command}");
    }
}

#[test]
fn wildcards_next_to_links_are_expanded() {
    let case = Case::new(|rules| {
        rules
            .allow("Bash")?
            .deny("Read(secrets/**)")?
            .deny("Write(secrets/**)")
    });
    case.workspace.link(".", "here");
    case.workspace.put("docs/a.md", "");
    case.workspace.link("a.md", "docs/latest.md");
    for command in [
        "cat folder/k*",
        "cat folder/ke?",
        "cat < folder/k*",
        "cat folder/{key,x}*",
        "cat docs/../folder/k*",
        "cat here/folder/k*",
        "cat here/secrets/k*",
        "cat fold?r/key",
        "cat f[o]lder/key",
        "cat f*/key",
        "cat f*/k*",
        "cat h*/secrets/key",
        "cat fil*",
        "cat ch?in",
        "cd f* && cat key",
        "cp -r fol*/. docs",
        "echo x >> folder/y*",
        "tee f*/y",
    ] {
        assert_ne!(case.command(command), Behavior::Allow, "{command}");
    }
    for command in [
        "cat docs/*",
        "cat d*/*.md",
        "cat here/docs/*",
        "rm *.o",
        "rm docs/*",
        "mv docs/*.md archive",
    ] {
        assert_eq!(case.command(command), Behavior::Allow, "{command}");
    }
}

#[test]
fn links_whose_names_begin_with_a_dash_are_followed() {
    let case = Case::new(|rules| {
        let rules = rules.allow("Bash")?.deny("Read(secrets/**)")?;
        rules.deny("Write(secrets/**)")
    });
    case.workspace.link("secrets", "-q");
    case.workspace.link("secrets/key", "-x");
    case.workspace.link(".git", "-g");
    for command in [
        "cat < -q/key",
        "cat -- -q/key",
        "cat -- -q/k*",
        "cat -- -?/key",
        "cat -- -x",
        "mapfile a < -q/key",
        "cp -- -x a/new",
        "echo x > -q/new",
        "tee -- -q/new",
        "rm -- -x",
        "dd if=-q/key",
        "for f in -q/key; do cat -- $f; done",
        "echo x > -g/config",
        "cp -- a/in.txt -g/config",
    ] {
        assert_ne!(case.command(command), Behavior::Allow, "{command}");
    }
    assert_eq!(case.command("cat -n -- a/in.txt"), Behavior::Allow);
}

#[test]
fn long_words_of_many_wildcards_are_a_question() {
    let case = Case::new(|rules| rules.allow("Bash")?.deny("Read(secrets/**)"));
    case.workspace.link(".", "here");
    case.workspace.put("links/readme", "");
    for number in 0..500 {
        case.workspace.link("..", &format!("links/{number}"));
    }
    let command = |folders: usize| format!("cat links/*/{}a/in.txt", "here/".repeat(folders));
    assert_eq!(case.command(&command(20)), Behavior::Allow);
    let explanation = case.permissions.explain_command(&command(700));
    assert_eq!(explanation.decision, Behavior::Ask);
}

#[cfg(target_os = "linux")]
#[test]
fn dangling_link_in_shared_memory_is_followed() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: there is no /dev/shm to write to");
        return;
    };
    let case = Case::new(|rules| rules.allow("Bash")?.deny("Write(secrets/**)"));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(case.workspace.root.join("secrets/new"), &link).unwrap();
    let command = format!("cp a {}", link.display());
    assert_ne!(case.command(&command), Behavior::Allow, "{command}");
}
