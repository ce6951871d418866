//! A headless agent: one prompt in, one answer out, for scripts and pipelines.
//!
//! ```sh
//! cargo run --features tools,yaml --example agent -- --model scripted "Hello"
//! alias agent="$CARGO_TARGET_DIR/debug/examples/agent"
//! agent --model anthropic:claude-haiku-4-5 --output stream-json "2+2?"
//! git diff | agent --system "Review this diff." --tools none
//! agent --permission-mode acceptEdits --allow 'Bash(cargo test:*)' "Make the tests pass"
//! ```
//!
//! It works in the current directory or in `--cwd`, with tools for files, search and the shell.
//! Reading needs no leave; for what no rule allows it asks at the terminal, and where there is
//! none, the model is told that nobody was there to ask. What `AGENTS.md` and the skills of that
//! directory say, the model is told; its task list is shown as it changes.
//!
//! Addresses come from `ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL` and `OLLAMA_HOST`.
//!
//! Exits with 0 when the run succeeded, 1 when it did not, 2 when it could not be started, and
//! 130 when it was given up with a second Ctrl-C.

mod args;
mod model;
mod output;
mod permissions;
mod script;
mod tools;

use std::io;
use std::pin::pin;
use std::process::ExitCode;

use agentcore::hooks::TracingHook;
use agentcore::trace::MemoryRecorder;
use agentcore::{Agent, AgentBuilder, Error, Run};
use clap::Parser;
use futures::StreamExt;

use args::Args;
use output::{Output, Printer};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// What shells report of a program that SIGINT ended.
const GIVEN_UP: u8 = 130;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let trace = MemoryRecorder::new();
    let started = args
        .prompt()
        .and_then(|prompt| Ok((build(&args, &trace)?, prompt)));
    let (agent, prompt) = match started {
        Ok(started) => started,
        Err(error) => {
            output::note(&error.to_string());
            return WRONG_USAGE.into();
        }
    };
    let driven = drive(agent.run(prompt), Printer::new(args.output)).await;
    if args.trace {
        output::spans(&trace);
    }
    match driven {
        Ok(code) => code.into(),
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("cannot write the output: {error}"));
            FAILED.into()
        }
    }
}

/// The agent that the arguments describe. Further options go here.
fn build(args: &Args, trace: &MemoryRecorder) -> Result<Agent, Error> {
    args.check()?;
    let model = model::choose(args.model.as_deref())?;
    if args.max_budget_usd.is_some() {
        model::check_price(&*model)?;
    }
    let cwd = args.cwd()?;
    let (permissions, mode) = permissions::rules(args, &cwd)?;
    let mut builder = AgentBuilder::new(model)
        .permissions(permissions)
        .permission_mode(mode)
        .cwd(cwd.as_str())
        .max_turns(args.max_turns)
        .include_partial_messages(match args.output {
            Output::Text => true,
            Output::Json => false,
            Output::StreamJson => args.include_partial_messages,
        });
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
    tools::add(builder, args.tools, &cwd)?.build()
}

/// Polls the run to its end. The first Ctrl-C interrupts it, and its result still comes; the
/// second drops it.
async fn drive(mut run: Run, mut printer: Printer) -> io::Result<u8> {
    let handle = run.handle();
    let mut failed = true;
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
            failed = result.is_error;
        }
        printer.print(&message)?;
    }
    Ok(if failed { FAILED } else { 0 })
}
