//! The opening of a run, before the loop: the session, the hooks, the input.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::{Phases, guard};
use crate::message::{Message, ToolResult};
use crate::run::{OutputFormat, RunContext, Stop};
use crate::session::{
    AgentState, OwnedSession, StoredSession, belongs_to_other_user, cut, damage_texts, not_found,
};

use super::active_run::{ActiveRun, FirstStep, Opened, RunOutcome};
use super::config::Config;
use super::history::History;
use super::model_lifecycle::warn_of_ending_models;
use super::repeats::RepeatDetector;
use super::restore::{Restored, restore, result_positions};
use super::run_input::{STALE_COMPACTION, check_input};
use super::run_request::RunRequest;
use super::session_writer::SessionWriter;
use super::system_prompt::AssembledPrompt;
use super::tool_catalog::ToolCatalog;
use super::turn::Recoveries;

/// Opens the session of a run: leases, loads and repairs it, runs the `before_agent` hooks, repeats
/// interrupted calls, and stores the input.
pub(super) async fn open(
    cx: RunContext,
    mut request: Box<RunRequest>,
    format: Option<OutputFormat>,
) -> Result<Opened> {
    check_request(&request)?;
    let (writer, stored) = lease_and_load(&cx, &request).await?;
    let is_new = stored.is_none();
    let stored = stored.unwrap_or_default();
    let input_id = InputId::of(&mut request, &stored);
    let mut restored = restore_history(&cx, &request, stored, &input_id).await?;
    let has_new_origin = complete_state(&cx, &mut request, &mut restored.state);
    let earlier_prompt = take_earlier_prompt(&mut request, &restored.state);
    cx.set_state(restored.state);
    check_input(&request.input)?;
    let (tools, mut history) = prepare(&request.config, &cx, writer, is_new).await?;
    history.has_new_origin = has_new_origin;
    warn_of_ending_models(&cx);
    let mut run = Box::new(ActiveRun {
        config: request.config,
        cx,
        history,
        tools,
        requests: restored.requests,
        repeats: RepeatDetector::default(),
        recoveries: Recoveries::default(),
        format,
        outcome: RunOutcome::default(),
    });

    // Interrupted calls run after `before_agent`, which may register their tools.
    let rerun = run
        .rerun_interrupted_calls(restored.interrupted_calls)
        .await;
    let input = run.split_input(&request.input, earlier_prompt)?;

    // Saved before anything is emitted: the results of interrupted calls and the cut are final, and
    // a later load must not find them undone.
    if restored.must_save {
        run.history.save().await?;
    }

    let mut late_results = restored.late_results;
    late_results.extend(rerun.results);
    run.emit_restored(late_results);
    let first_step = match input_id.id {
        Some(id) if input_id.was_sent => {
            let exit = run.handle_repeated_input(&id).await?;
            exit.map_or(FirstStep::Turns, FirstStep::End)
        }
        id => {
            if !input.is_empty() {
                run.store_input(input, id).await?;
            }
            let decisions = request.decisions;
            decisions.map_or(FirstStep::Turns, FirstStep::Decisions)
        }
    };

    // Requested only now: once a stop is requested, this future is dropped at its next wait.
    if rerun.ends_run && !matches!(first_step, FirstStep::End(_)) {
        run.cx.shared().request_stop(Stop::Interrupt);
    }

    Ok(Opened { run, first_step })
}

/// Refuses a request that both cuts the history and decides calls at its end.
fn check_request(request: &RunRequest) -> Result<()> {
    if request.options.rewind_to.is_none() || request.decisions.is_none() {
        return Ok(());
    }
    let text = "rewind_to cannot be combined with resume, which answers calls at the end of the \
                history; call resume without it, or run with it";
    Err(Error::new(ErrorKind::InvalidRequest, text))
}

/// The caller's id of the input, and whether it was used before.
struct InputId {
    id: Option<Arc<str>>,
    /// True if an input with this id was stored before and is not replaced.
    was_sent: bool,
}

impl InputId {
    fn of(request: &mut RunRequest, stored: &StoredSession) -> Self {
        // A resumption has decisions instead of an input.
        let is_input = request.decisions.is_none();
        let id = request.options.input_id.take().filter(|_| is_input);
        let is_replaced = request.options.is_input_replaced;
        let is_known =
            |id: &Arc<str>| stored.input_ids.contains(id) || stored.state.inputs.contains(id);
        let was_sent = |id: &Arc<str>| !is_replaced && is_known(id);
        Self {
            was_sent: id.as_ref().is_some_and(was_sent),
            id,
        }
    }
}

