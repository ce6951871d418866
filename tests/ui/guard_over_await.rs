//! A hook that keeps a lock while the tool runs.

use std::sync::{Arc, Mutex};

use agentcore::hook;

fn main() {
    let count = Arc::new(Mutex::new(0));
    let _ = hook::wrap_tool_call_with("count", count, |count, call, next| async move {
        let mut guard = count.lock().unwrap();
        *guard += 1;
        next.run(call).await
    });
}
