//! Files in a container.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::backend::{Backend, DirEntry, DockerBackend, EntryKind};
use agentcore::testing::conformance;
use agentcore::{Error, ErrorKind};
use futures::executor::block_on;

use super::Engine;
use crate::kit::processes::until;

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    let source = std::error::Error::source(error)?;
    Some(source.downcast_ref::<std::io::Error>()?.kind())
}

/// Each workspace has a container that was started before the suite.
#[tokio::test]
async fn docker_backend_passes_the_suite() {
    const WORKSPACES: usize = 16;
    let engine = Engine::new();
    let mut backends = Vec::new();
    for number in 0..WORKSPACES {
        let workdir = engine.base.join(format!("ws{number}"));
        let builder = engine.builder().workdir(workdir.to_str().unwrap());
        backends.push(builder.start().await.unwrap());
    }

    let next = AtomicUsize::new(0);
    let make = || backends[next.fetch_add(1, Ordering::Relaxed)].clone();
    conformance::backend(make).await.unwrap();
    assert!(next.load(Ordering::Relaxed) > 10);
}

async fn kind_of<T: std::fmt::Debug>(
    outcome: impl Future<Output = agentcore::Result<T>>,
) -> (ErrorKind, Option<std::io::ErrorKind>) {
    let error = outcome.await.unwrap_err();
    (error.kind(), io_kind(&error))
}

#[tokio::test]
async fn links_cannot_leave_the_workspace() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let (ws, out) = (engine.workdir(), engine.base.join("out"));
    std::fs::create_dir_all(&out).unwrap();
    std::fs::create_dir_all(ws.join("a")).unwrap();
    std::fs::write(out.join("secret"), "TOP SECRET").unwrap();
    std::fs::write(ws.join("a/in"), "inside").unwrap();
    for (target, name) in [
        (out.to_str().unwrap(), "to_out"),
        ("../out", "up"),
        ("../out/secret", "file"),
        ("to_out/secret", "chain"),
        ("../out/new", "dangling"),
        ("../ws/a", "back"),
        ("loop", "loop"),
        (ws.join("a").to_str().unwrap(), "whole"),
        ("../a/in", "a/again"),
    ] {
        symlink(target, ws.join(name)).unwrap();
    }

    let denied = ErrorKind::PermissionDenied;
    for path in [
        "to_out/secret",
        "up/secret",
        "file",
        "chain",
        "dangling",
        "a/../../out/secret",
        "whole/../../out/secret",
    ] {
        assert_eq!(kind_of(backend.read(path)).await.0, denied, "{path}");
        assert_eq!(kind_of(backend.write(path, b"x")).await.0, denied, "{path}");
        assert_eq!(
            kind_of(backend.append(path, b"x")).await.0,
            denied,
            "{path}"
        );
        assert_eq!(kind_of(backend.stat(path)).await.0, denied, "{path}");
    }

    for path in ["to_out", "up", "to_out/"] {
        assert_eq!(kind_of(backend.list(path)).await.0, denied, "{path}");
    }

    assert_eq!(kind_of(backend.remove("to_out/secret")).await.0, denied);
    assert_eq!(kind_of(backend.read("loop")).await.0, ErrorKind::Io);
    for path in ["whole/in", "a/again", "whole/again", "back/in"] {
        assert_eq!(&backend.read(path).await.unwrap()[..], b"inside", "{path}");
    }

    let outcome = backend.write("whole/again", b"new").await;
    outcome.unwrap();
    assert!(ws.join("a/again").is_symlink());
    assert_eq!(std::fs::read(ws.join("a/in")).unwrap(), b"new");

    // The link is removed, not its target.
    backend.remove("file").await.unwrap();
    let secret = std::fs::read_to_string(out.join("secret")).unwrap();
    assert_eq!(secret, "TOP SECRET");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
}

#[tokio::test]
async fn special_characters_in_names_are_not_interpreted() {
    let engine = Engine::new();
    let backend = engine.start().await;
    for name in [
        "-rf",
        "--",
        "$(touch owned)",
        "`touch owned`",
        "a;touch owned",
        "*",
        "[a]",
        "new\nline",
        "end\n",
        "\\0101",
        "%s",
        "'\"",
        "~",
        " ",
        "#",
    ] {
        let path = format!("dir/{name}/{name}");
        backend.write(&path, name.as_bytes()).await.unwrap();
        backend.append(&path, b"!").await.unwrap();
        let content = backend.read(&path).await.unwrap();
        assert_eq!(content, format!("{name}!"));
        let entry = DirEntry::new(name, EntryKind::File, name.len() as u64 + 1);
        let listed = backend.list(&format!("dir/{name}")).await.unwrap();
        assert_eq!(listed, [entry]);
        backend.remove(&path).await.unwrap();
        assert!(!backend.exists(&path).await.unwrap());
    }

    assert!(!backend.exists("owned").await.unwrap());
    assert_eq!(backend.list("dir").await.unwrap().len(), 15);

    // A folder next to the root, whose name begins with that of the root.
    std::fs::create_dir(engine.base.join("ws\n")).unwrap();
    let denied = kind_of(backend.list("../ws\n")).await;
    assert_eq!(denied.0, ErrorKind::PermissionDenied);
    assert_eq!(kind_of(backend.read("a\0b")).await.0, ErrorKind::Io);
}

