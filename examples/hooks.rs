//! Hooks for all eight phases. Each prints a line when it runs.
//!
//! ```sh
//! cargo run --example hooks
//! ```

use agentcore::hook::FnHook;
use agentcore::model::Stability;
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, FuncTool, StopDecision, ToolDecision, hook};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let model = ScriptedModel::new()
        .calls([
            ("weather", json!({"city": "Paris"})),
            ("weather", json!({"city": "Atlantis"})),
        ])
        .say("It is sunny in Paris.")
        .say("Sunny.");

    // The first hook is the outermost.
    let agent = Agent::builder(model)
        .tool(weather())
        .hooks(hooks())
        .build()?;
    let output = agent
        .run("How is the weather in Paris and in Atlantis?")
        .await?;
    println!("\n{}", output.text);
    Ok(())
}

fn weather() -> FuncTool {
    FuncTool::new(
        "weather",
        "The weather in a city",
        json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }),
        |_cx, args| async move {
            let city = args["city"].as_str().unwrap_or_default();
            format!("21 C and sunny in {city}")
        },
    )
}

fn hooks() -> [FnHook; 9] {
    [
        hook::before_agent("greeter", |_cx, state| async move {
            println!(
                "before_agent      once, with {} messages",
                state.messages.len()
            );
            Ok(state)
        }),
        hook::modify_request("clock", |cx, messages| async move {
            println!(
                "modify_request    turn {}: sets the section `clock` of the system prompt",
                cx.turn()
            );
            cx.system().set("clock", "It is noon.", Stability::Volatile);
            Ok(messages)
        }),
        hook::wrap_model_call("stopwatch", |request, next| async move {
            println!("wrap_model_call   > {} messages", request.messages.len());
            let response = next.run(request).await?;
            println!("wrap_model_call   < {:?}", response.stop_reason);
            Ok(response)
        }),
        hook::pre_tool_use("gate", |_cx, call| async move {
            println!("pre_tool_use      {} {}", call.name, call.args);
            if call.args["city"] == "Atlantis" {
                return Ok(ToolDecision::deny("no such city"));
            }

            Ok(ToolDecision::proceed().with_args(json!({"city": call.args["city"], "days": 1})))
        }),
        hook::wrap_tool_call("outer", |call, next| async move {
            println!("wrap_tool_call    > outer: {}", call.args);
            let result = next.run(call).await;
            println!("wrap_tool_call    < outer");
            result
        }),
        hook::wrap_tool_call("inner", |call, next| async move {
            println!("wrap_tool_call      > inner");
            let result = next.run(call).await;
            println!("wrap_tool_call      < inner");
            result
        }),
        hook::post_tool_use("scribe", |_cx, _call, result| async move {
            println!("post_tool_use     {}", result.output());
            Ok(result)
        }),
        hook::before_stop("reviewer", |cx, response| async move {
            println!("before_stop       {:?}", response.text());

            // Only once: a hook that always continues makes the run last until its limit of turns.
            match cx.turn() {
                2 => Ok(StopDecision::continue_with("And in one word?")),
                _ => Ok(StopDecision::Stop),
            }
        }),
        hook::after_agent("accountant", |_cx, state| async move {
            println!(
                "after_agent       {} new messages",
                state.output_messages.len()
            );
            Ok(state)
        }),
    ]
}
