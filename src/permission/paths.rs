//! Paths and patterns of paths, compared by their segments after `.` and `..` are resolved.

use std::borrow::Cow;

use super::folders::Folders;
use super::glob::{GlobToken, Match, literal_char, match_segment, tokens};
use super::links::pattern_destination;
use super::open_files::{leads_elsewhere, lies_in_open_folder};
use super::shell::{Part, Word};
use crate::util::text::is_hidden;

pub(crate) use crate::util::path::lexical;

/// The folders and settings by which paths are resolved and compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathContext {
    /// The workspace, absolute.
    pub(crate) workspace: Option<String>,
    /// The home directory, absolute.
    pub(crate) home: Option<String>,
    /// True if the file system takes names that differ in case only for the same.
    pub(crate) folds_case: bool,
    /// True if paths that tools name are looked up in the file system.
    pub(crate) follows_links: bool,
    /// True if `..` stays in paths: behind a link, it is not the folder of the link.
    pub(super) keeps_parents: bool,
}

/// A part of a path between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A name, perhaps with wildcards.
    Name(Vec<GlobToken>),
    /// `**`: any number of names.
    Deep,
    /// Any names from here on, perhaps followed by known ones: a variable or a substitution.
    Unknown,
}

/// The start of a relative path when its folder is unknown.
const NO_HOME: &str = "~";
const NO_WORKSPACE: &str = ".";

/// A pattern of a rule: gitignore's, but `/x` is absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    text: String,
}

impl PathPattern {
    /// Parses `text`; the error describes a pattern that can match nothing.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.contains(|c: char| c.is_control()) {
            let text = "a path pattern must not contain control characters; remove them";
            return Err(text.to_owned());
        }

        if text.starts_with('~') && text != "~" && !text.starts_with("~/") {
            return Err(format!(
                "`{text}` names another user's home; write the absolute path"
            ));
        }

        if text.starts_with('!') {
            let text = "patterns cannot be negated; write a deny rule instead of an allow rule, or \
                        the reverse";
            return Err(text.to_owned());
        }

        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// Returns the pattern with the folder that its beginning leads to through links, if it
    /// contains any.
    pub(super) fn through_links(&self, context: &PathContext) -> Option<Self> {
        let text = pattern_destination(&self.text, context)?;
        Some(Self { text })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn segments(&self, context: &PathContext) -> Vec<Segment> {
        let text = self.text.as_str();
        let trimmed_text = text.trim_end_matches('/');
        let mut segments = Vec::new();
        let remainder = if text.starts_with('/') {
            text
        } else if let Some(remainder) = text.strip_prefix('~') {
            segments.extend(start(context.home.as_deref(), NO_HOME));
            remainder
        } else {
            segments.extend(start(context.workspace.as_deref(), NO_WORKSPACE));
            if !trimmed_text.contains('/') && !matches!(trimmed_text, "" | "." | "..") {
                segments.clear();
                segments.push(Segment::Deep);
            }

            text
        };

        for name in remainder.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    segments.pop();
                }
                "**" => segments.push(Segment::Deep),
                name => segments.push(Segment::Name(tokens(name))),
            }
        }

        segments
    }

    /// Returns `true` if a rule to allow covers `path`: it certainly is the pattern's.
    pub(crate) fn covers(&self, path: &PathOf, context: &PathContext) -> bool {
        let is_folder = self.text.ends_with('/');
        let mut pattern = self.segments(context);
        if pattern.last() == Some(&Segment::Deep) {
            // Matches the contents of the folder, not the folder itself.
            pattern.push(Segment::Name(vec![GlobToken::Many]));
        }
        let is_match =
            |path: &Vec<Segment>| compare(&pattern, path, is_folder, false) == Match::Yes;
        path.is_known() && path.0.iter().all(is_match)
    }

    /// Matches a rule to deny or to ask against `path`: the path may match the pattern or lie in a
    /// folder that matches it. The case of letters is ignored where the file system ignores it.
    pub(crate) fn catches(&self, path: &PathOf, context: &PathContext) -> Match {
        let is_file = self.names_file();
        best_match_of(
            &self.compared(context),
            &path.compared(context),
            true,
            is_file,
        )
    }

    /// Returns `true` if its last name is usual for a file with secrets, and not for a folder.
    fn names_file(&self) -> bool {
        let name = self.text.rsplit('/').next().unwrap_or_default();
        let files = [".env", ".env*", ".npmrc", ".netrc", ".pypirc"];
        files.contains(&name) || name.starts_with(".env.")
    }

    /// Like [`catches`](Self::catches), for the path itself and not for those under it.
    pub(crate) fn is(&self, path: &PathOf, context: &PathContext) -> Match {
        best_match(&self.compared(context), &path.compared(context), false)
    }
}

