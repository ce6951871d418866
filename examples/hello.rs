//! The smallest agent.
//!
//! ```sh
//! cargo run --example hello
//! ```
//!
//! To use a real model, replace the scripted one:
//! `agentcore::providers::resolve("anthropic:claude-sonnet-5")?`.

use agentcore::Agent;
use agentcore::testing::ScriptedModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let model = ScriptedModel::new().say("Hello! What shall we look at?");
    let agent = Agent::builder(model).system_prompt("Be brief.").build()?;
    let output = agent.run("Hi").await?;
    println!("{}", output.text);
    Ok(())
}
