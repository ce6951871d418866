//! The calls that wait for an approval, and the decisions about them.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use agentcore::agent::Decisions;
use agentcore::backend::LocalBackend;
use agentcore::serde_json::{self, Deserializer, Value, json};
use agentcore::session::PendingCall;
use agentcore::tool::Asking;
use agentcore::tools::ask::{Choice, ChoiceOption, Interactor, TerminalInteractor};
use agentcore::{AgentState, Decision, Error};

use super::args::{Args, usage};
use super::output::{Output, note};
use super::preview::question;

const YES: usize = 0;
const NO: usize = 1;

/// The calls of a session that wait for an approval.
#[derive(Debug)]
pub(crate) struct Waiting {
    session: String,
    pub(crate) calls: Vec<PendingCall>,
}

impl Waiting {
    /// The calls in the state of a session. A copy does not have those of its original.
    pub(crate) fn of_session(session: &str, state: &AgentState) -> Self {
        let own = |call: &&PendingCall| *call.session_id == *session;
        Self {
            session: session.to_owned(),
            calls: state.pending.iter().filter(own).cloned().collect(),
        }
    }

    /// The questions and the decisions to choose from, for programs.
    pub(crate) fn to_json(&self) -> Value {
        let calls = self.calls.iter().map(|call| {
            json!({
                "question": call.question,
                "name": call.call.name,
                "input": call.call.args,
                "allow": Decision::allow(call),
                "deny": Decision::deny(call, "the user denied this call"),
            })
        });
        calls.collect()
    }

    /// Prints the calls for programs. A program that reads a result has them in the result.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output cannot be written.
    pub(crate) fn print(&self, output: Output) -> io::Result<()> {
        match output {
            Output::Text => Ok(()),
            Output::Json | Output::StreamJson => {
                let line = json!({"session_id": self.session, "pending": self.to_json()});
                writeln!(io::stdout().lock(), "{line}")
            }
        }
    }

    /// Notes the calls, and the ways to answer.
    pub(crate) fn note_all(&self, has_prompt: bool) {
        for call in &self.calls {
            note(&format!("waits for an approval: {}", call.question));
            let decision = serde_json::to_string(&Decision::allow(call)).unwrap_or_default();
            note(&format!("    {decision}"));
        }

        let id = &self.session;
        note(&format!(
            "answer at a terminal with --resume {id}, or with such lines in a file: --resume {id} \
             --decisions FILE"
        ));
        if has_prompt {
            note("the prompt was not sent; --dismiss sends it, and what waits is not run");
        }
    }
}

/// The decisions about the calls, from `--decisions` or from the user at the terminal. `None` if
/// there are none.
///
/// # Errors
///
/// Returns an error if the decisions cannot be read.
pub(crate) async fn decide(args: &Args, waiting: &Waiting) -> Result<Option<Decisions>, Error> {
    if let Some(file) = &args.decisions {
        let decisions = read(file).map_err(|error| {
            let name = file.display();
            usage(format!("--decisions {name}: {error}"))
        });

        return decisions.map(Some);
    }

    let terminal = TerminalInteractor::new();
    if waiting.calls.is_empty() || !terminal.is_available() {
        return Ok(None);
    }

    let files = LocalBackend::new(args.cwd()?)?;
    let mut decisions = Vec::new();
    for call in &waiting.calls {
        decisions.extend(ask(&terminal, &files, call).await?);
    }

    Ok(if decisions.is_empty() {
        None
    } else {
        Some(decisions.into())
    })
}

/// Reads decisions: one, several in a row, or a list.
fn read(file: &Path) -> io::Result<Decisions> {
    let json = if file == Path::new("-") {
        io::read_to_string(io::stdin())?
    } else {
        fs::read_to_string(file)?
    };

    let mut decisions = Vec::<Decision>::new();
    for value in Deserializer::from_str(&json).into_iter() {
        match value? {
            Value::Array(list) => {
                for decision in list {
                    decisions.push(serde_json::from_value(decision)?);
                }
            }
            decision => decisions.push(serde_json::from_value(decision)?),
        }
    }

    if decisions.is_empty() {
        Err(io::Error::other("there are no decisions in it"))
    } else {
        Ok(decisions.into())
    }
}

/// Asks for the decision about a call. `None` if the user decides later.
async fn ask(
    terminal: &TerminalInteractor,
    files: &LocalBackend,
    call: &PendingCall,
) -> Result<Option<Decision>, Error> {
    let (name, args) = (&call.call.name, &call.call.args);
    let choice = Choice::new(question(files, name, args, &call.question).await)
        .with_header("waiting")
        .option(ChoiceOption::new("Yes"))
        .option(ChoiceOption::new("No"))
        .option(ChoiceOption::new("Later"))
        .or_text("why not");
    let chosen = terminal.choose(&Asking::default(), &choice).await?;
    choice.check(&chosen)?;
    let denial = |reason: String| {
        Some(Decision::deny(
            call,
            format!("the user denied this call{reason}"),
        ))
    };

    Ok(match (chosen.text, chosen.picked.first()) {
        (Some(reason), _) => denial(format!(": {reason}")),
        (None, Some(&YES)) => Some(Decision::allow(call)),
        (None, Some(&NO)) => denial(String::new()),
        _ => None,
    })
}