/// Returns the best match of the paths that `path` may be. Both are folded, or neither.
pub(super) fn best_match(pattern: &[Segment], path: &PathOf, beneath: bool) -> Match {
    best_match_of(pattern, path, beneath, false)
}

/// Like [`best_match`], for a pattern whose last name is that of a file if `is_file` is true.
fn best_match_of(pattern: &[Segment], path: &PathOf, beneath: bool, is_file: bool) -> Match {
    let paths = path.0.iter();
    let best_match = paths
        .map(|path| compare(pattern, path, beneath, is_file))
        .max();
    let best_match = best_match.unwrap_or(Match::No);
    if path.is_known() {
        best_match
    } else {
        // An unknown part of a path may start with `..`.
        best_match.max(Match::Maybe)
    }
}

/// Case folded, and without the characters that some file systems leave out of names.
pub(super) fn folded(segment: &Segment) -> Segment {
    let Segment::Name(name) = segment else {
        return segment.clone();
    };

    let mut folded_tokens = Vec::with_capacity(name.len());
    for token in name {
        match token {
            GlobToken::Char(c) if c.is_ascii() => {
                folded_tokens.push(GlobToken::Char(c.to_ascii_lowercase()));
            }
            GlobToken::Char(c) if is_hidden(*c) => {}
            // Upper case first: some letters share a capital, and ligatures are split.
            GlobToken::Char(c) => {
                let lowercase = c.to_uppercase().flat_map(char::to_lowercase);
                folded_tokens.extend(lowercase.map(GlobToken::Char));
            }
            wild => folded_tokens.push(*wild),
        }
    }

    Segment::Name(folded_tokens)
}

/// Returns the name, if it has no wildcards.
pub(super) fn text_of(segment: &Segment) -> Option<String> {
    let Segment::Name(name) = segment else {
        return None;
    };
    name.iter().map(literal_char).collect()
}

pub(super) fn is_literal(segment: &Segment) -> bool {
    let is_known = |token: &GlobToken| literal_char(token).is_some();
    matches!(segment, Segment::Name(name) if name.iter().all(is_known))
}

pub(super) fn start(place: Option<&str>, unknown: &str) -> Vec<Segment> {
    match place {
        Some(path) => path
            .split('/')
            .filter(|name| !name.is_empty())
            .map(literal)
            .collect(),
        None => vec![literal(unknown)],
    }
}

/// Returns the workspace.
pub(super) fn root(context: &PathContext) -> Vec<Segment> {
    start(context.workspace.as_deref(), NO_WORKSPACE)
}

fn literal(name: &str) -> Segment {
    Segment::Name(name.chars().map(GlobToken::Char).collect())
}

/// A path as segments; several where it may begin at several directories.
#[derive(Clone, Debug)]
pub(crate) struct PathOf(pub(super) Vec<Vec<Segment>>);

impl PathOf {
    /// A path that a tool was given.
    pub(crate) fn of_text(text: &str, context: &PathContext) -> Self {
        Self::of_word(&home_word(text), context, &Folders::default())
    }

    /// A word of a command that may have changed to one of `folders`.
    pub(crate) fn of_word(word: &Word, context: &PathContext, folders: &Folders) -> Self {
        let mut paths = vec![resolve(word, &root(context), context)];
        let left_word = folders.left_word(word);
        if !word.is_anchored() || left_word.is_some() {
            let bases = &folders.bases;
            let other_bases = bases.iter().skip(1);
            paths.extend(other_bases.map(|base| resolve(word, base, context)));
            if let Some(word) = left_word {
                // It may be another folder, too: the first path is not certain.
                paths.push(paths[0].clone());
                paths.extend(bases.iter().map(|base| resolve(&word, base, context)));
            }
        }

        let text = word.literal_prefix();
        let leaves_descriptors = text.contains("/fd") && text.contains("..");
        if leaves_descriptors || paths.iter().any(|path| leads_elsewhere(path)) {
            paths.push(vec![Segment::Unknown]);
        }

        Self(paths)
    }

