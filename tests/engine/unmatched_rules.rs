//! Permission rules for tools that the agent does not have.

use std::sync::Arc;

use agentcore::hooks::{PermissionHook, TodoListHook};
use agentcore::permission::{PermissionConfig, PermissionRules, Rule};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Tool, ToolSource};
use agentcore::{AgentBuilder, ErrorKind, Hook, Result, async_trait};
use serde_json::json;

use crate::kit::{Log, agent, logged};

struct Empty;

#[async_trait]
impl ToolSource for Empty {
    fn name(&self) -> &str {
        "empty"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        Ok(Vec::new())
    }
}

/// An agent with the tools `Bash`, `pay` and those of the task list.
fn builder() -> AgentBuilder {
    let log = Log::default();
    agent(ScriptedModel::new())
        .tools([logged("Bash", &log), logged("pay", &log)])
        .hook(TodoListHook::new())
}

fn denying(rule: &str) -> PermissionRules {
    PermissionRules::new().deny(rule).unwrap()
}

fn error_of(builder: AgentBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    error.to_string()
}

#[test]
fn rule_that_matches_no_tool_is_refused_with_the_near_name() {
    for (rule, advice) in [
        ("Pay", "no tool \"Pay\"; did you mean \"pay\"?"),
        ("paay", "no tool \"paay\"; did you mean \"pay\"?"),
        ("bash(rm:*)", "no tool \"bash\"; did you mean \"Bash\"?"),
        ("BASH(rm:*)", "no tool \"BASH\"; did you mean \"Bash\"?"),
        (
            "Execute(rm:*)",
            "no tool \"Execute\"; did you mean \"Bash\"?",
        ),
        ("shell(rm:*)", "no tool \"shell\"; did you mean \"Bash\"?"),
        ("read_file(/etc/**)", "did you mean \"Read\"?"),
        ("{Read,Raed}", "no tool \"Raed\"; did you mean \"Read\"?"),
        ("P*", "no tool \"P*\"; did you mean \"pay\"?"),
        ("mcp__mail", "write the name of one of the agent's tools"),
        (
            "launch_rocket(to:*)",
            "write the name of one of the agent's tools",
        ),
    ] {
        let text = error_of(builder().permissions(denying(rule)));
        assert!(
            text.starts_with(&format!("permission rule \"deny:{rule}\"")),
            "{text}"
        );
        assert!(text.contains(advice), "{text}");
        let asking = PermissionRules::new().ask(rule).unwrap();
        let text = error_of(builder().permissions(asking));
        assert!(text.contains(&format!("\"ask:{rule}\"")), "{text}");
    }
}

#[test]
fn rule_about_a_tool_or_about_an_access_of_any_tool_is_accepted() {
    let announced = TodoListHook::new().tools().remove(0);
    for rule in [
        "pay",
        "pay(amount:9*)",
        "{pay,Bash}",
        "Bash(rm:*)",
        "Read(/etc/**)",
        "Write(/etc/**)",
        "Edit",
        "WebFetch(domain:evil.test)",
        "WebSearch",
        "Agent(spy)",
        "Skill(spy)",
        "*",
        "mcp__*",
        "*delete*",
        &announced,
    ] {
        builder().permissions(denying(rule)).build().expect(rule);
    }
    let allowing = PermissionRules::new().allow("Pay").unwrap();
    builder().permissions(allowing).build().unwrap();
}

#[test]
fn rule_about_a_tool_of_a_source_is_accepted_unless_only_the_case_differs() {
    for rule in ["mcp__mail", "launch_rocket", "paay", "shell(rm:*)"] {
        let sourced = builder().tool_source(Empty);
        sourced.permissions(denying(rule)).build().expect(rule);
    }
    for rule in ["Pay", "bash(rm:*)"] {
        let text = error_of(builder().tool_source(Empty).permissions(denying(rule)));
        assert!(text.contains("did you mean"), "{text}");
    }
}

#[test]
fn rule_about_a_tool_that_comes_later_is_accepted() {
    let rules = denying("publish").later_tools(["publish"]);
    let agent = builder().permissions(rules.clone()).build().unwrap();
    assert_eq!(rules.unmatched(&agent), Vec::<&Rule>::new());
    let misspelled = denying("Publish").later_tools(["publish"]);
    let text = error_of(builder().permissions(misspelled));
    assert!(
        text.ends_with("no tool \"Publish\"; did you mean \"publish\"?"),
        "{text}"
    );
}

#[test]
fn rule_of_a_permission_hook_is_compared_with_the_tools() {
    let json = json!({"deny": ["pay"], "ask": ["Execute(rm:*)"]}).to_string();
    let hook = PermissionHook::new(PermissionConfig::from_json(&json).unwrap()).unwrap();
    let text = error_of(builder().hook(Arc::new(hook)));
    assert_eq!(
        text,
        "configuration: permission rule \"ask:Execute(rm:*)\" matches no tool \"Execute\"; did you mean \"Bash\"?"
    );
}

#[test]
fn unmatched_lists_the_rules_without_a_tool_in_order() {
    let agent = builder().tool_source(Empty).build().unwrap();
    let rules = PermissionRules::new()
        .allow("Pay")
        .and_then(|rules| rules.deny("mcp__mail"))
        .and_then(|rules| rules.deny("pay"))
        .and_then(|rules| rules.ask("*delete*"))
        .and_then(|rules| rules.deny("Read(.env)"))
        .unwrap();
    let unmatched = rules.unmatched(&agent).into_iter();
    let unmatched: Vec<_> = unmatched.map(ToString::to_string).collect();
    assert_eq!(unmatched, ["allow:Pay", "deny:mcp__mail", "ask:*delete*"]);
}
