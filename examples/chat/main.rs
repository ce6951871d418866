//! A coding agent at the terminal. Ctrl-C ends a turn, `/resume` continues the last conversation.
//!
//! ```sh
//! cargo run --features tools,jsonl --example chat -- anthropic:claude-sonnet-5
//! ```
//!
//! Without an argument, `AGENTCORE_MODEL` and the key of a provider, a script answers, and
//! `note TEXT` makes it write a file.

mod script;

use std::io::{self, Write};
use std::sync::Arc;
use std::{env, process};

use agentcore::backend::LocalBackend;
use agentcore::hooks::SummarizationHook;
use agentcore::permission::PermissionRules;
use agentcore::session::JsonlStore;
use agentcore::tools::ask::{InteractorConfirmer, TerminalInteractor, ask_user_question};
use agentcore::tools::preset;
use agentcore::{Agent, AgentBuilder, Run, SdkMessage, SessionStore, Uuid, providers, text};

#[tokio::main(flavor = "current_thread")]
async fn main() -> agentcore::Result<()> {
    let folder = env::home_dir().unwrap_or_else(env::temp_dir);
    let store = JsonlStore::open(folder.join(".local/state/agentcore/chat"))?;
    let cwd = env::current_dir()?.display().to_string();
    let spec = env::args().nth(1).or_else(AgentBuilder::model_from_env);
    let mut agent = agent(spec.as_deref().unwrap_or("scripted"), &store, &cwd)?;
    let mut id: Arc<str> = Uuid::now_v7().to_string().into();
    let mut cost = Some(0.0);
    println!("{cwd}; /resume, /model NAME, /cost, Ctrl-D");
    while let Some(line) = read_line().await? {
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("", _) => {}
            ("/resume", _) => {
                id = store.latest(&cwd).await?.map_or(id, |info| info.id);
                println!("{id}");
            }
            ("/model", name) => match self::agent(name, &store, &cwd) {
                Ok(other) => agent = other,
                Err(error) => println!("{error}"),
            },
            ("/cost", _) => match cost {
                Some(usd) => println!("${usd:.4}"),
                None => println!("unknown"),
            },
            _ => {
                let run_cost = show(agent.session(id.clone()).run(line)).await;
                cost = cost.zip(run_cost).map(|(sum, usd)| sum + usd);
            }
        }
    }
    Ok(())
}

/// Builds the agent, with tools for this directory. It asks at the terminal before it changes
/// anything.
fn agent(spec: &str, store: &JsonlStore, cwd: &str) -> agentcore::Result<Agent> {
    let model = match spec {
        "scripted" => script::model(cwd),
        _ => providers::resolve(spec)?,
    };
    let files = Arc::new(LocalBackend::new(cwd)?);
    let terminal = TerminalInteractor::new();
    Agent::builder(model)
        .system_prompt("You are a coding agent. Work in the current directory, and be brief.")
        .registry(&preset::coding(files.clone()))
        .tool(ask_user_question(terminal.clone()))
        .confirmer(InteractorConfirmer::new(terminal))
        .permissions(PermissionRules::new())
        .hook(SummarizationHook::new())
        .backend(files)
        .store(store.clone())
        .cwd(cwd)
        .include_partial_messages(true)
        .build()
}

/// Prints a turn as it arrives, until it ends or Ctrl-C interrupts it. Returns its cost.
async fn show(mut run: Run) -> Option<f64> {
    let handle = run.handle();
    while let Some(message) = tokio::select! {
        message = run.next() => message,
        _ = tokio::signal::ctrl_c() => { handle.interrupt(); run.next().await }
    } {
        match message {
            SdkMessage::Assistant(response) => {
                println!();
                for call in response.message.message.tool_calls() {
                    let args = call.args.to_string();
                    println!("> {} {}", call.name, text::truncate(&args, 100));
                }
            }
            SdkMessage::User(results) => {
                for result in results.messages.iter().filter_map(|m| m.as_tool_result()) {
                    println!("{}", text::truncate(&result.content.text(), 1_000));
                }
            }
            message => write(message.text_delta().unwrap_or_default()),
        }
    }
    let outcome = run.into_output();
    outcome.inspect_err(|error| println!("{error}")).ok()?.cost
}

/// Reads the next line of standard input. Returns `None` at its end. Ctrl-C ends the program.
async fn read_line() -> io::Result<Option<String>> {
    write("\n> ");
    let line = tokio::task::spawn_blocking(|| io::stdin().lines().next().transpose());
    tokio::select! {
        line = line => line.map_err(io::Error::other)?,
        _ = tokio::signal::ctrl_c() => process::exit(130),
    }
}

fn write(text: &str) {
    print!("{text}");
    let _ = io::stdout().flush();
}
