//! The targets of paths through symbolic links.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::util::links::follow_links;
use crate::util::path::lexical;

use super::disk::Disk;
use super::folders::{Folders, MAX_DIRECTORIES};
use super::open_files::is_door;
use super::paths::{PathContext, PathOf, Segment, is_literal};
use super::shell::{Part, Word};

/// The maximum number of paths of one command that are looked up; beyond it, a word may lead
/// anywhere.
const MAX_PATHS: usize = 1024;

/// The paths of the files that a process has open. They are links to `/proc`.
const OPEN_FILES: [&str; 4] = ["/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// The targets of the words of one command, each path looked up once.
#[derive(Debug)]
pub(super) struct Links<'a> {
    context: &'a PathContext,
    disk: &'a Disk,
    folders: Cow<'a, Folders>,
    /// True if one of the folders has wildcards.
    has_glob_folder: bool,
    /// The same folders with `..` in their paths, made for the first word that needs them.
    kept_folders: OnceCell<Folders>,
    /// The target of each path that was looked up.
    targets: HashMap<String, Option<String>>,
    /// The targets of the files that each word with wildcards is expanded to.
    expanded_words: HashMap<Word, Vec<Word>>,
}

impl<'a> Links<'a> {
    pub(super) fn new(folders: Cow<'a, Folders>, context: &'a PathContext, disk: &'a Disk) -> Self {
        Self {
            context,
            disk,
            has_glob_folder: folders.directories.iter().any(Word::is_glob),
            folders,
            kept_folders: OnceCell::new(),
            targets: HashMap::new(),
            expanded_words: HashMap::new(),
        }
    }

    /// Returns the lookup for words of commands that do not run in `folders`, because these are
    /// named by options of other commands, such as `-C`.
    pub(super) fn without<'w>(&self, folders: impl Iterator<Item = &'w Word>) -> Self {
        let mut directories = self.folders.directories.clone();
        for folder in folders {
            if let Some(at) = directories.iter().position(|known| known == folder) {
                directories.remove(at);
            }
        }
        let folders = Folders::new(directories, self.context);
        Self::new(Cow::Owned(folders), self.context, self.disk)
    }

    /// Returns the folders where a path may begin, from the workspace and from where the command
    /// may have changed to.
    fn bases(&self, path: &str) -> Vec<String> {
        let mut bases = vec![self.context.workspace.clone().unwrap_or_default()];
        if !path.starts_with('/') {
            for directory in self.folders.directories.iter().take(MAX_DIRECTORIES) {
                if let Some((directory, suffix)) = fixed(directory, self.context)
                    && suffix.is_empty()
                {
                    let next: Vec<_> = bases.iter().map(|base| join(base, &directory)).collect();
                    bases.extend(next);
                }
            }
        }
        bases
    }

    /// Returns the other paths that `word` leads to, from the workspace and from where the command
    /// may have changed to.
    pub(super) fn of_word(&mut self, word: &Word) -> Vec<Word> {
        if !self.context.follows_links {
            return Vec::new();
        }
        let mut targets = self.of_fixed_part(word);
        targets.extend(self.of_expansions(word));
        targets
    }

    /// Returns the paths that `word` may be, and those that it leads to.
    pub(super) fn paths_of(&mut self, word: &Word) -> PathOf {
        let targets = self.of_word(word);
        PathOf::of_word(word, self.context, &self.folders).with_link_targets(&targets)
    }

    /// Returns `true` if the word, or a link that it names, goes back by `..` from what is missing.
    pub(super) fn leaves_missing(&self, word: &Word) -> bool {
        let Some((path, _)) = fixed(word, self.context) else {
            return false;
        };
        let is_missing = |path: &str| fs::metadata(path).is_err();
        self.bases(&path).iter().any(|base| {
            let path = join(base, &path);
            let target = || fs::read_link(&path).unwrap_or_default();
            !self.disk.may_look()
                || path
                    .match_indices("/..")
                    .any(|(at, _)| is_missing(&path[..at]))
                || is_missing(&path) && target().to_string_lossy().contains("..")
        })
    }

    /// Returns the targets of the folder before the first wildcard. The part after it stays as it
    /// is written, because a command may make files there.
    fn of_fixed_part(&mut self, word: &Word) -> Vec<Word> {
        let context = self.context;
        let Some((path, suffix)) = fixed(word, context) else {
            return Vec::new();
        };

        let mut targets = Vec::new();
        for base in self.bases(&path) {
            let path = join(&base, &path);
            if self.targets.len() >= MAX_PATHS && !self.targets.contains_key(&path) {
                return vec![Word::unknown()];
            }

            let entry = self.targets.entry(path);
            let target = entry.or_insert_with_key(|path| destination(path, context));
            targets.extend(target.clone());
        }

        let words = targets.into_iter().map(|path| {
            let mut word = Word::from_text(path);
            if !suffix.is_empty() {
                word.push_text("/", true);
            }

            word.parts.extend_from_slice(&suffix);
            word
        });
        words.collect()
    }

    /// Returns the targets of the existing files that a word with wildcards is expanded to, which
    /// may be links or lie behind links.
    fn of_expansions(&mut self, word: &Word) -> Vec<Word> {
        if !self.has_glob_folder && !word.is_glob() {
            return Vec::new();
        }

        let mut paths = PathOf::of_word(word, self.context, &self.folders).0;
        let context = PathContext {
            keeps_parents: true,
            ..self.context.clone()
        };
        let folders = self
            .kept_folders
            .get_or_init(|| self.folders.in_context(&context));
        for path in PathOf::of_word(word, &context, folders).0 {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths.retain(|path| !path.contains(&Segment::Unknown) && !path.iter().all(is_literal));
        if paths.is_empty() {
            return Vec::new();
        }

        // A word may have several uses.
        if !self.expanded_words.contains_key(word) {
            let targets = self.expansion_targets(&paths);
            let targets = targets.unwrap_or_else(|| vec![Word::unknown()]);
            self.expanded_words.insert(word.clone(), targets);
        }
        self.expanded_words[word].clone()
    }

    /// Returns the targets of the existing files that paths with wildcards are expanded to. `None`
    /// if they cannot be known.
    fn expansion_targets(&self, paths: &[Vec<Segment>]) -> Option<Vec<Word>> {
        let mut targets = Vec::new();
        for path in paths {
            // A shell may be set to expand to hidden files.
            for path in self.disk.expand(path, true)? {
                if !self.disk.may_look() {
                    return None;
                }
                targets.extend(destination(&path, self.context).map(Word::from_text));
            }
        }
        Some(targets)
    }
}

