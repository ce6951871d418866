//! Before the loop: the session, the hooks, the input.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::guard;
use crate::message::{Message, Messages, Role, ToolCall, ToolResult};
use crate::model::{ModelResponse, PromptContext, Stability, SystemPrompt};
use crate::run::{ExitReason, Shared};
use crate::state::{AgentState, Known, MessageInfo, PendingCall, Record, StoredSession, answers};

use super::answer;
use super::drive::{Driver, Keeper, Start};
use super::ending::exit_after;
use super::ids::CallIds;
use super::tools::RunTools;

/// The result of a call that had not begun when its run ended.
const NOT_RUN: &str = "cancelled: the run ended before this call began; it did not run";
/// The result of a call that had begun.
pub(super) const MAY_HAVE_RUN: &str =
    "interrupted: the run ended before this call's result was stored; it may have run";
/// A summary stands for messages that are no longer there.
pub(super) const STALE_COMPACTION: &str =
    "a hook changed messages that a summary stood for; the summary is dropped";
/// The result of a call nobody approved before the conversation went on.
const NOT_APPROVED: &str =
    "not approved: the conversation went on without an answer; the call did not run";

/// What a run begins with.
struct Restored {
    state: AgentState,
    /// Whether anything had to be done to what was stored.
    changed: bool,
    /// Calls that had no result when their run was dropped.
    open: Vec<OpenCall>,
}

/// A call without a result.
pub(super) struct OpenCall {
    pub(super) call: ToolCall,
    /// Whether its start was stored.
    pub(super) started: bool,
}

impl OpenCall {
    /// What it is answered with for now.
    pub(super) fn answer(&self) -> ToolResult {
        let text = if self.started { MAY_HAVE_RUN } else { NOT_RUN };
        ToolResult::failed(&self.call, text)
    }
}

impl Driver {
    /// Leases and loads the session, runs `before_agent`, appends the input. `Some` when that
    /// input was sent before and there is nothing left to do about it.
    pub(super) async fn open(&mut self, start: Box<Start>) -> Result<Option<ExitReason>> {
        let stored = self.lease_and_load(&start.shared).await?;
        let id = start.shared.session_id().clone();
        if let Some(decisions) = &start.decisions {
            decisions.check_session(&stored.state.pending, &id)?;
        }
        let resuming = start.decisions.is_some();
        // What a resumption says are decisions, not an input.
        let input_id = start.input_id.filter(|_| !resuming);
        let was_sent =
            |id: &Arc<str>| stored.input_ids.contains(id) || stored.state.inputs.contains(id);
        let sent_again = input_id.as_ref().is_some_and(was_sent);
        let Restored {
            mut state,
            changed,
            open,
        } = self.restore(stored, &id, resuming || sent_again);
        state.thread_id = id;
        self.complete_origin(&mut state, start.user_id);
        state.values = start.values;
        self.cx.state(|slot| *slot = state.clone());
        self.first_new = state.messages.len();
        check_input(&start.input)?;

        let prompt = self.prompt().await?;
        self.cx.set_system(prompt.clone());
        state.system_prompt = prompt;
        self.before_agent(state).await?;
        self.rerun(open).await?;

        let (system, rest) = split_system(&start.input);
        self.set_input_system(&system);
        let is_empty = self.cx.state(|state| state.messages.is_empty());
        if rest.is_empty() && is_empty {
            return Err(Error::new(
                ErrorKind::InvalidMessages,
                "messages must not be empty",
            ));
        }
        self.first_new = self.cx.state(|state| state.messages.len());
        if changed {
            // What was decided about open calls is decided for good: a later load must not find
            // a question open that this run has told the model was closed.
            let state = self.cx.state(|state| state.clone());
            self.save(&state).await?;
        }
        if let Some(id) = input_id.as_ref().filter(|_| sent_again) {
            return self.known_input(id).await;
        }
        if !rest.is_empty() {
            self.append_input(rest, input_id).await?;
        }
        Ok(None)
    }

