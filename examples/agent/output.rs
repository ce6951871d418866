//! The output of a run on standard output, and the notes for people on standard error.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentcore::sdk::{Level, ResultMessage, SystemKind};
use agentcore::trace::MemoryRecorder;
use agentcore::{SdkMessage, Todo, TodoStatus, ToolResult};
use clap::ValueEnum;

use super::shown;

/// The tool whose calls are shown as the task list they change.
const TASKS: &str = "write_todos";
/// The indentation of notes about subagents.
const INDENT: &str = "    ";
/// The maximum number of lines of a result that are shown.
const MAX_RESULT_LINES: usize = 10;

/// The form of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The answer, as it comes
    Text,
    /// The result message, as one line of JSON; the calls that wait are in its `pending`
    Json,
    /// Every message, one line of JSON each
    StreamJson,
}

/// The detail of the notes of a run. Warnings and errors are always noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    Quiet,
    /// Calls, their failures and the task list.
    Calls,
    /// The results of calls, tokens and costs as well.
    Verbose,
}

/// Prints the messages of one run.
#[derive(Debug)]
pub(crate) struct Printer {
    output: Output,
    detail: Detail,
    /// The calls whose denial was noted.
    denied: HashSet<Arc<str>>,
    /// True if the last line is not complete.
    is_inside_line: bool,
}

impl Printer {
    pub(crate) fn new(output: Output, detail: Detail) -> Self {
        Self {
            output,
            detail,
            denied: HashSet::new(),
            is_inside_line: false,
        }
    }

    /// Prints a message in the form of the output, without buffering, for readers of a pipe.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output cannot be written.
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
            write(shown::text(text).as_bytes())?;
            if let Some(last) = text.chars().next_back() {
                self.is_inside_line = last != '\n';
            }

            return Ok(());
        }

        // Notes about subagents are indented.
        let indent = match message.parent_tool_use_id() {
            Some(_) => INDENT,
            None => "",
        };

        match message {
            // Each response begins on a line of its own.
            SdkMessage::Assistant(response) => {
                self.end_line()?;
                if self.detail >= Detail::Calls {
                    let calls = response.message.message.tool_calls();
                    let calls = calls.filter(|call| *call.name != *TASKS);
                    calls.for_each(|call| note(&format!("{indent}{}", shown::call(call))));
                }

                Ok(())
            }
            SdkMessage::User(event) if indent.is_empty() => {
                let results = event
                    .messages
                    .iter()
                    .filter_map(|message| message.as_tool_result());
                results.for_each(|result| self.result(result));
                Ok(())
            }
            SdkMessage::System(event) => self.event(&event.kind, indent),
            SdkMessage::Result(result) => {
                self.end_line()?;
                note_errors(result);
                if self.detail == Detail::Verbose {
                    note(&expenses(result));
                }

                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, kind: &SystemKind, indent: &str) -> io::Result<()> {
        match kind {
            SystemKind::StreamRestart { .. } if indent.is_empty() => {
                self.end_line()?;
                note("the answer starts again; ignore the part that was printed");
            }
            SystemKind::ApiRetry(retry) => {
                let (attempt, most) = (retry.attempt, retry.max_retries);
                let seconds = retry.retry_delay_ms as f64 / 1000.0;
                let why = &retry.error;
                note(&format!(
                    "{indent}no answer ({why}); retry {attempt} of {most} in {seconds:.1} s"
                ));
            }
            SystemKind::PermissionDenied(denied) => {
                self.denied.insert(denied.tool_use_id.clone());
                self.end_line()?;
                note(&format!(
                    "{indent}{} is denied: {}",
                    denied.tool_name, denied.message
                ));
            }
            SystemKind::Informational { content, level, .. } if *level == Level::Warning => {
                note(&format!("{indent}{content}"));
            }
            SystemKind::StateChanged {
                todos: Some(todos), ..
            } if self.detail >= Detail::Calls => {
                self.end_line()?;
                todos
                    .iter()
                    .for_each(|todo| note(&format!("{indent}{}", task(todo))));
            }
            SystemKind::TaskStarted(task) if self.detail >= Detail::Calls => {
                self.end_line()?;
                let name = task.subagent_type.as_deref().unwrap_or("task");
                let description = shown::first_line(&task.description);
                note(&format!("{INDENT}{name} begins: {description}"));
            }
            SystemKind::TaskNotification(task) if self.detail >= Detail::Calls => {
                self.end_line()?;
                let summary = shown::first_line(&task.summary);
                note(&format!("{INDENT}{}: {summary}", task.status));
            }
            _ => {}
        }

        Ok(())
    }

    /// Notes the failure of a call, or in verbose mode the first lines of its result.
    fn result(&self, result: &ToolResult) {
        if result.silent || self.detail == Detail::Quiet {
            return;
        }

        let text = result.content.text();
        if self.detail == Detail::Verbose {
            note(&format!("{} returned:", result.name));
            let mut lines = text.lines();
            let first_lines = lines.by_ref().take(MAX_RESULT_LINES);
            first_lines.for_each(|line| note(&format!("    {}", shown::cut(line))));
            match lines.count() {
                0 => {}
                count => note(&format!("    ... ({count} more lines)")),
            }
        } else if result.is_error && !self.denied.contains(&result.tool_call_id) {
            note(&format!(
                "{} failed: {}",
                result.name,
                shown::first_line(&text)
            ));
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_inside_line) {
            write(b"\n")
        } else {
            Ok(())
        }
    }
}

