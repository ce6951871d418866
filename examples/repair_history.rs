//! Repairs a history: reads a JSON array of messages from standard input, writes one that any
//! provider takes to standard output, and says on standard error what it changed.
//!
//! ```sh
//! echo '[{"role":"user","content":"Hi"},{"role":"tool","content":"?","tool_call_id":"c","name":"x"}]' \
//!     | cargo run --example repair_history
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

use agentcore::Messages;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("repair_history: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    let mut history = Messages::from_json(&input)
        .map_err(|error| format!("cannot read the messages: {error}"))?;

    let repairs = history.repair();
    if repairs.is_empty() {
        eprintln!("nothing to repair");
    } else {
        eprintln!("{repairs}");
    }
    if let Err(problem) = history.validate_for_model() {
        eprintln!("still not valid for a model: {problem}");
    }

    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &history)?;
    writeln!(out)?;
    Ok(())
}