/// Returns the path of a word up to the folder of its first wildcard, and the parts that follow. A
/// word without a wildcard is all path. `None` if a part of the path is not known.
fn fixed(word: &Word, context: &PathContext) -> Option<(String, Vec<Part>)> {
    let mut path = String::new();
    for (at, part) in word.parts.iter().enumerate() {
        match part {
            Part::Text { text, .. } => path.push_str(text),
            Part::Brace(c) => path.push(*c),
            Part::Home(user) if user.is_empty() => path.push_str(context.home.as_deref()?),
            part if at == 0 && part.variable() == Some("HOME") => {
                path.push_str(context.home.as_deref()?);
            }
            part if at == 0 && part.variable() == Some("PWD") => path.push('.'),
            Part::Glob(_) => {
                let end = path.rfind('/').map_or(0, |slash| slash + 1);
                let mut suffix = Word::from_text(path.split_off(end));
                suffix.parts.extend_from_slice(&word.parts[at..]);
                let folder = if path.is_empty() {
                    ".".to_owned()
                } else {
                    path
                };
                return Some((folder, suffix.parts));
            }
            _ => return None,
        }
    }

    Some((path, Vec::new()))
}

fn join(base: &str, path: &str) -> String {
    match base {
        "" => path.to_owned(),
        _ if path.starts_with('/') => path.to_owned(),
        base => format!("{base}/{path}"),
    }
}

/// Returns the other path that `path` leads to through links; `None` when it contains none, when
/// its starting folder is unknown, or when this machine does not have it.
///
/// A path in the workspace is returned as one, regardless of links to the workspace itself.
pub(super) fn destination(path: &str, context: &PathContext) -> Option<String> {
    let workspace = context.workspace.as_deref();
    let full_path = match (path.strip_prefix("~/"), context.home.as_deref()) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ if path.starts_with('/') => PathBuf::from(path),
        _ => Path::new(workspace?).join(path),
    };

    let real_path = resolve(&full_path)?;
    let workspace_path = workspace.and_then(|workspace| {
        let relative_path = real_path
            .strip_prefix(fs::canonicalize(workspace).ok()?)
            .ok()?;
        Some(Path::new(workspace).join(relative_path))
    });

    let lexical_path = lexical(&workspace_path.unwrap_or(real_path).to_string_lossy());
    (lexical_path != lexical(&full_path.to_string_lossy())).then_some(lexical_path)
}

/// Returns the pattern with the folders before its first wildcard replaced by those that links in
/// them lead to; `None` if they lead to no others.
pub(super) fn pattern_destination(pattern: &str, context: &PathContext) -> Option<String> {
    let is_literal = |name: &&str| !name.contains(['*', '?']);
    let names = pattern.split('/').take_while(is_literal);
    let length = names.map(|name| name.len() + 1).sum::<usize>();
    let (folder, suffix) = pattern.split_at(length.min(pattern.len()));
    if !context.follows_links || !folder.contains('/') {
        return None;
    }
    let target = destination(folder, context)?;
    Some(match suffix {
        "" => target,
        suffix => format!("{target}/{suffix}"),
    })
}

/// Returns the path without links. What cannot be looked up counts as missing, and a write would
/// create it.
///
/// Links of `/proc`, such as `/proc/self/cwd`, lead elsewhere in the process of a command. The link
/// itself is returned for a path through one of them. Paths of open files, such as `/dev/stdout`,
/// are looked up for this process alone.
fn resolve(path: &Path) -> Option<PathBuf> {
    let real_path = fs::canonicalize(path).ok();
    let is_open_file = OPEN_FILES
        .iter()
        .any(|open_file| path.starts_with(open_file));
    if real_path.as_deref() == Some(path) || is_open_file {
        return real_path;
    }

    let mut door = None;
    let read_link = |path: &Path| {
        if path.starts_with("/proc") {
            // The names behind a door, also `..`, are resolved from another folder.
            if door.is_none() && path.to_str().is_some_and(is_door) {
                door = Some(path.to_owned());
            }
            return Ok(None);
        }

        match fs::read_link(path) {
            Ok(target) => Ok(Some(target)),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            Err(_) => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let target = follow_links(path, read_link).ok().flatten();
    let target = door.or(target);
    match real_path {
        Some(real_path) => target
            .filter(|target| target.starts_with("/proc"))
            .or(Some(real_path)),
        None => target,
    }
}
