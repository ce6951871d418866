//! Rules about paths, and programs that read or change whole folders.

use agentcore::permission::{Behavior, PermissionRules};

use crate::kit::workspace::Workspace;

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
