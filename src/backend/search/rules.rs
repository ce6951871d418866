//! The rules of ignore files.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::util::Cancellation;

use super::super::entry::DirEntry;
use super::pattern;

/// The ignore files of a folder. The rules of the first file take precedence.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];
/// The weight of a line with wildcards compared with a line without: most need an expression of
/// their own.
const WILD_WEIGHT: usize = 8;
/// A line with wildcards weighs as much again for each further group of this many wildcards: the
/// time to compile its expression grows with them.
const WILD_GROUP: usize = 8;
/// As [`WILD_GROUP`], for groups of this many bytes.
const BYTE_GROUP: usize = 256;
/// The maximum weight of all lines of a folder's ignore files together; later lines are omitted.
const MAX_WEIGHT: usize = 2_048 * WILD_WEIGHT;
/// The maximum number of lines compiled together.
const PIECE_LINES: usize = 512;
/// The maximum size of the lines compiled together, in bytes. Their expression stays far below the
/// size at which compilation fails, and a failure would lose only this piece.
const PIECE_BYTES: usize = 32 * 1024;

/// The rules in the ignore files of one folder.
#[derive(Debug, Default)]
pub(in super::super) struct Rules {
    /// The pieces, in order of precedence.
    pieces: Vec<Gitignore>,
    weight: usize,
}

impl Rules {
    /// The maximum number of bytes read of an ignore file.
    pub(in super::super) const MAX_BYTES: usize = 256 * 1024;
    /// The number of bytes to read of an ignore file: one more than the limit, to detect a longer
    /// file.
    pub(in super::super) const READ: usize = Self::MAX_BYTES + 1;

    /// Returns the paths, relative to a folder with these entries, that may hold rules.
    pub(in super::super) fn files(entries: &[DirEntry]) -> impl Iterator<Item = &'static str> {
        FILES.into_iter().filter(|file| {
            let name = file.split('/').next().unwrap_or(file);
            entries.iter().any(|entry| entry.name == name)
        })
    }

    /// Creates the rules of `dir` with the contents of its ignore files, in the order of
    /// [`files`](Self::files). A line that cannot be parsed is omitted, as git does. A line over
    /// the limits of a pattern and the lines over the limits of a folder are omitted as well. When
    /// `cancellation` is cancelled, the remaining lines are omitted, too.
    pub(in super::super) fn parse<'a>(
        dir: &str,
        contents: impl IntoIterator<Item = &'a [u8]>,
        cancellation: &Cancellation,
    ) -> Self {
        let mut rules = Self::default();
        for content in contents {
            rules.add(dir, content, cancellation);
        }
        rules
    }

    fn add(&mut self, dir: &str, content: &[u8], cancellation: &Cancellation) {
        let root = absolute(dir);
        let mut builder = GitignoreBuilder::new(&root);
        let mut lines = 0;
        let mut bytes = 0;
        let mut pieces = Vec::new();
        for line in String::from_utf8_lossy(whole_lines(content)).lines() {
            if cancellation.is_cancelled() {
                return;
            }

            let line = line.strip_prefix('\u{feff}').unwrap_or(line);
            let trimmed_line = line.trim_end();
            if trimmed_line.is_empty()
                || line.starts_with('#')
                || pattern::check(trimmed_line).is_err()
            {
                continue;
            }

            let weight = weight(trimmed_line);
            if self.weight + weight > MAX_WEIGHT {
                break;
            }

            if builder.add_line(None, line).is_err() {
                continue;
            }

            self.weight += weight;
            lines += 1;
            bytes += line.len();
            if lines == PIECE_LINES || bytes > PIECE_BYTES {
                pieces.extend(builder.build());
                builder = GitignoreBuilder::new(&root);
                (lines, bytes) = (0, 0);
            }
        }

        if lines > 0 {
            pieces.extend(builder.build());
        }

        // The last matching line takes precedence.
        self.pieces.extend(pieces.into_iter().rev());
    }

    /// Returns the weight of all lines, in which a line without wildcards weighs 1.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Returns `true` if the path, with a slash in front, is excluded and `false` if it is included
    /// again; `None` if no rule matches it.
    pub(super) fn is_ignored(&self, path: &str, is_dir: bool) -> Option<bool> {
        self.pieces
            .iter()
            .find_map(|piece| match piece.matched(Path::new(path), is_dir) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            })
    }
}

fn weight(line: &str) -> usize {
    match line.matches(['*', '?', '[', '{', ',']).count() {
        wild if wild > 0 && line.contains(['*', '?', '[', '{']) => {
            WILD_WEIGHT * (1 + wild.saturating_sub(1) / WILD_GROUP + line.len() / BYTE_GROUP)
        }
        _ => 1,
    }
}

/// The part of an ignore file that is used, without the line that the limit cuts: half a line is
/// another pattern.
fn whole_lines(content: &[u8]) -> &[u8] {
    let Some(prefix) = content.get(..Rules::MAX_BYTES) else {
        return content;
    };
    if content.len() == prefix.len() {
        return content;
    }
    match memchr::memrchr(b'\n', &content[..=Rules::MAX_BYTES]) {
        Some(end) => &content[..end],
        None => &[],
    }
}

/// Returns the path below `/`, which is the root of the workspace for rules: they match paths below
/// a root only.
pub(super) fn absolute(path: &str) -> String {
    format!("/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_search_compiles_no_lines() {
        let lines = "*.log\n".repeat(2_000);
        let cancellation = Cancellation::default();
        let all_rules = Rules::parse("", [lines.as_bytes()], &cancellation);
        assert_eq!(all_rules.weight(), 2_000 * WILD_WEIGHT);
        cancellation.cancel();
        let no_rules = Rules::parse("", [lines.as_bytes()], &cancellation);
        assert_eq!(no_rules.weight(), 0);
    }

    #[test]
    fn line_weight_grows_with_wildcards_and_bytes() {
        assert_eq!(weight("/target"), 1);
        assert_eq!(weight("a,b"), 1);
        assert_eq!(weight("**/*.{rs,toml}"), WILD_WEIGHT);
        assert_eq!(weight(&"*a".repeat(60)), 8 * WILD_WEIGHT);
        assert_eq!(weight(&format!("*{}", "a".repeat(1_000))), 4 * WILD_WEIGHT);
    }
}
