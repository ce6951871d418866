//! Making a long history short.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::message::Messages;
use crate::usage::Usage;

use super::card::ModelCard;
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

/// What came of an attempt to compact, and what it has used: that is booked in the run's budget
/// and statistics, whether the summary is taken or not.
///
/// ```
/// use agentcore::Usage;
/// use agentcore::model::{Compacted, Compaction};
///
/// let done = Compacted::new(Compaction::new("They met.", 4)).with_usage(Usage::new(900, 30));
/// assert!(done.compaction.is_some());
/// assert!(Compacted::nothing().compaction.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Compacted {
    /// The summary; `None` when nothing can be gained.
    pub compaction: Option<Compaction>,
    /// The tokens of the model calls it took.
    pub usage: Usage,
    /// Whose tokens they are; `None` is the run's own model.
    pub card: Option<ModelCard>,
}

impl Compacted {
    /// A summary.
    pub fn new(compaction: Compaction) -> Self {
        Self {
            compaction: Some(compaction),
            ..Self::default()
        }
    }

    /// No summary: nothing can be gained, or what the model wrote cannot be used.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The same with the tokens it took.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// The same, made by another model than the run's.
    #[must_use]
    pub fn with_card(mut self, card: ModelCard) -> Self {
        self.card = Some(card);
        self
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
    /// replaces it and must cover what it covered.
    ///
    /// The loop checks the answer: a cut that would part a call from its results is refused. What
    /// it has used is booked all the same; an error has used nothing, so a call that was paid for
    /// and failed is [`Compacted::nothing`] with its usage.
    async fn compact(
        &self,
        messages: &Messages,
        current: Option<&Compaction>,
        trigger: CompactionTrigger,
    ) -> Result<Compacted>;
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
    ) -> Result<Compacted> {
        Ok(Compacted::nothing())
    }
}
