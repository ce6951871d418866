//! The drivers of a search, which supply listings and contents.

use std::fs::File;

use bytes::Bytes;

use crate::error::Result;
use crate::util::Cancellation;
use crate::util::blocking::blocking_until;

use super::super::backend::Backend;
use super::super::entry::{DirEntry, EntryKind};
use super::super::failure::is_not_found;
use super::glob::Globber;
use super::grep::Grepper;
use super::query::{GlobMatches, GlobQuery, GrepMatches, GrepQuery};
use super::rules::Rules;
use super::walk::{Walk, WalkStep, join};

/// A search in progress.
#[derive(Debug)]
pub(in super::super) struct Search<K> {
    walk: Walk,
    kind: K,
}

/// The next input that a search needs.
pub(in super::super) enum Needed {
    /// The entries of a folder, and its [`Rules`]: for [`Search::add_folder`].
    Folder(String),
    /// The content of a file: for [`Search::search_file`].
    File(String),
}

/// The content to search in.
#[derive(Clone, Copy)]
pub(in super::super) enum Haystack<'a> {
    #[cfg_attr(not(all(feature = "fs", unix)), expect(dead_code))]
    File(&'a File),
    Bytes(&'a [u8]),
    Unreadable,
}

impl Search<Globber> {
    /// Creates a search that ends, truncated, when `cancellation` is cancelled. `roots` are the
    /// names of the root, the displayed one first.
    pub(in super::super) fn glob(
        query: &GlobQuery,
        roots: &[&str],
        cancellation: &Cancellation,
    ) -> Result<Self> {
        let kind = Globber::new(query, roots)?;
        let walk = Walk::new(kind.filter(), cancellation.clone());
        Ok(Self { walk, kind })
    }

    pub(in super::super) fn base(&self) -> &str {
        &self.kind.base
    }

    /// Returns `true` if a missing base is an empty result instead of an error.
    pub(in super::super) fn base_may_be_missing(&self) -> bool {
        self.kind.base_may_be_missing
    }

    /// Returns the folder to enter next.
    pub(in super::super) fn next(&mut self) -> Option<String> {
        loop {
            match self.walk.next()? {
                WalkStep::Folder(path) => return Some(path),
                WalkStep::File(path) => {
                    if !self.kind.add_file(path) {
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
    /// Creates a search that ends, truncated, when `cancellation` is cancelled. `roots` are the
    /// names of the root, the displayed one first.
    pub(in super::super) fn grep(
        query: &GrepQuery,
        roots: &[&str],
        cancellation: &Cancellation,
    ) -> Result<Self> {
        let kind = Grepper::new(query, roots, cancellation.clone())?;
        let walk = Walk::new(kind.filter()?, cancellation.clone());
        Ok(Self { walk, kind })
    }

    pub(in super::super) fn base(&self) -> &str {
        &self.kind.base
    }

    pub(in super::super) fn next(&mut self) -> Option<Needed> {
        self.walk.next().map(|step| match step {
            WalkStep::Folder(path) => Needed::Folder(path),
            WalkStep::File(path) => Needed::File(path),
        })
    }

    /// Searches a file. Returns `false` if no further files are needed.
    pub(in super::super) fn search_file(&mut self, path: String, content: Haystack<'_>) -> bool {
        self.kind.search_file(path, content)
    }

    pub(in super::super) fn finish(self) -> GrepMatches {
        let truncated = self.walk.is_truncated();
        self.kind.finish(truncated)
    }
}

impl<K> Search<K> {
    /// Adds the rules of a folder above the base, the root's first.
    pub(in super::super) fn add_parent_rules(&mut self, rules: Rules) {
        self.walk.add_parent_rules(rules);
    }

    /// Adds the entries of a folder, which are visited next.
    pub(in super::super) fn add_folder(
        &mut self,
        path: String,
        entries: Vec<DirEntry>,
        rules: Rules,
    ) {
        self.walk.enter(path, entries, rules);
    }

    /// Returns the cancellation of the search.
    pub(in super::super) fn cancellation(&self) -> &Cancellation {
        self.walk.cancellation()
    }

    /// Records that a folder could not be read completely.
    pub(in super::super) fn mark_truncated(&mut self) {
        self.walk.mark_truncated();
    }
}

/// Returns the folders above `base`, the root first. Returns none for a path with `..`, which only
/// the file system can resolve.
pub(in super::super) fn parent_folders(base: &str) -> Vec<&str> {
    if base.is_empty() || base.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let nested = base.match_indices('/').map(|(end, _)| &base[..end]);
    std::iter::once("").chain(nested).collect()
}

/// Runs a search for files through the methods `list` and `read_range` of a backend.
pub(in super::super) async fn glob_through<B: Backend + ?Sized>(
    backend: &B,
    query: GlobQuery,
) -> Result<GlobMatches> {
    let cancellation = Cancellation::default();
    let _cancel_on_drop = cancellation.guard();
    let mut search = Search::glob(&query, &[backend.root()], &cancellation)?;
    let base = search.base().to_owned();
    match backend.list(&base).await {
        Ok(entries) => search = enter(backend, search, base, entries).await?,
        Err(error) if is_not_found(&error) && search.base_may_be_missing() => {}
        Err(error) => return Err(error),
    }

    loop {
        let (advanced_search, next) = search.run(|search| search.next()).await?;
        search = advanced_search;
        let Some(path) = next else {
            return Ok(search.finish());
        };

        match backend.list(&path).await {
            Ok(entries) => search = add(backend, search, path, entries).await?,
            Err(_) => search.mark_truncated(),
        }
    }
}

/// Runs a search in files through the methods `stat`, `list`, `read` and `read_range` of a
/// backend.
pub(in super::super) async fn grep_through<B: Backend + ?Sized>(
    backend: &B,
    query: GrepQuery,
) -> Result<GrepMatches> {
    let cancellation = Cancellation::default();
    let _cancel_on_drop = cancellation.guard();
    let root = backend.root().to_owned();
    let token = cancellation.clone();
    let search = move || Search::grep(&query, &[root.as_str()], &token);
    let mut search = blocking_until(&cancellation, search).await?;
    let base = search.base().to_owned();
    if backend.stat(&base).await?.kind == EntryKind::Dir {
        let entries = backend.list(&base).await?;
        search = enter(backend, search, base, entries).await?;
    } else {
        let content = backend.read(&base).await?;
        let searched =
            search.run(move |search| search.search_file(base, Haystack::Bytes(&content)));
        search = searched.await?.0;
    }

    loop {
        let (advanced_search, next) = search.run(|search| search.next()).await?;
        search = advanced_search;
        match next {
            None => return Ok(search.finish()),
            Some(Needed::Folder(path)) => match backend.list(&path).await {
                Ok(entries) => search = add(backend, search, path, entries).await?,
                Err(_) => search.mark_truncated(),
            },
            Some(Needed::File(path)) => {
                let content = backend.read(&path).await;
                let file = move |search: &mut Search<Grepper>| match &content {
                    Ok(content) => search.search_file(path, Haystack::Bytes(content)),
                    Err(_) => search.search_file(path, Haystack::Unreadable),
                };

                let (searched, wants_more) = search.run(file).await?;
                search = searched;
                if !wants_more {
                    return Ok(search.finish());
                }
            }
        }
    }
}

impl<K: Send + 'static> Search<K> {
    /// Runs a part of the search as blocking work, and returns the search with the result.
    async fn run<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Result<(Self, T)> {
        let cancellation = self.cancellation().clone();
        let work = move || {
            let result = work(&mut self);
            Ok((self, result))
        };
        blocking_until(&cancellation, work).await
    }
}

/// Enters the first folder, with the rules of the folders above it.
async fn enter<B: Backend + ?Sized, K: Send + 'static>(
    backend: &B,
    mut search: Search<K>,
    base: String,
    entries: Vec<DirEntry>,
) -> Result<Search<K>> {
    for dir in parent_folders(&base) {
        // Only the names of ignore files are used.
        if let Ok(entries) = backend.list(dir).await {
            let contents = ignore_files(backend, dir, &entries).await;
            let dir = dir.to_owned();
            let step = search.run(move |search| {
                let rules = rules(&dir, &contents, search.cancellation());
                search.add_parent_rules(rules);
            });

            search = step.await?.0;
        }
    }

    add(backend, search, base, entries).await
}

/// Enters a folder, with its own rules.
async fn add<B: Backend + ?Sized, K: Send + 'static>(
    backend: &B,
    search: Search<K>,
    path: String,
    entries: Vec<DirEntry>,
) -> Result<Search<K>> {
    let contents = ignore_files(backend, &path, &entries).await;
    let step = search.run(move |search| {
        let rules = rules(&path, &contents, search.cancellation());
        search.add_folder(path, entries, rules);
    });
    Ok(step.await?.0)
}

fn rules(dir: &str, contents: &[Bytes], cancellation: &Cancellation) -> Rules {
    let contents = contents.iter().map(|content| &content[..]);
    Rules::parse(dir, contents, cancellation)
}

async fn ignore_files<B: Backend + ?Sized>(
    backend: &B,
    dir: &str,
    entries: &[DirEntry],
) -> Vec<Bytes> {
    let mut contents = Vec::new();
    for file in Rules::files(entries) {
        // An ignore file that cannot be read has no effect, as in git.
        let path = join(dir, file);
        let content = backend.read_range(&path, 0, Rules::READ).await;
        contents.extend(content.ok());
    }
    contents
}
