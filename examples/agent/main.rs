//! A headless agent: one prompt in, one answer out, for scripts and pipelines.
//!
//! ```sh
//! cargo run --features tools,yaml,jsonl --example agent -- --model scripted "Hello"
//! alias agent="$CARGO_TARGET_DIR/debug/examples/agent"
//! agent --model anthropic:claude-haiku-4-5 --output stream-json "2+2?"
//! git diff | agent --system "Review this diff." --tools none
//! agent --permission-mode acceptEdits --allow 'Bash(cargo test:*)' "Make the tests pass"
//! agent --session refactoring "Split the parser" && agent --continue "Now its tests"
//! ```
//!
//! It works in the current directory or in `--cwd`, with tools for files, search and the shell.
//! Reading needs no permission. For what no rule allows, it asks at the terminal; without one, the
//! model is told that nobody could be asked. The model gets `AGENTS.md` and the skills of that
//! directory; its task list is shown as it changes.
//!
//! With `--session`, `--resume`, `--continue` or `--store` the conversation is kept, in
//! `$XDG_STATE_HOME/agentcore/sessions` (`~/.local/state/..`) unless `--store` names another place.
//! The agent can neither read nor write that place. With `--park`, calls that nobody is there to allow
//! wait; continuing the session asks about them, at the terminal or with `--decisions`. With
//! `--checkpoints`, `--rewind` restores the files to what they were before a message.
//!
//! Addresses come from `ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL` and `OLLAMA_HOST`.
//!
//! Exits with 0 when the run succeeded, 1 when it did not or the store's server did not answer, 2 when
//! what was asked for cannot be started, 3 when calls wait for an approval, and 130 when it was given
//! up with a second Ctrl-C.

mod approvals;
mod args;
mod checkpoints;
mod model;
mod output;
mod permissions;
mod script;
mod sessions;
mod store;
mod tools;

use std::io;
use std::pin::pin;
use std::process::ExitCode;

use agentcore::agent::Decisions;
use agentcore::hooks::{FileCheckpoints, TracingHook};
use agentcore::state::SessionInfo;
use agentcore::trace::MemoryRecorder;
use agentcore::{AgentBuilder, Error, ErrorKind, Messages, Role, Run, Session, Unanswered};
use clap::Parser;
use futures::StreamExt;

use args::{Args, no_prompt};
use checkpoints::Report;
use output::{Output, Printer};
use store::Place;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const AWAITING: u8 = 3;
/// What shells report of a program that SIGINT ended.
const GIVEN_UP: u8 = 130;

/// What is to be done.
enum Job {
    List(Vec<SessionInfo>),
    Report(Report),
    Work(Box<Work>),
}

/// One run, or two when decisions go before an input.
struct Work {
    session: Session,
    decisions: Option<Decisions>,
    input: Option<Messages>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let trace = MemoryRecorder::new();
    let done = match prepare(&args, &trace).await {
        Ok(Some(Job::List(list))) => sessions::print(&list, args.output).map(|()| 0),
        Ok(Some(Job::Report(report))) => report.print(args.output),
        Ok(Some(Job::Work(work))) => work.run(&args).await,
        Ok(None) => Ok(AWAITING),
        Err(error) => {
            output::note(&error.to_string());
            return match error.kind() {
                ErrorKind::Connect | ErrorKind::Dns | ErrorKind::Tls | ErrorKind::Timeout => FAILED,
                _ => WRONG_USAGE,
            }
            .into();
        }
    };
    if args.trace {
        output::spans(&trace);
    }
    match done {
        Ok(code) => code.into(),
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("cannot write the output: {error}"));
            FAILED.into()
        }
    }
}

/// Everything that can be wrong before anything runs; `None` when calls wait and nobody decides.
async fn prepare(args: &Args, trace: &MemoryRecorder) -> Result<Option<Job>, Error> {
    args.check()?;
    let place = match args.has_store() || args.list_sessions {
        true => Some(Place::of(args.store.as_deref())?),
        false => None,
    };
    let store = match &place {
        Some(place) => Some(place.open().await?),
        None => None,
    };
    if args.list_sessions {
        let list = match &store {
            Some(store) => store.list().await?,
            None => Vec::new(),
        };
        return Ok(Some(Job::List(list)));
    }
    let cwd = args.cwd()?;
    let files = match &place {
        Some(place) => checkpoints::open(args, place, &cwd)?,
        None => None,
    };
    if let (Some(store), Some(files), Some(to)) = (&store, &files, args.rewind) {
        let id = sessions::choose(args, store, &cwd).await?;
        let report = checkpoints::rewind(args, store, files, &id, to).await?;
        return Ok(Some(Job::Report(report)));
    }
    let prompt = args.prompt()?;
    if prompt.is_none() && !args.names_session() {
        return Err(no_prompt());
    }
    let mut builder = build(args, place.as_ref(), &cwd, trace)?;
    let mut id = String::new();
    if let Some(store) = store {
        id = sessions::choose(args, &store, &cwd).await?;
        builder = builder.store(store);
    }
    let builder = tools::add(builder, args.tools, &cwd, files.as_ref())?;
    let mut session = builder.build()?.session(id);
    if let Some(new) = &args.fork {
        session = fork(&session, new, files.as_ref()).await?;
    }
    sessions::introduce(args, &session, &cwd).await?;
    work(args, session, prompt).await
}