    /// Holds the session for this run, makes its handle found, and reads what is stored.
    async fn lease_and_load(&mut self, shared: &Arc<Shared>) -> Result<StoredSession> {
        let store = self.agent.store().clone();
        let id = shared.session_id();
        let lease = store.lease(id).await?;
        self.registered = Some(self.agent.register(shared));
        let stored = store.load(id).await?.unwrap_or_default();
        self.keeper = Some(Keeper::new(store, lease, &stored.state));
        for damage in &stored.damage {
            self.cx
                .warn(format!("the stored session is damaged: {damage}"));
        }
        Ok(stored)
    }

    /// Completes whose session it is and where it began. What is news is stored with the input.
    fn complete_origin(&mut self, state: &mut AgentState, user_id: Option<Arc<str>>) {
        let user_id = user_id.or_else(|| state.user_id.clone());
        let own_cwd = || self.agent.config().setting.cwd.clone();
        let cwd = state.cwd.clone().or_else(own_cwd);
        if state.user_id != user_id || state.cwd != cwd {
            state.user_id = user_id.clone();
            state.cwd = cwd.clone();
            self.began = Some(Box::new(Record::Began { user_id, cwd }));
        }
    }

    /// Stores the input and adds it to the history, which is made to fit it.
    async fn append_input(&mut self, input: Vec<Arc<Message>>, id: Option<Arc<str>>) -> Result<()> {
        let from = self.first_new;
        self.cx.state(AgentState::settle_inputs);
        self.append(input, id.clone()).await?;
        if let Some(id) = id {
            self.cx.state(|state| state.inputs.begin(id, from));
        }
        self.repair_input();
        self.ids = self.cx.state(|state| CallIds::of(&state.messages));
        Ok(())
    }

