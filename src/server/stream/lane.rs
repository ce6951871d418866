//! One agent's part of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sdk::{ApiMessage, ApiStreamEvent, AssistantEvent, PartialEvent};

use super::blocks::{ResponseBlocks, Sink};
use super::ids::Ids;
use super::step::StepKind;

/// The minimum time between two reports of a call's progress, in seconds.
const PROGRESS_INTERVAL: f64 = 0.25;

/// The turns and calls of one agent: the run's own, or a subagent.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// The id of the subagent's run; `None` for the agent itself.
    pub(super) id: Option<Arc<str>>,
    /// The thread of a subagent; `None` until its first message.
    pub(super) session_id: Option<Arc<str>>,
    pub(super) task_id: Option<Arc<str>>,
    /// The call that a subagent works for.
    pub(super) parent_call: Option<Arc<str>>,
    /// The number of the turn, from 1.
    turn: u32,
    turn_state: TurnState,
    calls: BTreeMap<Arc<str>, LaneCall>,
}

/// The state of a turn.
#[derive(Clone, Debug, Default)]
enum TurnState {
    /// No turn is open.
    #[default]
    Closed,
    /// The model responds; `None` between two attempts.
    Responding(Option<ResponseBlocks>),
    /// The response is complete.
    Responded,
}

impl TurnState {
    fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// Returns `true` from the beginning of a response to its end, including the time between two
    /// attempts.
    fn is_responding(&self) -> bool {
        matches!(self, Self::Responding(_))
    }

    /// Returns the open response.
    fn response(&mut self) -> Option<&mut ResponseBlocks> {
        match self {
            Self::Responding(response) => response.as_mut(),
            Self::Closed | Self::Responded => None,
        }
    }

    /// Removes the open response, to which another attempt follows.
    fn take_response(&mut self) -> Option<ResponseBlocks> {
        match self {
            Self::Responding(response) => response.take(),
            Self::Closed | Self::Responded => None,
        }
    }
}

/// A call of one agent.
#[derive(Clone, Debug)]
struct LaneCall {
    name: Arc<str>,
    has_result: bool,
    is_denied: bool,
    /// True if the reader has been shown the call.
    is_shown: bool,
    last_progress: Option<f64>,
}

impl LaneCall {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            has_result: false,
            is_denied: false,
            is_shown: true,
            last_progress: None,
        }
    }
}

/// A result that has not been shown.
pub(super) struct NewResult {
    pub(super) is_denied: bool,
    /// True if the reader has been shown the call.
    pub(super) is_call_shown: bool,
}

impl Lane {
    /// Creates the lane of a subagent that works for a call.
    pub(super) fn of_subagent(id: impl Into<Arc<str>>, parent_call: Arc<str>) -> Self {
        Self {
            id: Some(id.into()),
            parent_call: Some(parent_call),
            ..Self::default()
        }
    }

    /// Returns the number of calls.
    pub(super) fn call_count(&self) -> usize {
        self.calls.len()
    }

