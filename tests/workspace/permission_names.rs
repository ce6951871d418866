//! Rules about paths, and words that the shell expands to names of links or of open files.

use agentcore::PermissionMode;
use agentcore::permission::{Behavior, PermissionRules};

use crate::kit::workspace::Workspace;

/// A workspace with `secret/key`, and links to it, to its folders and to folders of git.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for name in ["secret/key", "secret/sub/inner", "in/key", "f", "docs/a.md"] {
        workspace.put(name, "k");
    }
    workspace.put(".git/config", "");
    workspace.put(".git/hooks/readme", "");
    workspace.put("more/k", "k");
    workspace.put("plain/k", "k");
    workspace.put("deep/x/f", "k");
    workspace.put("t/f", "k");
    workspace.link("secret", "d");
    workspace.link("secret/sub", "z");
    workspace.link("../../secret/sub", "deep/x/o");
    workspace.link(".git/hooks", "gh");
    workspace.link("../secret/key", "t/k");
    workspace.link("secret", "~");
    workspace
}

/// Rules that deny `secret`, next to a rule that allows all commands, in this mode.
fn rules(workspace: &Workspace, mode: PermissionMode) -> PermissionRules {
    let rules = PermissionRules::new().workspace(workspace.root.to_str().unwrap());
    let rules = rules.mode(mode).allow("Bash").unwrap();
    let rules = rules.deny("Read(secret/**)").unwrap();
    rules.deny("Write(secret/**)").unwrap()
}

fn check(rows: &[&str], is_allowed: bool) {
    let workspace = workspace();
    for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
        check_with(&rules(&workspace, mode), rows, is_allowed);
    }
}

fn check_with(rules: &PermissionRules, rows: &[&str], is_allowed: bool) {
    for row in rows {
        let explanation = rules.explain_command(row);
        let is_actually_allowed = explanation.decision == Behavior::Allow;
        assert_eq!(is_actually_allowed, is_allowed, "{row}: {explanation}");
    }
}

#[test]
fn parent_behind_a_link_that_a_wildcard_matches_is_that_of_its_target() {
    check(
        &[
            "cat z*/../key",
            "cat */../key",
            "cat <?/../key",
            "cat [z]/.././key",
            "cp f z*/..",
            "rm */../key",
            "grep -r k */../key",
            "cp -r */.. docs",
            "cd -P z*/..; cat key",
            "cat deep/*/*/../key",
            "cat d/../z*/../key",
            "cd z; cat ../k*",
            // The path is a protected file.
            "cp f g?/../config",
            "echo x > g?/../config",
        ],
        false,
    );
    check(
        &[
            "cat docs/../docs/*",
            "cat docs*/../f",
            "cat docs/*/../a.md",
            "cd docs && cat ../f*",
            "cd do*/.. && cat f",
            "ls docs/*/..",
        ],
        true,
    );
}

#[test]
fn name_with_a_wildcard_is_made_in_the_folder_that_a_link_leads_to() {
    check(
        &[
            "cd d; echo x >zz*",
            "cd d; touch zz*",
            "cd d; cp ../f x*",
            "cd d && tee n* <../f",
            "cd d; mv ../f q?",
            "cd d && mkdir [q]*",
            "cd d; split ../f",
        ],
        false,
    );
    check(
        &[
            "cd docs; touch zz*",
            "cd docs && cat *.md",
            "cd docs; cp ../f x",
        ],
        true,
    );
}

#[test]
fn folders_with_links_that_programs_work_through_are_followed() {
    check(
        &[
            "gzip -rc t | zcat",
            "gzip -fr t",
            "diff -r --from-file=t plain",
            "diff --to-file=t plain",
        ],
        false,
    );
    check(
        &[
            "gzip -r docs",
            "gzip -k f",
            "diff -r --from-file=plain docs",
            "diff -r plain more",
            "cp in/key $PWD/docs",
            "cp -r docs $PWD/more",
        ],
        true,
    );
}

