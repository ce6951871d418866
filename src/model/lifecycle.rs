//! The dates of a model.

use serde::Deserialize;

use super::date::Date;

/// The dates on which a model was deprecated and ends.
///
/// A run starts with a warning if its model has ended, or ends within 30 days.
///
/// ```
/// use agentcore::model::{Lifecycle, ModelProfile};
///
/// let dates = Lifecycle::default().with_ends("2030-01-31".parse()?);
/// let mine = ModelProfile::default().with_lifecycle(dates);
/// assert_eq!(mine.lifecycle, Some(dates));
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[non_exhaustive]
pub struct Lifecycle {
    /// The day on which the model's end was announced, if it is known.
    pub deprecated: Option<Date>,
    /// The day from which requests to the model fail; `None` if no end is announced.
    pub ends: Option<Date>,
}

impl Lifecycle {
    /// Sets the day on which the model's end was announced.
    #[must_use]
    pub fn with_deprecated(mut self, date: Date) -> Self {
        self.deprecated = Some(date);
        self
    }

    /// Sets the day from which requests to the model fail.
    #[must_use]
    pub fn with_ends(mut self, date: Date) -> Self {
        self.ends = Some(date);
        self
    }
}
