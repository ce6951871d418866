//! The formats of a run's stream.

mod ag_ui_rules;
mod ai_sdk_rules;
mod formats;
mod golden;
mod properties;
mod story;
