//! The workspace in memory.

use agentcore::ErrorKind;
use agentcore::backend::{Backend, Command, DirEntry, EntryKind, MemoryBackend};

#[tokio::test]
async fn path_outside_the_root_is_permission_denied() {
    let backend = MemoryBackend::new();
    for path in [
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "/workspace/../etc/passwd",
        "/workspaces/x",
        "/",
        "./../workspace/x",
    ] {
        let errors = [
            backend.read(path).await.err(),
            backend.write(path, b"x").await.err(),
            backend.list(path).await.err(),
            backend.exists(path).await.err(),
            backend.remove(path).await.err(),
        ];
        for error in errors {
            let error = error.unwrap_or_else(|| panic!("{path} was accepted"));
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}");
            let text = format!("path {path:?} is outside workspace \"/workspace\"");
            assert_eq!(error.to_string(), text);
        }
    }

    assert!(backend.files().is_empty());
}

#[tokio::test]
async fn paths_are_normalized() {
    let backend = MemoryBackend::new();
    backend.write("a/./b//../c.txt", b"text").await.unwrap();
    for path in [
        "a/c.txt",
        "/workspace/a/c.txt",
        "./a/c.txt",
        "a//c.txt",
        "x/../a/c.txt",
    ] {
        assert_eq!(&backend.read(path).await.unwrap()[..], b"text", "{path}");
    }

    assert_eq!(backend.files().keys().collect::<Vec<_>>(), ["a/c.txt"]);
}

#[tokio::test]
async fn operations_on_the_wrong_entry_kind_are_errors() {
    let backend = MemoryBackend::new();
    backend.write("a/b.txt", b"1").await.unwrap();
    let cases = [
        (backend.read("a").await.err(), "is a folder"),
        (backend.read("a/none").await.err(), "does not exist"),
        (backend.write("a", b"").await.err(), "is a folder"),
        (backend.write("", b"").await.err(), "is a folder"),
        (
            backend.write("a/b.txt/c", b"").await.err(),
            "lies beneath a file",
        ),
        (backend.list("a/b.txt").await.err(), "is a file"),
        (backend.list("none").await.err(), "does not exist"),
        (backend.remove("a").await.err(), "is a folder"),
        (backend.remove("none").await.err(), "does not exist"),
    ];
    for (error, text) in cases {
        let error = error.expect(text);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().ends_with(text), "{error}");
    }
}

#[tokio::test]
async fn list_returns_direct_entries_only() {
    let backend = MemoryBackend::new();
    assert!(backend.list("").await.unwrap().is_empty());
    for path in ["b/one", "b/two/three", "a.txt", "ba"] {
        backend.write(path, b"12").await.unwrap();
    }

    assert_eq!(
        backend.list("/workspace").await.unwrap(),
        [
            DirEntry::new("a.txt", EntryKind::File, 2),
            DirEntry::new("b", EntryKind::Dir, 0),
            DirEntry::new("ba", EntryKind::File, 2),
        ]
    );
    let names = |entries: Vec<DirEntry>| entries.into_iter().map(|e| e.name).collect::<Vec<_>>();
    assert_eq!(names(backend.list("b/").await.unwrap()), ["one", "two"]);
}

#[tokio::test]
async fn folder_disappears_with_its_last_file() {
    let backend = MemoryBackend::new();
    backend.write("a/b", b"").await.unwrap();
    assert!(backend.exists("a").await.unwrap());
    backend.clone().remove("a/b").await.unwrap();
    assert!(!backend.exists("a").await.unwrap());
    assert!(backend.exists(".").await.unwrap());
}

#[tokio::test]
async fn memory_backend_rejects_commands() {
    let error = MemoryBackend::new()
        .execute(Command::new("ls"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn path_over_the_limit_is_refused_by_every_method() {
    let backend = MemoryBackend::new();
    let longest = format!("{}x", "a/".repeat(2047));
    backend.write(&longest, b"1").await.unwrap();
    let path = format!("{longest}yz");
    let errors = [
        backend.read(&path).await.err(),
        backend.stat(&path).await.err(),
        backend.write(&path, b"").await.err(),
        backend.append(&path, b"").await.err(),
        backend.list(&path).await.err(),
        backend.remove(&path).await.err(),
    ];
    for error in errors {
        let error = error.unwrap();
        let text = error.to_string();
        assert!(text.ends_with("has 4097 bytes, and a path has at most 4096"));
    }
    assert_eq!(backend.files().len(), 1);
}

#[tokio::test]
async fn file_above_a_path_is_found_among_its_neighbors() {
    let backend = MemoryBackend::new();
    for path in ["a", "a!", "a!x", "b/c", "b/c!/d", "é", "éa!"] {
        backend.write(path, b"1").await.unwrap();
    }
    for path in ["a/b", "a/b/c/d/e", "b/c/d", "b/c/d/e", "é/x", "a!/x"] {
        let error = backend.write(path, b"").await.unwrap_err();
        assert!(
            error.to_string().ends_with("lies beneath a file"),
            "{error}"
        );
    }
    for path in ["aa/b/c", "b/cc/d", "b/c!/e", "ê/x", "éa/b", "A/b", "z/y/x"] {
        backend.write(path, b"1").await.unwrap();
    }
}

#[tokio::test]
async fn files_over_the_limit_are_refused_and_leave_the_others() {
    let backend = MemoryBackend::new().with_max_bytes(3_000);
    backend.write("a", &[1; 1_000]).await.unwrap();
    backend.write("b", &[1; 1_000]).await.unwrap();
    let errors = [
        backend.write("c", &[1; 300]).await.err(),
        backend.clone().append("a", &[1; 600]).await.err(),
        backend.write("b", &[1; 1_600]).await.err(),
    ];
    for error in errors {
        let text = error.unwrap().to_string();
        assert!(text.contains("3000 at most"), "{text}");
        assert!(text.contains("MemoryBackend::with_max_bytes"), "{text}");
    }
    let sizes = backend.files().into_values().map(|content| content.len());
    assert_eq!(sizes.collect::<Vec<_>>(), [1_000, 1_000]);

    backend.write("b", &[1; 1_400]).await.unwrap();
    backend.remove("a").await.unwrap();
    backend.append("b", &[1; 1_000]).await.unwrap();

    // Existing files that exceed the limit may become smaller.
    let backend = backend.with_max_bytes(10);
    backend.write("b", &[1; 2_000]).await.unwrap();
    assert!(backend.write("b", &[1; 2_001]).await.is_err());
}

#[tokio::test]
async fn entries_are_sorted_by_name_and_folders_are_listed_once() {
    let backend = MemoryBackend::new();
    for path in [
        "d/a/1",
        "d/a/2/3",
        "d/a-b",
        "d/a0",
        "d/a.txt/4",
        "d/b",
        "da",
        "e/1",
    ] {
        backend.write(path, b"xy").await.unwrap();
    }
    let names = |entries: Vec<DirEntry>| {
        let entry = |entry: &DirEntry| (entry.name.clone(), entry.kind, entry.size);
        entries.iter().map(entry).collect::<Vec<_>>()
    };
    let file = |name: &str| (name.to_owned(), EntryKind::File, 2);
    let folder = |name: &str| (name.to_owned(), EntryKind::Dir, 0);
    let entries = backend.list("d").await.unwrap();
    let expected = [
        folder("a"),
        file("a-b"),
        folder("a.txt"),
        file("a0"),
        file("b"),
    ];
    assert_eq!(names(entries), expected);
    let entries = backend.list("").await.unwrap();
    assert_eq!(names(entries), [folder("d"), file("da"), folder("e")]);
}