    /// Returns the paths that have no wildcard and no unknown part.
    pub(crate) fn literals(&self) -> Vec<String> {
        let paths = self.0.iter().map(|path| {
            let names = path.iter().map(text_of).collect::<Option<Vec<_>>>()?;
            Some(format!("/{}", names.join("/")))
        });
        paths.flatten().collect()
    }

    /// Returns the same path without the alternative that the command changes to no directory.
    pub(super) fn in_directory(mut self) -> Self {
        if self.0.len() > 1 {
            self.0.remove(0);
        }
        self
    }

    /// Returns the known parts of the path: the folder before the first unknown part, and the names
    /// behind each unknown part, which may lie in any folder. A path below a folder that is open
    /// stays unknown.
    pub(super) fn known(mut self) -> Self {
        if self.0.iter().any(|path| lies_in_open_folder(path)) {
            return self;
        }

        let mut folders = Vec::new();
        for path in &mut self.0 {
            let mut runs = path.split(|segment| *segment == Segment::Unknown);
            let names = runs.next_back().unwrap_or_default();
            let own_folders: Vec<_> = runs.map(<[Segment]>::to_vec).collect();
            if !own_folders.is_empty() {
                *path = names
                    .iter()
                    .filter(|name| is_literal(name))
                    .cloned()
                    .collect();
                folders.extend(own_folders);
            }
        }
        self.0.extend(folders);
        self.0.retain(|path| !path.is_empty());
        self
    }

    /// Returns the same path, with the targets of links as alternatives.
    pub(crate) fn with_link_targets(mut self, targets: &[Word]) -> Self {
        let no_context = PathContext::default();
        for word in targets {
            let path = resolve(word, &[], &no_context);
            if leads_elsewhere(&path) {
                self.0.push(vec![Segment::Unknown]);
            }
            self.0.push(path);
        }
        self
    }

    /// Returns the path as it is compared with rules to deny or to ask.
    pub(super) fn compared(&self, context: &PathContext) -> Cow<'_, Self> {
        if !context.folds_case {
            return Cow::Borrowed(self);
        }
        let paths = self.0.iter();
        let paths = paths.map(|path| path.iter().map(folded).collect());
        Cow::Owned(Self(paths.collect()))
    }

    /// Returns `true` if it is certainly the same path, which is one without wildcards.
    pub(super) fn is_exactly(&self, path: &Self) -> bool {
        let mut segments = self.0.iter().flatten();
        segments.all(is_literal) && self.0.iter().all(|own| path.0.contains(own))
    }

    /// Returns `true` if it is known except for wildcards.
    pub(crate) fn is_known(&self) -> bool {
        !self.0.iter().flatten().any(|s| *s == Segment::Unknown)
    }

    /// Returns `true` if it is the workspace, or lies in it.
    pub(crate) fn is_within(&self, context: &PathContext) -> bool {
        let root = root(context);
        self.is_known() && self.0.iter().all(|path| path.starts_with(&root))
    }

    /// Returns the folders of projects that a path outside of the workspace may belong to: the one
    /// that leads to it from what it shares with the workspace, or the one that it lies in.
    pub(super) fn project_folders(mut self, context: &PathContext) -> Self {
        let root = root(context);
        self.0.retain(|path| !path.starts_with(&root));
        for path in &mut self.0 {
            let is_known = !path.contains(&Segment::Unknown);
            let pairs = path.iter().zip(&root);
            let shared = pairs.take_while(|(own, other)| is_known && own == other);
            let count = shared.count() + usize::from(is_known);
            path.truncate(count.min(path.len().saturating_sub(1)));
        }
        self
    }

    /// Returns `true` if it may be the workspace, or a folder above it.
    pub(super) fn has_within(&self, context: &PathContext) -> bool {
        let root = root(context);
        self.0.iter().any(|path| root.starts_with(path))
    }

    /// Returns `true` if it certainly lies in the workspace, and is not the workspace itself.
    pub(crate) fn is_below(&self, context: &PathContext) -> bool {
        let root = root(context);
        self.is_within(context) && self.0.iter().all(|path| path.len() > root.len())
    }
}

/// `text` as a word, `~` at its beginning understood.
fn home_word(text: &str) -> Word {
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let mut word = Word::default();
            word.parts.push(Part::Home(String::new()));
            word.push_text(rest, true);
            word
        }
        _ => Word::from_text(text),
    }
}

