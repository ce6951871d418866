//! The contract of [`Backend`].

use std::fmt::Debug;
use std::io;

use futures::future::join_all;

use crate::backend::{Backend, Command, ContentHash, DirEntry, EntryKind};
use crate::error::{Error, ErrorKind, Result};

use super::checks::{Failures, same, wrong};

/// Checks that a [`Backend`] fulfills its contract:
///
/// * Written files can be read back, whole or in parts.
/// * No path leaves the root.
/// * The errors for a missing file, a folder and a file in the way are different.
/// * A writer that has not read the last change of a file does not overwrite it.
/// * Folders list their entries, and searches return the right matches.
/// * Commands return their output, if the backend runs any.
///
/// `make` returns a backend over a fresh, empty workspace for each check.
///
/// # Errors
///
/// Returns [`ErrorKind::Other`] with one line for each failed check.
///
/// ```
/// use agentcore::backend::MemoryBackend;
/// use agentcore::testing::conformance;
///
/// # let run = async {
/// conformance::backend(MemoryBackend::new).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub async fn backend<B: Backend>(make: impl Fn() -> B) -> Result<()> {
    let mut failures = Failures::default();
    failures.check("writing and reading", round_trip(&make()).await);
    failures.check("reading parts", parts(&make()).await);
    failures.check("paths", spellings(&make()).await);
    failures.check("paths that leave the root", escapes(&make()).await);
    failures.check("missing files", missing(&make()).await);
    failures.check("folders and files", kinds(&make()).await);
    failures.check("appending", appending(&make()).await);
    failures.check("concurrent changes", conflicts(&make()).await);
    failures.check("new files", creating(&make()).await);
    failures.check("concurrent writers", side_by_side(&make()).await);
    failures.check("listing", listing(&make()).await);
    failures.check("removing", removing(&make()).await);
    #[cfg(feature = "search")]
    failures.check("searching", search::check(&make()).await);
    failures.check("commands", commands(&make()).await);
    failures.finish()
}

/// Checks that an outcome is an error of file input or output.
fn fails<T: Debug>(what: &str, outcome: Result<T>, kinds: &[io::ErrorKind]) -> Result<()> {
    let error = match outcome {
        Ok(value) => return Err(wrong(format!("{what}: {value:?} instead of an error"))),
        Err(error) => error,
    };
    let source = std::error::Error::source(&error);
    let io_kind = source.and_then(|source| Some(source.downcast_ref::<io::Error>()?.kind()));
    match io_kind {
        Some(kind) if error.kind() == ErrorKind::Io && kinds.contains(&kind) => Ok(()),
        _ => Err(wrong(format!("{what}: {error:?} instead of {kinds:?}"))),
    }
}

async fn round_trip(backend: &impl Backend) -> Result<()> {
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for content in [&b""[..], b"text\r\nwithout an end", &binary] {
        backend.write("a/b/c.bin", content).await?;
        same(
            "content",
            &backend.read("a/b/c.bin").await?[..].len(),
            &content.len(),
        )?;
        if backend.read("a/b/c.bin").await? != content {
            return Err(wrong("other bytes came back"));
        }

        let metadata = backend.stat("a/b/c.bin").await?;
        same("kind", &metadata.kind, &EntryKind::File)?;
        same("size", &metadata.size, &(content.len() as u64))?;
    }

    Ok(())
}

async fn parts(backend: &impl Backend) -> Result<()> {
    backend.write("a", b"0123456789").await?;
    for (offset, len, expected) in [
        (0, 4, "0123"),
        (4, 4, "4567"),
        (8, 4, "89"),
        (10, 4, ""),
        (u64::MAX / 2, 4, ""),
        (3, 0, ""),
    ] {
        let part = backend.read_range("a", offset, len).await?;
        same("part", &&part[..], &expected.as_bytes())?;
    }

    fails(
        "a part of nothing",
        backend.read_range("b", 0, 1).await,
        &[io::ErrorKind::NotFound],
    )
}

