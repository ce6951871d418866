//! The steps before the loop: the session, the hooks, the input.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::guard;
use crate::message::{Message, Messages, Role, ToolResult};
use crate::model::{ModelResponse, PromptContext, Stability, SystemPrompt};
use crate::run::{ExitReason, RunContext, Stop};
use crate::session::{AgentState, Known, MessageInfo, StoredSession, cut, not_found};

use super::active_run::{Driver, Keeper, Start};
use super::call_ids::CallIds;
use super::closing::exit_after;
use super::restore::Restored;
use super::structured_output;
use super::tool_catalog::RunTools;

/// The warning about a summary whose messages are no longer there.
pub(super) const STALE_COMPACTION: &str =
    "a hook changed messages that a summary stood for; the summary is dropped";

impl Driver {
    /// Leases and loads the session, runs `before_agent`, appends the input. `Some` when that
    /// input was sent before and there is nothing left to do about it.
    pub(super) async fn open(&mut self, start: Box<Start>) -> Result<Option<ExitReason>> {
        let mut stored = self.lease_and_load(&start).await?;
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
        // An input that was sent again is there already, behind the cut that came with it.
        let cut_to = start.at.filter(|_| !sent_again);
        if let Some(len) = cut_to {
            stored = cut_history(&id, stored, len)?;
        }
        let Restored {
            mut state,
            changed,
            open,
            mut late,
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
        let again = self.rerun(open).await?;
        late.extend(again.results);

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
        if changed || cut_to.is_some() {
            // What was decided about open calls is decided for good: a later load must not find
            // a question open that this run has told the model was closed. A cut is for good, too.
            let state = self.cx.state(|state| state.clone());
            self.save(&state).await?;
        }
        self.show_restored(late);
        if let Some(id) = input_id.as_ref().filter(|_| sent_again) {
            return self.known_input(id).await;
        }
        if !rest.is_empty() {
            self.append_input(rest, input_id).await?;
        }
        if again.interrupted {
            // Not before: whatever waits after this is dropped, and the input would be lost.
            self.cx.shared().request_stop(Stop::Interrupt);
        }
        Ok(None)
    }

    /// Holds the session for this run, makes its handle found, and reads what is stored.
    async fn lease_and_load(&mut self, start: &Start) -> Result<StoredSession> {
        if start.at.is_some() && start.decisions.is_some() {
            let text = "a run answers what waits at the end of the history, or goes on from an \
                        earlier message; resume without `resume_at`, or run with it";
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
        let store = self.config.store.clone();
        let id = start.shared.session_id();
        let default_store = self.config.default_store.as_ref();
        let lease = match default_store.filter(|_| !start.is_kept) {
            Some(store) => store.lease_unkept(id)?,
            None => store.lease(id).await?,
        };
        self.registered = Some(self.config.live.register(&start.shared));
        let stored = match store.load(id).await? {
            None if start.must_exist || start.decisions.is_some() => return Err(not_found(id)),
            stored => stored.unwrap_or_default(),
        };
        self.keeper = Some(Keeper::new(store, lease, &stored.state));
        for damage in &stored.damage {
            self.cx
                .warn(format!("the stored session is damaged: {damage}"));
        }
        Ok(stored)
    }

    /// Shows the results that calls of an earlier run got at last, as far as hooks left them.
    fn show_restored(&mut self, mut results: Vec<ToolResult>) {
        if results.is_empty() {
            return;
        }
        let messages = self.cx.state(|state| state.messages.clone());
        let place = |result: &ToolResult| {
            let is_it = |message: &Arc<Message>| message.as_tool_result() == Some(result);
            messages.as_slice().iter().rposition(is_it)
        };
        results.retain(|result| place(result).is_some());
        results.sort_by_key(place);
        self.show_late(results);
    }

    /// Completes whose session it is and where it began. New values are stored with the input.
    fn complete_origin(&mut self, state: &mut AgentState, user_id: Option<Arc<str>>) {
        let user_id = user_id.or_else(|| state.user_id.clone());
        let own_cwd = || self.config.settings.cwd.clone();
        let cwd = state.cwd.clone().or_else(own_cwd);
        if state.user_id != user_id || state.cwd != cwd {
            (state.user_id, state.cwd) = (user_id, cwd);
            self.began = true;
        }
    }

    /// Stores the input and adds it to the history, which is made to fit it.
    async fn append_input(&mut self, input: Vec<Arc<Message>>, id: Option<Arc<str>>) -> Result<()> {
        let from = self.first_new;
        self.cx.state(AgentState::settle_inputs);
        self.append(input, id.clone()).await?;
        self.repair_input();
        if let Some(id) = id {
            self.cx.state(|state| {
                let len = state.messages.len();
                state.inputs.begin(id, from.min(len)..len);
                state.inputs.bound();
            });
        }
        self.ids = self.cx.state(|state| CallIds::of(&state.messages));
        Ok(())
    }

    /// Handles an input that was sent before: returns the run's exit if nothing is left to do.
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
        let max_values = self.config.settings.response_limits.max_values;
        match format.map(|format| structured_output::read(format, &response.text(), max_values)) {
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

    /// Removes an interrupted answer from the history, so that its input gets a complete one. Few
    /// models can continue in the middle of a text.
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
        self.recount(&state);
        self.save(&state).await
    }

    async fn prompt(&self) -> Result<SystemPrompt> {
        let config = &*self.config;
        let mut tools: Vec<_> = config
            .tools
            .iter()
            .map(|tool| tool.name().to_owned())
            .collect();
        tools.sort_unstable();
        let cx = PromptContext::new(
            self.cx.session_id(),
            &config.settings.agent,
            config.settings.cwd.as_deref(),
            config.model.id(),
            &tools,
        );
        config.prompter.assemble(cx).await
    }

    /// Runs `before_agent` of every hook. Nothing of it is kept when one fails, or when the run is
    /// stopped meanwhile.
    async fn before_agent(&mut self, state: AgentState) -> Result<()> {
        let undo = Undo::begin(&self.cx);
        self.run_before_agent(state).await?;
        undo.forget();
        Ok(())
    }

    async fn run_before_agent(&mut self, mut state: AgentState) -> Result<()> {
        let config = self.config.clone();
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
        self.recount(&state);
        self.ids = CallIds::of(&state.messages);
        self.cx.state(|slot| *slot = state);
        self.tools.refresh(&config, &self.cx).await
    }

    /// Moves leading system messages of the input into the system prompt.
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

/// Restores the run's state when it is dropped.
struct Undo {
    cx: RunContext,
    before: Option<AgentState>,
}

impl Undo {
    fn begin(cx: &RunContext) -> Self {
        Self {
            cx: cx.clone(),
            before: Some(cx.state(|state| state.clone())),
        }
    }

    fn forget(mut self) {
        self.before = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // What is dropped may hold foreign values, which must not find the state locked.
            drop(self.cx.state(|state| std::mem::replace(state, before)));
        }
    }
}

/// Cuts the session's history after `len` messages, as if the later ones had never been sent.
fn cut_history(id: &str, stored: StoredSession, len: usize) -> Result<StoredSession> {
    let inputs = stored.state.inputs.clone();
    let mut kept = cut(id, stored, len)?;
    kept.state.inputs = inputs;
    kept.state.inputs.cut(kept.state.messages.len());
    Ok(kept)
}

/// Checks the input: messages of users alone by the strict rules, whole histories by the common
/// ones.
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
