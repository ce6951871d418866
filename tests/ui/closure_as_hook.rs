//! A bare closure where a hook is wanted: which phase, and under which name?

use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Next, ToolCall};

fn main() {
    let _ = AgentBuilder::new(ScriptedModel::new())
        .hook(|call: ToolCall, next: Next<ToolCall>| async move { next.run(call).await });
}
