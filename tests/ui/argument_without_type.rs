//! A typed tool whose closure does not declare the type of its argument.

use agentcore::FuncTool;

fn main() {
    let _ = FuncTool::typed("add", "Adds", |args| async move { args.n.to_string() });
}
