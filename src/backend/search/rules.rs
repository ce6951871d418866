//! What ignore files exclude.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::super::entry::DirEntry;

/// The ignore files of a folder, the one that decides last first.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// What the ignore files of one folder say.
#[derive(Debug, Default)]
pub(in super::super) struct Rules(Vec<Gitignore>);

impl Rules {
    /// More than this of an ignore file is not read.
    pub(in super::super) const MAX_BYTES: usize = 1024 * 1024;

    /// The paths, relative to a folder with these entries, that may hold rules.
    pub(in super::super) fn files(entries: &[DirEntry]) -> impl Iterator<Item = &'static str> {
        FILES.into_iter().filter(|file| {
            let name = file.split('/').next().unwrap_or(file);
            entries.iter().any(|entry| entry.name == name)
        })
    }

    /// The rules of `dir` with the contents of its ignore files, in the order of
    /// [`files`](Self::files). A line that cannot be understood is left out, as git does.
    pub(in super::super) fn parse<'a>(
        dir: &str,
        contents: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let parse = |content: &[u8]| {
            let mut builder = GitignoreBuilder::new(absolute(dir));
            for line in String::from_utf8_lossy(content).lines() {
                let line = line.strip_prefix('\u{feff}').unwrap_or(line);
                drop(builder.add_line(None, line));
            }
            builder.build().ok()
        };
        Self(contents.into_iter().filter_map(parse).collect())
    }

    /// Whether the path is excluded or taken back in, if these rules say either.
    pub(super) fn is_ignored(&self, path: &str, is_dir: bool) -> Option<bool> {
        let path = absolute(path);
        self.0
            .iter()
            .find_map(|rules| match rules.matched(Path::new(&path), is_dir) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            })
    }
}

/// Rules match paths beneath a root; the workspace's own is `/` to them.
pub(super) fn absolute(path: &str) -> String {
    format!("/{path}")
}
