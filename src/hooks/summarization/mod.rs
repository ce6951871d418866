//! The replacement of old messages with a summary.

mod cut;
mod fit;
mod hook;
mod measure;
mod prompt;
mod summarize;
mod transcript;

pub use cut::split_index;
#[cfg(feature = "gateway")]
pub(crate) use cut::{Keep, cut};
pub use hook::SummarizationHook;
pub use prompt::extract_summary;
#[cfg(feature = "gateway")]
pub(crate) use summarize::Summarizer;
