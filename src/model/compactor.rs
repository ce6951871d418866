//! Making a long history short.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::message::Messages;
use crate::usage::Usage;

use super::profile::ModelProfile;

/// A history's beginning as a summary. Requests are built from it; the history itself stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// What stands for the beginning.
    pub summary: String,
    /// How many leading messages of the history the summary replaces.
    pub through_message: usize,
}

impl Compaction {
    /// A summary of the first `through_message` messages.
    pub fn new(summary: impl Into<String>, through_message: usize) -> Self {
        Self {
            summary: summary.into(),
            through_message,
        }
    }
}

/// Why a compaction is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompactionTrigger {
    /// The context is filling up, or the model ran out of room.
    Auto,
    /// Somebody asked for it.
    Manual,
}

/// Shortens what is sent to the model.
///
/// The loop asks before every model call, when a provider says the prompt is too long, when an
/// answer ran into the output limit, and when the caller asks.
#[async_trait]
pub trait Compactor: Send + Sync + 'static {
    /// Whether it is time. `context_tokens` is what the provider reported for the last request
    /// plus an estimate of what was added since.
    fn should_compact(
        &self,
        messages: &Messages,
        context_tokens: u64,
        profile: &ModelProfile,
    ) -> bool;

    /// Summarises the beginning of `messages`. `current` is the compaction in force: a new one
    /// replaces it and must cover what it covered. `Ok(None)` means that nothing can be gained.
    ///
    /// The loop checks the answer: a cut that would part a call from its results is refused.
    async fn compact(
        &self,
        messages: &Messages,
        current: Option<&Compaction>,
        trigger: CompactionTrigger,
    ) -> Result<Option<(Compaction, Usage)>>;
}

/// Never compacts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCompaction;

#[async_trait]
impl Compactor for NoCompaction {
    fn should_compact(&self, _: &Messages, _: u64, _: &ModelProfile) -> bool {
        false
    }

    async fn compact(
        &self,
        _: &Messages,
        _: Option<&Compaction>,
        _: CompactionTrigger,
    ) -> Result<Option<(Compaction, Usage)>> {
        Ok(None)
    }
}
