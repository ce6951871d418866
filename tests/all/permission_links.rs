//! Rules about paths, and symbolic links that lead elsewhere.

use agentcore::permission::{Permissions, Verdict};
use agentcore::tools::preset;
use agentcore::{PermissionMode, ToolCall};
use serde_json::json;

use crate::workspace::Workspace;

struct Case {
    workspace: Workspace,
    permissions: Permissions,
}

impl Case {
    /// `secrets/key`, with links to it, its folder, what is outside and what is not there.
    fn new(rules: impl FnOnce(Permissions) -> agentcore::Result<Permissions>) -> Self {
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
        let permissions = rules(Permissions::new().workspace(root)).unwrap();
        Self {
            workspace,
            permissions,
        }
    }

    fn verdict(&self, tool: &str, path: &str) -> Verdict {
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
fn a_denied_file_is_denied_by_any_name() {
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
        assert_eq!(case.verdict("Read", path), Verdict::Deny, "{path}");
        assert_eq!(case.verdict("Write", path), Verdict::Deny, "{path}");
    }
    for path in ["dangling", "folder/new", "folder/new/deeper"] {
        assert_eq!(case.verdict("Write", path), Verdict::Deny, "{path}");
    }
    for path in ["a/in.txt", "a/new", "circle", "nowhere/at/all"] {
        assert_eq!(case.verdict("Read", path), Verdict::Allow, "{path}");
    }
}

#[test]
fn what_is_allowed_must_be_so_where_the_link_leads() {
    let case = Case::new(|rules| rules.allow("Write(a/**)"));
    case.workspace.link("../secrets", "a/link");
    assert_eq!(case.verdict("Write", "a/new"), Verdict::Allow);
    assert_eq!(case.verdict("Write", "a/link/new"), Verdict::Ask);
    case.workspace.link("in.txt", "a/near");
    assert_eq!(case.verdict("Write", "a/near"), Verdict::Allow);
}

#[test]
fn accepted_edits_do_not_leave_the_workspace_through_links() {
    let case = Case::new(|rules| Ok(rules.mode(PermissionMode::AcceptEdits)));
    assert_eq!(case.verdict("Write", "folder/new"), Verdict::Allow);
    assert_eq!(case.verdict("Write", "outside/new"), Verdict::Ask);
}

#[test]
fn what_runs_later_is_protected_behind_links() {
    let case = Case::new(|rules| rules.allow("Write"));
    assert_eq!(case.verdict("Write", "tidy/pre-commit"), Verdict::Ask);
}

#[test]
fn a_workspace_elsewhere_is_not_looked_up() {
    let case = Case::new(|rules| {
        rules
            .follow_links(false)
            .allow("Read")?
            .deny("Read(secrets/**)")
    });
    assert_eq!(case.verdict("Read", "folder/key"), Verdict::Allow);
    assert_eq!(case.verdict("Read", "secrets/key"), Verdict::Deny);
}

#[test]
fn a_workspace_behind_a_link_keeps_its_name() {
    let case = Case::new(Ok);
    case.workspace.link(&case.workspace.root, "self");
    let root = case.workspace.root.join("self");
    let permissions = Permissions::new()
        .workspace(root.to_str().unwrap())
        .allow("Read(a/**)")
        .unwrap()
        .deny("Read(secrets/**)")
        .unwrap();
    let case = Case {
        permissions,
        ..case
    };
    assert_eq!(case.verdict("Read", "a/in.txt"), Verdict::Allow);
    assert_eq!(case.verdict("Read", "folder/key"), Verdict::Deny);
}
