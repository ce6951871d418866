//! Servers in processes of their own, which tests kill. Each is this test binary, configured by
//! variables.

mod kills;
#[cfg(feature = "postgres")]
mod replicas;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
#[path = "../../../examples/server/stop.rs"]
mod stop;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agentcore::server::Server;
use agentcore::session::JsonlStore;
use agentcore::testing::FunctionModel;
use agentcore::{
    AgentBuilder, BoxError, FuncTool, Message, ModelEvent, ModelStream, SessionStore, StopReason,
    ToolCall, ToolContext,
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::agents::{AskAlways, login};
use crate::http::Request;

const FOLDER: &str = "AGENTCORE_SERVER_FOLDER";
/// The variable with the address of a database, in place of files in the folder.
const DATABASE: &str = "AGENTCORE_SERVER_DATABASE";
/// The variable with the prefix of the tables.
const PREFIX: &str = "AGENTCORE_SERVER_PREFIX";
/// The variable that makes the calls of the tool hang.
const HANGS: &str = "AGENTCORE_SERVER_HANGS";
/// The variable that makes each call require an approval.
const ASKS: &str = "AGENTCORE_SERVER_ASKS";

/// Runs the server if this process is one, until it is killed or receives a signal.
#[test]
fn server_of_the_test() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(serve(&PathBuf::from(folder)));
}

async fn serve(folder: &Path) {
    let server = Server::new()
        .agent("default", agent(folder))
        .store(store(folder))
        .users(login)
        .port(0);
    let listening = server.listen().await.unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{}", listening.address()).unwrap();
    out.flush().unwrap();
    drop(out);
    #[cfg(unix)]
    listening.serve(stop::requested()).await.unwrap();
    #[cfg(not(unix))]
    listening.serve(std::future::pending()).await.unwrap();
}

fn store(folder: &Path) -> Arc<dyn SessionStore> {
    #[cfg(feature = "postgres")]
    if let (Ok(url), Ok(prefix)) = (std::env::var(DATABASE), std::env::var(PREFIX)) {
        return Arc::new(replicas::store_at(&url, &prefix));
    }
    Arc::new(files(folder))
}

fn files(folder: &Path) -> JsonlStore {
    JsonlStore::open(folder.join("sessions")).unwrap()
}

/// An agent that calls `act` once for each input, and answers when it has the result.
fn agent(folder: &Path) -> AgentBuilder {
    let model = FunctionModel::stream(|request| async move {
        let input = request.messages.iter().rev();
        let input = input.clone().find_map(|message| match message {
            Message::User(message) => Some(message.content.text().into_owned()),
            _ => None,
        });
        let events = answer(request.messages.last(), &input.unwrap_or_default());
        // The pauses allow a kill between two events.
        let events = stream::iter(events).then(|event| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(event)
        });
        Ok::<ModelStream, _>(events.boxed())
    });
    let builder = AgentBuilder::new(model).tool(act(folder.join("effects")));
    match std::env::var_os(ASKS) {
        Some(_) => builder.permissions(AskAlways),
        None => builder,
    }
}

fn answer(last: Option<&Message>, input: &str) -> Vec<ModelEvent> {
    let words = |text: &str| -> Vec<ModelEvent> {
        let words = text.split_inclusive(' ');
        words
            .map(|word| ModelEvent::Text(word.to_owned()))
            .collect()
    };
    if let Some(Message::Tool(result)) = last {
        let text = result.content.text();
        let mut events = words(&format!("Done for {input}: {text} End of {input}."));
        events.push(ModelEvent::stop(StopReason::EndTurn));
        return events;
    }
    let mut events = words(&format!("One call is needed for {input}."));
    let id = format!("call_{input}");
    events.push(ModelEvent::ToolCall(ToolCall::new(id, "act", json!({}))));
    events.push(ModelEvent::stop(StopReason::ToolUse));
    events
}

/// A tool that appends its call id to a file, so that a call that runs twice is visible.
fn act(effects: PathBuf) -> FuncTool {
    let schema = json!({"type": "object"});
    FuncTool::new(
        "act",
        "Leaves a line",
        schema,
        move |cx: ToolContext, _args| {
            let effects = effects.clone();
            async move {
                let id = cx.call_id();
                let mut file = OpenOptions::new().append(true).create(true).open(effects)?;
                file.write_all(format!("{id}\n").as_bytes())?;
                if std::env::var_os(HANGS).is_some() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok::<_, BoxError>(format!("acted for {id}."))
            }
        },
    )
}

/// Returns the number of times that the call `id` has run.
fn effects(folder: &Path, id: &str) -> usize {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().filter(|line| *line == id).count()
}

/// A server in a process of its own.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
    /// Stays open, because the test harness writes its result to it.
    _output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server, and waits until it listens.
    fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::server_of_the_test"])
            .args(["--nocapture", "--test-threads=1"])
            .env(FOLDER, folder)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // The test harness may have printed text before the address.
        let mut addresses = output.by_ref().lines().filter_map(|line| {
            let line = line.unwrap();
            Some(line.split_once('@')?.1.parse().unwrap())
        });
        let address = addresses.next().expect("the server did not start");
        Self {
            child,
            address,
            _output: output,
        }
    }

    /// Kills the process, as the system does when it runs out of memory.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn get(&self, user: &str, path: &str) -> Request {
        Request::to(self.address, "GET", path).of_user(user)
    }

    fn post(&self, user: &str, path: &str, body: Value) -> Request {
        let request = Request::to(self.address, "POST", path).json(body);
        request.of_user(user)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The kill fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the body of a run whose input has its own text as its id.
fn input(thread: &str, text: &str) -> Value {
    let mut body = crate::agents::input_in(thread, text);
    body["input_id"] = text.into();
    body
}