async fn spellings(backend: &impl Backend) -> Result<()> {
    backend.write("a/b.txt", b"1").await?;
    backend.write("with space/\u{e4}\n'\"$.txt", b"1").await?;
    let absolute_path = format!("{}/a/b.txt", backend.root());
    for path in [
        "./a/b.txt",
        "a//b.txt",
        "a/./b.txt",
        "a/../a/b.txt",
        &absolute_path,
    ] {
        same(path, &&backend.read(path).await?[..], &&b"1"[..])?;
    }

    backend.read("with space/\u{e4}\n'\"$.txt").await?;
    for path in ["", ".", backend.root()] {
        same(path, &backend.stat(path).await?.kind, &EntryKind::Dir)?;
    }

    Ok(())
}

async fn escapes(backend: &impl Backend) -> Result<()> {
    backend.write("a/b.txt", b"1").await?;
    let root = backend.root();
    let paths = [
        "..".to_owned(),
        "../x".to_owned(),
        "a/../../x".to_owned(),
        "/etc/agentcore-conformance".to_owned(),
        "/dev/zero".to_owned(),
        format!("{root}/../x"),
        format!("{root}x/y"),
    ];
    for path in &paths {
        // The methods that read are checked first, and removal last: a backend that does not refuse
        // them is reported before anything outside of its root is lost.
        refused(
            path,
            [
                ("read", backend.read(path).await.err()),
                ("read_range", backend.read_range(path, 0, 1).await.err()),
                ("stat", backend.stat(path).await.err()),
                ("exists", backend.exists(path).await.err()),
                ("list", backend.list(path).await.err()),
            ],
        )?;
        let hash = ContentHash::of(b"");
        let unchanged_outcome = backend.write_if_unchanged(path, hash, b"x").await;
        refused(
            path,
            [
                ("write", backend.write(path, b"x").await.err()),
                ("append", backend.append(path, b"x").await.err()),
                ("create_new", backend.create_new(path, b"x").await.err()),
                ("write_if_unchanged", unchanged_outcome.err()),
            ],
        )?;
        refused(path, [("remove", backend.remove(path).await.err())])?;
    }

    Ok(())
}

/// Checks that each method refused the path.
fn refused<const N: usize>(path: &str, outcomes: [(&str, Option<Error>); N]) -> Result<()> {
    for (method, error) in outcomes {
        let kind = error.as_ref().map(Error::kind);
        same(
            &format!("{path}, {method}"),
            &kind,
            &Some(ErrorKind::PermissionDenied),
        )?;
    }

    Ok(())
}

async fn missing(backend: &impl Backend) -> Result<()> {
    let kinds = &[io::ErrorKind::NotFound];
    fails("read", backend.read("a").await, kinds)?;
    fails("read beneath", backend.read("a/b").await, kinds)?;
    fails("stat", backend.stat("a").await, kinds)?;
    fails("list", backend.list("a").await, kinds)?;
    fails("remove", backend.remove("a").await, kinds)?;
    same("exists", &backend.exists("a/b").await?, &false)
}

async fn kinds(backend: &impl Backend) -> Result<()> {
    backend.write("a/b", b"1").await?;
    let folder = &[io::ErrorKind::IsADirectory];
    let file = &[io::ErrorKind::NotADirectory];
    fails("reading a folder", backend.read("a").await, folder)?;
    fails("writing a folder", backend.write("a", b"").await, folder)?;
    fails("writing the root", backend.write("", b"").await, folder)?;
    fails("removing a folder", backend.remove("a").await, folder)?;
    fails("listing a file", backend.list("a/b").await, file)?;
    fails(
        "writing beneath a file",
        backend.write("a/b/c", b"").await,
        file,
    )?;
    same("the file", &&backend.read("a/b").await?[..], &&b"1"[..])
}

async fn appending(backend: &impl Backend) -> Result<()> {
    backend.append("a/b", b"one\n").await?;
    backend.append("a/b", b"two").await?;
    same(
        "content",
        &&backend.read("a/b").await?[..],
        &&b"one\ntwo"[..],
    )
}

