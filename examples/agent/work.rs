//! The task of a run, and the run itself.

use std::io;

use agentcore::agent::Decisions;
use agentcore::tool::Asking;
use agentcore::tools::ask::{Interactor, TerminalInteractor};
use agentcore::{AgentState, Error, Messages, Role, Run, SdkMessage, Session};

use super::approvals::{self, Waiting};
use super::args::{Args, no_prompt};
use super::output::{Detail, Output, Printer, note};
use super::signals::Signals;
use super::{AWAITING, FAILED, GIVEN_UP};

/// The task of a session and a prompt: one run, or two if decisions precede an input.
pub(crate) struct Task {
    decisions: Option<Decisions>,
    input: Option<Messages>,
}

/// The next step in a session.
pub(crate) enum Next {
    Task(Task),
    /// There is no decision about the calls that wait.
    Wait(Waiting),
}

/// Determines the next step in a session. Asks at the terminal for missing decisions, and for the
/// prompt if the user picked the session.
///
/// # Errors
///
/// Returns an error if there is neither a decision nor a prompt, and the last run was complete, or
/// if the decisions or the prompt cannot be read.
pub(crate) async fn next(
    args: &Args,
    session: &str,
    state: &AgentState,
    prompt: Option<&str>,
) -> Result<Next, Error> {
    let mut decisions = None;
    let waiting_calls = Waiting::of_session(session, state);
    if args.fork.is_some() && !waiting_calls.calls.is_empty() {
        note("calls that wait stay in the session; a copy does not have them");
    }

    // A run without decisions closes the questions.
    if args.fork.is_none() && !args.dismiss {
        decisions = approvals::decide(args, &waiting_calls).await?;
        if decisions.is_none() && !waiting_calls.calls.is_empty() {
            return Ok(Next::Wait(waiting_calls));
        }
    }

    let input = match prompt {
        Some(prompt) => Some(prompt.into()),
        None if decisions.is_some() => None,
        None if is_unfinished(args, state) => Some(Messages::new()),
        None if args.picks_session() => Some(ask().await?.as_str().into()),
        None => return Err(no_prompt()),
    };

    Ok(Next::Task(Task { decisions, input }))
}

/// Returns `true` if the last run was interrupted: the model has not answered, or calls have no
/// result.
fn is_unfinished(args: &Args, state: &AgentState) -> bool {
    let messages = state.messages.as_slice();
    let end = args.at.unwrap_or(messages.len()).min(messages.len());
    let last = messages[..end].last();
    last.is_some_and(|last| last.role() != Role::Assistant || last.tool_calls().next().is_some())
}

/// Asks the user who has picked a session for the prompt.
async fn ask() -> Result<String, Error> {
    let terminal = TerminalInteractor::new();
    let prompt = terminal
        .ask(&Asking::default(), "What is to be done?")
        .await?;
    match prompt.trim() {
        "" => Err(no_prompt()),
        prompt => Ok(prompt.to_owned()),
    }
}

impl Task {
    /// The task of a prompt alone.
    pub(crate) fn of(prompt: &str) -> Self {
        Self {
            decisions: None,
            input: Some(prompt.into()),
        }
    }

    /// Runs the task, and returns the exit code.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output cannot be written.
    pub(crate) async fn run(
        self,
        session: Session,
        output: Output,
        detail: Detail,
    ) -> io::Result<u8> {
        let mut signals = Signals::listen()?;
        let mut end = End::default();
        let mut input = self.input;
        if let Some(decisions) = self.decisions {
            end = drive(
                session.clone().resume(decisions),
                Printer::new(output, detail),
                &mut signals,
            )
            .await?;
        }

        if end.code == 0
            && let Some(input) = input.take()
        {
            end = drive(
                session.run(input),
                Printer::new(output, detail),
                &mut signals,
            )
            .await?;
        }

        match end.waiting {
            Some(waiting) => waiting.note_all(input.is_some()),
            None if input.is_some() => note("the prompt was not sent"),
            None => {}
        }

        Ok(end.code)
    }
}

/// The end of a run.
#[derive(Default)]
struct End {
    code: u8,
    waiting: Option<Waiting>,
}

impl From<u8> for End {
    fn from(code: u8) -> Self {
        Self {
            code,
            waiting: None,
        }
    }
}

/// Polls the run to its end. The first signal interrupts it, and its result still comes; the second
/// drops it.
async fn drive(mut run: Run, mut printer: Printer, signals: &mut Signals) -> io::Result<End> {
    let handle = run.handle();
    let mut last = None;
    let mut is_interrupted = false;
    loop {
        let message = tokio::select! {
            message = run.next() => message,
            () = signals.next() => {
                if is_interrupted {
                    return Ok(GIVEN_UP.into());
                }

                is_interrupted = true;
                handle.interrupt();
                continue;
            }
        };

        match message {
            None => break,
            // The calls that wait are known after the run has ended.
            Some(SdkMessage::Result(result)) => last = Some(result),
            Some(message) => printer.print(&message)?,
        }
    }

    let Some(mut result) = last else {
        return Ok(FAILED.into());
    };

    let mut end = End::from(match result.terminal_reason.as_deref() {
        _ if result.is_error => FAILED,
        Some("tool_deferred") => AWAITING,
        _ => 0,
    });

    if end.code == AWAITING
        && let Ok(output) = run.into_output()
    {
        let waiting_calls = Waiting::of_session(&output.session_id, &output.state);
        let extra = &mut result.envelope.extra;
        extra.insert("pending".to_owned(), waiting_calls.to_json());
        end.waiting = Some(waiting_calls);
    }

    printer.print(&SdkMessage::Result(result))?;
    Ok(end)
}
