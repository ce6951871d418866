//! A response as a value of a type, from which its schema is derived. A response that does not
//! match is sent back to the model with an explanation.
//!
//! ```sh
//! cargo run --example structured_output
//! ```

use agentcore::Agent;
use agentcore::schemars::{self, JsonSchema};
use agentcore::testing::ScriptedModel;
use serde::Deserialize;

/// A city.
#[derive(Deserialize, JsonSchema)]
struct City {
    name: String,
    /// The number of people who live there.
    inhabitants: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let model = ScriptedModel::new()
        .say(r#"{"name": "Oslo", "inhabitants": "about 700,000"}"#)
        .say(r#"{"name": "Oslo", "inhabitants": 700000}"#);
    let agent = Agent::builder(model.clone()).build()?;

    let city: City = agent.run("What is the capital of Norway?").output().await?;

    println!("{} has {} inhabitants.", city.name, city.inhabitants);
    for request in model.requests().iter().skip(1) {
        println!(
            "\nThe first response went back with:\n{}",
            request.messages.last_content()
        );
    }

    Ok(())
}
