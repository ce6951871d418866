//! A hook that keeps an `Rc` over an await.

use std::rc::Rc;

use agentcore::hook;

fn main() {
    let _ = hook::wrap_tool_call("count", |call, next| async move {
        let count = Rc::new(1);
        let result = next.run(call).await;
        drop(count);
        result
    });
}
