//! The lanes of a run: one for the agent, and one for each active subagent.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sdk::{Envelope, TaskNotification, TaskStarted};

use super::blocks::Sink;
use super::ids::Ids;
use super::lane::Lane;
use super::step::{Step, StepKind, Subagent, SubagentEnd};

/// The open blocks, calls, results and turns of each agent of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    main: Lane,
    /// The active subagents, in the order in which they started.
    subagents: Vec<Lane>,
    /// The number of subagents that each call has started.
    children: HashMap<Arc<str>, u32>,
    ids: Ids,
}

/// The steps of a run, to which steps of one agent are added.
struct Steps<'s, 'a> {
    subagent: Option<Arc<str>>,
    steps: &'s mut Vec<Step<'a>>,
}

impl<'a> Steps<'_, 'a> {
    fn sink(&mut self) -> impl FnMut(StepKind<'a>) {
        |kind| {
            self.steps.push(Step {
                subagent: self.subagent.clone(),
                kind,
            });
        }
    }
}

impl Lanes {
    /// Returns the lane of the agent itself.
    pub(super) fn main(&self) -> &Lane {
        &self.main
    }

    /// Returns the number of entries in the maps of calls, children and ids.
    pub(super) fn entry_count(&self) -> usize {
        let lanes = std::iter::once(&self.main).chain(&self.subagents);
        let calls: usize = lanes.map(Lane::call_count).sum();
        calls + self.children.len() + self.ids.count()
    }

    /// Returns the id of a call for readers.
    pub(super) fn shown_call_id(&self, subagent: &Option<Arc<str>>, id: &Arc<str>) -> Arc<str> {
        self.ids.shown_call_id(subagent, id)
    }

