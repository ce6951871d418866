//! Tests of an agent without a network. A script determines the responses of the model, and a
//! strict model refuses every request that a provider would refuse.
//!
//! ```sh
//! cargo run --example testing
//! ```

use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::{Agent, Error, ErrorKind, ExitReason, FuncTool, Model};
use serde_json::json;

/// The agent under test; production code gives it a real model.
fn assistant(model: impl Model) -> agentcore::Result<Agent> {
    let add = FuncTool::new(
        "add",
        "Adds two numbers",
        json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        }),
        |_cx, args| async move {
            let (a, b) = (args["a"].as_i64(), args["b"].as_i64());
            let sum = a.zip(b).and_then(|(a, b)| a.checked_add(b));
            Ok(sum.ok_or("the sum is too large")?.to_string())
        },
    );
    Agent::builder(model)
        .system_prompt("You can add.")
        .tool(add)
        .max_turns(3)
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    sum_of_two_numbers_is_answered().await?;
    failed_call_is_reported_to_the_model().await?;
    overloaded_model_is_retried().await?;
    println!("all runs followed their scripts");
    Ok(())
}

async fn sum_of_two_numbers_is_answered() -> agentcore::Result<()> {
    let script = ScriptedModel::new()
        .expect(|request| assert_eq!(request.tools[0].name.as_ref(), "add"))
        .call("add", json!({"a": 2, "b": 3}))
        .expect(|request| assert_eq!(request.messages.last_content(), "5"))
        .say("It is 5.");
    let model = StrictModel::new(script.clone());
    let output = assistant(model.clone())?.run("2+3?").await?;
    assert_eq!((output.text.as_str(), output.turns), ("It is 5.", 2));
    // Each step was used once, and a provider would have accepted each request.
    script.verify()?;
    assert_eq!(model.violations(), Vec::<String>::new());
    Ok(())
}

async fn failed_call_is_reported_to_the_model() -> agentcore::Result<()> {
    let script = ScriptedModel::new()
        .call("add", json!({"a": i64::MAX, "b": 1}))
        .expect(|request| {
            let text = request.messages.last_content();
            assert_eq!(text, "Error: the sum is too large");
        })
        .say("I cannot add these.");
    let output = assistant(script.clone())?.run("2^63-1+1?").await?;
    assert_eq!(output.end, ExitReason::EndTurn);
    script.verify()
}

async fn overloaded_model_is_retried() -> agentcore::Result<()> {
    // A test would pause the clock: `#[tokio::test(start_paused = true)]`.
    tokio::time::pause();
    let script = ScriptedModel::new()
        .fail(Error::new(ErrorKind::Overloaded, "come back later"))
        .say("Here I am.");
    let output = assistant(script.clone())?.run("Hello?").await?;
    assert_eq!(output.text, "Here I am.");
    script.verify()
}
