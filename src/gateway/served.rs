//! The agent that a gateway serves, or a group of agents.

use std::sync::Arc;

use crate::agent::{Agent, Decision, Session};
use crate::error::Result;
use crate::message::Messages;
use crate::run::{Responder, Run, RunHandle, RunOutput};
use crate::sdk::SdkMessage;
use crate::session::{AgentState, SessionStore};
use crate::subagent::{HandoffRun, Handoffs};

use super::chat_turn::ChatTurn;

/// The agent that a gateway serves, or a group of agents.
pub(super) enum Served {
    Agent(Agent),
    Group(Handoffs),
}

impl Served {
    pub(super) fn store(&self) -> &Arc<dyn SessionStore> {
        self.first_agent().store()
    }

    /// Returns the agent, or the first agent of the group.
    pub(super) fn first_agent(&self) -> &Agent {
        match self {
            Self::Agent(agent) => agent,
            Self::Group(group) => &group.agents()[0],
        }
    }

    /// Returns `true` if one of the agents has a tool of this name.
    pub(super) fn has_tool(&self, name: &str) -> bool {
        let agents = match self {
            Self::Agent(agent) => std::slice::from_ref(agent),
            Self::Group(group) => group.agents(),
        };
        let mut names = agents.iter().flat_map(Agent::announced_tools);
        names.any(|own_name| own_name == name)
    }

    /// Returns the handle of the run in progress in a session.
    pub(super) fn handle_of(&self, session_id: &str) -> Option<RunHandle> {
        match self {
            Self::Agent(agent) => agent.handle(session_id),
            Self::Group(group) => {
                let mut agents = group.agents().iter();
                agents.find_map(|agent| agent.handle(session_id))
            }
        }
    }

    /// Returns the agent that has the conversation.
    pub(super) fn active_agent(&self, state: &AgentState) -> &Agent {
        match self {
            Self::Agent(agent) => agent,
            Self::Group(group) => group.active(state),
        }
    }

    /// Begins the run of a turn in a session, with an input that may be empty.
    pub(super) fn run(&self, turn: &Arc<ChatTurn>, id: &Arc<str>, input: Messages) -> ServedRun {
        let input_id = turn.input_id.clone();
        let has_id = !input_id.is_empty() && !input.is_empty();
        match self {
            Self::Agent(agent) => {
                let session = session(agent, turn, id);
                let run = if has_id {
                    session.input_id(input_id).run(input)
                } else {
                    session.run(input)
                };
                ServedRun::Agent(Box::new(run))
            }
            Self::Group(group) => {
                let mut run = group
                    .run(id.clone(), input)
                    .with(turn.conversation())
                    .with(turn.clone());
                if has_id {
                    run = run.input_id(input_id);
                }
                if !turn.sender_id.is_empty() {
                    run = run.user_id(turn.sender_id.clone());
                }
                ServedRun::Group(Box::new(run))
            }
        }
    }

    /// Continues a session with the answer to a question that waited. The run is one of the agent
    /// that asked, which may have handed the conversation over by the same response.
    pub(super) fn resume(
        &self,
        turn: &Arc<ChatTurn>,
        state: &AgentState,
        decision: Decision,
    ) -> ServedRun {
        let mut calls = state.pending.iter();
        let call = calls.find(|call| call.id == decision.id);
        let agent = match (self, call.and_then(|call| call.agent.as_deref())) {
            (Self::Group(group), Some(name)) => group.agent(name),
            _ => None,
        };
        let agent = agent.unwrap_or_else(|| self.active_agent(state));
        let session = session(agent, turn, &turn.session_key);
        ServedRun::Agent(Box::new(session.resume(decision)))
    }
}

fn session(agent: &Agent, turn: &Arc<ChatTurn>, id: &Arc<str>) -> Session {
    let session = agent
        .session(id.clone())
        .with(turn.conversation())
        .with(turn.clone());
    if turn.sender_id.is_empty() {
        session
    } else {
        session.user_id(turn.sender_id.clone())
    }
}

/// A run of an agent or of a group.
pub(super) enum ServedRun {
    Agent(Box<Run>),
    Group(Box<HandoffRun>),
}

impl ServedRun {
    pub(super) fn responder(&mut self) -> Responder {
        match self {
            Self::Agent(run) => run.responder(),
            Self::Group(run) => run.responder(),
        }
    }

    pub(super) async fn next(&mut self) -> Option<SdkMessage> {
        match self {
            Self::Agent(run) => run.next().await,
            Self::Group(run) => run.next().await,
        }
    }

    pub(super) fn interrupt(&mut self) {
        match self {
            Self::Agent(run) => run.handle().interrupt(),
            Self::Group(run) => run.interrupt(),
        }
    }

    pub(super) fn into_output(self) -> Result<RunOutput> {
        match self {
            Self::Agent(run) => run.into_output(),
            Self::Group(run) => run.into_output(),
        }
    }
}
