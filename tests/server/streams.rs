//! The formats of a run.