#[test]
fn names_in_folders_that_programs_add_are_compared() {
    let workspace = workspace();
    let rules = PermissionRules::new().workspace(workspace.root.to_str().unwrap());
    let rules = rules.allow("Bash").unwrap();
    let rules = rules.deny("Read(secret/key)").unwrap();
    let rules = rules.deny("Write(secret/key)").unwrap();
    check_with(
        &rules,
        &[
            "diff --to-file=d in/key",
            "diff --from-file secret in/key",
            "cp in/key $PWD/d",
            "mv in/key \"$PWD/secret\"",
            "install in/key $PWD/d",
            "cp -t $PWD/d in/key",
            "ln -f in/key $PWD/secret",
        ],
        false,
    );
    check_with(&rules, &["cp f $PWD/secret", "mv in/key $PWD/docs"], true);
}

#[test]
fn wildcards_may_match_operands_and_options() {
    let workspace = workspace();
    workspace.put("p/plain", "k");
    workspace.link("../secret", "p/s");
    let rules = rules(&workspace, PermissionMode::Default);
    check_with(
        &rules,
        &[
            "cp -a -* p o",
            "cp -r -[L] p o",
            "dd i*",
            "dd if=f o*",
            "grep k -[R] p",
        ],
        false,
    );
    check_with(
        &rules,
        &["cp -a docs o", "dd if=f of=o", "grep k docs/*"],
        true,
    );
}

#[test]
fn wildcard_that_matches_the_name_of_an_option_may_make_a_program_follow_links() {
    let workspace = Workspace::new();
    workspace.put("p/plain", "k");
    workspace.link(&workspace.out, "p/out");
    let rules = PermissionRules::new().workspace(workspace.root.to_str().unwrap());
    let rule = format!("Read({}/**)", workspace.out.display());
    let rules = rules.allow("Bash").unwrap().deny(&rule).unwrap();
    let rows = ["cp -a * o", "cp -r ?L p o", "cd p/.. && cp -a * o"];
    check_with(&rules, &rows, true);
    workspace.put("-L", "");
    check_with(&rules, &rows, false);
    check_with(&rules, &["cp -a -- * o", "cp -a ./* o", "cp -a p* o"], true);
}

#[test]
fn quoted_tilde_behind_an_equals_sign_is_a_name() {
    check(
        &[
            "dd if='~'/key",
            "dd 'if=~/key'",
            "dd if=f of=\\~/key",
            "diff --from-file='~'/key f",
            "tar -cf o.tar --file='~'/key f",
            "cat '~'/key",
        ],
        false,
    );
    check(&["dd if=f of=o", "diff --from-file=f in/key"], true);
}

#[test]
fn braces_of_redirections_are_expanded_next_to_links() {
    check(
        &[
            "cat <{t/k,}",
            "cat <{,d/key}",
            "echo x >{d/new,}",
            "echo x 2>>{,t/k}",
            "echo $(<{t/k,})",
        ],
        false,
    );
    check(&["cat <{f,}", "echo x >{o,}", "cat <<<{d/key,}"], true);
}

#[test]
fn wildcard_of_find_matches_a_dot_at_the_beginning_of_a_name() {
    let workspace = workspace();
    let rules = PermissionRules::new().workspace(workspace.root.to_str().unwrap());
    let rules = rules.allow("Bash").unwrap();
    let rows = [
        "find . -name '*rc' -type f -delete",
        "find . -name '?bashrc' -delete",
        "find . -name '[.]bashrc' -delete",
        "find . -name '[[:punct:]]bashrc' -delete",
        "find -iname '*SHRC' -exec rm {} +",
    ];
    check_with(&rules, &rows, true);
    workspace.put(".bashrc", "");
    check_with(&rules, &rows, false);
    check_with(
        &rules,
        &[
            "find . -name '*.pyc' -delete",
            "find . -name '*.orig' -delete",
            "find target -name '*.o' -delete",
            "find docs -name '*rc' -delete",
            "find . -name '*rc' -exec grep x {} +",
            "find . -name node_modules -prune -exec rm -rf {} +",
        ],
        true,
    );
}
