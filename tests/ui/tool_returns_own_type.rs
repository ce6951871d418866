//! A tool that returns a type of its own, neither text nor wrapped in `Json`.

use agentcore::FuncTool;
use serde_json::json;

struct Weather;

fn main() {
    let _ = FuncTool::new("weather", "Tells", json!({}), |_cx, _args| async { Weather });
}
