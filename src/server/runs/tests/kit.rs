//! Messages, logs and runs for the tests.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use crate::agent::{Agent, OnUnanswered};
use crate::error::Result;
use crate::message::{Message, ToolCall, ToolResult};
use crate::run::Run;
use crate::sdk::{
    ApiMessage, ApiStreamEvent, AssistantEvent, BlockDelta, BlockStart, Envelope, PartialEvent,
    ResultMessage, ResultSubtype, SdkMessage, UserEvent,
};
use crate::session::{
    AgentState, Lease, Record, SessionInfo, SessionStore, StoredSession, ThreadStore,
};
use crate::testing::ScriptedModel;
use crate::tool::{FuncTool, GateRequest, PermissionGate, ToolDecision};

use super::super::super::stream::{Encoder, EncoderOptions, StreamFormat};
use super::super::limits::{OnDisconnect, RunLimits};
use super::super::log::Log;
use super::super::reader::Reader;
use super::super::server_run::ServerRun;
use super::super::store_id::StoreId;
use super::super::table::{RunKey, RunRefusal, RunTable, StartRun};

pub(super) const FORMATS: [StreamFormat; 5] = [
    StreamFormat::Events,
    StreamFormat::Sdk,
    StreamFormat::Ndjson,
    StreamFormat::AgUi,
    StreamFormat::AiSdk,
];

/// The messages of a stream, numbered as they are added.
#[derive(Default)]
pub(super) struct Messages(pub(super) Vec<SdkMessage>);

impl Messages {
    pub(super) fn new() -> Self {
        let mut messages = Self::default();
        let init = json!({"type": "system", "subtype": "init", "session_id": "s", "seq": 0});
        messages
            .0
            .push(serde_json::from_str(&init.to_string()).unwrap());
        messages
    }

    /// Returns an envelope of the agent itself, or of the subagent with this number.
    fn envelope(&self, agent: u8) -> Envelope {
        let seq = self.0.len() as u64;
        match agent {
            0 => Envelope::new("s", seq),
            _ => {
                let mut envelope = Envelope::new(format!("child_{agent}"), seq);
                envelope.parent_tool_use_id = Some("call_task".into());
                envelope
            }
        }
    }

    pub(super) fn piece(&mut self, agent: u8, event: ApiStreamEvent) {
        let event = PartialEvent::new(self.envelope(agent), event);
        self.0.push(event.into());
    }

    /// The pieces of an answer with these texts.
    pub(super) fn pieces(&mut self, agent: u8, id: &str, texts: &[&str]) {
        let message = Box::new(ApiMessage::new(id, "m", Message::ai("")));
        self.piece(agent, ApiStreamEvent::MessageStart { message });
        let block = BlockStart::Text;
        self.piece(agent, ApiStreamEvent::ContentBlockStart { index: 0, block });
        for text in texts {
            let delta = BlockDelta::Text((*text).to_owned());
            self.piece(agent, ApiStreamEvent::ContentBlockDelta { index: 0, delta });
        }
        self.piece(agent, ApiStreamEvent::ContentBlockStop { index: 0 });
    }

    /// An answer, which calls a tool if it has a call.
    pub(super) fn answer(&mut self, agent: u8, id: &str, text: &str, call: Option<&str>) {
        let calls = call.map(|call| ToolCall::new(call, "tool", json!({"n": 1})));
        let message = ApiMessage::new(id, "m", Message::ai_calling(text, calls));
        let event = AssistantEvent::new(self.envelope(agent), message);
        self.0.push(event.into());
    }

    /// The answers of two agents, whose pieces alternate; the first one is complete first.
    pub(super) fn answers_at_once(&mut self, agents: [u8; 2], id: &str) {
        let ids = agents.map(|agent| format!("{id}_{agent}"));
        for (agent, id) in agents.into_iter().zip(&ids) {
            let message = Box::new(ApiMessage::new(&**id, "m", Message::ai("")));
            self.piece(agent, ApiStreamEvent::MessageStart { message });
            let block = BlockStart::Text;
            self.piece(agent, ApiStreamEvent::ContentBlockStart { index: 0, block });
        }
        for text in ["one ", "two"] {
            for agent in agents {
                let delta = BlockDelta::Text(text.to_owned());
                self.piece(agent, ApiStreamEvent::ContentBlockDelta { index: 0, delta });
            }
        }
        for (agent, id) in agents.into_iter().zip(&ids) {
            self.answer(agent, id, "one two", None);
        }
    }

