//! The system prompt of a run.

use std::borrow::Cow;

use crate::error::Result;
use crate::model::{PromptContext, SystemPrompt};
use crate::run::RunContext;

use super::config::Config;

/// A system prompt, and the names of the tools that it was assembled for.
pub(super) struct AssembledPrompt<'c> {
    pub(super) prompt: SystemPrompt,
    tools: Cow<'c, [String]>,
}

impl<'c> AssembledPrompt<'c> {
    pub(super) async fn new(
        config: &Config,
        cx: &RunContext,
        tools: Cow<'c, [String]>,
    ) -> Result<Self> {
        let settings = cx.settings();
        let context = PromptContext::new(
            cx.session_id(),
            &settings.agent,
            settings.cwd.as_deref(),
            settings.model.id(),
            &tools,
        );
        let prompt = config.prompter.assemble(context).await?;
        Ok(Self { prompt, tools })
    }

    /// Sets the prompt of the run to `prompt`, the prompt of the state that the hooks returned.
    /// Sections that hooks have changed only through the context stay as they are there.
    pub(super) fn apply_changes(&self, cx: &RunContext, prompt: &SystemPrompt) {
        let mut system = prompt.clone();
        replace_sections(&mut system, &self.prompt, &cx.system().prompt());
        cx.set_system(system);
    }

    /// Assembles the prompt again if the tools of the run have changed since it was assembled.
    /// Sections that hooks have changed since then stay as they are.
    pub(super) async fn update(self, config: &Config, cx: &RunContext) -> Result<()> {
        let tools = cx.tools();
        let names = tools.names();
        if names.iter().eq(self.tools.iter()) {
            return Ok(());
        }
        let names = names.into_iter().map(str::to_owned).collect();
        let new = Self::new(config, cx, Cow::Owned(names)).await?;
        let mut system = cx.system().prompt();
        replace_sections(&mut system, &self.prompt, &new.prompt);
        cx.set_system(system);
        cx.state(|state| replace_sections(&mut state.system_prompt, &self.prompt, &new.prompt));
        Ok(())
    }
}

/// Replaces the sections of `prompt` that still equal the sections of `old` by the sections of
/// `new`.
fn replace_sections(prompt: &mut SystemPrompt, old: &SystemPrompt, new: &SystemPrompt) {
    for section in old.sections() {
        if new.get(&section.id).is_none() && prompt.get(&section.id) == Some(section) {
            prompt.remove(&section.id);
        }
    }
    for section in new.sections() {
        let id = &section.id;
        if prompt.get(id) == old.get(id) {
            prompt.set(id.clone(), section.text.clone(), section.stability);
        }
    }
}
