//! The filter of a search.

use std::fmt;
use std::sync::Arc;

/// A filter for the paths that a search or a listing may show. Clones share the closure.
///
/// ```
/// use agentcore::backend::PathFilter;
///
/// let outside = PathFilter::new(|path| !path.starts_with("secrets/"));
/// let sources = PathFilter::new(|path| path.ends_with(".rs"));
/// let both = outside.and(sources);
/// assert!(both.shows("src/lib.rs"));
/// assert!(!both.shows("secrets/key.rs") && !both.shows("a.txt"));
/// ```
#[derive(Clone)]
pub struct PathFilter(Option<Arc<Shows>>);

type Shows = dyn Fn(&str) -> bool + Send + Sync;

impl PathFilter {
    /// Shows every path.
    pub fn all() -> Self {
        Self(None)
    }

    /// Shows the paths that `shows` is true of. A path is relative to a backend's root, or
    /// absolute.
    pub fn new(shows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(shows)))
    }

    /// Returns `true` if `path` may be shown.
    pub fn shows(&self, path: &str) -> bool {
        self.0.as_ref().is_none_or(|shows| shows(path))
    }

    /// Returns `true` if there is nothing to omit.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Shows what both filters show.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Self::new(move |path| one(path) && two(path)),
            (one, two) => Self(one.or(two)),
        }
    }
}

impl fmt::Debug for PathFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_all() { "all" } else { "some" })
    }
}
