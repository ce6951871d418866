//! Approvals by a later process: one process asks and exits, another approves and finishes.
//!
//! ```sh
//! alias approval="cargo run -q --example approval --features jsonl --"
//! approval ask                       # prints the calls that wait, as JSON
//! approval show                      # once more, from another process
//! approval approve ID                # runs this call, once, with the arguments it waits with
//! approval deny ID "not on a Friday" # the model reads the reason
//! approval answer decisions.json     # a decision, or a list of them; - is standard input
//! ```
//!
//! A decision is `{"decision": "allow", "id": "..", "args_hash": ".."}`, with both values as they
//! were shown, or `{"decision": "deny", "id": "..", "message": ".."}`. If a decision is about other
//! arguments or about a call that does not wait, or if a call has two decisions, all decisions are
//! refused and nothing runs.
//!
//! The session and the list of payments are in `--folder`, by default in a temporary folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentcore::agent::Decisions;
use agentcore::permission::PermissionRules;
use agentcore::session::{JsonlStore, PendingCall};
use agentcore::testing::FunctionModel;
use agentcore::{
    Agent, BoxError, Decision, ExitReason, FuncTool, ModelEvent, ModelRequest, OnUnanswered, Run,
    Session, ToolCall,
};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

const SESSION: &str = "payments";

#[derive(Parser)]
struct Args {
    /// The folder of the session and the ledger
    #[arg(long, value_name = "DIR", global = true)]
    folder: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a run, which ends when its calls need an approval
    Ask,
    /// Prints the calls that wait
    Show,
    /// Lets a call run
    Approve { id: String },
    /// Refuses a call
    Deny {
        id: String,
        #[arg(default_value = "")]
        reason: String,
    },
    /// Makes the decisions of a file
    Answer { file: PathBuf },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match work(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "approval: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn work(args: Args) -> Result<(), BoxError> {
    let temporary = || std::env::temp_dir().join("agentcore-approval");
    let session = session(&args.folder.unwrap_or_else(temporary))?;
    let next = session.clone();
    match args.command {
        Command::Ask => finish(&session, next.run("Pay Ada 50 and Bob 70.")).await,
        Command::Show => show(&session).await,
        Command::Approve { id } => {
            let decision = Decision::allow(&find(&session, &id).await?);
            finish(&session, next.resume(decision)).await
        }
        Command::Deny { id, reason } => {
            let decision = Decision::deny(&find(&session, &id).await?, reason);
            finish(&session, next.resume(decision)).await
        }
        Command::Answer { file } => finish(&session, next.resume(read(&file)?)).await,
    }
}

/// Returns the session. Its agent asks before it pays, and its run ends while a call waits for the
/// answer.
fn session(folder: &Path) -> Result<Session, BoxError> {
    let store = JsonlStore::open(folder.join("sessions"))?;
    let agent = Agent::builder(FunctionModel::new(|request| respond(&request)))
        .tool(pay(folder.join("ledger.txt")))
        .permissions(PermissionRules::new().ask("pay")?)
        .unanswered(OnUnanswered::Park)
        .store(store)
        .build()?;
    Ok(agent.session(SESSION))
}

/// Returns the tool, which appends each payment to the ledger.
fn pay(ledger: PathBuf) -> FuncTool {
    let parameters = json!({
        "type": "object",
        "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["to", "amount"]
    });

    FuncTool::new("pay", "Makes a payment", parameters, move |_cx, args| {
        let ledger = ledger.clone();
        async move {
            let line = format!("{} to {}", args["amount"], args["to"]);

            // A closed standard output must not stop the payment.
            let _ = writeln!(io::stdout(), "paying {line}");
            let mut ledger = OpenOptions::new().append(true).create(true).open(ledger)?;
            writeln!(ledger, "{line}")?;
            Ok(format!("paid {line}"))
        }
    })
}

/// Responds as the model: calls the payments, then reports their results.
fn respond(request: &ModelRequest) -> Vec<agentcore::Result<ModelEvent>> {
    let results: Vec<String> = request
        .messages
        .iter()
        .rev()
        .map_while(|message| message.as_tool_result())
        .map(|result| result.content.text().into_owned())
        .collect();
    if !results.is_empty() {
        let texts: Vec<&str> = results.iter().rev().map(String::as_str).collect();
        return vec![Ok(ModelEvent::Text(format!("Done: {}.", texts.join("; "))))];
    }

    let count = request.messages.len();
    let call = |number: usize, args: Value| {
        let id = format!("call_{count}_{number}");
        Ok(ModelEvent::ToolCall(ToolCall::new(id, "pay", args)))
    };

    vec![
        call(1, json!({"to": "Ada", "amount": 50})),
        call(2, json!({"to": "Bob", "amount": 70})),
    ]
}

/// Drives a run to its end, and prints the calls that need a decision.
async fn finish(session: &Session, run: Run) -> Result<(), BoxError> {
    let output = run.await?;
    match output.end {
        ExitReason::AwaitingApproval => show(session).await,
        _ => {
            writeln!(io::stdout(), "{}", output.text)?;
            Ok(())
        }
    }
}

/// Prints the calls that wait, in a form that can be sent anywhere.
async fn show(session: &Session) -> Result<(), BoxError> {
    let pending = session.pending().await?;
    writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&pending)?)?;
    Ok(())
}

/// Returns the waiting call with this id.
async fn find(session: &Session, id: &str) -> Result<PendingCall, BoxError> {
    let mut pending = session.pending().await?.into_iter();
    let call = pending.find(|call| *call.id == *id);
    Ok(call.ok_or_else(|| format!("no call {id:?} waits for an approval"))?)
}

/// Reads the decisions in a file, or on standard input if the file is `-`.
fn read(file: &Path) -> Result<Decisions, BoxError> {
    let json = if file == Path::new("-") {
        io::read_to_string(io::stdin())?
    } else {
        fs::read_to_string(file)?
    };
    // A single decision needs no list around it.
    let list = match serde_json::from_str(&json)? {
        Value::Array(list) => list,
        decision => vec![decision],
    };
    Ok(serde_json::from_value(list.into())?)
}
