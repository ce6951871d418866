//! Old tool results, shortened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::message::{Message, Messages, Part};
use crate::run::RunContext;
use crate::util::sync::lock;
use crate::util::text::head;

/// What stands where a result was cut.
const MARK: &str = "\n... [output truncated]";

/// Sends old, long tool results shortened: the model has read them, and what it needs of them it
/// has mostly said. Nothing is summarised and no model is asked; the history keeps the whole
/// results.
///
/// A result of more than 1,000 characters that is older than the last 10 is sent as its first 200
/// characters and `... [output truncated]`. So that the beginning of the request does not change
/// with every turn, and a provider's prompt cache keeps serving it, results are cut ten at a time:
/// between 10 and 19 are whole.
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
    /// The hook with the numbers above.
    pub fn new() -> Self {
        Self {
            keep: 10,
            step: 10,
            longer_than: 1_000,
            head: 200,
        }
    }

    /// How many of the last results are always whole.
    pub fn with_keep(mut self, results: usize) -> Self {
        self.keep = results;
        self
    }

    /// How many results are cut at a time. 1 keeps no more whole than it must, and costs the
    /// prompt cache with every result.
    pub fn with_step(mut self, results: usize) -> Self {
        self.step = results.max(1);
        self
    }

    /// Cuts results of more than `longer_than` characters to their first `head`.
    pub fn with_limits(mut self, longer_than: usize, head: usize) -> Self {
        self.longer_than = longer_than;
        self.head = head.min(longer_than);
        self
    }

    /// The result in short; `None` when it is short enough.
    fn shortened(&self, message: &Message) -> Option<Message> {
        let text = message.text();
        if head(&text, self.longer_than).1 == 0 {
            return None;
        }
        let short = format!("{}{MARK}", head(&text, self.head).0);
        let mut message = message.clone();
        let parts = message.content_mut().parts_mut();
        parts.retain(|part| !matches!(part, Part::Text(_)));
        parts.insert(0, Part::Text(short));
        Some(message)
    }
}

impl Default for ClearToolResults {
    fn default() -> Self {
        Self::new()
    }
}

/// The results of a run that were cut, whole and short, by the address of the whole one. It is
/// the same message each turn, so that a provider sends what it has encoded before.
#[derive(Default)]
struct Cut(Mutex<HashMap<usize, Versions>>);

/// A message, whole and short.
type Versions = (Arc<Message>, Arc<Message>);

#[async_trait]
impl Hook for ClearToolResults {
    fn name(&self) -> &str {
        "clear_tool_results"
    }

    fn description(&self) -> &str {
        "Sends old, long tool results shortened"
    }

    fn phases(&self) -> Phases {
        Phases::MODIFY_REQUEST
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        let is_result = |message: &&Arc<Message>| message.as_tool_result().is_some();
        let results = messages.as_slice().iter().filter(is_result).count();
        let old = results.saturating_sub(self.keep) / self.step * self.step;
        if old == 0 {
            return Ok(messages);
        }
        let known = cx.value::<Cut>().unwrap_or_else(|| {
            cx.set_value(Cut::default());
            cx.value::<Cut>().unwrap_or_default()
        });
        let mut known = lock(&known.0);
        let mut left = old;
        let send = |whole: &Arc<Message>| {
            if left == 0 || whole.as_tool_result().is_none() {
                return whole.clone();
            }
            left -= 1;
            if let Some((_, short)) = known.get(&Arc::as_ptr(whole).addr()) {
                return short.clone();
            }
            let Some(short) = self.shortened(whole).map(Arc::new) else {
                return whole.clone();
            };
            known.insert(Arc::as_ptr(whole).addr(), (whole.clone(), short.clone()));
            short
        };
        Ok(messages.as_slice().iter().map(send).collect())
    }
}
