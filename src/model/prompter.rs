//! The source of the system prompt.

use async_trait::async_trait;

use crate::error::Result;

use super::system_prompt::SystemPrompt;

/// The data available to a [`Prompter`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PromptContext<'a> {
    /// The session the run belongs to.
    pub session_id: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// The working directory, if the agent has one.
    pub cwd: Option<&'a str>,
    /// The model's id.
    pub model: &'a str,
    /// The names of the tools the model will see, sorted.
    pub tools: &'a [String],
}

impl<'a> PromptContext<'a> {
    pub(crate) fn new(
        session_id: &'a str,
        agent: &'a str,
        cwd: Option<&'a str>,
        model: &'a str,
        tools: &'a [String],
    ) -> Self {
        Self {
            session_id,
            agent,
            cwd,
            model,
            tools,
        }
    }
}

/// Assembles the system prompt, at the start of every run.
///
/// ```
/// use agentcore::model::{PromptContext, Prompter, SystemPrompt};
/// use agentcore::{Result, async_trait};
///
/// struct Introduction;
///
/// #[async_trait]
/// impl Prompter for Introduction {
///     async fn assemble(&self, cx: PromptContext<'_>) -> Result<SystemPrompt> {
///         Ok(format!("You are {} and have {} tools.", cx.agent, cx.tools.len()).into())
///     }
/// }
/// ```
#[async_trait]
pub trait Prompter: Send + Sync + 'static {
    /// Returns the system prompt for this run.
    ///
    /// Called once in a run, and a second time if hooks register other tools than those that they
    /// [announce](crate::Hook::tools). The second call has the names of all tools; sections that
    /// hooks have changed since the first call stay as they are.
    ///
    /// # Errors
    ///
    /// An error ends the run before any model call.
    async fn assemble(&self, cx: PromptContext<'_>) -> Result<SystemPrompt>;
}

/// A prompter that returns the same prompt for every run, as
/// [`AgentBuilder::system_prompt`](crate::AgentBuilder::system_prompt) sets it.
#[derive(Clone, Debug, Default)]
pub struct StaticPrompt(SystemPrompt);

impl StaticPrompt {
    /// Creates a prompter that returns `prompt` for every run.
    pub fn new(prompt: impl Into<SystemPrompt>) -> Self {
        Self(prompt.into())
    }
}

#[async_trait]
impl Prompter for StaticPrompt {
    async fn assemble(&self, _cx: PromptContext<'_>) -> Result<SystemPrompt> {
        Ok(self.0.clone())
    }
}