async fn conflicts(backend: &impl Backend) -> Result<()> {
    backend.write("a", b"one").await?;
    let hash = ContentHash::of(b"one");
    backend.write_if_unchanged("a", hash, b"two").await?;
    let stale_write = backend.write_if_unchanged("a", hash, b"three").await;
    same(
        "kind",
        &stale_write.err().map(|e| e.kind()),
        &Some(ErrorKind::Conflict),
    )?;
    same("content", &&backend.read("a").await?[..], &&b"two"[..])?;
    let outcome = backend.write_if_unchanged("b", hash, b"three").await;
    fails("of a missing file", outcome, &[io::ErrorKind::NotFound])?;
    same("exists", &backend.exists("b").await?, &false)
}

async fn creating(backend: &impl Backend) -> Result<()> {
    backend.create_new("a/b", b"one").await?;
    let second_creation = backend.create_new("a/b", b"two").await;
    same(
        "kind",
        &second_creation.err().map(|e| e.kind()),
        &Some(ErrorKind::Conflict),
    )?;
    same("content", &&backend.read("a/b").await?[..], &&b"one"[..])?;
    let folder = &[io::ErrorKind::IsADirectory];
    fails("a folder", backend.create_new("a", b"").await, folder)?;

    let writers = (0..8_u8).map(|number| async move {
        let content = [number];
        backend.create_new("c", &content).await
    });
    let winner_count = join_all(writers).await.iter().filter(|o| o.is_ok()).count();
    same("writers that won", &winner_count, &1)
}

async fn side_by_side(backend: &impl Backend) -> Result<()> {
    backend.write("a", b"one").await?;
    let hash = ContentHash::of(b"one");
    let writers = (0..8_u8).map(|number| async move {
        let content = [number];
        backend.write_if_unchanged("a", hash, &content).await
    });
    let winner_count = join_all(writers).await.iter().filter(|o| o.is_ok()).count();
    same("writers that won", &winner_count, &1)
}

async fn listing(backend: &impl Backend) -> Result<()> {
    same("an empty workspace", &backend.list("").await?, &Vec::new())?;
    for path in ["b/one", "b/two/three", "a.txt", "ba"] {
        backend.write(path, b"12").await?;
    }

    let mut entries = backend.list("").await?;

    // The size of a folder is not specified.
    for entry in &mut entries {
        if entry.kind == EntryKind::Dir {
            entry.size = 0;
        }
    }

    let expected = vec![
        DirEntry::new("a.txt", EntryKind::File, 2),
        DirEntry::new("b", EntryKind::Dir, 0),
        DirEntry::new("ba", EntryKind::File, 2),
    ];
    same("the root", &entries, &expected)?;
    let names: Vec<String> = backend
        .list("b/")
        .await?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    same(
        "a folder",
        &names,
        &vec!["one".to_owned(), "two".to_owned()],
    )
}

async fn removing(backend: &impl Backend) -> Result<()> {
    backend.write("a", b"1").await?;
    backend.remove("a").await?;
    same("exists", &backend.exists("a").await?, &false)
}

#[cfg(feature = "search")]
mod search {
    use super::{Backend, ErrorKind, Result, fails, io, same};
    use crate::backend::{GlobQuery, GrepMode, GrepQuery};