    /// What is left to do about an input that was sent before.
    async fn known_input(&mut self, id: &str) -> Result<Option<ExitReason>> {
        let (messages, inputs, infos, waits) = self.cx.state(|state| {
            let waits = !state.pending.is_empty();
            let (inputs, infos) = (state.inputs.clone(), state.infos.clone());
            (state.messages.clone(), inputs, infos, waits)
        });
        match inputs.find(id, &messages) {
            Some(Known::Answered(at, said)) => {
                let mut response = ModelResponse::new(said.content.clone());
                let reason = infos.get(at).and_then(|info| info.stop_reason.clone());
                response.stop_reason = reason.or(response.stop_reason);
                let exit = self.known_output(&response);
                self.last = Some(Arc::new(response));
                Ok(Some(exit))
            }
            Some(Known::Open(_)) if waits => Ok(Some(ExitReason::AwaitingApproval)),
            Some(Known::Open(from)) => {
                self.first_new = from;
                self.forget_interrupted().await?;
                Ok(None)
            }
            Some(Known::Lost) | None => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the input {id:?} was sent before, but the history has been changed since and \
                     its answer cannot be told; look at the history, or send it under a new id"
                ),
            )),
        }
    }

    /// The earlier answer in the form that is asked for now.
    fn known_output(&mut self, response: &ModelResponse) -> ExitReason {
        let exit = exit_after(response.stop_reason.as_ref());
        let is_whole = matches!(exit, ExitReason::EndTurn | ExitReason::StopSequence);
        let format = self.output.as_ref().filter(|_| is_whole);
        match format.map(|format| answer::read(format, &response.text())) {
            None => exit,
            Some(Ok(value)) => {
                self.structured = Some(Box::new(value));
                exit
            }
            Some(Err(complaint)) => {
                self.notes.push(complaint);
                ExitReason::StructuredOutput
            }
        }
    }

    /// Takes an answer that breaks off out of the history: its input gets a whole one. Few models
    /// can go on in the middle of a text.
    async fn forget_interrupted(&mut self) -> Result<()> {
        let mut state = self.cx.state(|state| state.clone());
        let [whole @ .., last] = state.messages.as_slice() else {
            return Ok(());
        };
        let is_cut = |info: &MessageInfo| info.aborted;
        if last.role() != Role::Assistant || !state.message_info(whole.len()).is_some_and(is_cut) {
            return Ok(());
        }
        let before = state.messages.clone();
        state.messages = whole.iter().cloned().collect();
        state.keep_places(&before);
        if state.drop_stale_compaction(&before) {
            self.cx.warn(STALE_COMPACTION);
        }
        self.cx.state(|slot| *slot = state.clone());
        self.context.restart(
            &**self.cx.token_counter(),
            &state.messages,
            state.compaction.as_ref(),
        );
        self.save(&state).await
    }

    /// The stored state with its history made whole. Calls that wait for approval go on waiting
    /// if `keeps_waiting`.
    fn restore(&mut self, stored: StoredSession, id: &str, keeps_waiting: bool) -> Restored {
        let mut state = stored.state;
        let loaded = state.messages.clone();
        let mut changed = false;
        let mut open = Vec::new();
        for id in stored.input_ids {
            // Appended by a run that was dropped, so it is the last one said.
            state.inputs.begin(id, last_said(&state.messages));
            changed = true;
        }
        state.settle_inputs();
        // A fork's copy of a question is not its own: answered in both, the call would run twice.
        let is_kept = |call: &PendingCall| keeps_waiting && *call.session_id == *id;
        let (kept, closed): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending)
            .into_iter()
            .partition(is_kept);
        state.pending = kept;
        for pending in closed {
            let result = ToolResult::failed(&pending.call, NOT_APPROVED);
            insert_result(&mut state.messages, result);
            changed = true;
        }
        let waiting = state.waiting();
        for call in unanswered(&state.messages) {
            if waiting.contains(&call.id) {
                continue;
            }
            let ended = stored.ended.iter().find(|ended| answers(ended, &call.id));
            if let Some(result) = ended.and_then(|ended| ended.as_tool_result()) {
                insert_result(&mut state.messages, result.clone());
                changed = true;
                continue;
            }
            let started = stored.started.contains(&call.id);
            let call = OpenCall { call, started };
            insert_result(&mut state.messages, call.answer());
            open.push(call);
            changed = true;
        }
        let repairs = state.repair();
        if !repairs.is_empty() {
            changed = true;
            self.cx
                .warn(format!("the stored history was repaired: {repairs}"));
        }
        state.keep_places(&loaded);
        Restored {
            state,
            changed,
            open,
        }
    }

    async fn prompt(&self) -> Result<SystemPrompt> {
        let config = self.agent.config();
        let mut tools: Vec<_> = config
            .tools
            .iter()
            .map(|tool| tool.name().to_owned())
            .collect();
        tools.sort_unstable();
        let cx = PromptContext::new(
            self.cx.session_id(),
            &config.setting.agent,
            config.setting.cwd.as_deref(),
            config.model.id(),
            &tools,
        );
        config.prompter.assemble(cx).await
    }

    /// Runs `before_agent` of every hook. Nothing of it is kept when one fails.
    async fn before_agent(&mut self, state: AgentState) -> Result<()> {
        let before = self.cx.state(|state| state.clone());
        let kept = self.run_before_agent(state).await;
        if kept.is_err() {
            self.cx.state(|state| *state = before);
        }
        kept
    }

    async fn run_before_agent(&mut self, mut state: AgentState) -> Result<()> {
        let agent = self.agent.clone();
        let config = agent.config();
        let loaded = state.messages.clone();
        for hook in &config.hooks.before_agent {
            let timeout = config.limits.hook_timeout;
            let given = state.clone();
            self.cx.state(|slot| *slot = given.clone());
            let future = hook.before_agent(&self.cx, state);
            state = guard(hook.name(), "before_agent", timeout, None, future).await?;
            self.cx.state(|slot| {
                state.adopt(&given, slot);
                *slot = state.clone();
            });
        }
        let repairs = state.repair();
        if !repairs.is_empty() {
            self.cx.warn(format!(
                "what before_agent left of the history was repaired: {repairs}"
            ));
        }
        state.keep_places(&loaded);
        if state.drop_stale_compaction(&loaded) {
            self.cx.warn(STALE_COMPACTION);
        }
        for section in state.system_prompt.sections() {
            let (id, text) = (section.id.clone(), section.text.clone());
            self.cx.system().section(id, text, section.stability);
        }
        self.tools = RunTools::new(std::mem::take(&mut state.tools));
        self.context.restart(
            &**self.cx.token_counter(),
            &state.messages,
            state.compaction.as_ref(),
        );
        self.ids = CallIds::of(&state.messages);
        self.cx.state(|slot| *slot = state);
        self.tools.refresh(config, &self.cx).await
    }

    /// Leading system messages of the input join the system prompt.
    fn set_input_system(&self, system: &[String]) {
        if !system.is_empty() {
            let text = system.join("\n\n");
            self.cx.system().section("input", text, Stability::Stable);
        }
    }

    /// An input that is not a user's turn (an assistant message, stray results) may not fit
    /// after the history as it is.
    fn repair_input(&self) {
        let repairs = self.cx.state(AgentState::repair);
        if !repairs.is_empty() {
            self.cx.warn(format!(
                "the input was repaired to fit the history: {repairs}"
            ));
        }
    }
}

