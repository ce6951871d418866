//! The search for files by path and by content, with ripgrep's libraries.
//!
//! The search itself does no input or output: a driver gives it listings and contents as it asks
//! for them. So the same search runs over a folder of the machine and over any other backend.

mod base;
mod cost;
mod driver;
mod glob;
mod grep;
mod matcher;
mod pattern;
mod query;
mod rules;
mod sink;
mod walk;

#[cfg(all(feature = "fs", unix))]
pub(super) use driver::{Haystack, Needed, Search, parent_folders};
pub(super) use driver::{glob_through, grep_through};
pub use query::{GlobMatches, GlobQuery, GrepFile, GrepLine, GrepMatches, GrepMode, GrepQuery};
#[cfg(all(feature = "fs", unix))]
pub(super) use rules::Rules;
#[cfg(all(feature = "fs", unix))]
pub(super) use walk::join;
