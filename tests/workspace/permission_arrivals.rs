//! Rules about files, and commands that use links which another command of the line puts in place.

use agentcore::PermissionMode;
use agentcore::permission::{Behavior, PermissionRules};

use crate::kit::workspace::Workspace;

const READ: &str = "Read(secret/**)";
const WRITE: &str = "Write(secret/**)";

/// A workspace with `secret/key`, links that lead to it only from the root, and dangling links.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for path in [
        "secret/key",
        ".git/config",
        "docs/a.txt",
        "f",
        "e.tar",
        "e.zip",
        "README.md",
    ] {
        workspace.put(path, "");
    }
    workspace.put("a/b/d/file", "");
    for (target, path) in [
        ("secret", "a/s"),
        ("secret/key", "a/sk"),
        (".git", "a/g"),
        ("../secret", "a/b/l"),
        ("../secret", "a/b/d/l"),
        ("z", "n"),
        ("y/key", "m"),
        ("x/../../secret/key", "back"),
    ] {
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

/// Lines that read `secret/key`, although none of their words leads to it before they run.
const READERS: &[&str] = &[
    "mv a/s x; cat x/key",
    "cat x/key; mv a/s x",
    "mv a/s x && cat < x/key",
    "mv a/s x; cd x; cat key",
    "mv a/s ./x; cat docs/../x/key",
    "mv a/s docs; cat docs/s/key",
    "mv -t docs a/s f; cat docs/s/key",
    "cd a && mv s ../x && cat ../x/key",
    "cp -a a/sk .; cat sk",
    "cp -P a/sk x; cat x",
    "cp --no-dereference a/sk x; cat x",
    "cp -r a/. .; cat sk",
    "cp -r a/. x; cat x/b/d/l/key",
    "cp -rT a .; cat sk",
    "cp -a a/sk o; cp o w; cat w",
    "tar xf e.tar -C docs; mv docs/al .; cat al",
    "(cd a; ln sk ..); cat sk",
    "mv a/b/d w; cp -rL w z; cat z/l/key",
    "ln a/sk x; cat x",
    "link a/sk x; cat x",
    "rsync -a a/s x; cat x/s/key",
    "mv a/b/d d; cat d/l/key",
    "mv a/b/d d; cat d/*/key",
    "cp -r a/b/d .; grep -R TOP d",
    "cp -a a/b/d x; cp -a x w; cat w/l/key",
    "mv a/sk f; cat f",
    "bash -c 'mv a/s x; cat x/key'",
    "for n in s; do mv a/$n x; done; cat x/key",
    "cp -P a/s z; cat n/key",
    "mv a/s y; cat m",
    "ln -s a/b x; cat back",
    "ln -s ../secret/key a/k; cat a/k",
    "ln -s ../secret/key a; cat a/key",
    "ln -s --target-directory=a ../secret/key; cat a/key",
    "ln -s ../b a/b/self; cat a/b/self/../../secret/key",
    "tar cf - -C a/b l | tar xf - -C a; cat a/l/key",
    "tar xf e.tar; cat al",
    "tar xf e.tar; mv al x; cat x/key",
    "unzip -qo e.zip; cat al",
    "unzip -qo e.zip -d docs; cat docs/al",
    "git checkout evil; cat gl",
    "git switch evil; cat gl",
    "git merge evil; cat gl",
    "git pull; cat docs/gl",
    "git reset --hard; cat gl",
    "git restore -s evil .; cat gl",
    "git stash pop; cat gl",
    "git checkout evil -- gl; cp gl o",
];

#[test]
fn path_through_a_link_that_another_command_puts_there_may_be_denied() {
    let workspace = workspace();
    let ask = rules(&workspace, &[]).ask(READ).unwrap();
    let bypass = rules(&workspace, &[READ]).mode(PermissionMode::BypassPermissions);
    for line in READERS {
        assert_eq!(decide(&workspace, &[READ], line), Behavior::Ask, "{line}");
        assert_eq!(ask.explain_command(line).decision, Behavior::Ask, "{line}");
        assert_eq!(
            bypass.explain_command(line).decision,
            Behavior::Deny,
            "{line}"
        );
        assert_eq!(decide(&workspace, &[], line), Behavior::Allow, "{line}");
    }
    for line in [
        "mv a/s x; cp f x",
        "mv a/s x; cp f x/key",
        "mv a/s x; rm x/key",
        "mv a/s x; echo y > x/key",
        "mv a/sk x; echo y | tee x",
        "cp -r a/b/d d; cp f d/l",
    ] {
        assert_eq!(decide(&workspace, &[WRITE], line), Behavior::Ask, "{line}");
    }
}

#[test]
fn commands_alone_and_ordinary_files_are_decided_as_before() {
    let workspace = workspace();
    for line in [
        "mv a/s x",
        "timeout 5 mv a/s x",
        "cp -a a/sk .",
        "cp -r a x",
        "ln a/sk x",
        "cat x/key",
        "tar xf e.tar",
        "tar xf - < e.tar",
        "unzip -qo e.zip",
        "git checkout evil",
        "git checkout evil -- gl",
        "git pull",
        "cd docs && git pull",
        "git pull && cd docs && ls",
        "cargo test 2>&1 | tail -n 1; git pull",
        "git pull && cargo test",
        "git pull 2>&1 | tail -n 5",
        "git checkout -b new && cat README.md",
        "git add README.md && git commit -m x",
        "git fetch && cat README.md",
        "git status && cat README.md",
        "git checkout main && git pull",
        "git stash && cargo fmt && git stash pop",
        "mkdir -p out && tar xf e.tar -C out && ls out",
        "tar xf e.tar -C out && cat README.md",
        "tar cf - docs | tar xf - -C out",
        "tar xzf e.tar && rm e.tar",
        "mv a/s x; rm x",
        "mv a/s x; cat README.md",
    ] {
        assert_eq!(decide(&workspace, &[READ], line), Behavior::Allow, "{line}");
    }
    for line in [
        "cp f g && cat g",
        "mv f g && cat g",
        "mv docs x && cat x/a.txt && grep -R word x",
        "mkdir -p x && cp docs/*.txt x/ && ls x",
        "cp -a docs x && cat x/a.txt",
        "cp -a docs/. x/ && ls x",
        "cp -L a/sk x; cat x",
        "echo word > g; cat g",
        "ln -s docs/a.txt latest && cat latest",
    ] {
        let decision = decide(&workspace, &[READ, WRITE], line);
        assert_eq!(decision, Behavior::Allow, "{line}");
    }
}

#[test]
fn writing_through_a_link_that_is_moved_may_change_a_protected_path() {
    let workspace = workspace();
    for line in [
        "mv a/g x; echo y > x/config",
        "cp -a a/g x; cp f x/config",
        "mv a/g x; tee x/config < f",
        "mv a/g x; rm x/config",
        "mv a/g x; cp -t x f",
    ] {
        assert_eq!(decide(&workspace, &[], line), Behavior::Ask, "{line}");
    }
    for line in [
        "mv f g; echo y > g",
        "cp -a a/g x; cat x/config",
        "cp -a a/g x; ls x",
        "git checkout main && echo y > notes",
        "tar xf e.tar && touch notes",
    ] {
        assert_eq!(decide(&workspace, &[], line), Behavior::Allow, "{line}");
    }
}

#[test]
fn folder_with_more_entries_than_are_examined_may_hold_links() {
    let workspace = workspace();
    for number in 0..4_200 {
        workspace.put(&format!("large/{number}.txt"), "");
    }
    let line = "mv large x; cat x/1.txt";
    assert_eq!(decide(&workspace, &[READ], line), Behavior::Ask);
    assert_eq!(decide(&workspace, &[], line), Behavior::Allow);
    let outside = "mv large x; cat docs/a.txt";
    assert_eq!(decide(&workspace, &[READ], outside), Behavior::Allow);
}

#[test]
fn new_links_are_not_followed_with_follow_links_disabled() {
    let workspace = workspace();
    let rules = rules(&workspace, &[READ]).follow_links(false);
    let decision = rules.explain_command("mv a/s x; cat x/key").decision;
    assert_eq!(decision, Behavior::Allow);
}
