//! Calls that wait for an approval: who decides, and how.

use std::fs;
use std::io;
use std::path::Path;

use agentcore::agent::Decisions;
use agentcore::state::PendingCall;
use agentcore::tools::ask::{Choice, ChoiceOption, Interactor, TerminalInteractor};
use agentcore::{Decision, Error, Session, serde_json};

use super::args::{Args, usage};
use super::output::note;

const YES: usize = 0;
const NO: usize = 1;

/// The calls of a session that wait and that it may answer: those in a copy belong to its original.
///
/// # Errors
///
/// When the session cannot be read.
pub(crate) async fn waiting(session: &Session) -> Result<Vec<PendingCall>, Error> {
    let state = session.state().await?;
    let mut pending = state.map(|state| state.pending).unwrap_or_default();
    pending.retain(|call| call.session_id == *session.id());
    Ok(pending)
}

/// The decisions about them, from `--decisions` or from the user at the terminal. `None` when nothing
/// was decided.
///
/// # Errors
///
/// When the decisions cannot be read.
pub(crate) async fn decide(
    args: &Args,
    pending: &[PendingCall],
) -> Result<Option<Decisions>, Error> {
    if let Some(file) = &args.decisions {
        let read = read(file).map_err(|error| {
            let name = file.display();
            usage(format!("--decisions {name}: {error}"))
        });
        return read.map(Some);
    }
    let terminal = TerminalInteractor::new();
    if pending.is_empty() || !terminal.is_available() {
        return Ok(None);
    }
    let mut decisions = Vec::new();
    for call in pending {
        decisions.extend(ask(&terminal, call).await?);
    }
    Ok(match decisions.is_empty() {
        true => None,
        false => Some(decisions.into()),
    })
}

fn read(file: &Path) -> io::Result<Decisions> {
    let json = match file == Path::new("-") {
        true => io::read_to_string(io::stdin())?,
        false => fs::read_to_string(file)?,
    };
    Ok(serde_json::from_str(&json)?)
}

async fn ask(terminal: &TerminalInteractor, call: &PendingCall) -> Result<Option<Decision>, Error> {
    let choice = Choice::new(call.question.as_str())
        .with_header("waiting")
        .option(ChoiceOption::new("Yes"))
        .option(ChoiceOption::new("No"))
        .option(ChoiceOption::new("Later"))
        .or_text("why not");
    let chosen = terminal.choose(&choice).await?;
    choice.check(&chosen)?;
    let denied = |why: String| {
        Some(Decision::deny(
            call,
            format!("the user denied this call{why}"),
        ))
    };
    Ok(match (chosen.text, chosen.picked.first()) {
        (Some(why), _) => denied(format!(": {why}")),
        (None, Some(&YES)) => Some(Decision::allow(call)),
        (None, Some(&NO)) => denied(String::new()),
        _ => None,
    })
}

/// Says which calls wait, and how to answer.
pub(crate) fn tell(session: &Session, pending: &[PendingCall]) {
    for call in pending {
        note(&format!("waits for an approval: {}", call.question));
        let decision = serde_json::to_string(&Decision::allow(call)).unwrap_or_default();
        note(&format!("    {decision}"));
    }
    note(&format!(
        "answer at a terminal with --resume {}, or with such lines in a list: --decisions FILE",
        session.id()
    ));
}
