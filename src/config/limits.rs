//! The limits of an agent's runs.

use serde::Deserialize;

use crate::engine::Limits;

/// The default maximum number of turns.
const DEFAULT_TURNS: u32 = 25;

/// The limits of an agent's runs, with the meaning of the setters of
/// [`AgentBuilder`](crate::AgentBuilder).
#[derive(Clone, Debug, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsCfg {
    /// The maximum number of turns; 0 is no limit. Defaults to 25.
    pub max_turns: u32,
    /// The maximum number of output tokens of one response. Defaults to the model's limit for
    /// Anthropic's API, and at OpenAI's own server for models of the built-in table. Other servers
    /// use their own limit.
    pub max_tokens: Option<u32>,
    /// The sampling temperature. Defaults to the provider's.
    pub temperature: Option<f64>,
    /// The maximum cost in USD. Defaults to no limit.
    pub max_budget_usd: Option<f64>,
    /// The maximum number of tokens of a run. Defaults to no limit.
    pub max_total_tokens: Option<u64>,
    /// The maximum duration of a run, in seconds. Defaults to no limit.
    pub max_duration: Option<u64>,
    /// The time that a tool call may run without progress, in seconds. Defaults to 120.
    pub tool_timeout: Option<u64>,
    /// The maximum number of concurrent calls of a turn. Defaults to 8.
    pub parallel_tools: Option<usize>,
}

impl Default for LimitsCfg {
    fn default() -> Self {
        Self {
            max_turns: DEFAULT_TURNS,
            max_tokens: None,
            temperature: None,
            max_budget_usd: None,
            max_total_tokens: None,
            max_duration: None,
            tool_timeout: None,
            parallel_tools: None,
        }
    }
}

impl LimitsCfg {
    /// Sets the maximum number of turns; 0 is no limit.
    #[must_use]
    pub fn with_max_turns(mut self, turns: u32) -> Self {
        self.max_turns = turns;
        self
    }

    /// Sets the limits that `other` has. Before, `tool_timeout` and `parallel_tools` get their
    /// defaults if they have no value. `max_turns` is always set, and `temperature` is not changed.
    ///
    /// # Errors
    ///
    /// Returns the key of a limit that is higher in `other` than here, or than that default.
    pub(super) fn narrow(&mut self, other: &Self) -> Result<(), &'static str> {
        // 0 is no limit.
        let turns = |turns: u32| if turns == 0 { u32::MAX } else { turns };
        if turns(other.max_turns) > turns(self.max_turns) {
            return Err("max_turns");
        }
        self.max_turns = other.max_turns;
        let defaults = Limits::default();
        let tool_timeout = defaults.tool_timeout.as_secs();
        self.tool_timeout.get_or_insert(tool_timeout);
        self.parallel_tools.get_or_insert(defaults.parallel_tools);

        lower(&mut self.max_tokens, other.max_tokens).ok_or("max_tokens")?;
        lower(&mut self.max_budget_usd, other.max_budget_usd).ok_or("max_budget_usd")?;
        lower(&mut self.max_total_tokens, other.max_total_tokens).ok_or("max_total_tokens")?;
        lower(&mut self.max_duration, other.max_duration).ok_or("max_duration")?;
        lower(&mut self.tool_timeout, other.tool_timeout).ok_or("tool_timeout")?;
        lower(&mut self.parallel_tools, other.parallel_tools).ok_or("parallel_tools")
    }
}

/// Sets the limit to `other`, if there is one. Returns `None` if that is more.
fn lower<T: PartialOrd + Copy>(limit: &mut Option<T>, other: Option<T>) -> Option<()> {
    let Some(other) = other else { return Some(()) };
    if limit.is_some_and(|limit| other > limit) {
        return None;
    }
    *limit = Some(other);
    Some(())
}