/// Leases the session for a run, registers the run, and reads what is stored; `None` for a session
/// that begins. A temporary session is only registered: its id is new, and nothing of it is stored.
async fn lease_and_load(
    cx: &RunContext,
    request: &RunRequest,
) -> Result<(SessionWriter, Option<StoredSession>)> {
    let config = &request.config;
    let store = config.store.clone();
    let id = cx.session_id();
    let default_store = config.default_store.as_ref();
    if let Some(default_store) = default_store.filter(|_| request.options.is_temporary) {
        let registration = config.live.register(cx.shared(), true);
        let writer = SessionWriter::temporary(store, default_store, registration);
        return Ok((writer, None));
    }

    if config.live.has_temporary(id) {
        return Err(Error::session_busy(id));
    }

    let owner = request.options.owner.as_ref();
    let session = OwnedSession {
        store: &*store,
        id,
        owner,
    };
    let lease = session.lease().await?;
    let registration = config.live.register(cx.shared(), false);
    let Some(stored_session) = store.load(id).await? else {
        if request.options.must_exist || request.decisions.is_some() {
            return Err(not_found(id));
        }

        if let Some(text) = lease.dropped_warning(owner.map(|owner| &**owner)) {
            cx.warn(text);
        }
        // An earlier session with this id may have left some.
        cx.settings().forget_grants(id);
        let writer = SessionWriter::new(store, lease, registration, &AgentState::default());
        return Ok((writer, None));
    };

    if belongs_to_other_user(&stored_session.state, owner) {
        return Err(not_found(id));
    }

    for damage in damage_texts(&stored_session.damage) {
        cx.warn(format!("the stored session is damaged: {damage}"));
    }

    let writer = SessionWriter::new(store, lease, registration, &stored_session.state);
    Ok((writer, Some(stored_session)))
}

/// Cuts the history of a stored session where the request requires it, and repairs it.
async fn restore_history(
    cx: &RunContext,
    request: &RunRequest,
    mut stored: StoredSession,
    input_id: &InputId,
) -> Result<Restored> {
    let id = cx.session_id();
    if let Some(decisions) = &request.decisions {
        decisions.check_session(&stored.state.pending, id)?;
    }

    // A repeated input does not cut the history again.
    let cut_len = request.options.rewind_to.filter(|_| !input_id.was_sent);
    if let Some(len) = cut_len {
        stored = cut_history(id, stored, len)?;
        cx.set_history_cut(stored.state.messages.len());
        // The input is added again at its new place.
        if let Some(input_id) = &input_id.id {
            let inputs = &mut stored.state.inputs;
            inputs.forget(std::slice::from_ref(input_id));
        }
    }

    let keeps_pending = request.decisions.is_some() || input_id.was_sent;
    let max_bytes = request.config.limits.max_result_bytes;
    let mut restored = restore(stored, id, keeps_pending, max_bytes).await?;
    restored.must_save |= cut_len.is_some();
    let repairs = &restored.repairs;
    if !repairs.is_empty() {
        cx.warn(format!("the stored history was repaired: {repairs}"));
    }

    Ok(restored)
}

/// Completes the state with the values of the request, and with the session's user, working
/// directory and parent. Returns `true` if one of these three has changed and has to be stored with
/// the input.
fn complete_state(cx: &RunContext, request: &mut RunRequest, state: &mut AgentState) -> bool {
    let options = &mut request.options;
    state.thread_id = cx.session_id().clone();
    state.values = std::mem::take(&mut options.values);
    let parent = options.parent.as_ref().map(|parent| parent.run());
    let parent_user = || parent.and_then(|run| run.state(|state| state.user_id.clone()));
    let user_id = options
        .user_id
        .take()
        .or_else(|| state.user_id.clone())
        .or_else(parent_user);
    let cwd = &request.config.settings.cwd;
    let cwd = state.cwd.clone().or_else(|| cwd.clone());
    let has_messages = !state.messages.is_empty();
    let parent_id = parent
        .filter(|_| !has_messages)
        .map(|run| run.session_id().clone());
    let parent_id = state.parent.clone().or(parent_id);
    let has_new_origin = state.user_id != user_id || state.cwd != cwd || state.parent != parent_id;
    (state.user_id, state.cwd, state.parent) = (user_id, cwd, parent_id);
    has_new_origin
}