#[tokio::test]
async fn write_keeps_the_mode_and_leaves_no_temporary_file() {
    let engine = Engine::new();
    let backend = engine.start().await;
    backend.write("x", b"old").await.unwrap();
    let path = engine.workdir().join("x");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o751)).unwrap();
    backend.write("x", b"new").await.unwrap();
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
    let modified = backend.stat("x").await.unwrap().modified.unwrap();
    assert!(modified.elapsed().unwrap() < std::time::Duration::from_secs(600));
    assert_eq!(backend.list("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn dropped_write_changes_nothing() {
    let engine = Engine::new();
    let backend = engine.start().await;
    backend.write("x", b"old").await.unwrap();
    let large = vec![b'n'; 8 << 20];
    for _ in 0..5 {
        let write = backend.write("x", &large);

        // The write may or may not end in time.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(40), write).await;
        let content = backend.read("x").await.unwrap();
        assert!(content == "old" || content == large, "{}", content.len());
    }

    let only = || {
        let names = std::fs::read_dir(engine.workdir()).unwrap();
        names.count() == 1
    };

    until("a temporary file stays", only).await;
}

#[tokio::test]
async fn special_and_too_large_files_are_errors_at_once() {
    let engine = Engine::new();
    let backend = engine.builder().max_read(10).start().await.unwrap();
    let fifo = engine.workdir().join("fifo");
    let status = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(status.unwrap().success());
    let invalid = (ErrorKind::Io, Some(std::io::ErrorKind::InvalidInput));
    assert_eq!(kind_of(backend.read("fifo")).await, invalid);
    assert_eq!(kind_of(backend.write("fifo", b"x")).await, invalid);
    assert_eq!(kind_of(backend.append("fifo", b"x")).await, invalid);
    let listed = backend.list("").await.unwrap();
    assert_eq!(listed, [DirEntry::new("fifo", EntryKind::Other, 0)]);
    backend.write("large", b"0123456789a").await.unwrap();
    let too_large = (ErrorKind::Io, Some(std::io::ErrorKind::FileTooLarge));
    assert_eq!(kind_of(backend.read("large")).await, too_large);
    let part = backend.read_range("large", 9, 10).await.unwrap();
    assert_eq!(&part[..], b"9a");
}

#[test]
fn start_without_a_runtime_is_a_config_error() {
    let engine = Engine::new();
    let error = block_on(engine.builder().start()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

/// Clones of a backend share the lock of a file.
#[tokio::test]
async fn clones_serialize_their_appends() {
    let engine = Engine::new();
    let backend = engine.start().await;
    let append = |backend: DockerBackend| async move { backend.append("x", b"1").await };
    let appended = futures::future::join_all((0..8).map(|_| append(backend.clone()))).await;
    assert!(appended.iter().all(Result::is_ok));
    assert_eq!(&backend.read("x").await.unwrap()[..], b"11111111");
}

#[tokio::test]
async fn folder_of_many_entries_is_listed() {
    let engine = Engine::new();
    let backend = engine.start().await;
    for number in 0..50_010 {
        std::fs::File::create(engine.workdir().join(number.to_string())).unwrap();
    }
    assert_eq!(backend.list("").await.unwrap().len(), 50_010);
}

/// The number of engine calls does not depend on the number of files.
#[cfg(feature = "search")]
#[tokio::test]
async fn search_needs_few_engine_calls() {
    use agentcore::backend::{GlobQuery, GrepQuery};

    let engine = Engine::new();
    let backend = engine.start().await;
    for folder in 0..5 {
        let path = engine.workdir().join(format!("d{folder}/e"));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..40 {
            let content = format!("one {folder} {file}\ntwo\n");
            std::fs::write(path.join(format!("f{file}\n.txt")), content).unwrap();
        }
    }

    std::fs::write(engine.workdir().join("d1/e/large"), vec![b'x'; 4 << 20]).unwrap();
    symlink("/etc", engine.workdir().join("out")).unwrap();
    let calls = || {
        let log = std::fs::read_to_string(engine.base.join("log")).unwrap();
        log.lines().filter(|line| line.starts_with("exec ")).count()
    };

    let before = calls();
    let matches = backend.glob(GlobQuery::new("**/f1*.txt")).await.unwrap();
    assert_eq!(matches.files.len(), 5 * 11);
    assert_eq!(calls() - before, 1);
    let before = calls();
    let matches = backend.grep(GrepQuery::new("^one [0-9] 7$")).await.unwrap();
    assert_eq!(matches.files.len(), 5);
    assert!(!matches.truncated);
    assert!(calls() - before <= 10, "{}", calls() - before);
    let matches = backend.grep(GrepQuery::new("^x+$")).await.unwrap();
    assert_eq!(matches.files.len(), 1);
}

/// The listing of the tree has 19 MB, which exceeds the limit on one answer.
#[cfg(feature = "search")]
#[tokio::test]
async fn search_in_a_large_tree_lists_its_folders_one_by_one() {
    use agentcore::backend::GlobQuery;

    let engine = Engine::new();
    let backend = engine.start().await;
    let folder = format!("{}/", "d".repeat(250)).repeat(14);
    let path = engine.workdir().join(&folder);
    std::fs::create_dir_all(&path).unwrap();
    for file in 0..5_200 {
        std::fs::write(path.join(format!("{file:0>200}")), "").unwrap();
    }

    std::fs::write(path.join("last.txt"), "").unwrap();
    let matches = backend.glob(GlobQuery::new("**/last.txt")).await.unwrap();
    assert_eq!(matches.files, [format!("{folder}last.txt")]);
    assert!(!matches.truncated);
}

/// Without capabilities, root has the permissions of an ordinary user.
#[tokio::test]
async fn files_and_folders_that_may_not_be_read_are_errors() {
    let engine = Engine::new();
    engine.set("no-caps");
    let backend = engine.start().await;
    backend.write("file", b"secret").await.unwrap();
    backend.write("folder/x", b"secret").await.unwrap();
    let set_mode = |path: &str, mode| {
        let path = engine.workdir().join(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };

    set_mode("file", 0);
    set_mode("folder", 0o311);
    let denied = (ErrorKind::Io, Some(std::io::ErrorKind::PermissionDenied));
    assert_eq!(kind_of(backend.read("file")).await, denied);
    assert_eq!(kind_of(backend.read_range("file", 0, 3)).await, denied);
    assert_eq!(kind_of(backend.list("folder")).await, denied);

    #[cfg(feature = "search")]
    {
        use agentcore::backend::{GlobQuery, GrepQuery};

        let query = GlobQuery::new("*").within("folder");
        assert_eq!(kind_of(backend.glob(query)).await, denied);
        let matches = backend.grep(GrepQuery::new("secret")).await.unwrap();
        assert_eq!(matches.files.len(), 0);
        assert_eq!((matches.skipped, matches.truncated), (1, true));
    }
    set_mode("folder", 0o755);
}

#[tokio::test]
async fn part_of_an_answer_is_an_error() {
    let engine = Engine::new();
    let backend = engine.start().await;
    backend.write("x", &[b'x'; 1_000]).await.unwrap();
    engine.set("break-off");
    let broken = (ErrorKind::Io, Some(std::io::ErrorKind::UnexpectedEof));
    assert_eq!(kind_of(backend.read("x")).await, broken);
    assert_eq!(kind_of(backend.read_range("x", 0, 100)).await, broken);
    assert_eq!(kind_of(backend.list("")).await, broken);
}

#[tokio::test]
async fn read_limit_may_be_larger_than_the_numbers_of_a_shell() {
    let engine = Engine::new();
    for max in [i64::MAX as u64, u64::MAX] {
        let backend = engine.builder().max_read(max).start().await.unwrap();
        backend.write("x", b"inside").await.unwrap();
        assert_eq!(backend.read("x").await.unwrap(), "inside", "{max}");
        let range = backend.read_range("x", 2, usize::MAX).await.unwrap();
        assert_eq!(range, "side", "{max}");
    }
}

#[tokio::test]
async fn range_is_limited_to_the_read_limit() {
    let engine = Engine::new();
    let backend = engine.builder().max_read(10).start().await.unwrap();
    let piece = 1024 * 1024;
    let folder = engine.workdir();
    let file = std::fs::File::create(folder.join("long")).unwrap();
    file.set_len(3 * piece).unwrap();
    let range = |len| backend.read_range("long", 5, len);
    assert_eq!(range(7).await.unwrap().len(), 7);
    assert_eq!(range(usize::MAX).await.unwrap().len() as u64, piece);
}
