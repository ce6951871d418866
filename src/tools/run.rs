//! Running commands and reporting their results.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backend::{Backend, BackgroundOutput, Captured, Command, CommandOutput};
use crate::error::BoxError;
use crate::tool::{ToolError, ToolOutput};
use crate::util::secret::redact_text;
use crate::util::text;

/// The style in which a tool shows the output of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// The maximum length of the output, in characters; a longer output is cut in the middle.
    pub(super) max_chars: usize,
    /// The text for a command without output.
    pub(super) nothing: &'static str,
    pub(super) stderr: Stderr,
}

impl Style {
    /// Removes the limit if the backend or the command has one, which has cut the output already.
    pub(super) fn without_second_limit(
        mut self,
        backend: &dyn Backend,
        max_output: Option<usize>,
    ) -> Self {
        if max_output.is_some() || backend.command_limits().max_output.is_some() {
            self.max_chars = usize::MAX;
        }
        self
    }
}

/// The way standard error is distinguished from standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stderr {
    /// Not distinguished: both are in the order in which they were written.
    Merged,
    /// Each line begins with a mark.
    Marked,
    /// It follows a heading.
    Headed,
}

/// The time that a call has in addition to the time limit of its command: the tool ends the command
/// and shows its output, so the engine's own limit must not expire first.
const MARGIN: Duration = Duration::from_secs(15);

/// Returns the time limit of a call whose command may run for `limit`.
pub(super) fn call_timeout(limit: Duration) -> Duration {
    limit.saturating_add(MARGIN)
}

/// Returns the time limit of a command: the backend's, or else the tool's.
pub(super) fn time_limit(backend: &dyn Backend, default: Duration) -> Duration {
    backend.command_limits().timeout.unwrap_or(default)
}

/// Runs a command to its end.
pub(super) async fn run(
    backend: &dyn Backend,
    command: Command,
    limit: Duration,
    style: Style,
) -> Result<ToolOutput, BoxError> {
    check(&command)?;
    let mut command = command.with_timeout(limit);
    command.merge_stderr = style.stderr == Stderr::Merged;
    command.shell = Some(backend.shell());
    let style = style.without_second_limit(backend, command.max_output);
    let output = backend.execute(command).await?;
    let text = format_output(&output, style);
    let details = details_of(&output);
    if output.timed_out {
        let seconds = limit.as_secs_f64();
        let text = format!("Command timed out after {seconds:.1} seconds.\n\n{text}");
        return Ok(ToolOutput::error(text).with_details(details));
    }

    Ok(ToolOutput::new(text).with_details(details))
}

/// Returns the result for a background command: its state, and its output since the last call.
pub(super) fn background_result(output: &BackgroundOutput, style: Style) -> ToolOutput {
    let state = if output.running {
        "Running."
    } else if output.output.timed_out {
        "Ended by its time limit."
    } else {
        "Ended."
    };
    let text = format!("{state}\n\n{}", format_output(&output.output, style));
    let mut details = details_of(&output.output);
    details["running"] = output.running.into();
    ToolOutput::new(text).with_details(details)
}

pub(super) fn check(command: &Command) -> Result<(), ToolError> {
    if command.command.trim().is_empty() {
        Err(ToolError::new("Command must be a non-empty string."))
    } else {
        Ok(())
    }
}

fn format_output(output: &CommandOutput, style: Style) -> String {
    let mut text = decoded(&output.stdout, style.max_chars);
    let stderr = decoded(&output.stderr, style.max_chars);
    add_stderr(&mut text, &stderr, style.stderr);
    let mut text = text.trim_end_matches('\n').to_owned();
    if text.is_empty() {
        text.push_str(style.nothing);
    }

    match (output.exit_code, output.signal) {
        (Some(0), _) => {}
        (Some(code), _) => text.push_str(&format!("\n\nExit code: {code}")),
        (None, Some(signal)) if !output.timed_out => {
            text.push_str(&format!("\n\nEnded by signal {signal}"));
        }
        _ => {}
    }

    text
}

/// Adds standard error to the text of standard output.
fn add_stderr(text: &mut String, stderr: &str, form: Stderr) {
    let is_marked = form == Stderr::Marked;
    let stderr = if is_marked { stderr.trim() } else { stderr };
    if stderr.is_empty() {
        return;
    }

    // The trailing line break of standard output is kept before marked lines.
    if !text.is_empty() && (is_marked || !text.ends_with('\n')) {
        text.push('\n');
    }

    match form {
        Stderr::Merged => text.push_str(stderr),
        Stderr::Headed => text.push_str(&format!("STDERR:\n{stderr}")),
        Stderr::Marked => {
            let lines = stderr.lines().map(|line| format!("[stderr] {line}"));
            text.push_str(&lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

fn decoded(captured: &Captured, max_chars: usize) -> String {
    // Redacted before the cut, which could leave a part of a secret.
    let mut full_text = captured.text();
    redact_text(&mut full_text);
    let total = captured.total();
    let half_len = max_chars / 2;
    let excerpt =
        text::head_tail(
            &full_text,
            half_len,
            max_chars - half_len,
            |omitted| match captured.omitted {
                0 => format!("\n\n... ({omitted} characters omitted) ...\n\n"),
                _ => format!("\n\n... (cut: there were {total} bytes in all) ...\n\n"),
            },
        );
    if captured.is_utf8() {
        excerpt.into_owned()
    } else {
        format!("[not UTF-8: {total} bytes, invalid ones shown as \u{FFFD}]\n{excerpt}")
    }
}

fn details_of(output: &CommandOutput) -> Value {
    json!({
        "stdout": output.stdout.text(),
        "stderr": output.stderr.text(),
        "exit_code": output.exit_code,
        "signal": output.signal,
        "timed_out": output.timed_out,
        "stdout_bytes": output.stdout.total(),
        "stderr_bytes": output.stderr.total(),
    })
}
