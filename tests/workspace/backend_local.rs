//! Files of a local workspace.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentcore::backend::{Backend, ContentHash, EntryKind, LocalBackend, MemoryBackend};
use agentcore::testing::conformance;
use agentcore::{Error, ErrorKind};
use futures::future::join_all;

use crate::kit::workspace::Workspace;

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    let source = std::error::Error::source(error)?;
    Some(source.downcast_ref::<std::io::Error>()?.kind())
}

#[tokio::test]
async fn local_backend_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    let make = || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let root = folder.path().join(number.to_string());
        std::fs::create_dir(&root).unwrap();
        LocalBackend::new(root).unwrap()
    };
    conformance::backend(make).await.unwrap();
    assert!(count.load(Ordering::Relaxed) > 10);
}

#[tokio::test]
async fn memory_backend_passes_the_suite() {
    conformance::backend(MemoryBackend::new).await.unwrap();
}

#[tokio::test]
async fn suite_reports_a_backend_that_ignores_conflicts() {
    /// A backend whose conditional writes do not check the content.
    #[derive(Clone, Debug, Default)]
    struct Careless(MemoryBackend);

    #[agentcore::async_trait]
    impl Backend for Careless {
        fn root(&self) -> &str {
            self.0.root()
        }
        async fn read(&self, path: &str) -> agentcore::Result<bytes::Bytes> {
            self.0.read(path).await
        }
        async fn stat(&self, path: &str) -> agentcore::Result<agentcore::backend::Metadata> {
            self.0.stat(path).await
        }
        async fn write(&self, path: &str, content: &[u8]) -> agentcore::Result<()> {
            self.0.write(path, content).await
        }
        async fn write_if_unchanged(
            &self,
            path: &str,
            _expected: ContentHash,
            content: &[u8],
        ) -> agentcore::Result<()> {
            self.0.write(path, content).await
        }
        async fn list(&self, path: &str) -> agentcore::Result<Vec<agentcore::backend::DirEntry>> {
            self.0.list(path).await
        }
        async fn remove(&self, path: &str) -> agentcore::Result<()> {
            self.0.remove(path).await
        }
    }

    let error = conformance::backend(Careless::default).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("concurrent changes"), "{text}");
    assert!(text.contains("concurrent writers"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[tokio::test]
async fn backend_that_writes_outside_of_its_root_is_found_before_a_removal() {
    /// A backend that allows changes outside of the root.
    #[derive(Clone, Debug, Default)]
    struct Unconfined {
        inner: MemoryBackend,
        has_removed: Arc<AtomicBool>,
    }

    #[agentcore::async_trait]
    impl Backend for Unconfined {
        fn root(&self) -> &str {
            self.inner.root()
        }
        async fn read(&self, path: &str) -> agentcore::Result<bytes::Bytes> {
            self.inner.read(path).await
        }
        async fn stat(&self, path: &str) -> agentcore::Result<agentcore::backend::Metadata> {
            self.inner.stat(path).await
        }
        async fn write(&self, path: &str, content: &[u8]) -> agentcore::Result<()> {
            match self.inner.write(path, content).await {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                outcome => outcome,
            }
        }
        async fn list(&self, path: &str) -> agentcore::Result<Vec<agentcore::backend::DirEntry>> {
            self.inner.list(path).await
        }
        async fn remove(&self, path: &str) -> agentcore::Result<()> {
            let outcome = self.inner.remove(path).await;
            if let Err(error) = &outcome
                && error.kind() == ErrorKind::PermissionDenied
            {
                self.has_removed.store(true, Ordering::Relaxed);
            }
            outcome
        }
    }

    let has_removed = Arc::<AtomicBool>::default();
    let make = || Unconfined {
        inner: MemoryBackend::new(),
        has_removed: has_removed.clone(),
    };
    let text = conformance::backend(make).await.unwrap_err().to_string();
    assert!(text.contains("paths that leave the root: "), "{text}");
    assert!(text.contains(".., write: None"), "{text}");
    assert!(!has_removed.load(Ordering::Relaxed));
}

#[test]
fn files_work_without_a_tokio_runtime_and_commands_do_not() {
    let workspace = Workspace::new();
    let content = futures::executor::block_on(workspace.backend.read("a/in.txt"));
    assert_eq!(content.unwrap(), "inside\n");
    let command = agentcore::backend::Command::new("true");
    let error = futures::executor::block_on(workspace.backend.execute(command)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn root_that_is_not_a_folder_is_a_config_error() {
    let workspace = Workspace::new();
    for path in ["none", "a/in.txt"] {
        let error = LocalBackend::new(workspace.root.join(path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}

#[tokio::test]
async fn write_keeps_the_file_mode() {
    let workspace = Workspace::new();
    for mode in [0o755, 0o600] {
        let path = workspace.put("x", "old");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        workspace.backend.write("x", b"new").await.unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode);
        assert_eq!(workspace.get("x"), b"new");
    }
    assert!(workspace.leftovers().is_empty());
}

#[tokio::test]
async fn write_through_a_link_keeps_the_link() {
    let workspace = Workspace::new();
    workspace.link("a/in.txt", "l");
    workspace.backend.write("l", b"new").await.unwrap();
    assert!(workspace.root.join("l").is_symlink());
    assert_eq!(workspace.get("a/in.txt"), b"new");
    workspace.backend.remove("l").await.unwrap();
    assert!(!workspace.root.join("l").is_symlink());
    assert_eq!(workspace.get("a/in.txt"), b"new");
}

#[tokio::test]
async fn root_behind_a_link_accepts_both_paths() {
    let workspace = Workspace::new();
    let link = workspace.out.join("to_ws");
    std::os::unix::fs::symlink(&workspace.root, &link).unwrap();
    let backend = LocalBackend::new(&link).unwrap();
    assert_eq!(backend.root(), link.to_str().unwrap());
    for root in [&link, &workspace.root] {
        let path = root.join("a/in.txt");
        let content = backend.read(path.to_str().unwrap()).await.unwrap();
        assert_eq!(content, "inside\n");
    }
}

#[cfg(feature = "search")]
#[tokio::test]
async fn search_below_a_root_behind_a_link_accepts_both_paths() {
    use agentcore::backend::{GlobQuery, GrepQuery};

    let workspace = Workspace::new();
    let link = workspace.out.join("to_ws");
    std::os::unix::fs::symlink(&workspace.root, &link).unwrap();
    let backend = LocalBackend::new(&link).unwrap();
    for root in [&link, &workspace.root] {
        let folder = root.join("a");
        let folder = folder.to_str().unwrap();
        for query in [
            GlobQuery::new("*.txt").within(folder),
            GlobQuery::new(format!("{folder}/*.txt")),
        ] {
            let matches = backend.glob(query).await.unwrap();
            assert_eq!(matches.files, ["a/in.txt"], "{folder}");
        }
        let query = GrepQuery::new("inside").within(folder);
        let matches = backend.grep(query).await.unwrap();
        assert_eq!(matches.files[0].path, "a/in.txt", "{folder}");
    }

    let outside = GrepQuery::new("SECRET").within(workspace.out.to_str().unwrap());
    let error = backend.grep(outside).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn concurrent_conditional_writes_succeed_once() {
    let workspace = Workspace::new();
    let hash = ContentHash::of(b"inside\n");
    let backend = &workspace.backend;
    let writers = (0..16).map(|number: u8| async move {
        // Another spelling of the path takes the same lock.
        let path = if number.is_multiple_of(2) {
            "a/in.txt"
        } else {
            "./a/../a/in.txt"
        };

        backend.write_if_unchanged(path, hash, &[number]).await
    });

    let outcomes = join_all(writers).await;
    let lost = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert_eq!(lost.filter(|e| e.kind() == ErrorKind::Conflict).count(), 15);
    assert!(workspace.leftovers().is_empty());
}

#[tokio::test]
async fn special_files_are_listed_but_not_opened() {
    let workspace = Workspace::new();
    workspace.fifo("f");
    workspace.link("/dev/zero", "z");
    let socket = std::os::unix::net::UnixListener::bind(workspace.root.join("s")).unwrap();
    for path in ["f", "s"] {
        let outcomes = [
            workspace.backend.read(path).await.err(),
            workspace.backend.read_range(path, 0, 1).await.err(),
            workspace.backend.write(path, b"x").await.err(),
            workspace.backend.append(path, b"x").await.err(),
        ];
        for error in outcomes {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
    }

    drop(socket);
    let entries = workspace.backend.list("").await.unwrap();
    let kinds: Vec<EntryKind> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(
        kinds,
        [
            EntryKind::Dir,
            EntryKind::Other,
            EntryKind::Other,
            EntryKind::Symlink
        ]
    );
}

#[tokio::test]
async fn names_that_are_not_utf8_are_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let workspace = Workspace::new();
    let name = std::ffi::OsStr::from_bytes(b"a\xffb");
    std::fs::write(workspace.root.join(name), "x").unwrap();
    let entries = workspace.backend.list("").await.unwrap();
    assert!(
        entries.iter().any(|entry| entry.name == "a\\xffb"),
        "{entries:?}"
    );
}

#[tokio::test]
async fn huge_file_is_readable_in_ranges_only() {
    let workspace = Workspace::new();
    let file = std::fs::File::create(workspace.root.join("huge")).unwrap();
    file.set_len(100 << 30).unwrap();
    let error = workspace.backend.read("huge").await.unwrap_err();
    assert_eq!(io_kind(&error), Some(std::io::ErrorKind::FileTooLarge));
    assert!(error.to_string().contains("107374182400"), "{error}");
    let part = workspace
        .backend
        .read_range("huge", 99 << 30, 8)
        .await
        .unwrap();
    assert_eq!(part, &[0; 8][..]);
    assert_eq!(
        workspace.backend.stat("huge").await.unwrap().size,
        100 << 30
    );
    let small = workspace.backend.clone().with_max_read(3);
    assert!(small.read("a/in.txt").await.is_err());
}

#[tokio::test]
async fn old_temporary_files_are_removed_by_the_next_write() {
    let workspace = Workspace::new();
    let old = workspace.put("b/.agentcore-0000000000000001.tmp", "half");
    let fresh = workspace.put("b/.agentcore-0000000000000002.tmp", "half");
    let other = workspace.put("b/.agentcore-mine", "kept");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    for path in [&old, &other] {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }

    workspace.backend.write("b/new", b"x").await.unwrap();
    assert!(!old.exists());
    assert!(fresh.exists() && other.exists());
}

#[tokio::test]
async fn temporary_files_are_not_listed() {
    let workspace = Workspace::new();
    let temporary = "b/.agentcore-0000000000000001.tmp";
    workspace.put(temporary, "half");
    workspace.put("b/.agentcore-mine", "whole");
    workspace.put("b/x.tmp", "whole");
    workspace.link("x.tmp", "b/.agentcore-link.tmp");
    let entries = workspace.backend.list("b").await.unwrap();
    let names: Vec<_> = entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, [".agentcore-link.tmp", ".agentcore-mine", "x.tmp"]);
    assert_eq!(
        workspace.backend.read(temporary).await.unwrap(),
        b"half"[..]
    );
}

/// On a full file system, the old content stays and no temporary file is left.
#[tokio::test]
async fn write_to_a_full_disk_changes_nothing() {
    let workspace = Workspace::new();
    let disk = workspace.root.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(&disk)
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        eprintln!("skipped: a file system cannot be mounted here");
        return;
    }

    let backend = &workspace.backend;
    backend.write("disk/big", b"old").await.unwrap();
    let error = backend
        .write("disk/big", &[b'x'; 1 << 20])
        .await
        .unwrap_err();
    let content = backend.read("disk/big").await.unwrap();
    let leftovers = workspace.leftovers();
    // A lazy unmount succeeds even if a process that another test is starting still holds an
    // inherited file.
    let unmounted = std::process::Command::new("umount")
        .arg("--lazy")
        .arg(&disk)
        .status();
    assert!(unmounted.unwrap().success());
    assert_eq!(io_kind(&error), Some(std::io::ErrorKind::StorageFull));
    assert_eq!(content, "old");
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

/// Has no effect for the superuser, who may write everywhere.
#[tokio::test]
async fn write_to_a_read_only_folder_is_permission_denied() {
    let workspace = Workspace::new();
    let folder = workspace.root.join("a");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
    let outcome = workspace.backend.write("a/new", b"x").await;
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    match outcome {
        Err(error) => {
            assert_eq!(io_kind(&error), Some(std::io::ErrorKind::PermissionDenied));
        }
        Ok(()) => eprintln!("skipped: this user may write everywhere"),
    }
}

#[test]
fn real_path_of_any_length_is_resolved_on_a_small_stack() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .thread_stack_size(256 * 1024)
        .build()
        .unwrap();
    let ws = Workspace::new();
    let missing = "r/".repeat(1_500);
    for n in 0..10 {
        ws.link(format!("l{}/{missing}", n + 1), &format!("l{n}"));
    }

    runtime.block_on(async {
        let real_path = ws.backend.real_path("l0").await.unwrap();
        assert!(real_path.ends_with(&format!(
            "/l10/{}",
            "r/".repeat(15_000).trim_end_matches('/')
        )));
        let long_path = format!("{}f", "r/".repeat(200_000));
        let real_path = ws.backend.real_path(&long_path).await.unwrap();
        assert_eq!(real_path, format!("{}/{long_path}", ws.root.display()));
    });
}

#[tokio::test]
async fn real_path_resolves_links_inside_the_root() {
    let ws = Workspace::new();
    ws.put("d/e/in.txt", "deep");
    ws.link("a", "to_a");
    ws.link(ws.root.join("d/e"), "to_e");
    ws.link("nowhere/yet", "dangling");
    ws.link("loop", "loop");
    ws.link(&ws.out, "to_out");
    let root = ws.root.display();
    for (path, real) in [
        ("", ""),
        (".", ""),
        ("a/in.txt", "/a/in.txt"),
        ("./d/..//a/in.txt", "/a/in.txt"),
        ("to_a/in.txt", "/a/in.txt"),
        ("to_a/new/file", "/a/new/file"),
        // The link is resolved before `..`.
        ("to_e/../in.txt", "/d/in.txt"),
        ("dangling", "/nowhere/yet"),
        ("new/../a", "/a"),
    ] {
        let expected = format!("{root}{real}");
        assert_eq!(
            ws.backend.real_path(path).await.unwrap(),
            expected,
            "{path}"
        );
        let absolute = format!("{root}/{path}");
        assert_eq!(
            ws.backend.real_path(&absolute).await.unwrap(),
            expected,
            "{absolute}"
        );
    }

    for path in [
        "..",
        "../out/secret",
        "to_out/secret",
        "to_out/new",
        "/etc/passwd",
    ] {
        let error = ws.backend.real_path(path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}");
    }

    assert!(ws.backend.real_path("loop").await.is_err());
    let memory = MemoryBackend::new();
    assert_eq!(memory.real_path("a/../b").await.unwrap(), "/workspace/b");
    assert!(memory.real_path("../workspaces").await.is_err());
}

#[tokio::test]
async fn file_modes_are_read_and_set() {
    let ws = Workspace::new();
    let path = ws.put("run", "");
    for mode in [0o755, 0o600, 0o4711] {
        ws.backend.set_mode("run", mode).await.unwrap();
        let actual = ws.backend.stat("run").await.unwrap().mode;
        assert_eq!(actual, Some(mode & 0o777));

        // The bits that change the user of a program are not set.
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode & 0o777);
    }

    ws.link(ws.out.join("secret"), "link");
    assert!(ws.backend.set_mode("link", 0o777).await.is_err());
    assert!(ws.backend.set_mode("none", 0o777).await.is_err());
    let memory = MemoryBackend::new();
    memory.write("a", b"").await.unwrap();
    assert_eq!(memory.stat("a").await.unwrap().mode, None);
    let error = memory.set_mode("a", 0o600).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn file_beyond_the_memory_is_an_error_without_a_read_limit() {
    let workspace = Workspace::new();
    let file = std::fs::File::create(workspace.root.join("vast")).unwrap();
    if file.set_len(1 << 62).is_err() {
        // The file system does not support files of this size.
        return;
    }

    let backend = workspace.backend.clone().with_max_read(u64::MAX);
    let error = backend.read("vast").await.unwrap_err();
    assert_eq!(io_kind(&error), Some(std::io::ErrorKind::OutOfMemory));
    let error = backend.read_range("vast", 5, usize::MAX).await.unwrap_err();
    assert_eq!(io_kind(&error), Some(std::io::ErrorKind::OutOfMemory));
}

#[tokio::test]
async fn range_is_limited_to_the_read_limit() {
    let workspace = Workspace::new();
    let file = std::fs::File::create(workspace.root.join("long")).unwrap();
    // The file is sparse; read into memory, it would abort the process.
    file.set_len(1 << 42).unwrap();
    let range = |backend: LocalBackend| async move {
        let range = backend.read_range("long", 5, usize::MAX).await;
        range.unwrap().len()
    };
    let backend = workspace.backend.clone();
    assert_eq!(range(backend.clone()).await, 32 * 1024 * 1024);
    assert_eq!(range(backend.with_max_read(10)).await, 1024 * 1024);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn range_of_a_file_whose_size_is_reported_as_0_is_read() {
    let backend = LocalBackend::new("/proc/self").unwrap();
    assert_eq!(backend.read_range("status", 0, 5).await.unwrap(), "Name:");
    assert_eq!(backend.read_range("status", 2, 2).await.unwrap(), "me");
}

#[tokio::test]
async fn range_behind_the_end_is_empty() {
    let workspace = Workspace::new();
    workspace.put("empty", "");
    for path in ["empty", "a/in.txt"] {
        for offset in [7, 1 << 62, u64::MAX] {
            let range = workspace.backend.read_range(path, offset, 1).await;
            assert!(range.unwrap().is_empty(), "{path} {offset}");
        }
    }
}

#[test]
fn appends_next_to_replacements_of_the_file_are_not_lost() {
    const ROUNDS: usize = 200;
    let workspace = Workspace::new();
    let backends = [0, 1].map(|_| LocalBackend::new(&workspace.root).unwrap());
    let [appending, replacing] = backends;
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    let append = std::thread::spawn(move || {
        runtime().block_on(async {
            for round in 0..ROUNDS {
                let line = format!("line {round}\n");
                appending.append("log", line.as_bytes()).await.unwrap();
            }
        });
    });
    runtime().block_on(async {
        while !append.is_finished() {
            let Ok(content) = replacing.read("log").await else {
                continue;
            };
            let hash = ContentHash::of(&content);
            drop(replacing.write_if_unchanged("log", hash, &content).await);
        }
    });
    append.join().unwrap();
    let content = std::fs::read_to_string(workspace.root.join("log")).unwrap();
    let lines: Vec<String> = (0..ROUNDS).map(|round| format!("line {round}")).collect();
    assert_eq!(content.lines().collect::<Vec<_>>(), lines);
}
