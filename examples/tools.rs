//! Three ways to create a tool, and the results of calls that are invalid or fail.
//!
//! ```sh
//! cargo run --example tools
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use agentcore::schemars::{self, JsonSchema};
use agentcore::testing::ScriptedModel;
use agentcore::tool::SideEffect;
use agentcore::{Agent, BoxError, FuncTool, Json, Tool, ToolContext, ToolOutput, async_trait};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = ScriptedModel::new()
        .calls([
            ("shout", json!({"text": "hello"})),
            ("divide", json!({"dividend": 22, "divisor": 7})),
            ("divide", json!({"dividend": 1, "divisor": 0})),
            ("divide", json!({"dividend": "one"})),
            ("ticket", json!({})),
        ])
        .say("Three answers and two errors: all of them are results that I can use.");
    let agent = Agent::builder(model)
        .tool(shout())
        .tool(divide())
        .tool(Tickets::new())
        .build()?;

    // The five calls run concurrently. The history has their results in the order of the calls.
    let output = agent.run("Try the tools").await?;
    println!("{}", output.messages.pretty_print());
    Ok(())
}

/// A tool from a closure over JSON, with a schema written by hand.
fn shout() -> FuncTool {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    });
    FuncTool::new(
        "shout",
        "Converts text to upper case",
        schema,
        |_cx, args| async move { args["text"].as_str().unwrap_or_default().to_uppercase() },
    )
}

#[derive(Deserialize, JsonSchema)]
struct Divide {
    dividend: i64,
    /// Anything but zero.
    divisor: i64,
}

#[derive(Serialize)]
struct Quotient {
    quotient: i64,
    remainder: i64,
}

/// A tool from a closure over a type, whose schema is derived. The closure may return an error of
/// any type: the model reads the text.
fn divide() -> FuncTool {
    FuncTool::typed(
        "divide",
        "Divides whole numbers",
        |args: Divide| async move {
            let quotient = args
                .dividend
                .checked_div(args.divisor)
                .ok_or("the divisor is 0, or the quotient is too large")?;
            let remainder = args.dividend - quotient * args.divisor;
            Ok(Json(Quotient {
                quotient,
                remainder,
            }))
        },
    )
    .side_effect(SideEffect::None)
    .idempotent()
}

/// A tool with its own state: a type that implements the trait.
struct Tickets {
    schema: Value,
    last_number: AtomicU64,
}

impl Tickets {
    fn new() -> Self {
        Self {
            schema: json!({"type": "object", "properties": {}}),
            last_number: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl Tool for Tickets {
    fn name(&self) -> &str {
        "ticket"
    }

    fn description(&self) -> &str {
        "Gives the next number in the queue"
    }

    fn parameters(&self) -> &Value {
        &self.schema
    }

    async fn execute(&self, cx: ToolContext, _args: Value) -> Result<ToolOutput, BoxError> {
        let number = 1 + self.last_number.fetch_add(1, Ordering::Relaxed);
        // `details` is for programs; the model reads only the text.
        let details = json!({"number": number, "call": cx.call_id()});
        Ok(ToolOutput::new(format!("Your number is {number}.")).with_details(details))
    }
}
