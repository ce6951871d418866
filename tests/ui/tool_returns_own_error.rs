//! A tool whose `Result` has an error other than `BoxError`, without `?`.

use agentcore::FuncTool;
use serde_json::json;

fn main() {
    let _ = FuncTool::new("parse", "Parses", json!({}), |_cx, _args| async {
        "1".parse::<u8>().map(|n| n.to_string())
    });
}