/// The tokens and the cost of a run.
fn expenses(result: &ResultMessage) -> String {
    let usage = &result.usage;
    let cached = usage
        .cache_read_tokens
        .saturating_add(usage.cache_write_tokens);
    let input = usage.input_tokens.saturating_add(cached);
    let (turns, output) = (result.num_turns, usage.output_tokens);
    let seconds = result.duration_ms as f64 / 1000.0;
    let cost = match result.total_cost_usd {
        Some(usd) => format!("${usd:.4}"),
        None => "cost unknown".to_owned(),
    };

    format!("{turns} turns, {input} tokens in, {output} tokens out, {cost}, {seconds:.1} s")
}

/// The number of beginnings and ends of writes: odd while a write is in progress.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// The number of the write in progress.
pub(crate) fn current_write() -> Option<u64> {
    Some(WRITES.load(Ordering::Acquire)).filter(|count| count % 2 == 1)
}

/// Runs a write, and counts its beginning and its end.
fn count_write<T>(write: impl FnOnce() -> T) -> T {
    WRITES.fetch_add(1, Ordering::AcqRel);
    let outcome = write();
    WRITES.fetch_add(1, Ordering::AcqRel);
    outcome
}

/// Writes to standard output at once.
fn write(bytes: &[u8]) -> io::Result<()> {
    count_write(|| {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    })
}

fn line(message: &SdkMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    write(&line)
}

/// A task with its status.
fn task(todo: &Todo) -> String {
    let mark = match todo.status {
        TodoStatus::Pending => ' ',
        TodoStatus::InProgress => '>',
        TodoStatus::Done => 'x',
        _ => '?',
    };
    format!("[{mark}] {}", shown::line(&todo.title))
}

/// Notes the errors of a run.
fn note_errors(result: &ResultMessage) {
    if !result.is_error {
        return;
    }
    match &result.errors[..] {
        [] => note(&format!("the run ended with {}", result.subtype)),
        errors => errors.iter().for_each(|error| note(error)),
    }
}

/// Prints the spans of a run with their starts and durations in seconds, and their attributes.
pub(crate) fn spans(trace: &MemoryRecorder) {
    let _ = write!(io::stderr(), "{trace}");
}

/// Writes a note to standard error. An error is ignored: there is no other place to report it.
pub(crate) fn note(text: &str) {
    let text = shown::text(text);
    let _ = count_write(|| writeln!(io::stderr(), "agent: {text}"));
}
