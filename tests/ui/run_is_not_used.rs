//! A run that is not awaited, and a decision that is not returned.

#![deny(unused_must_use)]

use agentcore::{Agent, ToolDecision};

fn start(agent: &Agent) {
    agent.run("Hello");
    ToolDecision::deny("not today");
}

fn main() {}