    pub(super) fn result(&mut self, agent: u8, call: &str) {
        let result = Message::Tool(ToolResult::new(call, "tool", "output"));
        let event = UserEvent::new(self.envelope(agent), [result]);
        self.0.push(event.into());
    }

    pub(super) fn steer(&mut self, agent: u8) {
        let event = UserEvent::new(self.envelope(agent), [Message::human("and this")]);
        self.0.push(event.into());
    }

    pub(super) fn end(&mut self) {
        let result = ResultMessage::new(self.envelope(0), ResultSubtype::Success);
        self.0.push(result.into());
    }
}

pub(super) fn log(limits: &RunLimits, messages: &[SdkMessage]) -> Log {
    let options = EncoderOptions::new("run").with_state(AgentState::new("s"));
    let log = Log::new(limits, Encoder::new(StreamFormat::Events, options));
    for message in messages {
        log.append(message.clone());
    }
    log
}

pub(super) fn table(limits: RunLimits, on_disconnect: OnDisconnect) -> RunTable {
    RunTable::new(limits, on_disconnect)
}

/// A key of one store, the same for all tests.
pub(super) fn key(user: &str, thread: &str) -> RunKey {
    static STORE: LazyLock<Arc<dyn SessionStore>> = LazyLock::new(|| Arc::new(ThreadStore::new()));
    key_in(&STORE, user, thread)
}

pub(super) fn key_in(store: &Arc<dyn SessionStore>, user: &str, thread: &str) -> RunKey {
    RunKey {
        user: user.into(),
        store: StoreId::of(store),
        thread: thread.into(),
    }
}

struct Ask;

#[async_trait]
impl PermissionGate for Ask {
    async fn check(&self, _request: &GateRequest) -> Result<ToolDecision> {
        Ok(ToolDecision::ask("sure?"))
    }
}

/// A store that fails in one way.
pub(super) struct OddStore(ThreadStore, Oddity);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    HangsInSave,
    PanicsInLoad,
}

impl OddStore {
    pub(super) fn new(oddity: Oddity) -> Self {
        Self(ThreadStore::new(), oddity)
    }
}

#[async_trait]
impl SessionStore for OddStore {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        assert!(self.1 != Oddity::PanicsInLoad, "the store burst");
        self.0.load(id).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.0.append(lease, records).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.0.list().await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.0, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.0.lease(id).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        if self.1 == Oddity::HangsInSave {
            std::future::pending::<()>().await;
        }
        SessionStore::save(&self.0, lease, state).await
    }
}

/// Returns an agent whose calls of `act` ask for permission.
pub(super) fn agent(model: ScriptedModel) -> Agent {
    let schema = json!({"type": "object"});
    let act = FuncTool::new("act", "Acts", schema, |_cx, _args| async { "acted" });
    Agent::builder(model)
        .include_partial_messages(true)
        .tool(act)
        .permissions(Ask)
        .unanswered(OnUnanswered::Park)
        .ask_timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

/// Begins a run of `model` in a session.
pub(super) fn start(
    table: &RunTable,
    key: RunKey,
    agent: &Agent,
) -> Result<Arc<ServerRun>, RunRefusal> {
    let run = agent.session(key.thread.clone()).run("Go");
    let options = EncoderOptions::new(format!("run_{}", key.thread));
    start_with(table, key, run, options)
}

/// Begins a run with these options of its readers.
pub(super) fn start_with(
    table: &RunTable,
    key: RunKey,
    run: Run,
    options: EncoderOptions,
) -> Result<Arc<ServerRun>, RunRefusal> {
    table.start(StartRun {
        key,
        agent: "default".into(),
        shows_folders: true,
        run,
        options,
        leaves_calls_pending: false,
    })
}

/// Returns the whole rest of a reader's stream.
pub(super) async fn rest(reader: &mut Reader) -> String {
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).unwrap()
}

/// The next piece of a reader's stream that has this text, and what came before it.
pub(super) async fn until(reader: &mut Reader, text: &str) -> String {
    let mut read = String::new();
    loop {
        let piece = reader
            .next()
            .await
            .unwrap_or_else(|| panic!("{text:?} is not in {read}"));
        read.push_str(std::str::from_utf8(&piece).unwrap());
        if read.contains(text) {
            return read;
        }
    }
}
