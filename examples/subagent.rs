//! A tool that runs another agent. The child's messages pass through the parent's stream, marked
//! with the call they belong to; it spends the parent's budget and ends with the parent.
//!
//! ```sh
//! cargo run --example subagent
//! ```

use agentcore::schemars::{self, JsonSchema};
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, BoxError, ExitReason, FuncTool, SdkMessage, ToolContext};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Research {
    /// What to find out.
    question: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let librarian = Agent::builder(ScriptedModel::new().say("Rust 1.0 was released in May 2015."))
        .name("librarian")
        .system_prompt("Answer from what you know, in one sentence.")
        .build()?;

    let model = ScriptedModel::new()
        .call(
            "research",
            serde_json::json!({"question": "When was Rust 1.0 released?"}),
        )
        .say("The librarian says: May 2015.");
    let agent = Agent::builder(model).tool(research(librarian)).build()?;

    let mut run = agent.run("How old is Rust?");
    while let Some(message) = run.next().await {
        let depth = if message.parent_tool_use_id().is_some() {
            "    "
        } else {
            ""
        };

        match &message {
            SdkMessage::Assistant(answer) if !answer.text().is_empty() => {
                println!("{depth}{}", answer.text());
            }
            SdkMessage::Assistant(_) => println!("{depth}(calls a tool)"),
            SdkMessage::Result(result) => println!("{depth}-> {}", result.subtype),
            _ => {}
        }
    }

    Ok(())
}

/// A tool that asks `agent`. A child that did not come to its end has no answer to hand on.
fn research(agent: Agent) -> FuncTool {
    let ask = move |cx: ToolContext, args: Research| {
        // The id of a call is unique only in its session.
        let id = format!("{}-research-{}", cx.session_id(), cx.call_id());
        let session = agent.session(id);
        async move {
            let output = session.run_as_child(&cx, args.question).await?;
            match output.end {
                ExitReason::EndTurn | ExitReason::StopSequence => Ok(output.text),
                end => Err(BoxError::from(format!(
                    "the librarian has no answer: {end}"
                ))),
            }
        }
    };

    FuncTool::typed_with_context("research", "Asks the librarian", ask)
}
