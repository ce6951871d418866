//! A hook that keeps a lock while the tool runs.

use std::sync::{Arc, Mutex};

use agentcore::{Next, Result, ToolCall, ToolResult, hook};

async fn counted(
    count: Arc<Mutex<u32>>,
    call: ToolCall,
    next: Next<ToolCall>,
) -> Result<ToolResult> {
    let mut guard = count.lock().unwrap();
    *guard += 1;
    next.run(call).await
}

fn main() {
    let count = Arc::new(Mutex::new(0));
    let _ = hook::wrap_tool_call_with("count", count, counted);
}
