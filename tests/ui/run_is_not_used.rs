//! A run nobody awaits, and a decision nobody returns.

#![deny(unused_must_use)]

use agentcore::{Agent, ToolDecision};

fn start(agent: &Agent) {
    agent.run("Hello");
    ToolDecision::deny("not today");
}

fn main() {}
