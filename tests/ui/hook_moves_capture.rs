//! A hook that moves its captured value into its first call.

use std::sync::{Arc, Mutex};

use agentcore::hook;

fn main() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let _ = hook::wrap_tool_call("log", move |call, next| async move {
        log.lock().unwrap().push(call.name.clone());
        next.run(call).await
    });
}
