//! Paths that permission rules deny, which the kernel enforces.

use agentcore::backend::{Backend, Command, DeniedPath, LocalBackend, Sandbox};
use agentcore::permission::PermissionRules;
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Asking, Confirmer};
use agentcore::tools::preset;
use agentcore::{Answer, PermissionRequest, async_trait};
use serde_json::json;

use super::is_able;
use crate::kit::small_stack::passes_alone;
use crate::kit::workspace::Workspace;
use crate::kit::{agent, result_texts};

/// A workspace with files in `private` and `public`. The readable folder `out` has the same files.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for folder in [&workspace.out, &workspace.root] {
        for name in ["private", "public"] {
            std::fs::create_dir(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("key"), format!("{name} key\n")).unwrap();
        }
    }
    workspace
}

fn sandbox(workspace: &Workspace) -> Sandbox {
    Sandbox::workspace(&workspace.root).read(&workspace.out)
}

/// Returns the output of a command, or `refused`.
async fn run(backend: &LocalBackend, command: &str, denied: &[DeniedPath]) -> String {
    let command = Command::new(command).with_denied(denied.to_vec());
    let output = backend.execute(command).await.unwrap();
    if output.is_success() {
        output.stdout.text()
    } else {
        "refused".to_owned()
    }
}

#[tokio::test]
async fn denied_path_in_a_folder_to_read_is_held() {
    if !is_able() {
        return;
    }
    let workspace = workspace();
    let backend = workspace.backend.clone().with_sandbox(sandbox(&workspace));
    let denied = [DeniedPath::reading(workspace.out.join("private"))];
    assert_eq!(
        run(&backend, "cat ../out/private/key", &[]).await,
        "private key\n"
    );
    workspace.link(workspace.out.join("private/key"), "link");
    for command in [
        "cat ../out/private/key",
        "cat ../out/pri*/k*",
        "cat link",
        "cd ../out/private && cat key",
        "grep -r key ../out/private",
    ] {
        assert_eq!(
            run(&backend, command, &denied).await,
            "refused",
            "{command}"
        );
    }
    assert_eq!(
        run(&backend, "cat ../out/public/key", &denied).await,
        "public key\n"
    );
    assert_eq!(
        run(&backend, "ls ../out", &denied).await,
        "private\npublic\nsecret\n"
    );
    assert_eq!(
        run(&backend, "cat private/key", &denied).await,
        "private key\n"
    );

    // A path that does not exist, and then the allowed folder itself.
    let missing = [DeniedPath::reading(workspace.out.join("none/deep"))];
    assert_eq!(
        run(&backend, "cat ../out/private/key", &missing).await,
        "private key\n"
    );
    let denied = [DeniedPath::reading(&workspace.out)];
    assert_eq!(
        run(&backend, "cat ../out/public/key", &denied).await,
        "refused"
    );
}

#[tokio::test]
async fn denied_path_in_a_folder_to_write_is_held_on_request() {
    if !is_able() {
        return;
    }
    let workspace = workspace();
    let reading = [DeniedPath::reading(workspace.root.join("private"))];
    let writing = [DeniedPath::writing(workspace.root.join("private"))];
    let backend = workspace.backend.clone().with_sandbox(sandbox(&workspace));
    assert_eq!(
        run(&backend, "cat private/key", &reading).await,
        "private key\n"
    );

    let holding = sandbox(&workspace).hold_denied(true);
    let backend = workspace.backend.clone().with_sandbox(holding);
    for command in [
        "cat private/key",
        "mv private/key public/moved && cat public/moved",
        "ln private/key public/linked && cat public/linked",
        "mv private public/folder && cat public/folder/key",
    ] {
        assert_eq!(
            run(&backend, command, &reading).await,
            "refused",
            "{command}"
        );
    }
    assert_eq!(
        run(&backend, "cat public/key; echo x > public/new", &reading).await,
        "public key\n"
    );

    for command in [
        "echo x > private/key",
        "echo x > private/new",
        "rm private/key",
        "mv private/key public/moved",
        "mv private other",
        "chmod +x private && mkdir private/folder",
    ] {
        assert_eq!(
            run(&backend, command, &writing).await,
            "refused",
            "{command}"
        );
    }
    assert_eq!(
        run(&backend, "cat private/key", &writing).await,
        "private key\n"
    );
    assert_eq!(
        run(&backend, "echo y > public/new; cat public/new", &writing).await,
        "y\n"
    );
}

