//! Feeding a search with listings and contents.

use std::fs::File;

use crate::error::Result;

use super::super::contract::Backend;
use super::super::entry::{DirEntry, EntryKind};
use super::super::failure::is_not_found;
use super::glob::Globber;
use super::grep::Grepper;
use super::query::{GlobMatches, GlobQuery, GrepMatches, GrepQuery};
use super::rules::Rules;
use super::walk::{Step, Walk, join};

/// A search under way.
#[derive(Debug)]
pub(in super::super) struct Search<K> {
    walk: Walk,
    kind: K,
}

/// What a search needs next.
pub(in super::super) enum Want {
    /// The entries of a folder, and its [`Rules`]: for [`Search::folder`].
    Folder(String),
    /// The content of a file: for [`Search::file`].
    File(String),
}

/// What there is to search in.
#[derive(Clone, Copy)]
pub(in super::super) enum Haystack<'a> {
    #[cfg_attr(not(all(feature = "fs", unix)), expect(dead_code))]
    File(&'a File),
    Bytes(&'a [u8]),
    Unreadable,
}

impl Search<Globber> {
    pub(in super::super) fn glob(query: &GlobQuery, root: &str) -> Result<Self> {
        let kind = Globber::new(query, root)?;
        let walk = Walk::new(kind.filter());
        Ok(Self { walk, kind })
    }

    pub(in super::super) fn base(&self) -> &str {
        &self.kind.base
    }

    /// Whether there is simply nothing to find when the base is missing.
    pub(in super::super) fn base_may_be_missing(&self) -> bool {
        self.kind.base_may_be_missing
    }

    /// The folder to enter next.
    pub(in super::super) fn next(&mut self) -> Option<String> {
        loop {
            match self.walk.next()? {
                Step::Folder(path) => return Some(path),
                Step::File(path) => {
                    if !self.kind.file(path) {
                        return None;
                    }
                }
            }
        }
    }

    pub(in super::super) fn finish(self) -> GlobMatches {
        let truncated = self.walk.is_truncated();
        self.kind.finish(truncated)
    }
}

impl Search<Grepper> {
    pub(in super::super) fn grep(query: &GrepQuery, root: &str) -> Result<Self> {
        let kind = Grepper::new(query, root)?;
        let walk = Walk::new(kind.filter()?);
        Ok(Self { walk, kind })
    }

    pub(in super::super) fn base(&self) -> &str {
        &self.kind.base
    }

    pub(in super::super) fn next(&mut self) -> Option<Want> {
        self.walk.next().map(|step| match step {
            Step::Folder(path) => Want::Folder(path),
            Step::File(path) => Want::File(path),
        })
    }

    /// Searches a file; false when no more are wanted.
    pub(in super::super) fn file(&mut self, path: String, content: Haystack<'_>) -> bool {
        self.kind.file(path, content)
    }

    pub(in super::super) fn finish(self) -> GrepMatches {
        let truncated = self.walk.is_truncated();
        self.kind.finish(truncated)
    }
}

impl<K> Search<K> {
    /// Adds the rules of a folder above the base, the root's first.
    pub(in super::super) fn above(&mut self, rules: Rules) {
        self.walk.above(rules);
    }

    pub(in super::super) fn folder(&mut self, path: String, entries: Vec<DirEntry>, rules: Rules) {
        self.walk.enter(path, entries, rules);
    }

    /// Notes that a folder could not be looked at as a whole.
    pub(in super::super) fn truncate(&mut self) {
        self.walk.truncate();
    }
}

/// The folders above `base`, the root's first. There are none when `..` makes that a question to
/// the file system.
pub(in super::super) fn above(base: &str) -> Vec<&str> {
    if base.is_empty() || base.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let nested = base.match_indices('/').map(|(end, _)| &base[..end]);
    std::iter::once("").chain(nested).collect()
}

pub(in super::super) async fn glob_through<B: Backend + ?Sized>(
    backend: &B,
    query: GlobQuery,
) -> Result<GlobMatches> {
    let mut search = Search::glob(&query, backend.root())?;
    let base = search.base().to_owned();
    match backend.list(&base).await {
        Ok(entries) => enter(backend, &mut search, base, entries).await,
        Err(error) if is_not_found(&error) && search.base_may_be_missing() => {}
        Err(error) => return Err(error),
    }
    while let Some(path) = search.next() {
        match backend.list(&path).await {
            Ok(entries) => add(backend, &mut search, path, entries).await,
            Err(_) => search.truncate(),
        }
    }
    Ok(search.finish())
}

pub(in super::super) async fn grep_through<B: Backend + ?Sized>(
    backend: &B,
    query: GrepQuery,
) -> Result<GrepMatches> {
    let mut search = Search::grep(&query, backend.root())?;
    let base = search.base().to_owned();
    if backend.stat(&base).await?.kind == EntryKind::Dir {
        let entries = backend.list(&base).await?;
        enter(backend, &mut search, base, entries).await;
    } else {
        let content = backend.read(&base).await?;
        search.file(base, Haystack::Bytes(&content));
    }
    while let Some(want) = search.next() {
        match want {
            Want::Folder(path) => match backend.list(&path).await {
                Ok(entries) => add(backend, &mut search, path, entries).await,
                Err(_) => search.truncate(),
            },
            Want::File(path) => {
                let content = backend.read(&path).await;
                let haystack = match &content {
                    Ok(content) => Haystack::Bytes(content),
                    Err(_) => Haystack::Unreadable,
                };
                if !search.file(path, haystack) {
                    break;
                }
            }
        }
    }
    Ok(search.finish())
}

/// Enters the first folder, with the rules of those above it.
async fn enter<B: Backend + ?Sized, K>(
    backend: &B,
    search: &mut Search<K>,
    base: String,
    entries: Vec<DirEntry>,
) {
    for dir in above(&base) {
        // Only the names of ignore files matter, and that there are some.
        if let Ok(entries) = backend.list(dir).await {
            let rules = rules(backend, dir, &entries).await;
            search.above(rules);
        }
    }
    add(backend, search, base, entries).await;
}

async fn add<B: Backend + ?Sized, K>(
    backend: &B,
    search: &mut Search<K>,
    path: String,
    entries: Vec<DirEntry>,
) {
    let rules = rules(backend, &path, &entries).await;
    search.folder(path, entries, rules);
}

async fn rules<B: Backend + ?Sized>(backend: &B, dir: &str, entries: &[DirEntry]) -> Rules {
    let mut contents = Vec::new();
    for file in Rules::files(entries) {
        // A file of rules that cannot be read rules nothing, as with git.
        let path = join(dir, file);
        let content = backend.read_range(&path, 0, Rules::MAX_BYTES).await;
        contents.extend(content.ok());
    }
    Rules::parse(dir, contents.iter().map(|content| &content[..]))
}