/// Takes the system messages of the earlier input that the run continues to answer.
fn take_earlier_prompt(request: &mut RunRequest, state: &AgentState) -> Option<Arc<str>> {
    if request.decisions.is_none() {
        return request.options.input_prompt.take();
    }
    let mut pending_calls = state.pending.iter();
    pending_calls.find_map(|call| call.input_prompt.clone())
}

/// Assembles the system prompt and runs `before_agent` of every hook. Returns the tools and the
/// history of the run. If a hook fails or the run is stopped meanwhile, the state is rolled back.
/// `is_new` is true for a session that begins.
async fn prepare(
    config: &Config,
    cx: &RunContext,
    writer: SessionWriter,
    is_new: bool,
) -> Result<(ToolCatalog, History)> {
    let mut tools = ToolCatalog::default();
    tools.ask_sources(config, cx).await;

    let assembled = AssembledPrompt::new(config, cx, tools.expected_names(config)).await?;
    cx.set_system(assembled.prompt.clone());

    let rollback = StateRollback::new(cx);
    cx.state(|state| {
        state.system_prompt = assembled.prompt.clone();
        state.is_of_run = true;
    });
    if !config.hooks.before_agent.is_empty() {
        let gate_count = cx.gates().count();
        let state = before_agent(config, cx).await?;
        if is_new {
            // A gate that a hook adds may have grants of an earlier session with this id.
            cx.gates().forget_after(gate_count, cx.session_id());
        }
        assembled.apply_changes(cx, &state.system_prompt);
        cx.set_state(state);
    }
    tools.set_hook_tools(cx.state(|state| std::mem::take(&mut state.tools)))?;
    let history = History::new(cx.clone(), &config.limits, writer);
    tools.set_turn_tools(config, cx);
    assembled.update(config, cx).await?;
    rollback.commit();
    Ok((tools, history))
}

/// Runs `before_agent` of every hook, each on the state that the previous hook returned, and
/// repairs the history that they leave.
async fn before_agent(config: &Config, cx: &RunContext) -> Result<AgentState> {
    let mut state = cx.state_copy();
    let loaded_messages = state.messages.clone();
    for hook in &config.hooks.before_agent {
        let input_state = state.clone();
        cx.set_state(input_state.clone());
        let future = hook.before_agent(cx, state);
        state = guard(cx, &**hook, Phases::BEFORE_AGENT, future).await?;

        cx.adopt_state(&input_state, &mut state);
    }

    let repairs = state.repair();
    if !repairs.is_empty() {
        cx.warn(format!(
            "the history was repaired after before_agent: {repairs}"
        ));
    }

    state.retain_positions(&loaded_messages);
    if state.drop_stale_compaction(&loaded_messages) {
        cx.warn(STALE_COMPACTION);
    }

    Ok(state)
}

impl ActiveRun {
    /// Emits the results that calls of an earlier run have received since then, except those that a
    /// hook has removed.
    fn emit_restored(&mut self, mut results: Vec<ToolResult>) {
        if results.is_empty() {
            return;
        }
        let messages = self.cx.state(|state| state.messages.clone());
        let positions = result_positions(&messages);
        let find_position = |result: &ToolResult| {
            let position = *positions.get(&result.tool_call_id)?;
            let message = messages.get(position).and_then(Message::as_tool_result);
            (message == Some(result)).then_some(position)
        };

        results.retain(|result| find_position(result).is_some());
        results.sort_by_key(|result| positions.get(&result.tool_call_id));
        self.history.emit_earlier_results(results);
    }
}

/// Restores the old state of the run when it is dropped, unless [`commit`](Self::commit) was
/// called.
struct StateRollback {
    cx: RunContext,
    old_state: Option<AgentState>,
}

impl StateRollback {
    fn new(cx: &RunContext) -> Self {
        Self {
            cx: cx.clone(),
            old_state: Some(cx.state_copy()),
        }
    }

    fn commit(mut self) {
        self.old_state = None;
    }
}

impl Drop for StateRollback {
    fn drop(&mut self) {
        if let Some(old_state) = self.old_state.take() {
            self.cx.replace_state(old_state);
        }
    }
}

/// Cuts the session's history after `len` messages, as if the later ones had never been sent. The
/// ids of inputs stay, unlike in the result of [`cut`]: a removed input is not processed again.
fn cut_history(id: &str, stored: StoredSession, len: usize) -> Result<StoredSession> {
    let inputs = stored.state.inputs.clone();
    let mut session = cut(id, stored, len)?;
    session.state.inputs = inputs;
    session
        .state
        .inputs
        .reopen_from(session.state.messages.len());
    Ok(session)
}
