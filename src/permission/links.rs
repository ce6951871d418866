//! The targets of paths through symbolic links.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::util::links::follow_links;
use crate::util::path::lexical;

use super::paths::{MAX_DIRECTORIES, PathContext};
use super::shell::{Analysis, Part, Use, Word};

/// The maximum number of paths of one command that are looked up; beyond it, a word may lead
/// anywhere.
const MAX_PATHS: usize = 1024;
/// The maximum number of links of one command that are followed.
const MAX_LINKS: usize = 16;
/// The maximum number of paths that one path leads to through links of the command; with more, it
/// may lead anywhere.
const MAX_TARGETS: usize = 16;
/// The maximum length, in bytes, of a path that is followed through links of the command: the limit
/// of kernels.
const MAX_PATH_LEN: usize = 4096;

/// The targets of the words of one command, each path looked up once.
#[derive(Debug)]
pub(super) struct Links<'a> {
    context: &'a PathContext,
    directories: Vec<&'a Word>,
    /// The links that the command makes, and the paths that they lead to, if these are known.
    made_links: Vec<(String, Option<String>)>,
    has_too_many_links: bool,
    /// The target of each path that was looked up.
    targets: HashMap<String, Option<String>>,
}

impl<'a> Links<'a> {
    pub(super) fn new(analysis: &'a Analysis, context: &'a PathContext) -> Self {
        let mut links = Self {
            context,
            directories: analysis
                .used(Use::Directory)
                .take(MAX_DIRECTORIES)
                .collect(),
            made_links: Vec::new(),
            has_too_many_links: analysis.links.len() > MAX_LINKS,
            targets: HashMap::new(),
        };
        let made_links = analysis.links.iter().take(MAX_LINKS);
        links.made_links = made_links
            .flat_map(|(link, source)| links.made(link, source))
            .collect();
        links
    }

    /// The places of a link that the command makes, in the folder or as the file `link`.
    fn made(&self, link: &Word, source: &Word) -> Vec<(String, Option<String>)> {
        let Some((link, [])) = fixed(link, self.context) else {
            return Vec::new();
        };

        let source = match fixed(source, self.context) {
            Some((source, [])) => Some(source),
            _ => None,
        };
        let source_name = source
            .as_deref()
            .and_then(|source| name_of(source.trim_end_matches('/')));
        let in_folder = source_name.map(|name| join(&link, name));
        let as_file = name_of(&link).is_some().then_some(link);
        let places = [as_file, in_folder]
            .into_iter()
            .flatten()
            .flat_map(|place| {
                self.bases(&place)
                    .into_iter()
                    .map(move |base| lexical(&join(&base, &place)))
            });
        // The source of a hard link does not count from the folder of the link.
        let mut folders = source
            .as_deref()
            .map_or_else(Vec::new, |source| self.bases(source));
        folders.insert(0, String::new());
        places
            .flat_map(|place| {
                let own_folder = place.rsplit_once('/').map_or("", |(folder, _)| folder);
                folders[0] = own_folder.to_owned();
                let sources = folders.iter().map(|folder| {
                    let source = source.as_ref().map(|source| join(folder, source));
                    (place.clone(), source)
                });
                sources.collect::<Vec<_>>()
            })
            .collect()
    }

    /// The folders where a path may begin, from the workspace and from where the command may have
    /// changed to.
    fn bases(&self, path: &str) -> Vec<String> {
        let mut bases = vec![self.context.workspace.clone().unwrap_or_default()];
        if !path.starts_with('/') {
            for directory in &self.directories {
                if let Some((directory, [])) = fixed(directory, self.context) {
                    let next: Vec<_> = bases.iter().map(|base| join(base, &directory)).collect();
                    bases.extend(next);
                }
            }
        }
        bases
    }

    /// The other paths that `word` leads to, from the workspace and from where the command may have
    /// changed to. The part after the first wildcard stays as it is written.
    pub(super) fn of_word(&mut self, word: &Word) -> Vec<Word> {
        let is_unknown = !self.context.follows_links && self.made_links.is_empty();
        if is_unknown || word.starts_with_dash() {
            return Vec::new();
        }

        if self.has_too_many_links {
            return vec![Word::unknown()];
        }

        let Some((path, suffix)) = fixed(word, self.context) else {
            return Vec::new();
        };

        let mut targets = Vec::new();
        for base in self.bases(&path) {
            let Some(other_paths) = self.other_paths(join(&base, &path)) else {
                return vec![Word::unknown()];
            };
            targets.extend(other_paths);
        }

        let words = targets.into_iter().map(|path| {
            let mut word = Word::from_text(path);
            if !suffix.is_empty() {
                word.push_text("/", true);
            }

            word.parts.extend_from_slice(suffix);
            word
        });
        words.collect()
    }

