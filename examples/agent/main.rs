//! A headless agent: one prompt in, one response out, for scripts and pipelines.
//!
//! ```sh
//! cargo run --features tools,yaml,jsonl --example agent -- --model scripted "Hello"
//! alias agent="${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/agent"
//! agent --model anthropic:claude-haiku-5-5 --output stream-json "2+2?"
//! git diff | agent --system "Review this diff." --tools none
//! agent --permission-mode acceptEdits --allow 'Bash(cargo test:*)' "Make the tests pass"
//! agent --session refactoring "Split the parser" && agent --continue "Now its tests"
//! ```
//!
//! It works in the current directory or in `--cwd`, with tools for files, search and the shell.
//! Reading needs no permission. It asks at the terminal about calls that no rule allows, and shows
//! the change that a call would make to a file. Without a terminal, these calls are denied. Its
//! task list is shown as it changes.
//!
//! With `--sandbox` (feature `sandbox`, Linux), the kernel confines commands to that directory and
//! to the system's programs, without the network, and the agent lists the rules of `--deny` that
//! the kernel enforces.
//!
//! The model gets `AGENTS.md` and the skills of that directory with `--trust-project`, or when the
//! user agrees at the terminal, which is remembered for the directory in
//! `$XDG_STATE_HOME/agentcore/trusted`.
//!
//! With `--session`, `--resume`, `--continue` or `--store` the conversation is kept, in
//! `$XDG_STATE_HOME/agentcore/sessions` (`~/.local/state/..`) unless `--store` names another place.
//! The file tools can neither read nor write that place. With `--park`, calls that no user can
//! allow wait; continuing the session asks about them, at the terminal or with `--decisions`, and
//! `--dismiss` continues without them. With `--checkpoints`, `--rewind` restores the files to what
//! they were before a message; `--fork NEW --at` the same message copies the conversation up to it.
//!
//! | exit code | |
//! |---|---|
//! | 0 | the run succeeded, the requested list or rewind was completed, or the output was closed |
//! | 1 | the run failed, files could not be rewound, or the store's server did not answer |
//! | 2 | the requested run, list or rewind cannot be started; nothing was run |
//! | 3 | calls wait for an approval |
//! | 130 | it was given up with a second Ctrl-C, SIGTERM or SIGHUP; the first ends the run with its result |
//!
//! | variable | |
//! |---|---|
//! | `AGENTCORE_MODEL` | the model, unless `--model` names one |
//! | `ANTHROPIC_API_KEY` | the key for anthropic: models |
//! | `OPENAI_API_KEY` | the key for openai: models |
//! | `GEMINI_API_KEY` | the key for gemini: models |
//! | `GOOGLE_API_KEY` | the key for gemini: models, if `GEMINI_API_KEY` is not set |
//! | `ANTHROPIC_BASE_URL` | another address for anthropic: models |
//! | `OPENAI_BASE_URL` | another address for openai: models; at such a one the key may be missing |
//! | `GEMINI_BASE_URL` | another address for gemini: models, with the version of the API |
//! | `OLLAMA_HOST` | the address for ollama: models |
//! | `XDG_STATE_HOME` | sessions are in agentcore/sessions there, unless `--store` names a place |
//! | `HOME` | or else in .local/state/agentcore/sessions there |

mod address;
mod agents;
mod approvals;
mod args;
mod checkpoints;
mod confinement;
mod model;
mod output;
mod permissions;
mod preview;
mod script;
mod sessions;
mod shown;
mod signals;
mod store;
mod tools;
mod trust;
mod work;

use std::io;
use std::process::ExitCode;

use agentcore::hooks::TracingHook;
use agentcore::session::SessionInfo;
use agentcore::trace::MemoryRecorder;
use agentcore::{Agent, AgentBuilder, Error, ErrorKind, Messages, OnUnanswered, Session};
use clap::Parser;

use approvals::Waiting;
use args::{Args, no_prompt};
use output::{Detail, Output};
use store::Place;
use work::{Next, Task};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const AWAITING: u8 = 3;
/// The exit code that shells report for a program that SIGINT ended.
const GIVEN_UP: u8 = 130;

/// The job that the arguments describe.
enum Job {
    Sessions(Vec<SessionInfo>),
    Messages(Messages),
    Rewound(checkpoints::Report),
    /// Prints the calls that wait, because there is no decision about them.
    Wait {
        waiting: Waiting,
        has_prompt: bool,
    },
    Run(Session, Task),
}

