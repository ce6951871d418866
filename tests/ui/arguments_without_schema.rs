//! Arguments of a typed tool without `JsonSchema`.

use agentcore::FuncTool;
use serde::Deserialize;

#[derive(Deserialize)]
struct Args {
    n: u8,
}

fn main() {
    let _ = FuncTool::typed("add", "Adds", |args: Args| async move { args.n.to_string() });
}
