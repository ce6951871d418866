//! pretty