    /// Adds a piece of a response.
    pub(super) fn push_piece<'a>(
        &mut self,
        event: &'a PartialEvent,
        new_id: impl FnOnce() -> Arc<str>,
        ids: &mut Ids,
        out: Sink<'_, 'a>,
    ) {
        match &event.event {
            ApiStreamEvent::MessageStart { message } => self.begin(message, new_id, ids, out),
            ApiStreamEvent::ContentBlockStart { index, block } => {
                // A model that restarts its response need not begin the message again.
                if let TurnState::Responding(response @ None) = &mut self.turn_state {
                    let id = ids.register_response(&Arc::default(), new_id);
                    *response = Some(ResponseBlocks::new(id));
                }
                if let Some(response) = self.turn_state.response() {
                    let register = call_registration(&self.id, &mut self.calls, ids);
                    response.start(*index, block, register, out);
                }
            }
            ApiStreamEvent::ContentBlockDelta { index, delta } => {
                if let Some(response) = self.turn_state.response() {
                    response.grow(*index, delta, out);
                }
            }
            ApiStreamEvent::ContentBlockStop { index } => {
                if let Some(response) = self.turn_state.response() {
                    response.stop(*index, out);
                }
            }
            _ => {}
        }
    }

    /// Begins a response: the first of its turn, or another attempt.
    fn begin(
        &mut self,
        message: &ApiMessage,
        new_id: impl FnOnce() -> Arc<str>,
        ids: &mut Ids,
        out: Sink<'_, '_>,
    ) {
        self.close_response(out);
        if !self.turn_state.is_responding() {
            self.end_turn(out);
            self.turn += 1;
            out(StepKind::TurnStarted(self.turn));
        }
        let response = ResponseBlocks::new(ids.register_response(&message.id, new_id));
        self.turn_state = TurnState::Responding(Some(response));
    }

    /// Restarts the response. Returns `true` if there was one.
    pub(super) fn restart(&mut self, out: Sink<'_, '_>) -> bool {
        let Some(mut response) = self.turn_state.take_response() else {
            return false;
        };
        response.close(out);
        for id in response.call_ids() {
            self.calls.remove(id);
        }
        out(StepKind::Restarted);
        true
    }

    /// Completes a response. Returns the id of its message, and `false` if it is not the response
    /// that was streamed.
    pub(super) fn finish_response<'a>(
        &mut self,
        event: &'a AssistantEvent,
        new_id: impl FnOnce() -> Arc<str>,
        ids: &mut Ids,
        out: Sink<'_, 'a>,
    ) -> (Arc<str>, bool) {
        if self.turn_state.response().is_none() {
            self.begin(&event.message, new_id, ids, out);
        }
        let response = self.turn_state.take_response();
        self.turn_state = TurnState::Responded;
        let Some(mut response) = response else {
            return (event.message.id.clone(), true);
        };

        let register = call_registration(&self.id, &mut self.calls, ids);
        let is_as_streamed = response.finish(&event.message.message, register, out);
        (response.id().clone(), is_as_streamed)
    }

    /// Ends the open block and the turn.
    pub(super) fn end(&mut self, out: Sink<'_, '_>) {
        self.close_response(out);
        self.end_turn(out);
    }

    fn close_response(&mut self, out: Sink<'_, '_>) {
        if let Some(response) = self.turn_state.response() {
            response.close(out);
        }
    }

    /// Ends the turn, if one is open.
    fn end_turn(&mut self, out: Sink<'_, '_>) {
        if std::mem::take(&mut self.turn_state).is_open() {
            out(StepKind::TurnFinished(self.turn));
        }
    }

    /// Begins again for a reader that has been shown nothing: the turn is opened, and the pieces of
    /// the open response are hidden.
    pub(super) fn reopen(&mut self, out: Sink<'_, '_>) {
        if self.turn_state.is_open() {
            out(StepKind::TurnStarted(self.turn));
        }
        if let Some(response) = self.turn_state.response() {
            response.mute();
        }
        for call in self.calls.values_mut() {
            call.is_shown = false;
        }
    }

    /// Returns the name of a call's tool, if the call is one of this agent.
    pub(super) fn tool_of(&self, call_id: &str) -> Option<&Arc<str>> {
        self.calls.get(call_id).map(|call| &call.name)
    }

    /// Returns `true` if the reader has been shown a call.
    pub(super) fn has_shown(&self, call_id: &str) -> bool {
        self.calls.get(call_id).is_some_and(|call| call.is_shown)
    }

    /// Records a denial.
    pub(super) fn deny(&mut self, call_id: &Arc<str>, name: &Arc<str>) {
        let call = self.call(call_id, name);
        call.is_denied = true;
    }

    /// Records a call's result. Returns `None` if it has been shown already.
    pub(super) fn record_result(
        &mut self,
        call_id: &Arc<str>,
        name: &Arc<str>,
    ) -> Option<NewResult> {
        let call = self.call(call_id, name);
        if std::mem::replace(&mut call.has_result, true) {
            return None;
        }
        let is_call_shown = std::mem::replace(&mut call.is_shown, true);
        Some(NewResult {
            is_denied: call.is_denied,
            is_call_shown,
        })
    }

    /// Records the progress of a call. Returns `None` if it is not to be shown: it is shown at most
    /// four times a second, until the call has a result. Otherwise returns `true` if the reader has
    /// been shown the call.
    pub(super) fn record_progress(
        &mut self,
        call_id: &Arc<str>,
        name: &Arc<str>,
        elapsed: f64,
    ) -> Option<bool> {
        let call = self.call(call_id, name);
        let is_due = call
            .last_progress
            .is_none_or(|last| elapsed - last >= PROGRESS_INTERVAL);
        if is_due {
            call.last_progress = Some(elapsed);
        }
        (is_due && !call.has_result).then_some(call.is_shown)
    }

    /// Records that the reader is shown a call.
    pub(super) fn show(&mut self, call_id: &str) {
        if let Some(call) = self.calls.get_mut(call_id) {
            call.is_shown = true;
        }
    }

    /// Returns a call of this agent. One that is missing is from an earlier run; it is added, as a
    /// call that the reader has not been shown.
    fn call(&mut self, call_id: &Arc<str>, name: &Arc<str>) -> &mut LaneCall {
        self.calls
            .entry(call_id.clone())
            .or_insert_with(|| LaneCall {
                is_shown: false,
                ..LaneCall::new(name.clone())
            })
    }
}

/// Returns the function that adds a call to a lane and returns its id for readers.
fn call_registration<'l>(
    lane_id: &'l Option<Arc<str>>,
    calls: &'l mut BTreeMap<Arc<str>, LaneCall>,
    ids: &'l mut Ids,
) -> impl FnMut(&Arc<str>, &Arc<str>) -> Arc<str> + 'l {
    move |id: &Arc<str>, name: &Arc<str>| {
        calls.insert(id.clone(), LaneCall::new(name.clone()));
        ids.register_call(lane_id, id)
    }
}
