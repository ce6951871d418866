//! [`ClearToolResults`], a hook that shortens old results of tools in requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::message::{Message, Messages};
use crate::run::RunContext;
use crate::util::sync::lock;
use crate::util::text::head;

use super::text::with_text;

/// The marker at the end of a shortened result.
const MARK: &str = "\n... [output truncated]";

/// Shortens old, long tool results in requests, because the model has read them before. No model is
/// called for a summary, and the history still has the whole results.
///
/// A result of more than 1,000 characters that is not among the last 10 is sent as its first 200
/// characters and `... [output truncated]`. Results are cut ten at a time, so that 10 to 19 are
/// whole: the beginning of the request then stays the same for several turns, and a provider's
/// prompt cache keeps serving it.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::hooks::ClearToolResults;
/// use agentcore::testing::ScriptedModel;
///
/// let agent = AgentBuilder::new(ScriptedModel::new())
///     .hook(ClearToolResults::new().with_keep(20))
///     .build()?;
/// # let _ = agent;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a hook does something only in an agent"]
pub struct ClearToolResults {
    keep: usize,
    step: usize,
    longer_than: usize,
    head: usize,
}

impl ClearToolResults {
    /// Creates the hook with the default limits: the last ten results stay whole, and results over
    /// 1,000 characters are cut to 200, ten at a time.
    pub fn new() -> Self {
        Self {
            keep: 10,
            step: 10,
            longer_than: 1_000,
            head: 200,
        }
    }

    /// Sets the number of last results that are never cut. Defaults to 10.
    pub fn with_keep(mut self, results: usize) -> Self {
        self.keep = results;
        self
    }

    /// Sets the number of results that are cut at a time, at least 1. Defaults to 10. With 1, all
    /// results before the last ones of [`with_keep`](Self::with_keep) are cut, and every new result
    /// invalidates the prompt cache.
    pub fn with_step(mut self, results: usize) -> Self {
        self.step = results.max(1);
        self
    }

    /// Sets the lengths: results of more than `longer_than` characters are cut to their first
    /// `head` characters. Defaults to 1,000 and 200.
    pub fn with_limits(mut self, longer_than: usize, head: usize) -> Self {
        self.longer_than = longer_than;
        self.head = head.min(longer_than);
        self
    }

    /// Returns the shortened result, or `None` if the result is short enough.
    fn shortened(&self, message: &Message) -> Option<Message> {
        let text = message.text();
        if head(&text, self.longer_than).1 == 0 {
            return None;
        }
        let short_text = format!("{}{MARK}", head(&text, self.head).0);
        Some(with_text(message, short_text))
    }
}

impl Default for ClearToolResults {
    fn default() -> Self {
        Self::new()
    }
}

/// The results that were cut in the last request of a run, whole and short, by the address of the
/// whole one. The short one is the same message each turn, so that a provider sends what it has
/// encoded before.
#[derive(Default)]
struct ShortVersions(Mutex<HashMap<usize, Versions>>);

/// A message, whole and short.
type Versions = (Arc<Message>, Arc<Message>);

#[async_trait]
impl Hook for ClearToolResults {
    fn name(&self) -> &str {
        "clear_tool_results"
    }

    fn description(&self) -> &str {
        "Shortens old, long tool results in requests"
    }

    fn phases(&self) -> Phases {
        Phases::MODIFY_REQUEST
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        let is_result = |message: &&Arc<Message>| message.as_tool_result().is_some();
        let result_count = messages.as_slice().iter().filter(is_result).count();
        let cut_count = result_count.saturating_sub(self.keep) / self.step * self.step;
        if cut_count == 0 {
            return Ok(messages);
        }

        let versions = cx.value::<ShortVersions>().unwrap_or_else(|| {
            cx.set_value(ShortVersions::default());
            cx.value::<ShortVersions>().unwrap_or_default()
        });

        let mut versions = lock(&versions.0);
        // Only the entries of this request stay: an earlier hook may make new messages each turn.
        let mut previous_versions = std::mem::take(&mut *versions);
        let mut remaining = cut_count;
        let send = |whole: &Arc<Message>| {
            if remaining == 0 || whole.as_tool_result().is_none() {
                return whole.clone();
            }

            remaining -= 1;
            let address = Arc::as_ptr(whole).addr();
            // A request may have the same message twice.
            let version_pair = previous_versions
                .remove(&address)
                .or_else(|| versions.get(&address).cloned());
            if let Some(version_pair) = version_pair {
                let short_version = version_pair.1.clone();
                versions.insert(address, version_pair);
                return short_version;
            }

            let Some(short_version) = self.shortened(whole).map(Arc::new) else {
                return whole.clone();
            };

            versions.insert(address, (whole.clone(), short_version.clone()));
            short_version
        };

        Ok(messages.as_slice().iter().map(send).collect())
    }
}
