//! A typed tool whose closure does not say what it takes.

use agentcore::FuncTool;

fn main() {
    let _ = FuncTool::typed("add", "Adds", |args| async move { args.n.to_string() });
}
