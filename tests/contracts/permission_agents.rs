//! Rules about agents, for every tool that starts them.

use agentcore::permission::{Behavior, PermissionRules, Rule};
use agentcore::tool::Access;
use agentcore::{FuncTool, PermissionMode, ToolCall};
use serde_json::{Value, json};

/// Creates a tool that starts the agents in its argument `who`, which is not a known argument name.
fn tool_that_starts_agents(name: &str) -> FuncTool {
    let schema = json!({"type": "object"});
    FuncTool::new(name, "Starts agents", schema, |_, _| async { "started" }).accesses(|args| {
        let names = args["who"].as_array().expect("a list").iter();
        let names = names.filter_map(Value::as_str);
        names.map(|name| Access::Agent(name.into())).collect()
    })
}

fn decide(rules: &PermissionRules, tool: &str, agents: &[&str]) -> Behavior {
    let call = ToolCall::new("c", tool, json!({"who": agents, "agent": "other"}));
    rules
        .explain(&call, &tool_that_starts_agents(tool))
        .decision
}

#[test]
fn rule_about_an_agent_covers_every_tool_that_starts_it() {
    for rule in ["Agent(reviewer)", "Task(reviewer)"] {
        let rules = || PermissionRules::new();
        let denied = rules().allow("*").unwrap().deny(rule).unwrap();
        let asked = rules().allow("*").unwrap().ask(rule).unwrap();
        let allowed = rules().allow(rule).unwrap();
        for tool in ["delegate_to_agent", "Task", "handoff", "start_async_task"] {
            assert_eq!(decide(&denied, tool, &["reviewer"]), Behavior::Deny);
            assert_eq!(
                decide(&denied, tool, &["scout", "reviewer"]),
                Behavior::Deny
            );
            assert_eq!(decide(&denied, tool, &["scout"]), Behavior::Allow);
            assert_eq!(decide(&asked, tool, &["reviewer"]), Behavior::Ask);
            assert_eq!(decide(&allowed, tool, &["reviewer"]), Behavior::Allow);
            assert_eq!(decide(&allowed, tool, &["scout"]), Behavior::Ask);
            assert_eq!(
                decide(&allowed, tool, &["reviewer", "scout"]),
                Behavior::Ask
            );
        }
    }
}

#[test]
fn rule_about_all_agents_covers_every_tool_that_starts_one() {
    let denied = PermissionRules::new().deny("Agent").unwrap();
    let bypassed = denied.mode(PermissionMode::BypassPermissions);
    assert_eq!(
        decide(&bypassed, "delegate_to_agent", &["x"]),
        Behavior::Deny
    );
    let allowed = PermissionRules::new().allow("Agent").unwrap();
    assert_eq!(decide(&allowed, "handoff", &["x"]), Behavior::Allow);
    let other = PermissionRules::new().allow("*").unwrap().deny("Skill(x)");
    assert_eq!(decide(&other.unwrap(), "handoff", &["x"]), Behavior::Allow);
}

#[test]
fn question_about_an_agent_suggests_a_rule_for_it() {
    let rules = PermissionRules::new();
    let call = ToolCall::new("c", "handoff", json!({"who": ["billing"]}));
    let suggestions = rules.suggest(&call, &tool_that_starts_agents("handoff"));
    let texts: Vec<_> = suggestions.iter().map(Rule::to_string).collect();
    assert_eq!(texts, ["allow:Agent(billing)"]);
    assert_eq!(
        Access::Agent("billing".into()).to_string(),
        "start agent billing"
    );
}
