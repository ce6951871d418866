//! Rules about paths, and programs that read or change whole folders.

use agentcore::backend::LocalBackend;
use agentcore::hooks::PermissionHook;
use agentcore::permission::{Behavior, PermissionRules};
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::tools::preset;
use agentcore::{PermissionMode, SdkMessage, ToolDecision};
use serde_json::json;

use crate::kit::workspace::Workspace;
use crate::kit::{Gate, agent, results, watch};

fn decide(workspace: &Workspace, rule: &str, command: &str) -> Behavior {
    let permissions = PermissionRules::new()
        .workspace(workspace.root.to_str().unwrap())
        .allow("Bash")
        .unwrap()
        .deny(rule)
        .unwrap();
    permissions.explain_command(command).decision
}

#[test]
fn recursive_reader_asks_where_the_folder_holds_a_denied_name() {
    let workspace = Workspace::new();
    workspace.put("src/main.rs", "");
    workspace.put("app/deep/.env", "");
    workspace.put("keys/server.pem", "");
    for (rule, command, expected) in [
        ("Read(.env)", "grep -rn TODO src", Behavior::Allow),
        ("Read(.env)", "grep -rn TODO app", Behavior::Ask),
        ("Read(.env)", "rg TODO app", Behavior::Allow),
        ("Read(.env)", "rg --hidden TODO app", Behavior::Ask),
        ("Read(.env)", "tar czf a.tgz src", Behavior::Allow),
        ("Read(.env)", "tar czf a.tgz app", Behavior::Ask),
        ("Read(*.pem)", "rg TODO keys", Behavior::Ask),
        ("Read(*.pem)", "cp -a src /tmp/x", Behavior::Allow),
        ("Write(*.pem)", "rm -rf keys", Behavior::Ask),
        ("Write(*.pem)", "rm -rf src", Behavior::Allow),
    ] {
        assert_eq!(
            decide(&workspace, rule, command),
            expected,
            "{rule} {command}"
        );
    }
}

#[tokio::test]
async fn call_that_changes_a_large_folder_is_decided_by_all_of_its_files() {
    let workspace = Workspace::new();
    for folder in ["clean", "denied"] {
        for number in 0..2_000 {
            workspace.put(&format!("{folder}/{number}.txt"), "");
        }
    }
    workspace.put("denied/deep/x.pem", "");

    for (folder, is_removed) in [("clean", true), ("denied", false)] {
        let permissions = PermissionRules::new()
            .allow("Bash")
            .unwrap()
            .deny("Write(*.pem)")
            .unwrap();
        let args = json!({"command": format!("rm -r {folder}")});
        let agent = agent(ScriptedModel::new().call("Bash", args).say("done"))
            .registry(&preset::coding(LocalBackend::new(&workspace.root).unwrap()))
            .permissions(permissions.workspace(workspace.root.to_str().unwrap()))
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        let outcome = results(&output.messages);
        let exists = workspace.root.join(folder).exists();
        assert_eq!(exists, !is_removed, "{folder}: {outcome:?}");
    }
}

