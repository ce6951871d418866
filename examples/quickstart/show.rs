//! A run's messages, printed for a person.

use std::io::{self, Write};

use agentcore::SdkMessage;
use agentcore::sdk::{ResultMessage, ToolProgress, UserEvent};

/// Prints a message: text as it arrives, tools with their progress, and the end of the run.
pub(crate) fn show(message: &SdkMessage) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match message {
        SdkMessage::Partial(_) => write!(out, "{}", message.text_delta().unwrap_or_default())?,
        SdkMessage::Assistant(response) if !response.text().is_empty() => writeln!(out, "\n")?,
        SdkMessage::ToolProgress(progress) => show_progress(&mut out, progress)?,
        SdkMessage::User(results) => show_errors(&mut out, results)?,
        SdkMessage::Result(result) => show_end(&mut out, result)?,
        _ => {}
    }
    out.flush()
}

fn show_progress(out: &mut impl Write, progress: &ToolProgress) -> io::Result<()> {
    let (tool, time) = (&progress.tool_name, progress.elapsed_time_seconds);
    let Some(data) = &progress.data else {
        return Ok(());
    };
    if progress.is_started() {
        writeln!(out, "  {tool} {}", data["args"])
    } else if progress.is_finished() {
        writeln!(out, "  {tool} took {time:.3} s")
    } else if progress.is_waiting() {
        writeln!(out, "  {tool} waits for an answer")
    } else {
        writeln!(out, "    {}", data.as_str().unwrap_or_default())
    }
}

/// Prints the errors among the results of a turn. The model reads them as well.
fn show_errors(out: &mut impl Write, results: &UserEvent) -> io::Result<()> {
    let results = results
        .messages
        .iter()
        .filter_map(|message| message.as_tool_result());
    for error in results.filter(|result| result.is_error) {
        writeln!(out, "  {}: {}", error.name, error.content.text())?;
    }
    writeln!(out)
}

fn show_end(out: &mut impl Write, result: &ResultMessage) -> io::Result<()> {
    for error in &result.errors {
        writeln!(out, "{error}\n")?;
    }
    let seconds = result.duration_ms as f64 / 1000.0;
    write!(out, "{} turns, {seconds:.2} s, ", result.num_turns)?;
    match (result.usage.total_tokens(), result.total_cost_usd) {
        (0, _) => writeln!(out, "tokens and cost not reported"),
        (tokens, None) => writeln!(out, "{tokens} tokens, cost not known"),
        (tokens, Some(usd)) => writeln!(out, "{tokens} tokens, {usd:.4} USD"),
    }
}
