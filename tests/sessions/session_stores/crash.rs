//! Processes that are killed at random times: acknowledged writes are stored, and no call runs
//! twice.
//!
//! The child is this test itself; a variable sets its folder. It prints the messages that a reader
//! of its runs receives.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::{
    AgentBuilder, ErrorKind, FuncTool, Message, ModelEvent, Role, SdkMessage, ToolCall,
};
use serde_json::json;

use super::places::Place;
use crate::kit::{any_object, results};

pub const FOLDER: &str = "AGENTCORE_CRASH_FOLDER";
/// The variable with the number of processes that are killed per store, for longer tests by hand.
const ROUNDS: &str = "AGENTCORE_CRASH_ROUNDS";
/// The number of kills after which new sessions begin, to limit their length.
const ROUNDS_A_SESSION: usize = 10;
/// The sessions of a process, which run concurrently.
const SESSIONS: [&str; 3] = ["s", "t", "u"];

/// Prints a line with a mark that the test harness does not print.
pub fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{what}").unwrap();
    out.flush().unwrap();
}

pub fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

pub fn child(test: &str, folder: &Path) -> Child {
    child_with(test, [(FOLDER, folder.as_os_str())])
}

pub fn child_with<'a>(
    test: &str,
    variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A model that calls `act` twice for each input, then answers. Its request shows that the input is
/// stored.
fn model(run: String) -> StrictModel<FunctionModel> {
    StrictModel::new(FunctionModel::new(move |request| {
        let last = request.messages.last().unwrap();
        if last.role() == Role::Tool {
            return vec![Ok(ModelEvent::Text(format!("answer to {run}")))];
        }

        say(&format!("text {}", last.text()));
        let call = |number: u8| {
            let id = format!("{run} call {number}").replace(' ', "_");
            Ok(ModelEvent::ToolCall(ToolCall::new(id, "act", json!({}))))
        };

        vec![call(1), call(2)]
    }))
}

/// A tool that appends its call id to a file, so that a call that runs twice is visible.
fn act(effects: PathBuf) -> FuncTool {
    FuncTool::new("act", "Leaves a line", any_object(), move |cx, _args| {
        let effects = effects.clone();
        let id = std::sync::Arc::<str>::from(cx.call_id());
        async move {
            let mut file = OpenOptions::new().append(true).create(true).open(effects)?;
            file.write_all(format!("{id}\n").as_bytes())?;
            tokio::task::yield_now().await;
            Ok::<_, agentcore::BoxError>(format!("did {id}"))
        }
    })
}

async fn work<P: Place>(folder: &Path) {
    let store = P::open(folder);
    let sessions = SESSIONS.map(|id| work_in(id, folder, &store));
    futures::future::join_all(sessions).await;
}

async fn work_in<P: Place>(id: &str, folder: &Path, store: &P) {
    for number in 0..50 {
        let run = format!("{} {id} {number}", std::process::id());
        let agent = AgentBuilder::new(model(run.clone()))
            .tool(act(folder.join("effects")))
            .store(store.clone())
            .build()
            .unwrap();
        let session = agent.session(id).input_id(run.clone());
        let mut run = session.run(format!("input {run}"));
        while let Some(message) = run.next().await {
            match message {
                SdkMessage::Assistant(_) => {
                    if let Some(text) = message.text().filter(|text| !text.is_empty()) {
                        say(&format!("text {text}"));
                    }
                }
                SdkMessage::User(event) => {
                    for message in &event.messages {
                        if let Message::Tool(result) = &**message {
                            say(&format!("text {}", result.content.text()));
                        }
                    }
                }
                SdkMessage::Result(result) => assert!(!result.is_error, "{result:?}"),
                _ => {}
            }
        }
    }
}

/// Reads `count` lines of the child, kills it after `wait` further steps, and returns all its
/// lines.
fn kill_after(mut child: Child, count: usize, wait: u64) -> Vec<String> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut output = Vec::new();
    let note = |line: String, output: &mut Vec<String>| {
        // The test harness may have printed text before the mark.
        if let Some((_, what)) = line.split_once('@') {
            output.push(what.to_owned());
        }
    };

    while output.len() < count {
        match lines.next() {
            Some(line) => note(line.unwrap(), &mut output),
            None => break,
        }
    }

    for _ in 0..wait {
        std::hint::spin_loop();
    }

    child.kill().unwrap();
    for line in lines {
        note(line.unwrap(), &mut output);
    }

    let status = child.wait().unwrap();
    let mut errors = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert!(
        status.success() || status.code().is_none(),
        "{status}: {errors}"
    );
    output
}

/// The state of the sessions that the parent expects.
#[derive(Default)]
struct Known {
    acknowledged: HashSet<String>,
    /// The number of calls that were found without a result.
    open: usize,
}