/// What only users say is held to the strict rules; whole histories to the common ones.
fn check_input(input: &Messages) -> Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    if input.iter().all(|message| message.role().is_user_input()) {
        input.validate_user_input()?;
    } else {
        input.validate()?;
    }
    Ok(())
}

fn split_system(input: &Messages) -> (Vec<String>, Vec<Arc<Message>>) {
    let is_system = |message: &&Arc<Message>| message.role() == Role::System;
    let leading = input.as_slice().iter().take_while(is_system).count();
    let (system, rest) = input.as_slice().split_at(leading);
    let system = system
        .iter()
        .map(|message| message.text().into_owned())
        .collect();
    (system, rest.to_vec())
}

/// The calls of the last assistant message that have no result: earlier ones are repaired.
fn unanswered(messages: &Messages) -> Vec<ToolCall> {
    let all = messages.as_slice();
    let Some(last) = all
        .iter()
        .rposition(|message| message.role() == Role::Assistant)
    else {
        return Vec::new();
    };
    let answered = |id: &str| {
        all[last + 1..]
            .iter()
            .filter_map(|message| message.as_tool_result())
            .any(|result| &*result.tool_call_id == id)
    };
    all[last]
        .tool_calls()
        .filter(|call| !answered(&call.id))
        .cloned()
        .collect()
}

/// Where the last thing said to the model begins.
fn last_said(messages: &Messages) -> usize {
    let said = |message: &&Arc<Message>| message.role().is_user_input();
    let all = messages.as_slice();
    let end = all
        .iter()
        .rposition(|message| said(&message))
        .map_or(0, |at| at + 1);
    end - all[..end].iter().rev().take_while(said).count()
}

/// Puts a result where its call's results stand: after the call, in the order of the calls.
pub(super) fn insert_result(messages: &mut Messages, result: ToolResult) {
    let all = messages.as_slice();
    let calling = all.iter().rposition(|message| {
        message.role() == Role::Assistant
            && message
                .tool_calls()
                .any(|call| call.id == result.tool_call_id)
    });
    let Some(calling) = calling else {
        return;
    };
    let order: Vec<_> = all[calling]
        .tool_calls()
        .map(|call| call.id.clone())
        .collect();
    let rank = |id: &Arc<str>| order.iter().position(|other| other == id);
    let own = rank(&result.tool_call_id);
    let later = all[calling + 1..]
        .iter()
        .take_while(|message| message.role() == Role::Tool)
        .take_while(|message| {
            message
                .as_tool_result()
                .is_some_and(|other| rank(&other.tool_call_id) < own)
        })
        .count();
    messages.insert(calling + 1 + later, Message::Tool(result));
}