    /// Prepares the lanes for a reader that begins at this position. Returns its first steps: the
    /// open turns and the active subagents. The pieces of the open responses are hidden from it.
    pub(super) fn reopen(&mut self) -> Vec<Step<'static>> {
        let mut steps = Vec::new();
        let mut starts = Vec::new();
        for lane in &self.subagents {
            starts.push(self.describe(lane, None));
        }
        reopen(&mut self.main, &mut steps);
        for (lane, start) in self.subagents.iter_mut().zip(starts) {
            steps.push(Step {
                subagent: lane.id.clone(),
                kind: StepKind::SubagentStarted(start),
            });
            reopen(lane, &mut steps);
        }
        steps
    }

    /// Ends all lanes, the agent's own last.
    pub(super) fn end_all(&mut self, is_pending: bool, steps: &mut Vec<Step<'_>>) {
        for index in (0..self.subagents.len()).rev() {
            let end = if is_pending {
                SubagentEnd::Suspended
            } else {
                SubagentEnd::Success(None)
            };
            self.end(index, end, steps);
        }
        let mut own_steps = Steps {
            subagent: None,
            steps,
        };
        self.main.end(&mut own_steps.sink());
    }

    /// Starts the lane of a subagent. Usually the subagent's run sends the start, from its own
    /// session. For a task in the background, the parent's run sends it, and the session is unknown
    /// until the subagent's first message.
    pub(super) fn start(
        &mut self,
        start: &TaskStarted,
        envelope: &Envelope,
        steps: &mut Vec<Step<'_>>,
    ) {
        let call = envelope.parent_tool_use_id.as_ref();
        let Some(call) = call.or(start.tool_use_id.as_ref()) else {
            return;
        };
        let is_of_child = envelope.parent_tool_use_id.is_some();
        let mut lane = self.new_lane(call);
        lane.session_id = is_of_child.then(|| envelope.session_id.clone());
        lane.task_id = Some(start.task_id.clone());
        let mut subagent = self.describe(&lane, start.subagent_type.clone());
        subagent.description.clone_from(&start.description);
        steps.push(Step {
            subagent: lane.id.clone(),
            kind: StepKind::SubagentStarted(subagent),
        });
        self.subagents.push(lane);
    }

    fn new_lane(&mut self, call: &Arc<str>) -> Lane {
        let number = self.children.entry(call.clone()).or_default();
        *number += 1;
        Lane::of_subagent(format!("{call}.{number}"), call.clone())
    }

    fn describe(&self, lane: &Lane, name: Option<Arc<str>>) -> Subagent {
        let call = lane.parent_call.clone().unwrap_or_default();
        let lanes = std::iter::once(&self.main).chain(&self.subagents);
        let parent = lanes
            .filter(|other| other.id != lane.id)
            .find_map(|other| Some((other, other.tool_of(&call)?)));
        let tool = parent.map(|(_, tool)| tool.clone());
        let parent_id = parent.and_then(|(lane, _)| lane.id.clone());
        Subagent {
            name: name.or(tool).unwrap_or_else(|| "subagent".into()),
            description: String::new(),
            call: self.ids.shown_call_id(&parent_id, &call),
            parent: parent_id,
        }
    }

    /// Returns the index of the subagent that a notification ends, if that has a lane.
    pub(super) fn index_of_end(
        &self,
        end: &TaskNotification,
        envelope: &Envelope,
    ) -> Option<usize> {
        let lanes = &self.subagents;
        let by_task = lanes
            .iter()
            .position(|lane| lane.task_id.as_ref() == Some(&end.task_id));
        by_task.or_else(|| {
            envelope.parent_tool_use_id.as_ref()?;
            let session_id = Some(&envelope.session_id);
            lanes
                .iter()
                .position(|lane| lane.session_id.as_ref() == session_id)
        })
    }

    /// Ends the lane of the subagent at this index.
    pub(super) fn end(&mut self, index: usize, end: SubagentEnd, steps: &mut Vec<Step<'_>>) {
        let mut lane = self.subagents.remove(index);
        let mut lane_steps = Steps {
            subagent: lane.id.clone(),
            steps,
        };
        lane.end(&mut lane_steps.sink());
        steps.push(Step {
            subagent: lane.id,
            kind: StepKind::SubagentFinished(end),
        });
    }

    /// Runs `act` with the lane of the agent that sent a message. Starts the lane of a subagent
    /// whose start was not seen.
    pub(super) fn with_lane<'a, R>(
        &mut self,
        envelope: &Envelope,
        steps: &mut Vec<Step<'a>>,
        act: impl FnOnce(&mut Lane, &mut Ids, Sink<'_, 'a>) -> R,
    ) -> R {
        let lane = match self.index_of(envelope, steps) {
            Some(index) => &mut self.subagents[index],
            None => &mut self.main,
        };
        let mut lane_steps = Steps {
            subagent: lane.id.clone(),
            steps,
        };
        act(lane, &mut self.ids, &mut lane_steps.sink())
    }

    /// Returns the index of the subagent that a message is from, which starts if it is unknown;
    /// `None` for the agent itself.
    fn index_of(&mut self, envelope: &Envelope, steps: &mut Vec<Step<'_>>) -> Option<usize> {
        let call = envelope.parent_tool_use_id.as_ref()?;
        let session_id = Some(&envelope.session_id);
        let mut lanes = self.subagents.iter();
        if let Some(index) = lanes.position(|lane| lane.session_id.as_ref() == session_id) {
            return Some(index);
        }

        // The first message from a session belongs to the first lane of the call without a session.
        let lacks_session =
            |lane: &Lane| lane.session_id.is_none() && lane.parent_call.as_ref() == Some(call);
        let index = match self.subagents.iter().position(lacks_session) {
            Some(index) => index,
            None => {
                let lane = self.new_lane(call);
                steps.push(Step {
                    subagent: lane.id.clone(),
                    kind: StepKind::SubagentStarted(self.describe(&lane, None)),
                });
                self.subagents.push(lane);
                self.subagents.len() - 1
            }
        };
        self.subagents[index].session_id = session_id.cloned();
        Some(index)
    }

    /// Returns the id of the subagent that a message is from; `None` for the agent itself.
    pub(super) fn id_of(&self, envelope: &Envelope) -> Option<Arc<str>> {
        envelope.parent_tool_use_id.as_ref()?;
        let session_id = Some(&envelope.session_id);
        let lane = self
            .subagents
            .iter()
            .find(|lane| lane.session_id.as_ref() == session_id);
        lane?.id.clone()
    }
}

fn reopen(lane: &mut Lane, steps: &mut Vec<Step<'static>>) {
    let mut lane_steps = Steps {
        subagent: lane.id.clone(),
        steps,
    };
    lane.reopen(&mut lane_steps.sink());
}

/// Returns a step of the agent itself.
pub(super) fn own(kind: StepKind<'_>) -> Step<'_> {
    Step {
        subagent: None,
        kind,
    }
}