#[test]
fn rules_that_the_kernel_holds_are_listed() {
    let workspace = workspace();
    let (root, out) = (workspace.root.display(), workspace.out.display());
    let rules = [
        format!("Read({out}/private/**)"),
        format!("Write({out}/**)"),
        "Read(private)".to_owned(),
        "Read(./private/**)".to_owned(),
        "Edit(/etc/**)".to_owned(),
        "Read(*.pem)".to_owned(),
        "Bash(rm:*)".to_owned(),
    ];
    let mut permissions = PermissionRules::new().workspace(root.to_string());
    for rule in &rules {
        permissions = permissions.deny(rule).unwrap();
    }
    let permissions = permissions.allow("Read(/srv/**)").unwrap();
    let lines = |sandbox: Sandbox| -> Vec<String> {
        let enforcement = permissions.kernel_enforcement(&sandbox).into_iter();
        enforcement.map(|rule| rule.to_string()).collect()
    };

    let without_kernel = lines(sandbox(&workspace).max_abi(0));
    assert_eq!(without_kernel.len(), 6);
    assert!(without_kernel[0].ends_with("not held by the kernel, which has no Landlock"));
    if !is_able() {
        return;
    }

    let anywhere = "not held by the kernel, the files it matches may be anywhere";
    let writable = format!(
        "not held by the kernel, because commands may write \"{root}\"; `hold_denied(true)` holds them"
    );
    let expected = |own: &str| {
        [
            format!("deny:Read({out}/private/**): held by the kernel"),
            format!("deny:Write({out}/**): held by the kernel"),
            format!("deny:Read(private): {anywhere}"),
            format!("deny:Read(./private/**): {own}"),
            "deny:Edit(/etc/**): held by the kernel".to_owned(),
            format!("deny:Read(*.pem): {anywhere}"),
        ]
    };
    assert_eq!(lines(sandbox(&workspace)), expected(&writable));
    let holding = sandbox(&workspace).hold_denied(true);
    assert_eq!(lines(holding), expected("held by the kernel"));
}

/// Creates this number of files in `folder`.
fn fill(folder: &std::path::Path, files: usize) {
    for number in 0..files {
        std::fs::write(folder.join(number.to_string()), "file\n").unwrap();
    }
}

#[tokio::test]
async fn entries_beside_a_denied_path_can_be_read_where_few_files_may_be_open() {
    const CHILD: &str = "AGENTCORE_FEW_FILES";
    if !is_able() {
        return;
    }

    if std::env::var_os(CHILD).is_none() {
        let name = "entries_beside_a_denied_path_can_be_read_where_few_files_may_be_open";
        let mut program = std::process::Command::new("sh");
        program
            .args(["-c", "ulimit -n 256 && exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap());
        return passes_alone(&mut program, &format!("sandbox::denied::{name}"), CHILD);
    }

    let workspace = workspace();
    fill(&workspace.out.join("public"), 2_000);
    let backend = workspace.backend.clone().with_sandbox(sandbox(&workspace));
    let denied = [DeniedPath::reading(workspace.out.join("public/key"))];
    let command = "cat ../out/public/[0-9]* | wc -l";
    assert_eq!(run(&backend, command, &denied).await.trim(), "2000");
    assert_eq!(
        run(&backend, "cat ../out/public/key", &denied).await,
        "refused"
    );
}

#[tokio::test]
async fn denied_path_in_a_folder_of_too_many_entries_is_an_error() {
    if !is_able() {
        return;
    }
    let workspace = workspace();
    fill(&workspace.out.join("public"), 4_200);
    let backend = workspace.backend.clone().with_sandbox(sandbox(&workspace));
    let denied = vec![DeniedPath::reading(workspace.out.join("public/key"))];
    let command = Command::new("true").with_denied(denied);
    let error = backend.execute(command).await.unwrap_err().to_string();
    assert!(error.contains("more than 4096 entries"), "{error}");
}

struct Yes;

#[async_trait]
impl Confirmer for Yes {
    async fn confirm(&self, _request: &PermissionRequest, _asking: &Asking) -> Answer {
        Answer::Allow
    }
}

/// The user allows a command that runs a script, whose content is not analyzed.
#[tokio::test]
async fn command_that_was_allowed_is_still_held_to_deny_rules() {
    if !is_able() {
        return;
    }
    let workspace = workspace();
    let backend = workspace.backend.clone().with_sandbox(sandbox(&workspace));
    let rule = format!("Read({}/private/**)", workspace.out.display());
    let rules = PermissionRules::new().deny(&rule).unwrap();
    workspace.put("read.sh", b"cat ../out/private/key ../out/public/key");
    let model = ScriptedModel::new()
        .call("Bash", json!({"command": "bash read.sh"}))
        .say("done");
    let agent = agent(model)
        .registry(&preset::coding(backend))
        .permissions(rules)
        .confirmer(Yes)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let text = result_texts(&output.messages).remove(0);
    assert!(
        text.contains("public key") && !text.contains("private key"),
        "{text}"
    );
    assert!(text.contains("Permission denied"), "{text}");
}
