//! Rules about files, and folders that are copied onto folders with links.

use agentcore::PermissionMode;
use agentcore::permission::{Behavior, PermissionRules};

use crate::kit::workspace::Workspace;

const WRITE: &str = "Write(secret/**)";

/// A workspace with the folder `A`, and folders whose links to `secret` have the names of files in
/// `A`, or other names.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for path in [
        "secret/key",
        ".git/config",
        "docs/a.md",
        "f",
        "A/x",
        "A/plain",
        "A/sub/y",
        "same/x",
        "same/sub/y",
        "own/in",
    ] {
        workspace.put(path, "k");
    }
    for (target, path) in [
        ("../secret/key", "file/x"),
        ("../../secret/key", "nested/sub/y"),
        ("../../secret/key", "inner/A/x"),
        ("../../../secret/key", "parents/A/sub/y"),
        ("../secret", "folder/sub"),
        ("../secret/new", "missing/x"),
        ("../secret/key", "other/other"),
        ("../.git/config", "git/x"),
        ("in", "own/x"),
    ] {
        let folder = path.rsplit_once('/').unwrap().0;
        workspace.put(&format!("{folder}/readme"), "");
        workspace.link(target, path);
    }
    workspace
}

fn rules(workspace: &Workspace, denied: &[&str]) -> PermissionRules {
    let rules = PermissionRules::new().workspace(workspace.root.to_str().unwrap());
    let rules = rules.allow("Bash").unwrap();
    let mut denied = denied.iter();
    denied
        .try_fold(rules, |rules, rule| rules.deny(rule))
        .unwrap()
}

fn decide(workspace: &Workspace, denied: &[&str], line: &str) -> Behavior {
    rules(workspace, denied).explain_command(line).decision
}

/// Lines that may write to `secret`, although none of their words leads to it.
const WRITERS: &[&str] = &[
    "cp -r A/. file",
    "cp -a A/. file",
    "cp -R A/. ./file/",
    "cp -rT A file",
    "cp -aT A/ file",
    "cp -rt file A/.",
    "cp --recursive --target-directory=file A/.",
    "cp -rL A/. file",
    "cp -r [A]/. file",
    "cp -r A/. {same,file}",
    "cp -r A/. nested",
    "cp -r A/* nested",
    "cp -r A inner",
    "cp -r A/ inner/",
    "cp -rt inner A",
    "cp -r --parents A/sub parents",
    "cp -r A/. missing",
    "cp -r docs/../A/. file",
    // Some versions of the programs copy into the folder behind the link.
    "cp -r A/. folder",
    "rsync -aK A/ folder",
    "cd A && cp -r . ../file",
    "cd docs && cp -r ../A/. ../file",
    "bash -c 'cp -r A/. file'",
    "for d in file; do cp -r A/. $d; done",
    "for s in A; do cp -r $s/. file; done",
    "scp -r A/. file",
    "scp -r host:p/. other",
    // The names of the copied files are not known before the line runs.
    "touch A/other && cp -r A/. other",
    "echo k > A/other; cp -r A/. other",
    "cp f A/other; cp -r A/. other",
    "cp -r new/. A; cp -r A/. other",
    "mkdir new && cp f new/other && cp -r new/. other",
];

#[test]
fn link_with_the_name_of_a_copied_file_is_written_through() {
    let workspace = workspace();
    let bypass = rules(&workspace, &[WRITE]).mode(PermissionMode::BypassPermissions);
    for line in WRITERS {
        assert_ne!(
            decide(&workspace, &[WRITE], line),
            Behavior::Allow,
            "{line}"
        );
        let decision = bypass.explain_command(line).decision;
        assert_eq!(decision, Behavior::Deny, "{line}");
        assert_eq!(decide(&workspace, &[], line), Behavior::Allow, "{line}");
    }
}

#[test]
fn everyday_copies_of_folders_are_allowed() {
    let workspace = workspace();
    for line in [
        "cp -r A/. same",
        "cp -r A/. docs/",
        "cp -r A/. new",
        "cp -a A new/x",
        "mkdir -p same && cp -r A/. same/",
        "cd A && cp -r . ../same",
        "rm -rf new && cp -r A new",
        "rsync -a A/ file",
        "scp -r host:p/. same",
        "scp -r A host:file",
        // The names of the links are different.
        "cp -r A/. other",
        "cp -r A/plain file",
        "cp -r A/sub/. file",
        "cp -r missing-source/. file",
        // The copied link replaces the existing one.
        "cp -a own/. file",
    ] {
        let decision = decide(&workspace, &[WRITE], line);
        assert_eq!(decision, Behavior::Allow, "{line}");
    }
    for line in [
        "cp -a A/. .",
        "cp -r \"$SRC\" \"$OUT\"",
        "cp -r \"$SRC\" other",
        "tar xf e.tar && cp -r A/. same",
        "git pull && cp -r A/. same",
        "find A -name x -exec cp -r {} same \\;",
    ] {
        let decision = decide(&workspace, &[], line);
        assert_eq!(decision, Behavior::Allow, "{line}");
    }
}

#[test]
fn protected_file_is_not_written_through_a_link() {
    let workspace = workspace();
    for line in [
        "cp -r A/. git",
        "cp -rt git A/.",
        "d=git; cp -r A/. $d",
        "cp -r \"$SRC\"/. git",
        "tar xf e.tar && cp -r new/. git",
        "git pull && cp -r A/. git",
    ] {
        assert_eq!(decide(&workspace, &[], line), Behavior::Ask, "{line}");
    }
    let line = "cp -r A/sub/. git";
    assert_eq!(decide(&workspace, &[], line), Behavior::Allow, "{line}");
}

#[test]
fn folders_with_many_entries_are_compared_as_far_as_they_are_read() {
    let workspace = workspace();
    for number in 0..4_200 {
        workspace.put(&format!("large/{number}"), "");
    }
    let line = "cp -r A/. large";
    assert_eq!(decide(&workspace, &[WRITE], line), Behavior::Allow);
    // The link has the name of a file in the source.
    workspace.link("../secret/key", "large/x");
    assert_ne!(decide(&workspace, &[WRITE], line), Behavior::Allow);

    for number in 0..2_100 {
        workspace.put(&format!("two/a/{number}"), "");
        workspace.put(&format!("two/b/{number}"), "");
    }
    workspace.put("names/a/x", "");
    workspace.put("names/b/x", "");
    let line = "cp -r names/. two";
    assert_eq!(decide(&workspace, &[WRITE], line), Behavior::Allow);
    workspace.link("../docs", "two/docs");
    assert_eq!(decide(&workspace, &[WRITE], line), Behavior::Ask);
    assert_eq!(decide(&workspace, &[], line), Behavior::Allow);
}

#[test]
fn copies_that_are_too_many_to_compare_may_write_anywhere() {
    let workspace = workspace();
    let line = |count: usize| "cp -r A/. same; ".repeat(count);
    assert_eq!(decide(&workspace, &[WRITE], &line(20)), Behavior::Allow);
    assert_ne!(decide(&workspace, &[WRITE], &line(260)), Behavior::Allow);
}

#[test]
fn links_in_targets_are_not_looked_up_with_follow_links_disabled() {
    let workspace = workspace();
    let rules = rules(&workspace, &[WRITE]).follow_links(false);
    let decision = rules.explain_command("cp -r A/. file").decision;
    assert_eq!(decision, Behavior::Allow);
}
