//! A tool made from a closure that returns its output, not a future.

use agentcore::FuncTool;
use serde_json::json;

fn main() {
    let _ = FuncTool::new("hello", "Greets", json!({}), |_cx, _args| "hello");
}