impl Known {
    async fn check<P: Place>(&mut self, folder: &Path, said: Vec<String>) {
        let texts = said.iter().filter_map(|line| line.strip_prefix("text "));
        self.acknowledged.extend(texts.map(str::to_owned));
        let store = P::open(folder);
        let mut stored = HashSet::new();
        for id in SESSIONS {
            self.check_session(id, folder, &store, &mut stored).await;
        }

        let lost: Vec<_> = self.acknowledged.difference(&stored).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }

    /// Checks a session, and adds its texts to `stored`.
    async fn check_session<P: Place>(
        &mut self,
        id: &str,
        folder: &Path,
        store: &P,
        stored: &mut HashSet<String>,
    ) {
        let model = StrictModel::new(FunctionModel::text(|_| "checked".into()));
        let agent = AgentBuilder::new(model)
            .store(store.clone())
            .build()
            .unwrap();
        let output = loop {
            match agent.session(id).run("check").await {
                // On a server, a lease outlives its process for some time.
                Err(error) if error.kind() == ErrorKind::SessionBusy => {}
                outcome => break outcome.unwrap(),
            }
        };

        output.messages.validate_for_model().unwrap();
        let texts = output.messages.iter();
        stored.extend(texts.map(|message| message.text().into_owned()));

        let effects = fs::read_to_string(folder.join("effects")).unwrap_or_default();
        let ids: Vec<_> = effects.lines().collect();
        let once: HashSet<_> = ids.iter().copied().collect();
        assert_eq!(ids.len(), once.len(), "a call ran twice");
        for result in results(&output.messages) {
            let (text, id) = (result.content.text(), &*result.tool_call_id);
            if text.contains("did not run") {
                assert!(!once.contains(id), "{id} ran");
            }

            self.open += usize::from(!text.starts_with("did "));
        }

        let reread = store.load(id).await.unwrap().unwrap().state.messages;
        assert_eq!(reread, output.messages);
    }
}

/// Returns the path of a test of this module as the harness spells it.
macro_rules! name {
    ($test:literal) => {{
        let path = concat!(module_path!(), "::", $test);
        path.split_once("::").unwrap().1
    }};
}
#[cfg(any(
    feature = "jsonl",
    feature = "sqlite",
    feature = "postgres",
    feature = "redis"
))]
pub(super) use name;

pub fn is_killed<P: Place>(test: &str) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        runtime().block_on(work::<P>(Path::new(&folder)));
        return;
    }

    let rounds = std::env::var(ROUNDS).map_or(40, |rounds| rounds.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(11);
    let (mut acknowledged, mut open) = (0, 0);
    for _ in 0..rounds / ROUNDS_A_SESSION {
        let folder = tempfile::tempdir().unwrap();
        let _kept = P::open(folder.path());
        let mut known = Known::default();
        for _ in 0..ROUNDS_A_SESSION {
            let count = random.usize(1..24);
            let output = kill_after(child(test, folder.path()), count, random.u64(..200_000));
            runtime().block_on(known.check::<P>(folder.path(), output));
        }

        acknowledged += known.acknowledged.len();
        open += known.open;
    }

    assert!(acknowledged > rounds, "{acknowledged}");
    assert!(open > 0, "some process was killed within a turn");
}

fn holds<P: Place>(test: &str) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = P::open(Path::new(&folder));
        let _lease = runtime().block_on(store.lease("s")).unwrap();
        say("held");

        // Waits for the parent to kill this process, or to end.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }

    let folder = tempfile::tempdir().unwrap();
    let mut child = child(test, folder.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("@held")));
    let store = P::open(folder.path());
    let busy = runtime().block_on(store.lease("s")).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::SessionBusy);
    child.kill().unwrap();
    child.wait().unwrap();
    runtime().block_on(store.lease("s")).unwrap();
}

#[cfg(feature = "jsonl")]
mod files {
    use agentcore::session::JsonlStore;

    #[test]
    fn killed_process_loses_no_acknowledged_write() {
        super::is_killed::<JsonlStore>(name!("killed_process_loses_no_acknowledged_write"));
    }

    #[test]
    fn lease_ends_when_its_process_is_killed() {
        super::holds::<JsonlStore>(name!("lease_ends_when_its_process_is_killed"));
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use agentcore::session::SqliteStore;

    #[test]
    fn killed_process_loses_no_acknowledged_write() {
        super::is_killed::<SqliteStore>(name!("killed_process_loses_no_acknowledged_write"));
    }

    #[test]
    fn lease_ends_when_its_process_is_killed() {
        super::holds::<SqliteStore>(name!("lease_ends_when_its_process_is_killed"));
    }
}
