//! Reporting on a subagent that has ended.

use std::time::Duration;

use serde_json::{Value, json};

use crate::run::RunOutput;

/// The report on a subagent, for programs and for people.
pub(super) struct Report {
    pub(super) details: Value,
    pub(super) display: String,
}

pub(super) fn report_on(id: &str, output: &RunOutput, duration: Duration) -> Report {
    let usage = output.usage;
    let input = usage.context_tokens();
    let seconds = duration.as_secs_f64();
    let cost = match output.cost {
        Some(cost) => format!("${cost:.4}"),
        None => "unknown".to_owned(),
    };
    Report {
        details: json!({
            "agentId": id,
            "duration": seconds,
            "turns": output.turns,
            "cost": output.cost,
            "tokens": {"input": input, "output": usage.output_tokens},
        }),
        display: format!(
            "Duration: {seconds:.1}s | Turns: {} | Cost: {cost} | Tokens: {input} in / {} out",
            output.turns, usage.output_tokens
        ),
    }
}