    pub(super) async fn check(backend: &impl Backend) -> Result<()> {
        for (path, content) in [
            ("lib.rs", "fn one() {}\nfn two() {}\n"),
            ("a/b/deep.rs", "// one\n"),
            ("a.txt", "ONE\r\ntwo\r\n"),
            ("out/made.rs", "fn one() {}\n"),
            (".hidden/x.rs", "one\n"),
            (".gitignore", "out/\n"),
            ("nul.rs", "one\0two\n"),
        ] {
            backend.write(path, content.as_bytes()).await?;
        }

        for (pattern, expected) in [
            ("**/*.rs", &["a/b/deep.rs", "lib.rs", "nul.rs"][..]),
            ("*.rs", &["lib.rs", "nul.rs"]),
            ("a/**", &["a/b/deep.rs"]),
            ("*.{txt,md}", &["a.txt"]),
            ("out/*", &["out/made.rs"]),
            (".hidden/*", &[".hidden/x.rs"]),
            ("none/*", &[]),
        ] {
            let files = backend.glob(GlobQuery::new(pattern)).await?;
            let files: Vec<&str> = files.files.iter().map(String::as_str).collect();
            same(pattern, &&files[..], &expected)?;
        }

        let limited_matches = backend
            .glob(GlobQuery::new("**/*.rs").with_limit(1))
            .await?;
        same(
            "truncated",
            &(limited_matches.files.len(), limited_matches.truncated),
            &(1, true),
        )?;
        let outcome = backend.glob(GlobQuery::new("[")).await;
        let kind = outcome.err().map(|error| error.kind());
        same("a malformed glob", &kind, &Some(ErrorKind::InvalidRequest))?;
        for outside in ["../*", "/etc/*"] {
            let outcome = backend.glob(GlobQuery::new(outside)).await;
            let kind = outcome.err().map(|error| error.kind());
            same(outside, &kind, &Some(ErrorKind::PermissionDenied))?;
        }

        contents(backend).await
    }

    async fn contents(backend: &impl Backend) -> Result<()> {
        let matches = backend.grep(GrepQuery::new("one")).await?;
        let lines: Vec<(&str, u64, &str)> = matches
            .files
            .iter()
            .flat_map(|file| {
                file.lines
                    .iter()
                    .map(|line| (file.path.as_str(), line.number, line.text.as_str()))
            })
            .collect();
        let expected = vec![("a/b/deep.rs", 1, "// one"), ("lib.rs", 1, "fn one() {}")];
        same("lines", &lines, &expected)?;
        // The first file has as many matches as there may be.
        let limited_matches = backend.grep(GrepQuery::new("one").with_limit(1)).await?;
        same(
            "truncated lines",
            &(limited_matches.files.len(), limited_matches.truncated),
            &(1, true),
        )?;
        let mut query = GrepQuery::new("^one|^two").with_mode(GrepMode::Count);
        query.ignore_case = true;
        let count_output = backend.grep(query).await?;
        let counts: Vec<(&str, u64)> = count_output
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.count))
            .collect();
        same("counts", &counts, &vec![("a.txt", 2)])?;
        let empty_output = backend.grep(GrepQuery::new("nowhere")).await?;
        same("no match", &empty_output.files.len(), &0)?;
        let outcome = backend.grep(GrepQuery::new("[")).await;
        let kind = outcome.err().map(|error| error.kind());
        same(
            "a malformed pattern",
            &kind,
            &Some(ErrorKind::InvalidRequest),
        )?;
        let folder_outcome = backend.grep(GrepQuery::new("one").within("none")).await;
        fails(
            "a missing folder",
            folder_outcome,
            &[io::ErrorKind::NotFound],
        )
    }
}

async fn commands(backend: &impl Backend) -> Result<()> {
    let command = Command::new("echo out; echo err >&2; exit 3");
    let output = match backend.execute(command).await {
        Err(error) if error.kind() == ErrorKind::Config => return Ok(()),
        done => done?,
    };

    same("exit code", &output.exit_code, &Some(3))?;
    same(
        "standard output",
        &output.stdout.text(),
        &"out\n".to_owned(),
    )?;
    same("standard error", &output.stderr.text(), &"err\n".to_owned())?;
    backend.write("folder/file", b"inside").await?;
    let output = backend
        .execute(Command::new("cat file; cat").with_cwd("folder"))
        .await?;
    same("in a folder", &output.stdout.text(), &"inside".to_owned())?;
    let outcome = backend.execute(Command::new("pwd").with_cwd("..")).await;
    let kind = outcome.err().map(|error| error.kind());
    same("outside", &kind, &Some(ErrorKind::PermissionDenied))
}
