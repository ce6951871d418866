//! The name of a model instead of a model.

use agentcore::AgentBuilder;

fn main() {
    let _ = AgentBuilder::new("anthropic:claude-sonnet-5");
}
