//! The part of [`RunContext`] that the crate uses itself.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::message::ToolCall;
use crate::model::{Model, ProviderCache, SystemPrompt};
use crate::sdk::{Envelope, Init, SdkMessage, SystemEvent, SystemKind};
use crate::session::AgentState;
use crate::tool::{GateRequest, Gates, PermissionMode, StateView, Tool, TurnTools};
use crate::util::panic;
use crate::util::sync::lock;

use super::context::RunContext;
use super::granted_questions::GrantedQuestions;
use super::settings::RunSettings;
use super::shared::RunShared;
use super::state_cell::{HookState, StateChange};

impl RunContext {
    pub(crate) fn shared(&self) -> &Arc<RunShared> {
        &self.0.shared
    }

    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    pub(crate) fn depth(&self) -> u32 {
        self.parent().map_or(0, |parent| parent.depth)
    }

    pub(crate) fn settings(&self) -> &RunSettings {
        &self.0.settings
    }

    pub(crate) fn provider_cache(&self) -> &ProviderCache {
        &self.0.provider_cache
    }

    /// Returns `true` if calls of this tool need no question of the mode.
    pub(crate) fn needs_no_mode_question(&self, tool: &str) -> bool {
        self.0.settings.allowed_tools.contains(tool)
    }

    /// Returns the questions of hooks that were answered for a session.
    pub(crate) fn granted_questions(&self) -> &GrantedQuestions {
        &self.0.settings.granted_questions
    }

    /// Returns the request to the gates about a call.
    pub(crate) fn gate_request(&self, tool: &Arc<dyn Tool>, call: &ToolCall) -> GateRequest {
        self.apply_requested_mode();
        let mode = self.permission_mode();
        let session_id = self.session_id().clone();
        let memory_paths = self.settings().memory_paths.clone();
        GateRequest::new(call.clone(), tool.clone(), mode, session_id, memory_paths)
    }

    /// Returns the gates that calls of this run have to pass.
    pub(crate) fn gates(&self) -> Gates {
        lock(&self.0.gates).clone()
    }

    pub(super) fn system_slot(&self) -> &Mutex<SystemPrompt> {
        &self.0.system
    }

    pub(crate) fn set_turn(&self, turn: u32) {
        self.0.turn.store(turn, Ordering::Relaxed);
        lock(&self.shared().stats).turns = turn;
    }

    pub(crate) fn set_tools(&self, tools: TurnTools) {
        *lock(&self.0.tools) = tools;
    }

    pub(crate) fn set_model(&self, model: Arc<dyn Model>) {
        *lock(&self.0.model) = model;
    }

    pub(crate) fn set_mode(&self, mode: PermissionMode) {
        *lock(&self.0.mode) = mode;
    }

    /// Applies the mode that a handle requested last, if that has not happened yet.
    pub(crate) fn apply_requested_mode(&self) {
        if let Some(mode) = lock(&self.shared().control).mode.take() {
            self.set_mode(mode);
        }
    }

    pub(crate) fn set_system(&self, system: SystemPrompt) {
        *lock(&self.0.system) = system;
    }

    pub(crate) fn hook_stop_reason(&self) -> Option<String> {
        lock(&self.0.hook_stop).as_deref().map(str::to_owned)
    }

    pub(crate) fn state<R>(&self, f: impl FnOnce(&mut AgentState) -> R) -> R {
        self.0.state.with(f)
    }

    /// Returns a copy of the run's state, which shares its contents.
    pub(crate) fn state_copy(&self) -> AgentState {
        self.state(|state| state.clone())
    }

    /// Replaces the run's state. The old one is dropped after the lock is released: it may hold
    /// values whose `Drop` uses the state.
    pub(crate) fn set_state(&self, state: AgentState) {
        drop(self.state(|current| std::mem::replace(current, state)));
    }

    /// Replaces the run's state like [`set_state`](Self::set_state). Emits the changes of the task
    /// list and of the files.
    pub(crate) fn replace_state(&self, state: AgentState) {
        self.emit_changes(self.0.state.replace(state));
    }

    /// Replaces the run's state by `returned`, which a hook has made from `given`. Adds to it the
    /// changes that were made through this context meanwhile and are emitted already, and emits the
    /// other changes of the task list and of the files.
    pub(crate) fn adopt_state(&self, given: &AgentState, returned: &mut AgentState) {
        self.emit_changes(self.0.state.adopt(given, returned));
    }

    /// Calls `f` on the state, or, if `live` is false, on a copy that is discarded. Emits the
    /// changes of the task list and of the files.
    pub(crate) fn view_state(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) {
        self.emit_changes(self.0.state.view(live, f));
    }

    /// Returns the parts of the state that hooks change through this context.
    pub(crate) fn hook_state(&self) -> HookState {
        self.0.state.hook_state()
    }

    /// Replaces these parts of the state, which a hook that failed has changed, by `old`. Emits the
    /// changes of the task list and of the files.
    pub(crate) fn restore_hook_state(&self, old: HookState) {
        self.emit_changes(self.0.state.restore(old));
    }

    fn emit_changes(&self, changes: StateChange) {
        if !changes.has_new_todos && changes.files.is_empty() {
            return;
        }
        let kind = self.0.state.with(|state| SystemKind::StateChanged {
            todos: changes.has_new_todos.then(|| state.todos.to_vec()),
            files: (!changes.files.is_empty()).then_some(changes.files),
        });
        self.emit(kind);
    }

    pub(crate) fn system_message(&self, kind: SystemKind) -> SdkMessage {
        SdkMessage::System(SystemEvent::new(self.shared().envelope(), kind))
    }

    /// Emits `system/init` before all messages emitted so far. Does nothing the second time.
    pub(crate) fn emit_init(&self) {
        self.shared().push_init(|envelope: Envelope| {
            // A panic here would keep all messages from the reader, because `init` is sent first.
            let model = self.model();
            let id = panic::catch(|| model.id().to_owned()).unwrap_or_default();
            let cwd = self.cwd().unwrap_or_default();
            let tools = self.tools();
            let loop_part = Init::new(id, cwd, tools.names());
            let described = std::mem::take(&mut **lock(&self.0.description));
            let mut init = Init {
                mcp_servers: described.mcp_servers,
                slash_commands: described.slash_commands,
                skills: described.skills,
                agents: described.agents,
                plugins: described.plugins,
                ..loop_part
            };
            let agents = panic::catch(|| tools.agents().collect::<Vec<_>>());
            init.agents.extend(agents.unwrap_or_default());
            init.agents.sort_unstable();
            init.agents.dedup();
            init.permission_mode = self.permission_mode().as_str().into();
            SdkMessage::System(SystemEvent::new(envelope, SystemKind::Init(Box::new(init))))
        });
    }
}
