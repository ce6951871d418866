//! The smallest agent.
//!
//! ```sh
//! cargo run --example hello
//! ```
//!
//! A real model goes where the scripted one stands:
//! `agentcore::providers::resolve("anthropic:claude-sonnet-5")?`.

use std::io::Write;

use agentcore::Agent;
use agentcore::testing::ScriptedModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let model = ScriptedModel::new().say("Hello! What shall we look at?");
    let agent = Agent::builder(model).system_prompt("Be brief.").build()?;
    let output = agent.run("Hi").await?;
    writeln!(std::io::stdout(), "{}", output.text)?;
    Ok(())
}
