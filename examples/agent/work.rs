//! Running: what is left to do in a session, and the run that does it.

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

/// What a session and a prompt leave to do: one run, or two when decisions go before an input.
pub(crate) struct Task {
    decisions: Option<Decisions>,
    input: Option<Messages>,
}

pub(crate) enum Next {
    Task(Task),
    /// Nobody has decided about the calls that wait.
    Wait(Waiting),
}

/// What is to be done next in a session.
///
/// # Errors
///
/// When there is nothing to do.
pub(crate) async fn next(
    args: &Args,
    session: &str,
    state: &AgentState,
    prompt: Option<&str>,
) -> Result<Next, Error> {
    let mut decisions = None;
    let waiting = Waiting::among(session, state);
    if args.fork.is_some() && !waiting.calls.is_empty() {
        note("calls that wait go on waiting in the session; a copy is not asked about them");
    }

    // A run without decisions closes the questions.
    if args.fork.is_none() && !args.dismiss {
        decisions = approvals::decide(args, &waiting).await?;
        if decisions.is_none() && !waiting.calls.is_empty() {
            return Ok(Next::Wait(waiting));
        }
    }

    let input = match prompt {
        Some(prompt) => Some(prompt.into()),
        None if decisions.is_some() => None,
        None if is_unfinished(args, state) => Some(Messages::new()),
        None if args.picks() => Some(ask().await?.as_str().into()),
        None => return Err(no_prompt()),
    };

    Ok(Next::Task(Task { decisions, input }))
}

/// Whether the model has something to answer, or calls have no result: the last run was cut off.
fn is_unfinished(args: &Args, state: &AgentState) -> bool {
    let messages = state.messages.as_slice();
    let end = args.at.unwrap_or(messages.len()).min(messages.len());
    let last = messages[..end].last();
    last.is_some_and(|last| last.role() != Role::Assistant || last.tool_calls().next().is_some())
}

/// Asks whoever has picked a session for the prompt.
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
    /// What is to be done for this prompt alone.
    pub(crate) fn of(prompt: &str) -> Self {
        Self {
            decisions: None,
            input: Some(prompt.into()),
        }
    }

    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// When standard output does not take the output.
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
            Some(waiting) => waiting.tell(input.is_some()),
            None if input.is_some() => note("the prompt was not sent"),
            None => {}
        }

        Ok(end.code)
    }
}

/// How a run ended.
#[derive(Default)]
struct End {
    code: u8,
    waiting: Option<Waiting>,
}

impl From<u8> for End {
    fn from(code: u8) -> Self {
        let waiting = None;
        Self { code, waiting }
    }
}

/// Polls the run to its end. The first signal interrupts it, and its result still comes; the second
/// drops it.
async fn drive(mut run: Run, mut printer: Printer, signals: &mut Signals) -> io::Result<End> {
    let handle = run.handle();
    let mut last = None;
    let mut interrupted = false;
    loop {
        let message = tokio::select! {
            message = run.next() => message,
            () = signals.next() => {
                if interrupted {
                    return Ok(GIVEN_UP.into());
                }

                interrupted = true;
                handle.interrupt();
                continue;
            }
        };

        match message {
            None => break,
            // Which calls wait is known when the run has ended.
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
        let waiting = Waiting::among(&output.session_id, &output.state);
        let extra = &mut result.envelope.extra;
        extra.insert("pending".to_owned(), waiting.in_json());
        end.waiting = Some(waiting);
    }

    printer.print(&SdkMessage::Result(result))?;
    Ok(end)
}
