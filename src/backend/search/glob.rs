//! The search for paths.

use globset::{GlobBuilder, GlobSet};
use ignore::overrides::Override;
use ignore::types::Types;

use crate::error::Result;

use super::super::failure::invalid;
use super::super::filter::PathFilter;
use super::base::{folder, relative};
use super::pattern;
use super::query::{GlobMatches, GlobQuery};
use super::walk::Filter;

/// A [`GlobQuery`] taken apart.
#[derive(Debug)]
pub(in super::super) struct Globber {
    /// The folder to search: the folder of the query with the literal start of the pattern.
    pub(super) base: String,
    /// True if it is no error when that folder is missing, for the pattern names a part of it.
    pub(super) base_may_be_missing: bool,
    matcher: GlobSet,
    hidden: bool,
    any_depth: bool,
    limit: usize,
    path_filter: PathFilter,
    matches: GlobMatches,
}

impl Globber {
    pub(super) fn new(query: &GlobQuery, roots: &[&str]) -> Result<Self> {
        pattern::check(&query.pattern).map_err(|error| invalid(error.to_string()))?;
        let is_absolute = query.pattern.starts_with('/');
        let pattern = relative(&query.pattern, roots)?;
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
        let Some(last) = parts.len().checked_sub(1) else {
            return Err(invalid("the pattern is empty"));
        };

        let literal = parts[..last]
            .iter()
            .take_while(|part| !part.contains(['*', '?', '[', '{', '\\']))
            .count();
        let folder_path = match &query.path {
            Some(path) if !is_absolute => relative(path, roots)?,
            _ => "",
        };

        let base = folder_path
            .split('/')
            .chain(parts[..literal].iter().copied());
        let tail = &parts[literal..];
        let glob = GlobBuilder::new(&tail.join("/"))
            .literal_separator(true)
            .build()
            .map_err(|error| invalid(error.to_string()))?;

        // A set with one glob: unlike `GlobMatcher`, building it reports an expression that does
        // not compile.
        let matcher = GlobSet::builder()
            .add(glob)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            base: folder(base),
            base_may_be_missing: literal > 0,
            matcher,
            hidden: tail.iter().any(|part| part.starts_with('.')),
            any_depth: query.any_depth && parts.len() == 1,
            limit: query.limit,
            path_filter: query.filter.clone(),
            matches: GlobMatches::default(),
        })
    }

    pub(super) fn filter(&self) -> Filter {
        Filter {
            hidden: self.hidden,
            overrides: Override::empty(),
            types: Types::empty(),
        }
    }

    /// Adds a file if it matches. Returns `false` if no further files are needed.
    pub(super) fn add_file(&mut self, path: String) -> bool {
        let relative_path = match self.base.as_str() {
            "" => &path,
            base => path[base.len()..].trim_start_matches('/'),
        };

        let matched = if self.any_depth {
            let name = relative_path.rsplit('/').next().unwrap_or(relative_path);
            self.matcher.is_match(name)
        } else {
            self.matcher.is_match(relative_path)
        };

        if !matched {
            return true;
        }

        if !self.path_filter.shows(&path) {
            self.matches.withheld = true;
            return true;
        }

        if self.matches.files.len() == self.limit {
            self.matches.truncated = true;
            return false;
        }

        self.matches.files.push(path);
        true
    }

    pub(super) fn finish(mut self, truncated: bool) -> GlobMatches {
        self.matches.truncated |= truncated;
        self.matches
    }
}