    /// The other paths that `path` leads to, through links on the disk and links that the command
    /// makes, one after the other. `None` if they may be any.
    fn other_paths(&mut self, path: String) -> Option<Vec<String>> {
        let context = self.context;
        let mut paths = vec![path];
        let mut index = 0;
        while let Some(path) = paths.get(index).cloned() {
            index += 1;
            let mut targets = self.made_targets(&path)?;
            if self.targets.len() >= MAX_PATHS && !self.targets.contains_key(&path) {
                return None;
            }

            if context.follows_links {
                let target = self
                    .targets
                    .entry(path)
                    .or_insert_with_key(|path| destination(path, context));
                targets.extend(target.clone());
            }

            for target in targets {
                if !paths.contains(&target) {
                    paths.push(target);
                }
            }

            if self.made_links.is_empty() {
                break;
            }
            if paths.len() > MAX_TARGETS {
                return None;
            }
        }

        paths.remove(0);
        Some(paths)
    }

    /// The paths that `path` leads to through one link that the command makes, at any place in it.
    /// `None` if they may be any.
    fn made_targets(&self, path: &str) -> Option<Vec<String>> {
        let mut targets = Vec::new();
        if self.made_links.is_empty() {
            return Some(targets);
        }
        if path.len() > MAX_PATH_LEN {
            return None;
        }

        let mut start = String::new();
        let mut index = 0;
        for name in path.split('/') {
            let suffix = &path[index + name.len()..];
            index += name.len() + 1;
            match name {
                "" | "." => continue,
                ".." => start.truncate(start.rfind('/').unwrap_or_default()),
                name => {
                    if path.starts_with('/') || !start.is_empty() {
                        start.push('/');
                    }
                    start.push_str(name);
                }
            }

            for (_, source) in self.made_links.iter().filter(|(link, _)| *link == start) {
                if targets.len() == MAX_TARGETS {
                    return None;
                }
                targets.push(format!("{}{suffix}", source.as_ref()?));
            }
        }

        Some(targets)
    }
}

/// The last name of a path; `None` if it ends in a slash, `.` or `..`.
fn name_of(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}

/// The folders that a word is sure to begin with, and the parts that follow; all of it when all
/// is sure. `None` if there are none.
fn fixed<'w>(word: &'w Word, context: &PathContext) -> Option<(String, &'w [Part])> {
    let mut path = String::new();
    for (at, part) in word.parts.iter().enumerate() {
        match part {
            Part::Text { text, .. } => path.push_str(text),
            Part::Brace(c) => path.push(*c),
            Part::Home(user) if user.is_empty() => path.push_str(context.home.as_deref()?),
            Part::Value {
                name: Some(name), ..
            } if at == 0 && name == "HOME" => path.push_str(context.home.as_deref()?),
            Part::Value {
                name: Some(name), ..
            } if at == 0 && name == "PWD" => path.push('.'),
            Part::Glob(_) => return path.ends_with('/').then(|| (path, &word.parts[at..])),
            _ => return None,
        }
    }

    Some((path, &[]))
}

fn join(base: &str, path: &str) -> String {
    match base {
        "" => path.to_owned(),
        _ if path.starts_with('/') => path.to_owned(),
        base => format!("{base}/{path}"),
    }
}

/// The other path that `path` leads to through links; `None` when it contains none, when its
/// starting folder is unknown, or when this machine does not have it.
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

/// The pattern of paths with the folder that it begins with where links lead to.
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

/// The path without links. What cannot be looked up counts as missing, and a write would create it.
fn resolve(path: &Path) -> Option<PathBuf> {
    if let Ok(real_path) = fs::canonicalize(path) {
        return Some(real_path);
    }

    let read_link = |path: &Path| match fs::read_link(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(_) => Err(io::ErrorKind::NotFound.into()),
    };
    follow_links(path, read_link).ok().flatten()
}
