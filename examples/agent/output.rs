//! What standard output gets. Notes for people go to standard error.

use std::io::{self, Write};

use agentcore::sdk::{Level, ResultMessage, SystemKind};
use agentcore::trace::MemoryRecorder;
use agentcore::{SdkMessage, Todo, TodoStatus};
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The answer, as it comes
    Text,
    /// The result message, as one line of JSON; the calls that wait are in its `pending`
    Json,
    /// Every message, one line of JSON each
    StreamJson,
}

/// Prints the messages of one run.
#[derive(Debug)]
pub(crate) struct Printer {
    output: Output,
    /// Whether the last line is not complete.
    inside_line: bool,
}

impl Printer {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            inside_line: false,
        }
    }

    /// Prints what the output shows of `message`, without buffering, for readers of a pipe.
    ///
    /// # Errors
    ///
    /// When standard output does not take it.
    pub(crate) fn print(&mut self, message: &SdkMessage) -> io::Result<()> {
        match self.output {
            Output::StreamJson => line(message),
            Output::Json if message.is_result() => line(message),
            Output::Json => Ok(()),
            Output::Text => self.text(message),
        }
    }

    fn text(&mut self, message: &SdkMessage) -> io::Result<()> {
        if let Some(text) = message.text_delta()
            && message.parent_tool_use_id().is_none()
        {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            if let Some(last) = text.chars().next_back() {
                self.inside_line = last != '\n';
            }
            return Ok(());
        }
        match message {
            // Each answer begins on a line of its own.
            SdkMessage::Assistant(answer) if answer.envelope.parent_tool_use_id.is_none() => {
                self.end_line()
            }
            SdkMessage::System(event) => match &event.kind {
                SystemKind::StreamRestart { .. } => {
                    self.end_line()?;
                    note("the answer begins anew; what was printed of it is void");
                    Ok(())
                }
                SystemKind::ApiRetry(retry) => {
                    let (attempt, most) = (retry.attempt, retry.max_retries);
                    let seconds = retry.retry_delay_ms as f64 / 1000.0;
                    let why = &retry.error;
                    note(&format!(
                        "no answer ({why}); retry {attempt} of {most} in {seconds:.1} s"
                    ));
                    Ok(())
                }
                SystemKind::PermissionDenied(denied) => {
                    self.end_line()?;
                    note(&format!(
                        "{} is denied: {}",
                        denied.tool_name, denied.message
                    ));
                    Ok(())
                }
                SystemKind::Informational { content, level, .. } if *level == Level::Warning => {
                    note(content);
                    Ok(())
                }
                SystemKind::StateChanged {
                    todos: Some(todos), ..
                } => {
                    self.end_line()?;
                    todos.iter().for_each(|todo| note(&task(todo)));
                    Ok(())
                }
                _ => Ok(()),
            },
            SdkMessage::Result(result) => {
                self.end_line()?;
                explain(result);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.inside_line) {
            writeln!(io::stdout().lock())?;
        }
        Ok(())
    }
}

fn line(message: &SdkMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// A task and how far it is.
fn task(todo: &Todo) -> String {
    let mark = match todo.status {
        TodoStatus::Pending => ' ',
        TodoStatus::InProgress => '>',
        TodoStatus::Done => 'x',
    };
    format!("[{mark}] {}", todo.title)
}

/// Says why a run failed.
fn explain(result: &ResultMessage) {
    if !result.is_error {
        return;
    }
    match &result.errors[..] {
        [] => note(&format!("the run ended with {}", result.subtype)),
        errors => errors.iter().for_each(|error| note(error)),
    }
}

/// Prints the spans of a run: begin and duration in seconds, what it was, what is known of it.
pub(crate) fn spans(trace: &MemoryRecorder) {
    let _ = write!(io::stderr(), "{trace}");
}

/// Writes a note to standard error. An error is ignored: there is no other place to report it.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "agent: {text}");
}
