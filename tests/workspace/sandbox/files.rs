//! Access to files.

use std::os::unix::fs::PermissionsExt;

use agentcore::ErrorKind;
use agentcore::backend::{Backend, Command, LocalBackend, Sandbox};

use super::{Confined, is_able};
use crate::kit::workspace::Workspace;

#[tokio::test]
async fn files_outside_cannot_be_changed() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    let out = &confined.workspace.out;
    for command in [
        "echo x > ../out/new",
        "echo x >> ../out/secret",
        ": > ../out/secret",
        "truncate -s 0 ../out/secret",
        "rm ../out/secret",
        "rmdir ../out",
        "mkdir ../out/folder",
        "mkfifo ../out/pipe",
        "ln -s x ../out/link",
        "mv a/in.txt ../out/moved",
        "ln a/in.txt ../out/hard",
        "mv ../out/secret a/stolen",
        "touch /etc/agentcore-test",
        "touch \"$OLD_TMP/agentcore-test\"",
    ] {
        let temp = std::env::temp_dir();
        let command = format!("OLD_TMP={temp:?}; {command}");
        confined.refused(&command).await;
    }

    let names: Vec<_> = std::fs::read_dir(out).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let secret = std::fs::read_to_string(out.join("secret")).unwrap();
    assert_eq!(secret, "TOP SECRET\n");
    assert_eq!(confined.workspace.get("a/in.txt"), b"inside\n");
    assert!(!std::path::Path::new("/etc/agentcore-test").exists());
}

#[tokio::test]
async fn files_outside_cannot_be_read() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    confined.workspace.link(&confined.workspace.out, "to_out");
    confined.workspace.link("../out/secret", "to_secret");
    for command in [
        "cat ../out/secret",
        "ls ../out",
        "cat to_out/secret",
        "cat to_secret",
        "ls to_out/",
        "ln ../out/secret hard && cat hard",
        "cp ../out/secret copy",
        "cat < /etc/shadow",
        "cat \"$REAL/Cargo.toml\"",
        "ls /",
    ] {
        let command = format!("REAL={:?}; {command}", env!("CARGO_MANIFEST_DIR"));
        let output = confined.run(&command).await;
        assert!(!output.is_success(), "{command}");
        assert_eq!(output.stdout.text(), "", "{command}");
    }

    // Without a sandbox the command succeeds, so it is the sandbox that refuses it.
    let backend = &confined.workspace.backend;
    let output = backend.execute(Command::new("cat ../out/secret")).await;
    assert_eq!(output.unwrap().stdout.text(), "TOP SECRET\n");
}

#[tokio::test]
async fn files_inside_can_be_read_and_written() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    let command = "set -e; mkdir -p b/c; echo one > b/c/x; mv b/c/x a/y; ln a/y a/z; cat a/z; \
        printf '#!/bin/sh\\necho run\\n' > run.sh; chmod +x run.sh; ./run.sh; rm -r b; \
        head -c 3 /dev/zero | wc -c | tr -d ' '; echo gone > /dev/null; cat <(echo two); \
        cat /etc/passwd > /dev/null; grep -c processor /proc/cpuinfo > /dev/null; : > a/y";
    let output = confined.run(command).await;
    assert_eq!(output.stderr.text(), "");
    assert_eq!(output.stdout.text(), "one\nrun\n3\ntwo\n");
    assert!(output.is_success());
    assert_eq!(confined.workspace.get("a/y"), b"");

    // The methods of the backend are not confined.
    confined.backend.write("w", b"1").await.unwrap();
    assert_eq!(&confined.backend.read("w").await.unwrap()[..], b"1");
}

#[tokio::test]
async fn private_folder_is_separate_for_each_backend() {
    if !is_able() {
        return;
    }

    let confined = Confined::new();
    let output = confined
        .run("set -e; echo 1 > \"$HOME/x\"; cat \"$(mktemp)\" \"$TMPDIR/x\"; echo \"$TMPDIR\"")
        .await;
    assert_eq!(output.stderr.text(), "");
    let text = output.stdout.text();
    let folder = std::path::PathBuf::from(text.strip_prefix("1\n").unwrap().trim_end());
    let mode = folder.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let again = confined.run("cat \"$TMPDIR/x\"").await;
    assert_eq!(again.stdout.text(), "1\n");
    let other = Confined::new().run("echo $TMPDIR").await.stdout.text();
    assert_ne!(other.trim_end(), folder.to_str().unwrap());
    let own = confined.backend.clone().with_env("HOME", "/nowhere");
    let output = own.execute(Command::new("echo $HOME")).await.unwrap();
    assert_eq!(output.stdout.text(), "/nowhere\n");
    drop((confined, own));
    assert!(!folder.exists());
}

#[tokio::test]
async fn additional_paths_can_be_allowed() {
    if !is_able() {
        return;
    }

    let workspace = Workspace::new();
    let (root, out) = (&workspace.root, &workspace.out);
    let backend = |sandbox: Sandbox| workspace.backend.clone().with_sandbox(sandbox);
    let run = async |sandbox: Sandbox, command: &str| {
        let outcome = backend(sandbox).execute(Command::new(command)).await;
        outcome.unwrap().is_success()
    };

    let base = || Sandbox::workspace(root);
    assert!(run(base().read(out), "cat ../out/secret").await);
    assert!(!run(base().read(out), "echo x > ../out/new").await);
    assert!(run(base().write(out), "echo x > ../out/new").await);
    assert!(run(base().read(out.join("secret")), "cat ../out/secret").await);
    assert!(!run(base().read(out.join("secret")), "cat ../out/new").await);
    let script = out.join("run.sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(!run(base().read(out), "../out/run.sh").await);
    assert!(run(base().execute(out), "../out/run.sh").await);

    // The workspace may only be read.
    let mut read_only = Sandbox::new().read(root);
    for folder in ["/bin", "/usr", "/lib", "/lib64"] {
        if std::path::Path::new(folder).exists() {
            read_only = read_only.execute(folder);
        }
    }

    assert!(run(read_only.clone(), "cat a/in.txt").await);
    assert!(!run(read_only, "echo x > a/in.txt").await);
    assert_eq!(workspace.get("a/in.txt"), b"inside\n");
}

#[tokio::test]
async fn missing_path_or_shell_permission_is_an_error() {
    if !is_able() {
        return;
    }

    let workspace = Workspace::new();
    let backend = LocalBackend::new(&workspace.root).unwrap();
    let missing = Sandbox::workspace(&workspace.root).read("/no/such/folder");
    let backend = backend.with_sandbox(missing);
    let error = backend.execute(Command::new("touch ran")).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("/no/such/folder"), "{error}");

    // Not even the shell may be executed.
    let backend = workspace.backend.clone().with_sandbox(Sandbox::new());
    let error = backend.execute(Command::new("touch ran")).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("denied"), "{error}");
    assert!(!workspace.root.join("ran").exists());
}
