//! A hook that keeps an `Rc` over an await.

use std::rc::Rc;

use agentcore::{Next, Result, ToolCall, ToolResult, hook};

async fn counted(call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
    let count = Rc::new(1);
    let result = next.run(call).await;
    drop(count);
    result
}

fn main() {
    let _ = hook::wrap_tool_call("count", counted);
}
