//! Searches that would take for ever.

use std::time::Duration;

use agentcore::backend::{Backend, GrepMode, GrepQuery, LocalBackend, MemoryBackend};
use agentcore::{Error, ErrorKind};

use crate::kit::workspace::Workspace;

/// Much more time than any of these searches takes, and much less than without limits.
const LONG: Duration = Duration::from_secs(60);

async fn put(memory: &MemoryBackend, workspace: &Workspace, path: &str, content: &[u8]) {
    memory.write(path, content).await.unwrap();
    workspace.put(path, content);
}

fn multiline(pattern: &str) -> GrepQuery {
    let mut query = GrepQuery::new(pattern);
    query.multiline = true;
    query
}

async fn both<T>(
    memory: &MemoryBackend,
    local: &LocalBackend,
    query: GrepQuery,
    read: impl Fn(agentcore::Result<agentcore::backend::GrepMatches>) -> T,
) -> [T; 2] {
    let in_memory = tokio::time::timeout(LONG, memory.grep(query.clone())).await;
    let on_disk = tokio::time::timeout(LONG, local.grep(query)).await;
    [read(in_memory.unwrap()), read(on_disk.unwrap())]
}

#[tokio::test]
async fn multiline_search_of_one_long_line_is_linear() {
    let (memory, workspace) = (MemoryBackend::new(), Workspace::new());
    put(&memory, &workspace, "long.txt", &vec![b'a'; 4_000_000]).await;
    for pattern in ["a", "a|$", "(?s)a(.*b)?", "a*?", "^|a"] {
        let query = multiline(pattern).with_mode(GrepMode::Count);
        let counts = both(&memory, &workspace.backend, query, |found| {
            let matches = found.unwrap();
            let long = matches.files.iter().find(|file| file.path == "long.txt");
            (long.map(|file| file.count), matches.skipped)
        });
        assert_eq!(counts.await, [(Some(1), 0); 2], "{pattern}");
    }
}

#[tokio::test]
async fn matches_that_share_lines_are_reported_once_each() {
    let (memory, workspace) = (MemoryBackend::new(), Workspace::new());
    let text = "aaa\nb\nab\na\n\nc\nxa\nb ax\n";
    put(&memory, &workspace, "a.txt", text.as_bytes()).await;
    for (pattern, lines) in [
        ("a\nb|a", [1, 2, 3, 4, 7, 8].as_slice()),
        ("a", &[1, 3, 4, 7, 8]),
        ("a\n+c", &[4, 5, 6]),
    ] {
        let query = multiline(pattern);
        let numbers = both(&memory, &workspace.backend, query, |found| {
            let matches = found.unwrap();
            let file = matches.files.iter().find(|file| file.path == "a.txt");
            let lines = file.unwrap().lines.iter();
            lines.map(|line| line.number).collect::<Vec<_>>()
        });
        assert_eq!(numbers.await, [lines.to_vec(), lines.to_vec()], "{pattern}");
    }
}

#[tokio::test]
async fn file_or_line_over_the_limit_is_counted_as_skipped() {
    let (memory, workspace) = (MemoryBackend::new(), Workspace::new());
    let mut content = b"a\n".repeat(5 * 1024 * 1024);
    put(&memory, &workspace, "many-lines.txt", &content).await;
    content.fill(b'a');
    put(&memory, &workspace, "one-line.txt", &content).await;
    for (query, skipped) in [(GrepQuery::new("b+"), 1), (multiline("b\\s"), 2)] {
        let counts = both(&memory, &workspace.backend, query, |found| {
            found.unwrap().skipped
        });
        assert_eq!(counts.await, [skipped; 2]);
    }
}

#[tokio::test]
async fn costly_expression_lowers_the_size_searched_at_once() {
    let (memory, workspace) = (MemoryBackend::new(), Workspace::new());
    let content = vec![b'a'; 1024 * 1024];
    put(&memory, &workspace, "long.txt", &content).await;
    let query = multiline("[ab]{2000}\\n");
    let counts = both(&memory, &workspace.backend, query, |found| {
        found.unwrap().skipped
    });
    assert_eq!(counts.await, [1; 2]);
}

#[tokio::test]
async fn expression_over_a_limit_is_an_error_that_names_it() {
    let (memory, workspace) = (MemoryBackend::new(), Workspace::new());
    for (pattern, limit) in [
        ("a".repeat(10_000), "at most 8192 are allowed"),
        ("(?:a{1000}){1000}".to_owned(), "at most 4096 are allowed"),
        ("((((a{99}){99}){99}){99}){99}".to_owned(), "at most 4096"),
        (format!("{}a{}", "(".repeat(400), ")".repeat(400)), "nest"),
        ("(".repeat(5_000), "unclosed group"),
        (r"\w{300}".to_owned(), "size limit"),
    ] {
        let errors = both(
            &memory,
            &workspace.backend,
            GrepQuery::new(pattern),
            |found| {
                let error: Error = found.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidRequest);
                error.to_string()
            },
        );
        for error in errors.await {
            assert!(error.contains(limit), "{error:.300}");
        }
    }
}

#[test]
fn dropped_search_lets_the_runtime_shut_down() {
    let workspace = Workspace::new();

    // Each line matches only after the rest of the file was searched, which is quadratic.
    workspace.put("lines.txt", b"a\n".repeat(2_000_000));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let local = workspace.backend.clone();
    let search = runtime.spawn(async move { local.grep(multiline("(?s)a(.*b)?")).await });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!search.is_finished());

    // Dropping the runtime waits for the thread without a limit.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        sender.send(()).unwrap();
    });

    receiver.recv_timeout(LONG).unwrap();
}

#[tokio::test]
async fn search_through_another_backend_leaves_the_executor_free() {
    let memory = MemoryBackend::new();
    let lines = b"a\n".repeat(2_000_000);
    memory.write("lines.txt", &lines).await.unwrap();
    let search = memory.grep(multiline("(?s)a(.*b)?"));
    let outcome = tokio::time::timeout(Duration::from_millis(300), search).await;
    assert!(outcome.is_err());
}