/// A copy of the session, with its checkpoints.
async fn fork(
    session: &Session,
    new: &str,
    files: Option<&FileCheckpoints>,
) -> Result<Session, Error> {
    let fork = session.fork(new).await?;
    if let Some(files) = files {
        files.fork(session.id(), new).await?;
    }
    Ok(fork)
}

/// The work that the session and the prompt leave to do; `None` when calls wait and nobody decides.
async fn work(args: &Args, session: Session, prompt: Option<String>) -> Result<Option<Job>, Error> {
    let waiting = approvals::waiting(&session).await?;
    let decisions = approvals::decide(args, &waiting).await?;
    if decisions.is_none() && !waiting.is_empty() {
        approvals::tell(&session, &waiting);
        return Ok(None);
    }
    let input = match prompt {
        Some(prompt) => Some(prompt.as_str().into()),
        None if decisions.is_some() => None,
        None if is_unfinished(&session).await? => Some(Messages::new()),
        None => return Err(no_prompt()),
    };
    Ok(Some(Job::Work(Box::new(Work {
        session,
        decisions,
        input,
    }))))
}

/// Whether the model has something to answer: its last run was cut off.
async fn is_unfinished(session: &Session) -> Result<bool, Error> {
    let state = session.state().await?;
    let last = state.and_then(|state| state.messages.last().map(|message| message.role()));
    Ok(last.is_some_and(|role| role != Role::Assistant))
}

impl Work {
    /// # Errors
    ///
    /// When standard output does not take the output.
    async fn run(self, args: &Args) -> io::Result<u8> {
        let Self {
            session,
            decisions,
            input,
        } = self;
        let mut code = 0;
        if let Some(decisions) = decisions {
            let run = session.clone().resume(decisions);
            code = drive(run, Printer::new(args.output)).await?;
        }
        if let Some(input) = input.filter(|_| code == 0) {
            code = drive(session.clone().run(input), Printer::new(args.output)).await?;
        }
        if code == AWAITING {
            match approvals::waiting(&session).await {
                Ok(waiting) => approvals::tell(&session, &waiting),
                Err(error) => output::note(&error.to_string()),
            }
        }
        Ok(code)
    }
}

/// The agent that the arguments describe, but for its tools. Further options go here.
fn build(
    args: &Args,
    place: Option<&Place>,
    cwd: &str,
    trace: &MemoryRecorder,
) -> Result<AgentBuilder, Error> {
    let model = model::choose(args.model.as_deref())?;
    if args.max_budget_usd.is_some() {
        model::check_price(&*model)?;
    }
    let (mut permissions, mode) = permissions::rules(args, cwd)?;
    if let Some(place) = place {
        permissions = place.guard(permissions, cwd)?;
    }
    let mut builder = AgentBuilder::new(model)
        .permissions(permissions)
        .permission_mode(mode)
        .cwd(cwd)
        .max_turns(args.max_turns)
        .include_partial_messages(match args.output {
            Output::Text => true,
            Output::Json => false,
            Output::StreamJson => args.include_partial_messages,
        });
    if args.park {
        builder = builder.unanswered(Unanswered::Park);
    }
    if args.trace {
        builder = builder
            .hook(TracingHook::new().with_run_span(true))
            .trace_recorder(trace.clone());
    }
    if let Some(system) = &args.system {
        builder = builder.system_prompt(system.as_str());
    }
    if let Some(usd) = args.max_budget_usd {
        builder = builder.max_budget_usd(usd);
    }
    Ok(builder)
}

/// Polls the run to its end. The first Ctrl-C interrupts it, and its result still comes; the
/// second drops it.
async fn drive(mut run: Run, mut printer: Printer) -> io::Result<u8> {
    let handle = run.handle();
    let mut code = FAILED;
    let mut interrupted = false;
    // Kept over the loop's rounds, so that no signal falls between two of them.
    let mut signal = pin!(tokio::signal::ctrl_c());
    loop {
        let message = tokio::select! {
            message = run.next() => message,
            received = &mut signal => {
                received?;
                if interrupted {
                    return Ok(GIVEN_UP);
                }
                interrupted = true;
                signal.set(tokio::signal::ctrl_c());
                handle.interrupt();
                continue;
            }
        };
        let Some(message) = message else { break };
        if let Some(result) = message.as_result() {
            code = match result.terminal_reason.as_deref() {
                _ if result.is_error => FAILED,
                Some("tool_deferred") => AWAITING,
                _ => 0,
            };
        }
        printer.print(&message)?;
    }
    Ok(code)
}
