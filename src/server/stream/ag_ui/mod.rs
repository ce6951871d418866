//! The format `ag-ui`: AG-UI 1.0, as `@ag-ui/client` 1.0.0 verifies it.

mod event;
mod formatter;
mod input;
mod messages;

pub(super) use formatter::{AgUi, error_text};
pub(crate) use input::AgUiInput;
