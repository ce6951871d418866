//! Subagents: agents that a run starts by their type.
//!
//! | | |
//! |---|---|
//! | [`SubagentDefinition`] | one type: its description, its prompt, its tools and its model |
//! | [`SubagentRegistry`] | the types that a run may start |
//! | [`tools::task`](crate::tools::task), [`tools::delegate`](crate::tools::delegate) | the tools that start subagents |
//! | [`Handoffs`] | agents that hand the conversation over to each other |
//!
//! A subagent works for its caller: it has a conversation of its own, and the text of its last
//! response is the result of a tool call. With [`Handoffs`], the next agent continues the
//! conversation itself.
//!
//! ```
//! use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
//! use agentcore::testing::ScriptedModel;
//! use agentcore::{Agent, tools};
//! use serde_json::json;
//!
//! # async fn example() -> agentcore::Result<()> {
//! let mut agents = SubagentRegistry::new();
//! let scout = SubagentDefinition::new("Looks around", "You look around and report.");
//! agents.register("scout", scout.with_max_turns(5))?;
//!
//! // The model of the lead starts the subagent with a call of `Task`, by its type.
//! let scout_model = ScriptedModel::new().say("All quiet.");
//! let call = json!({"subagent_type": "scout", "description": "Look around", "prompt": "Look!"});
//! let lead_model = ScriptedModel::new().call("Task", call).say("It is quiet.");
//! let lead = Agent::builder(lead_model)
//!     .tools(tools::task(agents).model(scout_model).build()?)
//!     .build()?;
//!
//! // The lead's history has the last text of the subagent, but none of its other messages.
//! let output = lead.run("What is out there?").await?;
//! assert_eq!((output.text.as_str(), output.messages.len()), ("It is quiet.", 4));
//! let mut results = output.messages.tool_messages();
//! assert!(results.any(|result| result.text().contains("All quiet.")));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod definition;
mod handoff;
mod handoff_hook;
mod handoff_run;
#[cfg(feature = "yaml")]
mod load;
mod registry;

pub use definition::SubagentDefinition;
pub use handoff::{Handoffs, HandoffsBuilder};
pub use handoff_run::HandoffRun;
pub use registry::SubagentRegistry;
