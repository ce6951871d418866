//! A plain function as a hook, without a phase or a name.

use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Next, Result, ToolCall, ToolResult};

async fn pass(call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
    next.run(call).await
}

fn main() {
    let _ = AgentBuilder::new(ScriptedModel::new()).hook(pass);
}
