//! The order of results, which is that of their calls.

use std::sync::Arc;

use agentcore::message::ModelCheck;
use agentcore::{Message, Messages, ToolCall};
use serde_json::json;

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "f", json!({}))
}

#[test]
fn repair_moves_results_into_call_order() {
    let calls = || Messages::from("Hi").ai_calling("", [call("a"), call("b"), call("c")]);
    let ordered = calls()
        .tool("a", "f", "1")
        .tool("b", "f", "2")
        .tool("c", "f", "3");
    let unordered = calls()
        .tool("c", "f", "3")
        .tool("a", "f", "1")
        .tool("b", "f", "2");
    assert!(unordered.validate_for_model().is_ok());
    let says = r#"message[2]: moved result for "c" to follow its call"#;
    let mut history = unordered.clone();
    assert_eq!(history.repair().to_string(), says);
    assert_eq!(history, ordered);
    let mut check = ModelCheck::new();
    let mut history = unordered.clone().human("And?");
    assert_eq!(check.ensure(&mut history, &[]).to_string(), says);
    assert_eq!(history, ordered.clone().human("And?"));
    assert!(check.ensure(&mut history, &[]).is_empty());

    // A check that resumes after a common prefix forgets the results behind it that were out of
    // order.
    let mut cut = calls();
    cut.push(Message::tool("a", "f", "1"));
    assert_eq!(check.ensure(&mut cut, &["b".into(), "c".into()]).len(), 0);
}

#[test]
fn turn_with_many_calls_is_repaired_quickly() {
    let many = 40_000;
    let calls = || (0..many).map(|n| call(&format!("c{n}")));
    let mut history = Messages::from("Hi").ai_calling("", calls());
    for n in (0..many).rev() {
        history.push(Message::tool(format!("c{n}"), "f", "x"));
    }

    assert!(history.validate_for_model().is_ok());
    assert_eq!(history.repair().len(), many - 1);
    let mut history = Messages::from("Hi").ai_calling("", (0..many).map(|_| call("")));
    for _ in 0..many {
        history.push(Message::tool("", "f", "x"));
    }

    assert_eq!(history.repair().len(), many);
    let pending: Vec<Arc<str>> = (0..many).map(|n| format!("c{n}").into()).collect();
    let mut history = Messages::from("Hi").ai_calling("", calls());
    assert!(history.repair_keeping(&pending).is_empty());
}