/// Returns `true` if nothing is joined to `~`: `~{a,b}` names users.
fn ends_name(next: Option<&Part>) -> bool {
    match next {
        Some(Part::Text { text, .. }) => text.is_empty() || text.starts_with('/'),
        next => next.is_none(),
    }
}

/// Returns the path of a word, from a folder.
pub(super) fn resolve(word: &Word, base: &[Segment], context: &PathContext) -> Vec<Segment> {
    let finish = if context.keeps_parents { push } else { finish };
    let mut path: Vec<Segment> = base.to_vec();
    let mut name: Vec<GlobToken> = Vec::new();
    for (at, part) in word.parts.iter().enumerate() {
        match part {
            Part::Text { text, .. } => {
                if at == 0 && text.starts_with('/') {
                    path.clear();
                }

                for c in text.chars() {
                    if c == '/' {
                        finish(&mut path, &mut name);
                    } else {
                        name.push(GlobToken::Char(c));
                    }
                }
            }
            Part::Glob('?' | '[') => name.push(GlobToken::One),
            Part::Glob(_) => name.push(GlobToken::Many),
            Part::Brace(c) => name.push(GlobToken::Char(*c)),
            Part::Home(user) if user.is_empty() && at == 0 && ends_name(word.parts.get(1)) => {
                path = start(context.home.as_deref(), NO_HOME);
            }
            part if at == 0 && part.variable() == Some("HOME") => {
                path = start(context.home.as_deref(), NO_HOME);
            }
            part if at == 0 && part.variable() == Some("PWD") => {}
            Part::Home(_) | Part::Value { .. } => {
                if at == 0 {
                    path.clear();
                }

                // What follows is a name of its own if the value is empty or ends in a slash.
                name.clear();
                path.push(Segment::Unknown);
            }
        }
    }

    finish(&mut path, &mut name);
    path
}

/// Adds a name; `..` removes the one before it.
fn finish(path: &mut Vec<Segment>, name: &mut Vec<GlobToken>) {
    if is_text(name, "..") {
        name.clear();
        // The folder above one that a process shows under `/proc` is another one.
        if leads_elsewhere(path) {
            path.push(Segment::Unknown);
        }
        path.pop_if(|folder| *folder != Segment::Unknown);
    }
    push(path, name);
}

fn push(path: &mut Vec<Segment>, name: &mut Vec<GlobToken>) {
    let name = std::mem::take(name);
    if !name.is_empty() && !is_text(&name, ".") {
        path.push(Segment::Name(name));
    }
}

fn is_wildcard(token: &GlobToken) -> bool {
    literal_char(token).is_none()
}

fn is_text(name: &[GlobToken], text: &str) -> bool {
    name.iter().copied().eq(text.chars().map(GlobToken::Char))
}

/// Matches `pattern` against `path`; with `beneath`, also against paths under it. If `is_file` is
/// true, the last name of the pattern is that of a file: no wildcard in the name of a folder begins
/// with its dot.
fn compare(pattern: &[Segment], path: &[Segment], beneath: bool, is_file: bool) -> Match {
    let columns = path.len() + 1;
    let mut next_row = vec![Match::No; columns];
    let mut row = next_row.clone();
    for i in (0..=pattern.len()).rev() {
        for j in (0..columns).rev() {
            row[j] = match (pattern.get(i), path.get(j)) {
                (None, None) => Match::Yes,
                (None, Some(_)) if beneath => Match::Yes,
                (None, Some(Segment::Unknown)) => Match::Maybe,
                (None, Some(_)) => Match::No,
                (Some(Segment::Deep), None) => next_row[j],
                (Some(_), None) => Match::No,
                (Some(_), Some(Segment::Unknown)) => Match::Maybe,
                (Some(Segment::Deep), Some(_)) => next_row[j].max(row[j + 1]),
                (Some(Segment::Name(wanted)), Some(Segment::Name(given))) => {
                    let is_last = j + 1 == path.len();
                    let is_below_file = is_file && i + 1 == pattern.len() && !is_last;
                    match next_row[j + 1] {
                        Match::No => Match::No,
                        _ if is_below_file && given.first().is_some_and(is_wildcard) => Match::No,
                        end => end.min(match_segment(wanted, given, is_last)),
                    }
                }
                (Some(_), Some(_)) => Match::Maybe,
            };
        }

        std::mem::swap(&mut row, &mut next_row);
    }

    next_row[0]
}
