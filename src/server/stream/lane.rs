//! One agent's part of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sdk::{ApiMessage, ApiStreamEvent, AssistantEvent, PartialEvent};

use super::blocks::{AnswerBlocks, Sink};
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
    /// The model answers; `None` between two attempts.
    Answering(Option<AnswerBlocks>),
    /// The answer is complete.
    Answered,
}

impl TurnState {
    fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// Returns `true` from the beginning of an answer to its end, including the time between two
    /// attempts.
    fn is_answering(&self) -> bool {
        matches!(self, Self::Answering(_))
    }

    /// Returns the open answer.
    fn answer(&mut self) -> Option<&mut AnswerBlocks> {
        match self {
            Self::Answering(answer) => answer.as_mut(),
            Self::Closed | Self::Answered => None,
        }
    }

    /// Removes the open answer, to which another attempt follows.
    fn take_answer(&mut self) -> Option<AnswerBlocks> {
        match self {
            Self::Answering(answer) => answer.take(),
            Self::Closed | Self::Answered => None,
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
    pub(super) has_call: bool,
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

    /// Adds a piece of an answer.
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
                // A model that restarts its answer need not begin the message again.
                if let TurnState::Answering(answer @ None) = &mut self.turn_state {
                    let id = ids.register_answer(&Arc::default(), new_id);
                    *answer = Some(AnswerBlocks::new(id));
                }
                if let Some(answer) = self.turn_state.answer() {
                    let register = call_registration(&self.id, &mut self.calls, ids);
                    answer.start(*index, block, register, out);
                }
            }
            ApiStreamEvent::ContentBlockDelta { index, delta } => {
                if let Some(answer) = self.turn_state.answer() {
                    answer.grow(*index, delta, out);
                }
            }
            ApiStreamEvent::ContentBlockStop { index } => {
                if let Some(answer) = self.turn_state.answer() {
                    answer.stop(*index, out);
                }
            }
            _ => {}
        }
    }

    /// Begins an answer: the first of its turn, or another attempt.
    fn begin(
        &mut self,
        message: &ApiMessage,
        new_id: impl FnOnce() -> Arc<str>,
        ids: &mut Ids,
        out: Sink<'_, '_>,
    ) {
        self.close_answer(out);
        if !self.turn_state.is_answering() {
            self.end_turn(out);
            self.turn += 1;
            out(StepKind::TurnStarted(self.turn));
        }
        let answer = AnswerBlocks::new(ids.register_answer(&message.id, new_id));
        self.turn_state = TurnState::Answering(Some(answer));
    }

    /// Restarts the answer. Returns `true` if there was one.
    pub(super) fn restart(&mut self, out: Sink<'_, '_>) -> bool {
        let Some(mut answer) = self.turn_state.take_answer() else {
            return false;
        };
        answer.close(out);
        for id in answer.call_ids() {
            self.calls.remove(id);
        }
        out(StepKind::Restarted);
        true
    }

    /// Completes an answer. Returns the id of its message, and `false` if it is not the answer that
    /// was streamed.
    pub(super) fn finish_answer<'a>(
        &mut self,
        event: &'a AssistantEvent,
        new_id: impl FnOnce() -> Arc<str>,
        ids: &mut Ids,
        out: Sink<'_, 'a>,
    ) -> (Arc<str>, bool) {
        if self.turn_state.answer().is_none() {
            self.begin(&event.message, new_id, ids, out);
        }
        let answer = self.turn_state.take_answer();
        self.turn_state = TurnState::Answered;
        let Some(mut answer) = answer else {
            return (event.message.id.clone(), true);
        };

        let register = call_registration(&self.id, &mut self.calls, ids);
        let is_as_streamed = answer.finish(&event.message.message, register, out);
        (answer.id().clone(), is_as_streamed)
    }

    /// Ends the open block and the turn.
    pub(super) fn end(&mut self, out: Sink<'_, '_>) {
        self.close_answer(out);
        self.end_turn(out);
    }

    fn close_answer(&mut self, out: Sink<'_, '_>) {
        if let Some(answer) = self.turn_state.answer() {
            answer.close(out);
        }
    }

    /// Ends the turn, if one is open.
    fn end_turn(&mut self, out: Sink<'_, '_>) {
        if std::mem::take(&mut self.turn_state).is_open() {
            out(StepKind::TurnFinished(self.turn));
        }
    }

    /// Begins again for a reader that has been shown nothing: the turn is opened, and the pieces of
    /// the open answer are hidden.
    pub(super) fn reopen(&mut self, out: Sink<'_, '_>) {
        if self.turn_state.is_open() {
            out(StepKind::TurnStarted(self.turn));
        }
        if let Some(answer) = self.turn_state.answer() {
            answer.mute();
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
        let has_call = std::mem::replace(&mut call.is_shown, true);
        Some(NewResult {
            is_denied: call.is_denied,
            has_call,
        })
    }

    /// Records the progress of a call. Returns `true` if it is to be shown: at most four times a
    /// second, until the call has a result.
    pub(super) fn record_progress(
        &mut self,
        call_id: &Arc<str>,
        name: &Arc<str>,
        elapsed: f64,
    ) -> bool {
        let call = self.call(call_id, name);
        let is_due = call
            .last_progress
            .is_none_or(|last| elapsed - last >= PROGRESS_INTERVAL);
        if is_due {
            call.last_progress = Some(elapsed);
        }
        is_due && !call.has_result
    }

    /// Returns a call of this agent. A call that has not been shown is from an earlier run.
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
