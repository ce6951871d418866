//! A builder of an agent like that of a run.

use std::sync::Arc;

use crate::engine::Config;
use crate::run::RunningCall;
use crate::tool::ToolContext;

use super::builder::AgentBuilder;

impl AgentBuilder {
    /// Creates a builder with the parts of the agent whose run made the call of `cx`: the model in
    /// use, the tools, hooks and compactor, the backend with the working directory, the store, the
    /// trace recorder and the token counter. `None` outside any run.
    ///
    /// The name, the system prompt, the limits and the permissions are those of a new builder. For
    /// a [child](crate::Session::child_of) of the run, the limits and the permissions of the run
    /// apply in addition.
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{AgentBuilder, BoxError, FuncTool, ToolContext};
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let ask_again = FuncTool::new("ask_again", "Asks a fresh mind", json!({"type": "object"}), {
    ///     |cx: ToolContext, _args| async move {
    ///         let builder = AgentBuilder::of_run(&cx).ok_or("outside any run")?;
    ///         let agent = builder.system_prompt("Doubt everything.").build()?;
    ///         let output = agent.new_session().run_as_child(&cx, "Is it so?").await?;
    ///         Ok::<_, BoxError>(output.text)
    ///     }
    /// });
    /// let model = ScriptedModel::new().call("ask_again", json!({})).say("No.").say("It is not.");
    /// let agent = AgentBuilder::new(model).tool(ask_again).build()?;
    /// assert_eq!(agent.run("Is it so?").await?.text, "It is not.");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn of_run(cx: &ToolContext) -> Option<Self> {
        let call = RunningCall::of(cx)?;
        let run = call.run();
        let config: Arc<Config> = run.agent_parts().clone().downcast().ok()?;
        let mut builder = Self::new(run.model());
        builder.settings.inherit(run.settings());
        builder.tools = config.tools.clone();
        builder.disabled_tools = config.disabled_tools.clone();
        builder.run_tools = run.tools().names().into_iter().map(Arc::from).collect();
        builder.sources = config.sources.clone();
        builder.hooks = config.hooks.all.clone();
        builder.store = Some(config.store.clone());
        builder.compactor = config.compactor.clone();
        Some(builder)
    }
}
