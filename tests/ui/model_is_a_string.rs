//! The name of a model where a model is wanted.

use agentcore::AgentBuilder;

fn main() {
    let _ = AgentBuilder::new("anthropic:claude-sonnet-5");
}