impl Job {
    /// Runs the job, and returns the exit code.
    async fn run(self, output: Output, detail: Detail) -> io::Result<u8> {
        match self {
            Self::Sessions(list) => sessions::print(&list, output).map(|()| 0),
            Self::Messages(messages) => sessions::print_messages(&messages, output).map(|()| 0),
            Self::Rewound(report) => report.print(output),
            Self::Wait {
                waiting,
                has_prompt,
            } => {
                waiting.note_all(has_prompt);
                waiting.print(output).map(|()| AWAITING)
            }
            Self::Run(session, task) => task.run(session, output, detail).await,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let trace = MemoryRecorder::new();
    let outcome = match prepare(&args, &trace).await {
        Ok(job) => job.run(args.output, args.detail()).await,
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

    match outcome {
        Ok(code) => code.into(),
        // The reader of the output has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("cannot write the output: {error}"));
            FAILED.into()
        }
    }
}

/// Checks the arguments, and prepares the job without running it.
async fn prepare(args: &Args, trace: &MemoryRecorder) -> Result<Job, Error> {
    args.check()?;
    let place = if args.has_store() || args.list_sessions {
        Some(Place::of(args.store.as_deref())?)
    } else {
        None
    };

    if let Some(place) = &place
        && let Some(job) = job_without_agent(args, place).await?
    {
        return Ok(job);
    }

    let cwd = args.cwd()?;
    let prompt = args.prompt()?;
    if prompt.is_none() && !args.names_session() {
        return Err(no_prompt());
    }

    let builder = build(args, place.as_ref(), &cwd, trace).await?;
    match place {
        Some(place) => continue_session(args, &place, &cwd, prompt.as_deref(), builder).await,
        None => {
            let is_trusted = trust::is_trusted(args, &cwd).await?;
            let agent = tools::add(builder, args, &cwd, None, is_trusted)?.build()?;
            let prompt = prompt.unwrap_or_default();
            Ok(Job::Run(agent.new_session(), Task::of(&prompt)))
        }
    }
}

/// The job that needs no agent, if the arguments describe one.
async fn job_without_agent(args: &Args, place: &Place) -> Result<Option<Job>, Error> {
    if args.list_sessions {
        let mut list = place.open_existing().await?.list().await?;
        list.retain(|info| info.parent.is_none());
        return Ok(Some(Job::Sessions(list)));
    }

    if args.list_messages {
        let store = place.open_existing().await?;
        let id = sessions::choose(args, &store, &args.cwd()?).await?;
        let state = sessions::load(&store, &id).await?;
        return Ok(Some(Job::Messages(state.messages)));
    }

    let Some(to) = args.rewind else {
        return Ok(None);
    };

    let store = place.open_existing().await?;
    let report = checkpoints::rewind(args, place, &store, to).await?;
    Ok(Some(Job::Rewound(report)))
}

/// The next run of a stored session, or the calls that wait if there is no decision about them.
async fn continue_session(
    args: &Args,
    place: &Place,
    cwd: &str,
    prompt: Option<&str>,
    builder: AgentBuilder,
) -> Result<Job, Error> {
    if args.checkpoints {
        checkpoints::check_place(place, cwd)?;
    }

    let store = if args.needs_session() || prompt.is_none() {
        place.open_existing().await?
    } else {
        place.open().await?
    };

    let id = sessions::choose(args, &store, cwd).await?;
    let state = sessions::load(&store, &id).await?;
    if args.checkpoints {
        checkpoints::check_cwd(&state, cwd)?;
    }

    let task = match work::next(args, &id, &state, prompt).await? {
        Next::Task(task) => task,
        Next::Wait(waiting) => {
            let has_prompt = prompt.is_some();
            return Ok(Job::Wait {
                waiting,
                has_prompt,
            });
        }
    };

    let files = if args.checkpoints {
        Some(checkpoints::open(args, place, cwd)?)
    } else {
        None
    };

    let is_trusted = trust::is_trusted(args, cwd).await?;
    let builder = builder.store(store);
    let builder = tools::add(builder, args, cwd, files.as_ref(), is_trusted)?;
    let mut session = builder.build()?.session(id);
    sessions::introduce(args, session.id(), &state, cwd);
    if let Some(new) = &args.fork {
        session = checkpoints::fork(args, place, &session, new).await?;
    }

    Ok(Job::Run(session, task))
}

/// The builder of the agent that the arguments describe, without its tools.
async fn build(
    args: &Args,
    place: Option<&Place>,
    cwd: &str,
    trace: &MemoryRecorder,
) -> Result<AgentBuilder, Error> {
    let model = model::choose(args.model.as_deref(), args.context_window).await?;
    if args.max_budget_usd.is_some() {
        model::check_price(&*model)?;
    }

    let (mut permissions, mode) = permissions::rules(args, cwd)?;
    if let Some(place) = place {
        permissions = place.guard(permissions, cwd)?;
    }

    if let Some(file) = trust::file() {
        permissions = permissions.protect(file.display().to_string());
    }

    confinement::report(args, cwd, &permissions)?;

    let mut builder = Agent::builder(model)
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
        builder = builder.unanswered(OnUnanswered::Park);
    }

    if args.trace {
        builder = builder
            .hook(TracingHook::new().with_run_span(true))
            .trace_recorder(trace.clone());
    }

    if let Some(system) = &args.system {
        builder = builder.system_prompt(system.as_str());
    }

    if let Some(tokens) = args.max_tokens {
        builder = builder.max_output_tokens(tokens);
    }

    if let Some(usd) = args.max_budget_usd {
        builder = builder.max_budget_usd(usd);
    }

    if let Some(folder) = &args.agents {
        builder = builder.tools(agents::tools(folder).await?);
    }

    Ok(builder)
}
