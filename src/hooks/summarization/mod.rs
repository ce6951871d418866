//! The replacement of old messages with a summary.

mod cut;
mod fit;
mod hook;
mod measure;
mod prompt;
mod summarize;
mod transcript;

pub use cut::split_index;
pub use hook::SummarizationHook;
pub use prompt::extract_summary;
