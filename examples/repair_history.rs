//! Repairs a history: reads a JSON array of messages from standard input, writes one that any
//! provider accepts to standard output, and reports its changes on standard error.
//!
//! ```sh
//! echo '[{"role":"user","content":"Hi"},{"role":"tool","content":"?","tool_call_id":"c","name":"x"}]' \
//!     | cargo run --example repair_history
//! ```

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use agentcore::Messages;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("repair_history: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let mut history = Messages::from_json(&input)
        .map_err(|error| format!("cannot read the messages: {error}"))?;

    let repairs = history.repair();
    if repairs.is_empty() {
        note(format_args!("nothing to repair"));
    } else {
        note(format_args!("{repairs}"));
    }

    if let Err(problem) = history.validate_for_model() {
        note(format_args!("still not valid for a model: {problem}"));
    }

    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &history)?;
    writeln!(out)?;
    Ok(())
}

/// Writes a line to standard error. A failure is ignored, because the output does not depend on it.
fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
