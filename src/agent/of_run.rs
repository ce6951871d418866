//! A builder with the parts of a run's agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Config;
use crate::hook::Hook;
#[cfg(feature = "gateway")]
use crate::model::Compactor;
use crate::model::Model;
use crate::run::RunningCall;
use crate::tool::{ToolContext, ToolRegistry, TurnTools};

use super::builder::AgentBuilder;
use super::retained_source::RetainedSource;

impl AgentBuilder {
    /// Creates a builder with the parts of the agent whose run made the call of `cx`: the model in
    /// use, the tools, hooks and compactor, the backend and the working directory, the store, the
    /// retry policy, the limits of answers and of hooks, the choice of partial messages, the trace
    /// recorder and the token counter. `None` outside any run.
    ///
    /// The name, the system prompt, the other limits and the permissions have the defaults of a new
    /// builder. For a [child](crate::Session::child_of) of the run, the limits and the permissions
    /// of the run apply in addition. Run it as a child: run on its own
    /// ([`Agent::run`](crate::Agent::run)), it has the tools and the backend of the run **without**
    /// its permissions and limits.
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
        let run = call.run();
        let config: Arc<Config> = run
            .agent_parts()
            .clone()
            .downcast()
            .expect("the engine gives its `Config`");
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

    /// Replaces the tools by the tools of a registry. A disabled name stays disabled, for the tools
    /// of hooks, unless the registry has a tool of that name.
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

    /// Removes the tools for whose names `allows` returns `false`; its second argument is `true`
    /// for tools that start agents. Tools that sources add later are removed by the same rule.
    /// `turn_tools` are the tools of the calling run. If `is_list`, no other tools are allowed, so
    /// sources may add none.
    pub(crate) fn retain_tools(
        mut self,
        turn_tools: &TurnTools,
        is_list: bool,
        allows: impl Fn(&str, bool) -> bool + Clone + Send + Sync + 'static,
    ) -> Self {
        let hook_names: BTreeSet<_> = self.hooks.iter().flat_map(|hook| hook.tools()).collect();
        let refused_hook_names = hook_names.iter().filter(|name| !allows(name, false));
        self.disabled_tools
            .extend(refused_hook_names.map(|name| name.as_str().into()));

        let has_sources = !self.sources.is_empty();
        if is_list {
            self.sources.clear();
        }
        for source in &mut self.sources {
            let source_of_run = source.clone();
            *source = Arc::new(RetainedSource::new(source_of_run, allows.clone()));
        }
        self.tools
            .retain(|tool| allows(tool.name(), tool.starts_agents()));
        for name in turn_tools.names() {
            let Some(tool) = turn_tools.get(name) else {
                continue;
            };
            let is_own = self.tools.iter().any(|own| own.name() == name);
            if !allows(name, tool.starts_agents()) {
                self.disabled_tools.insert(name.into());
            } else if is_list && has_sources && !is_own && !hook_names.contains(name) {
                self.tools.push(tool);
            }
        }
        self
    }
}