#[tokio::test]
async fn denial_by_another_gate_is_explained_only_if_few_files_are_looked_at() {
    let workspace = Workspace::new();
    for number in 0..2_000 {
        workspace.put(&format!("large/{number}.txt"), "");
    }
    workspace.put("large/x.pem", "");
    workspace.put("small/x.pem", "");

    for (folder, is_explained) in [("small", true), ("large", false)] {
        let rules = PermissionRules::new()
            .workspace(workspace.root.to_str().unwrap())
            .allow("Bash")
            .unwrap()
            .deny("Write(*.pem)")
            .unwrap();
        let args = json!({"command": format!("rm -r {folder}")});
        let agent = agent(ScriptedModel::new().call("Bash", args).say("done"))
            .registry(&preset::coding(LocalBackend::new(&workspace.root).unwrap()))
            .permissions(Gate(|_: &_| ToolDecision::deny("no")))
            .hook(PermissionHook::with(rules))
            .build()
            .unwrap();
        let (messages, _) = watch(agent.run("Go")).await;
        let explanations = messages.iter().filter_map(|message| match message {
            SdkMessage::System(system) => match &system.kind {
                SystemKind::PermissionDenied(denial) => Some(denial.decision_reason.is_some()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(explanations.collect::<Vec<_>>(), [is_explained], "{folder}");
    }
}

#[test]
fn recursive_reader_of_folders_written_with_a_wildcard_asks_where_one_holds_a_denied_name() {
    let workspace = Workspace::new();
    workspace.put("src/main.rs", "");
    workspace.put("app/deep/.env", "");
    workspace.put("keys/server.pem", "");
    workspace.put("build/out", "");
    workspace.put(".cache/keys/.netrc", "");
    for (rule, command, expected) in [
        ("Read(.env)", "grep -rn TODO a*", Behavior::Ask),
        ("Read(.env)", "grep -rn TODO *", Behavior::Ask),
        ("Read(.env)", "grep -rn TODO */", Behavior::Ask),
        ("Read(.env)", "grep -rn TODO */deep", Behavior::Ask),
        ("Read(.env)", "grep -rn TODO s*", Behavior::Allow),
        ("Read(.env)", "grep -rn TODO none*", Behavior::Allow),
        ("Read(.env)", "tar cf /tmp/x.tar a*", Behavior::Ask),
        ("Read(.env)", "tar cf /tmp/x.tar s* k*", Behavior::Allow),
        ("Read(.env)", "cp -a a* /tmp/x", Behavior::Ask),
        ("Read(app/deep/**)", "grep -rn TODO a*", Behavior::Ask),
        ("Read(app/deep/**)", "grep -rn TODO s*", Behavior::Allow),
        ("Read(./app/deep/.env)", "cp -a a?p /tmp/x", Behavior::Ask),
        ("Read(app/**/.env)", "cp -a a?p /tmp/x", Behavior::Ask),
        ("Write(*.pem)", "rm -rf k*", Behavior::Ask),
        ("Write(*.pem)", "rm -rf *", Behavior::Ask),
        ("Write(.env)", "rm -rf a*", Behavior::Ask),
        ("Write(.env)", "rm -rf build/*", Behavior::Allow),
        ("Write(.env)", "rm -rf b*", Behavior::Allow),
        // A wildcard at the beginning does not match a dot, but may match a name that is an option
        // with a file.
        ("Read(.netrc)", "grep -rn TODO ./*", Behavior::Allow),
        ("Read(.netrc)", "grep -rn TODO *", Behavior::Ask),
        ("Read(.netrc)", "grep -rn TODO .c*", Behavior::Ask),
    ] {
        assert_eq!(
            decide(&workspace, rule, command),
            expected,
            "{rule} {command}"
        );
    }
}

#[test]
fn recursive_reader_that_follows_links_asks_where_a_link_leads_to_a_denied_path() {
    let workspace = Workspace::new();
    let out = workspace.out.to_str().unwrap().to_owned();
    std::fs::create_dir_all(workspace.out.join("ssh/deep")).unwrap();
    std::fs::write(workspace.out.join("ssh/id"), "").unwrap();
    workspace.put("src/main.rs", "");
    workspace.put("src/circle/a", "");
    workspace.link(".", "src/circle/here");
    workspace.link("..", "src/circle/up");
    workspace.put("docs/a.md", "");
    workspace.link(workspace.out.join("ssh"), "docs/more");
    workspace.put("one/a.md", "");
    workspace.link(workspace.out.join("ssh/id"), "one/key");
    workspace.put("far/a.md", "");
    workspace.link(&workspace.out, "far/all");
    let folder = format!("Read({out}/ssh/**)");
    let name = "Read(id)".to_owned();
    for (command, expected) in [
        ("grep -r K docs", Behavior::Allow),
        ("grep -R K src", Behavior::Allow),
        ("grep -R K docs", Behavior::Ask),
        ("grep -R K .", Behavior::Ask),
        ("grep -R K d*", Behavior::Ask),
        ("grep -R K one", Behavior::Ask),
        ("grep -R K far", Behavior::Ask),
        ("grep --dereference-recursive K docs", Behavior::Ask),
        ("rg K docs", Behavior::Allow),
        ("rg --follow K docs", Behavior::Ask),
        ("rg -L K docs", Behavior::Ask),
        ("rg -L K src", Behavior::Allow),
        ("cp -r docs /tmp/x", Behavior::Allow),
        ("cp -rL docs /tmp/x", Behavior::Ask),
        ("cp -r --dereference docs /tmp/x", Behavior::Ask),
        ("tar cf /tmp/x.tar docs", Behavior::Allow),
        ("tar chf /tmp/x.tar docs", Behavior::Ask),
        ("tar -c --dereference -f /tmp/x.tar docs", Behavior::Ask),
        ("rsync -a docs /tmp/x", Behavior::Allow),
        ("rsync -aL docs /tmp/x", Behavior::Ask),
        ("rsync -a --copy-links docs /tmp/x", Behavior::Ask),
        ("find docs -type f", Behavior::Allow),
        ("find -L docs -type f", Behavior::Ask),
        ("find docs -follow -type f", Behavior::Ask),
        ("fd . docs", Behavior::Allow),
        ("fd --follow . docs", Behavior::Ask),
        ("diff -r docs src", Behavior::Ask),
        ("zip -r /tmp/x.zip docs", Behavior::Ask),
    ] {
        for rule in [&folder, &name] {
            let decision = decide(&workspace, rule, command);
            assert_eq!(decision, expected, "{rule} {command}");
        }
    }
}

#[test]
fn reader_that_follows_links_asks_where_folders_are_not_looked_up() {
    let permissions = PermissionRules::new()
        .workspace("/h/me/project")
        .home("/h/me")
        .follow_links(false)
        .allow("Bash")
        .unwrap()
        .deny("Read(~/.ssh/**)")
        .unwrap();
    let decide = |command: &str| permissions.explain_command(command).decision;
    assert_eq!(decide("grep -r K src"), Behavior::Allow);
    assert_eq!(decide("grep -R K src"), Behavior::Ask);
}

#[test]
fn command_with_more_folders_than_a_decision_looks_through_asks_with_that_reason() {
    let workspace = Workspace::new();
    let mut folders = String::new();
    for folder in 0..34 {
        folders.push_str(&format!(" d{folder}"));
        for number in 0..2_000 {
            workspace.put(&format!("d{folder}/{number}"), "");
        }
    }
    let permissions = PermissionRules::new()
        .workspace(workspace.root.to_str().unwrap())
        .allow("Bash")
        .unwrap()
        .deny("Read(.env)")
        .unwrap();
    let repeated = format!("ls -R{}", " d1".repeat(16_000));
    let few = permissions.explain_command(&repeated);
    assert_eq!(few.decision, Behavior::Allow, "{few}");

    let many = permissions.explain_command(&format!("ls -R{folders}"));
    assert_eq!(many.decision, Behavior::Ask, "{many}");
    assert!(many.why.contains("65,536 entries"), "{many}");

    let bypassing = permissions.mode(PermissionMode::BypassPermissions);
    let many = bypassing.explain_command(&format!("ls -R{folders}"));
    assert_eq!(many.decision, Behavior::Deny, "{many}");
    assert!(many.why.contains("65,536 entries"), "{many}");
}

#[test]
fn folder_with_too_many_entries_may_hold_a_denied_name() {
    let workspace = Workspace::new();
    for number in 0..4_200 {
        workspace.put(&format!("many/{number}"), "");
    }
    let decision = decide(&workspace, "Read(.env)", "grep -r x many");
    assert_eq!(decision, Behavior::Ask);
}

#[test]
fn git_in_another_repository_asks_and_in_a_folder_of_the_workspace_does_not() {
    let workspace = Workspace::new();
    workspace.put(".git/HEAD", "");
    workspace.put("src/main.rs", "");
    workspace.put("nested/.git/HEAD", "");
    workspace.put("bare/HEAD", "");
    workspace.put("bare/objects/x", "");
    workspace.put("bare/refs/x", "");
    workspace.put("bare/config", "[core]\n\tfsmonitor = ./evil\n");
    for (folder, expected) in [
        ("src", Behavior::Allow),
        (".", Behavior::Allow),
        ("nested", Behavior::Ask),
        ("bare", Behavior::Ask),
        ("bare/objects", Behavior::Ask),
        ("missing", Behavior::Ask),
        ("/tmp", Behavior::Ask),
    ] {
        for command in [
            format!("cd {folder} && git status"),
            format!("git -C {folder} status"),
        ] {
            let decision = decide(&workspace, "Bash(curl:*)", &command);
            assert_eq!(decision, expected, "{command}");
        }
        let permissions = PermissionRules::new()
            .workspace(workspace.root.to_str().unwrap())
            .allow("Bash(cd:*)")
            .unwrap()
            .allow("Bash(git status:*)")
            .unwrap();
        let command = format!("cd {folder} && git status");
        let decision = permissions.explain_command(&command).decision;
        assert_eq!(decision, expected, "{command}");
    }
}

#[test]
fn target_is_a_folder_if_the_disk_has_one() {
    let workspace = Workspace::new();
    workspace.put("x/.envrc", "");
    workspace.put("x/key.pem", "");
    workspace.put("dir.d/kept", "");
    for (rule, command, expected) in [
        ("Write(**/key.pem)", "cp x/key.pem dir.d", Behavior::Deny),
        ("Write(**/key.pem)", "cp x/key.pem d*.d", Behavior::Deny),
        ("Write(**/key.pem)", "mv notes.txt dir.d", Behavior::Allow),
        ("Write(**/key.pem)", "cp x/key.pem file.d", Behavior::Allow),
        (
            "Write(**/key.pem)",
            "mkdir new.d && cp x/key.pem new.d",
            Behavior::Deny,
        ),
        ("Write(none)", "cp x/.envrc dir.d", Behavior::Ask),
        ("Write(none)", "cp x/.envrc env.txt", Behavior::Allow),
    ] {
        assert_eq!(
            decide(&workspace, rule, command),
            expected,
            "{rule} {command}"
        );
    }
}
