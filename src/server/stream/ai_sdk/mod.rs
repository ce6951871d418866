//! The format `ai-sdk`: the UI message stream of the AI SDK, as `ai` 7 reads it.

mod chunk;
mod formatter;
mod input;

pub(super) use formatter::AiSdk;
pub(crate) use input::{AiSdkInput, Trigger};
