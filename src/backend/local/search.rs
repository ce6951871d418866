//! The search below a root.
//!
//! Every folder and every file is opened below the root again, and so are the ignore files: the
//! tree may change while it is walked, and what it holds is not to be trusted.

use std::sync::Arc;

use crate::error::Result;
use crate::util::Cancellation;
use crate::util::blocking::blocking_until;

use super::super::entry::{DirEntry, EntryKind};
use super::super::failure::is_not_found;
use super::super::search::{
    GlobMatches, GlobQuery, GrepMatches, GrepQuery, Haystack, Needed, Rules, Search, join,
    parent_folders,
};
use super::root::Root;

pub(super) async fn glob(root: Arc<Root>, query: GlobQuery) -> Result<GlobMatches> {
    let cancellation = Cancellation::default();
    let _cancel_on_drop = cancellation.guard();
    let token = cancellation.clone();
    blocking_until(&cancellation, move || glob_now(&root, &query, &token)).await
}

pub(super) async fn grep(root: Arc<Root>, query: GrepQuery) -> Result<GrepMatches> {
    let cancellation = Cancellation::default();
    let _cancel_on_drop = cancellation.guard();
    let token = cancellation.clone();
    blocking_until(&cancellation, move || grep_now(&root, &query, &token)).await
}

fn glob_now(root: &Root, query: &GlobQuery, cancellation: &Cancellation) -> Result<GlobMatches> {
    let mut search = Search::glob(query, &root.name_texts(), cancellation)?;
    let base = search.base().to_owned();
    match root.list_kinds(&base, search.cancellation()) {
        Ok(entries) => enter(root, &mut search, base, entries),
        Err(error) if is_not_found(&error) && search.base_may_be_missing() => {}
        Err(error) => return Err(error),
    }
    while let Some(path) = search.next() {
        add(root, &mut search, path);
    }
    Ok(search.finish())
}

fn grep_now(root: &Root, query: &GrepQuery, cancellation: &Cancellation) -> Result<GrepMatches> {
    let mut search = Search::grep(query, &root.name_texts(), cancellation)?;
    let base = search.base().to_owned();
    if root.stat(&base)?.kind == EntryKind::Dir {
        let entries = root.list_kinds(&base, search.cancellation())?;
        enter(root, &mut search, base, entries);
    } else {
        let (file, _) = root.open_file(&base)?;
        search.search_file(base, Haystack::File(&file));
    }

    while let Some(needed) = search.next() {
        match needed {
            Needed::Folder(path) => add(root, &mut search, path),
            Needed::File(path) => {
                let result = root.open_file(&path);
                let haystack = match &result {
                    Ok((file, _)) => Haystack::File(file),
                    Err(_) => Haystack::Unreadable,
                };

                if !search.search_file(path, haystack) {
                    break;
                }
            }
        }
    }

    Ok(search.finish())
}

/// Enters the first folder, with the rules of the folders above it.
fn enter<K>(root: &Root, search: &mut Search<K>, base: String, entries: Vec<DirEntry>) {
    for dir in parent_folders(&base) {
        if let Ok(entries) = root.list_kinds(dir, search.cancellation()) {
            let rules = rules(root, dir, &entries, search.cancellation());
            search.add_parent_rules(rules);
        }
    }
    let rules = rules(root, &base, &entries, search.cancellation());
    search.add_folder(base, entries, rules);
}

fn add<K>(root: &Root, search: &mut Search<K>, path: String) {
    match root.list_kinds(&path, search.cancellation()) {
        Ok(entries) => {
            let rules = rules(root, &path, &entries, search.cancellation());
            search.add_folder(path, entries, rules);
        }
        Err(_) => search.mark_truncated(),
    }
}

fn rules(root: &Root, dir: &str, entries: &[DirEntry], cancellation: &Cancellation) -> Rules {
    let readable_contents = Rules::files(entries).filter_map(|file| {
        let path = join(dir, file);
        // An ignore file that cannot be read has no effect, as in git.
        root.read_range(&path, 0, Rules::READ).ok()
    });
    let contents: Vec<_> = readable_contents.collect();
    Rules::parse(
        dir,
        contents.iter().map(|content| &content[..]),
        cancellation,
    )
}
