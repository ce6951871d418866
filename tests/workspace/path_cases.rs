//! Paths that try to leave a local workspace and paths that stay, in a table.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use agentcore::backend::{Backend, ContentHash, GlobQuery, GrepQuery, LocalBackend};
use agentcore::tools::preset;
use agentcore::{Error, ErrorKind, ToolContext};
use serde_json::json;

use crate::kit::workspace::Workspace;

const CASES: &str = include_str!("../data/path_cases.tsv");

#[tokio::test]
async fn every_path_case_behaves_as_listed() {
    let mut wrong = Vec::new();
    for (number, line) in CASES.lines().enumerate().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [setup, operation, path, expected, class] = columns[..] else {
            panic!("line {} has {} columns", number + 1, columns.len());
        };

        let case = case(setup, operation, path, expected);
        let outcome = match tokio::time::timeout(Duration::from_secs(20), case).await {
            Ok(outcome) => outcome,
            Err(_) => Err("did not end".to_owned()),
        };

        if let Err(text) = outcome {
            wrong.push(format!("line {} ({class}): {text}", number + 1));
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn case(setup: &str, operation: &str, path: &str, expected: &str) -> Result<(), String> {
    let workspace = Workspace::new();
    let (root, out) = (
        workspace.root.to_str().unwrap(),
        workspace.out.to_str().unwrap(),
    );
    std::fs::create_dir(format!("{root}-evil")).unwrap();
    std::fs::write(format!("{root}-evil/secret"), "TOP SECRET\n").unwrap();
    let mut path = path
        .replace("$WS", root)
        .replace("$OUT", out)
        .replace("\\n", "\n");
    match setup {
        "path of 5000 bytes" => path = "a/".repeat(2_500) + "x",
        "name of 300 bytes" => path = "x".repeat(300),
        "" => {}
        setup => {
            let status = std::process::Command::new("bash")
                .args(["-c", setup])
                .env("WS", root)
                .env("OUT", out)
                .status()
                .unwrap();
            assert!(status.success(), "{setup}");
        }
    }

    let outcome = act(&workspace.backend, operation, &path).await;
    untouched(&workspace, out)?;
    judge(&workspace, expected, outcome, &path)
}

async fn act(backend: &LocalBackend, operation: &str, path: &str) -> Result<String, Error> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match operation {
        "read" => backend.read(path).await.map(|content| text(&content)),
        "write" => backend.write(path, b"new").await.map(|()| String::new()),
        "append" => backend.append(path, b"new").await.map(|()| String::new()),
        "remove" => backend.remove(path).await.map(|()| String::new()),
        "list" => backend
            .list(path)
            .await
            .map(|entries| format!("{entries:?}")),
        "glob" => {
            let matches = backend.glob(GlobQuery::new(path)).await?;
            Ok(matches.files.join("\n"))
        }
        "grep" => {
            let matches = backend.grep(GrepQuery::new(path)).await?;
            Ok(format!("{matches:?}"))
        }
        "edit" => {
            let content = backend.read(path).await?;
            let hash = ContentHash::of(&content);
            backend.write_if_unchanged(path, hash, b"new").await?;
            Ok(String::new())
        }
        "edit_crlf" => {
            let edit = preset::coding(backend.clone()).get("Edit").unwrap();
            let args = json!({"file_path": path, "old_string": "a\nb", "new_string": "a\nc\nb"});
            let outcome = edit.execute(ToolContext::detached(), args).await;
            outcome
                .map(|output| output.content.text().into_owned())
                .map_err(Error::other)
        }
        other => panic!("no operation {other}"),
    }
}

/// Checks that nothing outside of the workspace was created, changed or removed.
fn untouched(workspace: &Workspace, out: &str) -> Result<(), String> {
    let mut names: Vec<String> = std::fs::read_dir(&workspace.out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name != "d");
    if names != ["secret"] {
        return Err(format!("made {names:?} in {out}"));
    }

    match std::fs::read_to_string(workspace.out.join("secret")).unwrap() {
        secret if secret == "TOP SECRET\n" => Ok(()),
        other => Err(format!("changed the secret to {other:?}")),
    }
}

fn judge(
    workspace: &Workspace,
    expected: &str,
    outcome: Result<String, Error>,
    path: &str,
) -> Result<(), String> {
    let io_kind = |error: &Error| {
        error
            .source()?
            .downcast_ref::<io::Error>()
            .map(io::Error::kind)
    };

    let leftovers = workspace.leftovers();
    if !leftovers.is_empty() {
        return Err(format!("left {leftovers:?}"));
    }

    match (expected, outcome) {
        ("allow", Ok(text)) | ("no_outside_hits" | "terminates_no_outside", Ok(text))
            if !text.contains("secret") && !text.contains("SECRET") =>
        {
            Ok(())
        }
        ("terminates", _) => Ok(()),
        ("deny", Err(_)) => Ok(()),
        ("bounded", Err(error)) if io_kind(&error) == Some(io::ErrorKind::FileTooLarge) => Ok(()),
        ("preserve_bom_crlf", Ok(_)) => match workspace.get(path) {
            content if content == b"\xef\xbb\xbfa\r\nc\r\nb\r\n" => Ok(()),
            content => Err(format!("{content:?}")),
        },
        ("error:nametoolong", Err(error))
            if io_kind(&error) == Some(io::ErrorKind::InvalidFilename) =>
        {
            Ok(())
        }
        (expected, outcome) => Err(format!("{outcome:?} instead of {expected}")),
    }
}

#[tokio::test]
async fn path_outside_the_root_is_permission_denied() {
    let workspace = Workspace::new();
    workspace.link(&workspace.out, "l");
    for path in ["../out/secret", "l/secret", "/etc/passwd"] {
        let error = workspace.backend.read(path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}");
        let root = workspace.root.to_str().unwrap();
        let text = format!("path {path:?} is outside workspace {root:?}");
        assert_eq!(error.to_string(), text);
    }
}

/// While another thread swaps a folder for a link, no read or write may reach the link's target.
#[tokio::test]
async fn link_swapped_between_check_and_open_never_leaves_the_root() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const TRIES: usize = 10_000;
    /// The maximum number of attempts to meet both the folder and the link.
    const MOST_TRIES: usize = 1_000 * TRIES;
    let workspace = Workspace::new();
    let (root, out) = (workspace.root.clone(), workspace.out.clone());
    std::fs::create_dir(root.join("real")).unwrap();
    std::fs::write(root.join("real/secret"), "inside\n").unwrap();
    workspace.link("real", "d");
    let over = Arc::new(AtomicBool::new(false));
    let flipper = std::thread::spawn({
        let (over, evil) = (over.clone(), out.clone());
        move || {
            let (spare, name) = (root.join("spare"), root.join("d"));
            while !over.load(Ordering::Relaxed) {
                for target in [evil.as_path(), Path::new("real")] {
                    std::os::unix::fs::symlink(target, &spare).unwrap();
                    std::fs::rename(&spare, &name).unwrap();
                }
            }
        }
    });

    let backend = LocalBackend::new(&workspace.root).unwrap();
    let (mut escapes, mut inside, mut refused) = (0, 0, 0);
    let task = tokio::task::spawn_blocking(move || {
        // Without a runtime, the calls run on this thread, which allows more attempts.
        std::thread::spawn(move || {
            let mut number = 0;
            while number < TRIES || (number < MOST_TRIES && (inside == 0 || refused == 0)) {
                if number % 10 == 0 {
                    let _ = futures::executor::block_on(backend.append("d/made", b"x"));
                }

                match futures::executor::block_on(backend.read("d/secret")) {
                    Ok(content) if content.starts_with(b"TOP") => escapes += 1,
                    Ok(_) => inside += 1,
                    Err(_) => refused += 1,
                }
                number += 1;
            }

            (escapes, inside, refused)
        })
        .join()
        .unwrap()
    });

    let (escapes, inside, refused) = task.await.unwrap();
    over.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
    assert_eq!(escapes, 0);
    assert!(!out.join("made").exists());
    assert!(
        inside > 0 && refused > 0,
        "{inside} inside, {refused} refused"
    );
}
