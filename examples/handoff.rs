//! Agents that hand the conversation over: triage hands a customer over to billing, which also
//! answers the next question.
//!
//! ```sh
//! cargo run --example handoff
//! ```

use agentcore::subagent::Handoffs;
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, FuncTool, SdkMessage, ThreadStore};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    // Real agents have models from `providers::resolve`.
    let triage = ScriptedModel::new().call(
        "handoff",
        json!({"agent": "billing", "reason": "The customer was charged twice"}),
    );
    let billing = ScriptedModel::new()
        .call("refund", json!({"invoice": "2026-117"}))
        .say("Invoice 2026-117 was charged twice. I have refunded the second charge.")
        .say("Within three days.");

    let refund = FuncTool::new(
        "refund",
        "Refunds an invoice",
        json!({
            "type": "object",
            "properties": {"invoice": {"type": "string"}},
            "required": ["invoice"]
        }),
        |_cx, args| async move { format!("refunded {}", args["invoice"].as_str().unwrap_or_default()) },
    );
    let triage = Agent::builder(triage).system_prompt("Find out which agent can help.");
    let billing = Agent::builder(billing)
        .system_prompt("You refund what was charged wrongly.")
        .tool(refund);
    let support = Handoffs::builder("triage", triage)
        .agent("billing", "Invoices and refunds", billing)
        .store(ThreadStore::new())
        .build()?;

    for input in ["I was charged twice", "When will I have the money?"] {
        println!("> {input}");
        let mut run = support.run("customer_7", input);
        while let Some(message) = run.next().await {
            if let SdkMessage::Assistant(response) = &message {
                for call in response.message.message.tool_calls() {
                    println!("({} {})", call.name, call.args);
                }
            }
        }
        let output = run.into_output()?;
        let name = support.active(&output.state).name();
        println!("{name}: {}", output.text);
    }

    Ok(())
}
