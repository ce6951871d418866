//! A builder with the parts of a run's agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::RunningCall;
use crate::hook::Hook;
#[cfg(feature = "gateway")]
use crate::model::Compactor;
use crate::model::Model;
use crate::tool::{ToolContext, ToolRegistry, TurnTools};

use super::allowed_tools::AllowedTools;
use super::builder::AgentBuilder;
use super::filtered_source::FilteredSource;

/// # Children of a run
impl AgentBuilder {
    /// Creates a builder with the parts of the agent whose run made the call of `cx`: the model in
    /// use, the tools, hooks and compactor, the backend and the working directory, the store, the
    /// retry policy, the limits of responses and of hooks, the choice of partial messages, the
    /// trace recorder and the token counter. `None` outside any run.
    ///
    /// The name, the system prompt, the other limits and the permissions have the defaults of a new
    /// builder. Run the agent as a [child](crate::Session::child_of) of the run: then the limits
    /// and the permissions of the run apply as well. An agent that is run on its own
    /// ([`Agent::run`](crate::Agent::run)) has the tools and the backend of the run, but
    /// **neither** its limits **nor** its permissions.
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{AgentBuilder, BoxError, FuncTool, ToolContext};
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let review = FuncTool::new("review", "Reviews the text", json!({"type": "object"}), {
    ///     |cx: ToolContext, _args| async move {
    ///         let builder = AgentBuilder::of_run(&cx).ok_or("outside any run")?;
    ///         let reviewer = builder.system_prompt("You review texts.").build()?;
    ///         let output = reviewer.new_session().run_as_child(&cx, "Review it.").await?;
    ///         Ok::<_, BoxError>(output.text)
    ///     }
    /// });
    /// let model = ScriptedModel::new().call("review", json!({})).say("No mistakes.").say("Done.");
    /// let agent = AgentBuilder::new(model).tool(review).build()?;
    /// assert_eq!(agent.run("Write a text.").await?.text, "Done.");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn of_run(cx: &ToolContext) -> Option<Self> {
        let call = RunningCall::of(cx)?;
        let (run, config) = (call.run(), call.config());
        let mut builder = Self::new(run.model());
        builder.settings.inherit(run.settings());
        builder.tools = config.tools.clone();
        builder.disabled_tools = config.disabled_tools.clone();
        builder.run_tools = run.tools().names().into_iter().map(Arc::from).collect();
        builder.sources = config.sources.clone();
        builder.hooks = config.hooks.all.clone();
        match &config.default_store {
            Some(store) => builder.default_store = Some(store.clone()),
            None => builder.store = Some(config.store.clone()),
        }
        builder.compactor = config.compactor.clone();
        Some(builder)
    }

    /// Replaces the model.
    pub(crate) fn with_model(mut self, model: Arc<dyn Model>) -> Self {
        self.settings.model = model;
        self
    }

    /// Sets the compactor, unless the agent or one of its hooks has one.
    #[cfg(feature = "gateway")]
    pub(crate) fn with_default_compactor(mut self, compactor: impl Compactor) -> Self {
        let has_compactor = self.hooks.iter().any(|hook| hook.compactor().is_some());
        if self.compactor.is_none() && !has_compactor {
            self.compactor = Some(Arc::new(compactor));
        }
        self
    }

    /// Replaces the tools by the tools of a registry, and enables their names. Other disabled names
    /// stay disabled, because hooks may bring tools of these names.
    pub(crate) fn with_own_tools(mut self, registry: &ToolRegistry) -> Self {
        self.tools.clear();
        self.sources.clear();
        self.disabled_tools
            .retain(|name| registry.get(name).is_none());
        self.registry(registry)
    }

    /// Replaces the hooks.
    pub(crate) fn with_own_hooks(mut self, hooks: Vec<Arc<dyn Hook>>) -> Self {
        self.hooks = hooks;
        self
    }

    /// Returns the names of the builder's tools, of its disabled tools, and of the tools that its
    /// hooks announce.
    pub(crate) fn known_tool_names(&self) -> Vec<String> {
        let own_names = self.tools.iter().map(|tool| tool.name().to_owned());
        let hook_names = self.hooks.iter().flat_map(|hook| hook.tools());
        own_names.chain(hook_names).collect()
    }

    /// Removes the tools that are not allowed, also those that sources add later. `turn_tools` are
    /// the tools of the calling run.
    pub(crate) fn retain_tools(mut self, turn_tools: &TurnTools, allowed: &AllowedTools) -> Self {
        self.disable_hook_tools(allowed);
        self.retain_own_tools(turn_tools, allowed);
        match allowed {
            AllowedTools::AllExcept(_) => self.retain_source_tools(allowed),
            AllowedTools::Only { .. } => self.replace_sources(turn_tools, allowed),
        }
        self
    }

    /// Returns the names of the tools that the hooks announce.
    fn hook_tool_names(&self) -> BTreeSet<String> {
        self.hooks.iter().flat_map(|hook| hook.tools()).collect()
    }

    /// Disables the tools of hooks that are not allowed.
    fn disable_hook_tools(&mut self, allowed: &AllowedTools) {
        let mut names = self.hook_tool_names();
        names.retain(|name| !allowed.allows_name(name));
        self.disabled_tools.extend(names.into_iter().map(Arc::from));
    }

    /// Removes the builder's own tools, and disables the tools of the run, that are not allowed.
    fn retain_own_tools(&mut self, turn_tools: &TurnTools, allowed: &AllowedTools) {
        self.tools.retain(|tool| allowed.allows(&**tool));
        for name in turn_tools.names() {
            if let Some(tool) = turn_tools.get(name)
                && !allowed.allows(&*tool)
            {
                self.disabled_tools.insert(name.into());
            }
        }
    }

    /// Makes the sources return only allowed tools.
    fn retain_source_tools(&mut self, allowed: &AllowedTools) {
        for source in &mut self.sources {
            *source = Arc::new(FilteredSource::new(source.clone(), allowed.clone()));
        }
    }

    /// Replaces the sources by the allowed tools that they have in the turn of the run, so that
    /// they add no others.
    fn replace_sources(&mut self, turn_tools: &TurnTools, allowed: &AllowedTools) {
        let sources = std::mem::take(&mut self.sources);
        if sources.is_empty() {
            return;
        }

        let hook_names = self.hook_tool_names();
        for name in turn_tools.names() {
            let is_of_source =
                !hook_names.contains(name) && self.tools.iter().all(|own| own.name() != name);
            if let Some(tool) = turn_tools.get(name)
                && is_of_source
                && allowed.allows(&*tool)
            {
                self.tools.push(tool);
            }
        }
    }
}
