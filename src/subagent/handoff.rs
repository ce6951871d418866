//! A group of agents that hand the conversation over to each other.

use std::fmt;
use std::sync::Arc;

use crate::agent::{Agent, AgentBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Messages;
use crate::session::{AgentState, SessionStore, ThreadStore};

use super::handoff_hook::{HandoffHook, Members, target_of};
use super::handoff_run::HandoffRun;
use super::registry::check_name;

/// The description of the agent that begins.
const FIRST_DESCRIPTION: &str = "Begins every conversation";

/// The default maximum number of handoffs for one input.
const MAX_HANDOFFS: u32 = 8;

/// A group of agents that hand the conversation of a session over to each other.
///
/// Each agent has the tool `handoff { agent, reason? }`. A successful call ends its run, and, once
/// no other call of the response is pending, the session continues with the named agent. That agent
/// sees the whole history and has its own system prompt, tools, permissions, hooks and limits. A
/// subagent works for its caller instead, and cannot hand over the conversation. Rules such as
/// `deny:handoff(agent:billing)` and `deny:Agent(billing)` restrict handoffs.
///
/// The last handoff in the history decides which agent has the conversation, so it is the same in
/// the next process. The session's lease is released between the runs of two agents: send a session
/// no other input until its [`HandoffRun`] has ended.
///
/// ```
/// use agentcore::Agent;
/// use agentcore::subagent::Handoffs;
/// use agentcore::testing::ScriptedModel;
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let triage = ScriptedModel::new().call("handoff", json!({"agent": "billing"}));
/// let billing = ScriptedModel::new().say("I refund it.").say("Tomorrow.");
/// let support = Handoffs::builder("triage", Agent::builder(triage))
///     .agent("billing", "Invoices and refunds", Agent::builder(billing))
///     .build()?;
/// let output = support.run("th_1", "I was charged twice").await?;
/// assert_eq!((output.text.as_str(), output.turns), ("I refund it.", 2));
///
/// // The next input goes to the same agent.
/// assert_eq!(support.run("th_1", "When?").await?.text, "Tomorrow.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Handoffs(Arc<Group>);

struct Group {
    /// All agents; the first one begins conversations.
    agents: Vec<Agent>,
    store: Arc<dyn SessionStore>,
}

impl Handoffs {
    /// Creates a builder for a group in which `agent` begins every conversation.
    pub fn builder(name: impl Into<Arc<str>>, agent: AgentBuilder) -> HandoffsBuilder {
        HandoffsBuilder {
            agents: vec![(name.into(), FIRST_DESCRIPTION.into(), agent)],
            store: None,
            max_handoffs: MAX_HANDOFFS,
        }
    }

    /// Continues the conversation of a session with the agent that has it. Nothing happens until
    /// the run is polled or awaited.
    ///
    /// With an empty input, [`Messages::new`], that agent continues with the stored history, for
    /// example if the process ended between two runs.
    pub fn run(&self, session_id: impl Into<Arc<str>>, input: impl Into<Messages>) -> HandoffRun {
        let session = self.0.agents[0].session(session_id);
        HandoffRun::new(self.clone(), session, input.into())
    }

    /// Returns the agent that has the conversation: the agent of the last successful handoff in the
    /// history, or else the agent that begins. A [`CompactionHook`](crate::hooks::CompactionHook)
    /// that replaces the history therefore has to keep the last call of `handoff` with its result.
    pub fn active(&self, state: &AgentState) -> &Agent {
        let mut messages = state.messages.as_slice().iter().rev();
        let agent = messages.find_map(|message| {
            let result = message.as_tool_result()?;
            self.agent(target_of(result)?)
        });
        agent.unwrap_or(&self.0.agents[0])
    }

    /// Returns the agent of this name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.0.agents.iter().find(|agent| agent.name() == name)
    }

    /// Returns the agents. The first one begins conversations.
    #[cfg(feature = "gateway")]
    pub(crate) fn agents(&self) -> &[Agent] {
        &self.0.agents
    }

    /// Removes the grants of a session from all agents, because a new one begins with its id.
    pub(super) fn forget_grants(&self, session_id: &str) {
        for agent in &self.0.agents {
            agent.forget_grants(session_id);
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn SessionStore> {
        &self.0.store
    }
}

impl fmt::Debug for Handoffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.agents.iter().map(Agent::name);
        f.debug_tuple("Handoffs")
            .field(&names.collect::<Vec<_>>())
            .finish()
    }
}

/// Builds a group of agents.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build()`"]
pub struct HandoffsBuilder {
    agents: Vec<(Arc<str>, String, AgentBuilder)>,
    store: Option<Arc<dyn SessionStore>>,
    max_handoffs: u32,
}

impl HandoffsBuilder {
    /// Adds an agent. The other agents read the description.
    pub fn agent(
        mut self,
        name: impl Into<Arc<str>>,
        description: impl Into<String>,
        agent: AgentBuilder,
    ) -> Self {
        self.agents.push((name.into(), description.into(), agent));
        self
    }

    /// Sets the store of all sessions, for all agents. Defaults to a
    /// [`ThreadStore`](crate::ThreadStore) that drops sessions as the default of
    /// [`AgentBuilder::store`] does: an hour after their last use, and beyond 1,000 sessions or 64
    /// MiB.
    pub fn store(mut self, store: impl SessionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the maximum number of handoffs for one input. Defaults to 8. A further call of
    /// `handoff` has an error result, and the agent keeps the conversation.
    pub fn max_handoffs(mut self, count: u32) -> Self {
        self.max_handoffs = count;
        self
    }

    /// Changes the builder of each agent.
    #[cfg(feature = "gateway")]
    pub(crate) fn map_agents(mut self, change: impl Fn(AgentBuilder) -> AgentBuilder) -> Self {
        self.agents = self
            .agents
            .into_iter()
            .map(|(name, description, agent)| (name, description, change(agent)))
            .collect();
        self
    }

    /// Builds the agents, each with its name, the tool `handoff` and the store of the group.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if two agents have the same name, or a name does not consist
    /// of 1 to 64 letters, digits, `_` and `-`, and the errors of [`AgentBuilder::build`].
    pub fn build(self) -> Result<Handoffs> {
        let members: Members = self
            .agents
            .iter()
            .map(|(name, description, _)| (name.clone(), description.clone()))
            .collect();
        for (index, (name, _)) in members.iter().enumerate() {
            check_name(name)?;
            if members[..index].iter().any(|(earlier, _)| earlier == name) {
                let text = format!("there are two agents {name:?}; give one another name");
                return Err(Error::new(ErrorKind::Config, text));
            }
        }

        let store = self
            .store
            .unwrap_or_else(|| Arc::new(ThreadStore::of_agent()));
        let agents = self
            .agents
            .into_iter()
            .map(|(name, _, agent)| {
                let hook = HandoffHook::new(name.clone(), &members, self.max_handoffs);
                let context = format!("agent {name:?}");
                let agent = agent.name(name).store(store.clone()).hook(hook).build();
                agent.map_err(|error| error.context(context))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Handoffs(Arc::new(Group { agents, store })))
    }
}

impl fmt::Debug for HandoffsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.agents.iter().map(|(name, ..)| name);
        f.debug_struct("HandoffsBuilder")
            .field("agents", &names.collect::<Vec<_>>())
            .field("max_handoffs", &self.max_handoffs)
            .finish_non_exhaustive()
    }
}
