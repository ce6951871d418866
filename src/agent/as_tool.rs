//! An agent as a tool of another.

use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{Access, FuncTool, SideEffect, ToolContext};

use super::agent::Agent;
use super::child_result::output_of;
use super::child_session::child_session_id;

impl Agent {
    /// Returns a tool that runs this agent on its argument `task` and returns the final text.
    ///
    /// Each call runs as a [child](crate::Session::run_as_child) of the calling run, in its own
    /// session, `PARENT:sub:NAME:CALL-RESPONSE`, where `RESPONSE` is a part of the id of the
    /// response with the call. An id that is too long for the name of a file ends in a hash. A
    /// child that fails or is cut off is an error that the model reads, with the text and the
    /// calls it had, also if the calling run is stopped. The time limit of this agent applies
    /// ([`max_duration`](crate::AgentBuilder::max_duration)), not the time limit of tools. A call
    /// needs no question, because the calls of the child pass the gates of the calling run; rules
    /// such as `deny:Agent(NAME)` apply.
    ///
    /// ```
    /// use agentcore::Agent;
    /// use agentcore::testing::ScriptedModel;
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let librarian = Agent::builder(ScriptedModel::new().say("In May 2015.")).build()?;
    /// let model = ScriptedModel::new()
    ///     .call("librarian", json!({"task": "When was Rust 1.0 released?"}))
    ///     .say("In 2015.");
    /// let lead = Agent::builder(model)
    ///     .tool(librarian.as_tool("librarian", "Answers questions about books and dates"))
    ///     .build()?;
    /// assert_eq!(lead.run("How old is Rust?").await?.text, "In 2015.");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn as_tool(&self, name: impl Into<String>, description: impl Into<String>) -> FuncTool {
        let name = name.into();
        let parameters = json!({
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "The task, with all that is needed to do it"}
            },
            "required": ["task"]
        });
        let agent = self.clone();
        let tool_name = name.clone();
        let access_name = name.clone();
        let run = move |cx: ToolContext, args: Value| {
            let session = agent.session(child_session_id(&cx, &tool_name));
            async move {
                let task = args["task"].as_str().unwrap_or_default().to_owned();
                let output = output_of(session.run_as_child(&cx, task).await)?;
                Ok::<_, BoxError>(output.text)
            }
        };
        FuncTool::new(name, description, parameters, run)
            .side_effect(SideEffect::ReadOnly)
            .starting_agents()
            .accesses(move |_args| vec![Access::Agent(access_name.as_str().into())])
    }
}
