//! The agent: its runs, its sessions and its description.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Config;
use crate::error::Result;
use crate::hook::Hook;
use crate::message::Messages;
use crate::model::Model;
use crate::run::{Run, RunHandle};
use crate::session::{SessionInfo, SessionStore};
use crate::tool::Tool;
use crate::util::ids::random_id;

use super::builder::AgentBuilder;
use super::info::{AgentInfo, HookInfo};
use super::session::Session;

/// A model with tools, hooks and limits. It serves any number of runs at once. It is cheap to
/// clone: clones share one agent.
#[derive(Clone)]
pub struct Agent(Arc<Config>);

impl Agent {
    pub(super) fn new(config: Config) -> Self {
        Self(Arc::new(config))
    }

    pub(super) fn config(&self) -> &Arc<Config> {
        &self.0
    }

    /// Returns the limit of [`AgentBuilder::max_duration`].
    pub(crate) fn max_duration(&self) -> Option<Duration> {
        self.0.settings.budget.duration
    }

    /// Removes the grants of a session, because a new one begins with its id.
    pub(crate) fn forget_grants(&self, session_id: &str) {
        self.0.settings.forget_grants(session_id);
    }

    /// Creates a builder for an agent that calls `model`, as [`AgentBuilder::new`].
    ///
    /// ```
    /// use agentcore::Agent;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let agent = Agent::builder(ScriptedModel::new().say("4")).max_turns(3).build()?;
    /// assert_eq!(agent.run("2+2?").await?.text, "4");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn builder(model: impl Model) -> AgentBuilder {
        AgentBuilder::new(model)
    }

    /// Runs the agent in a new session. `input` is a text, a message or several messages.
    ///
    /// Nothing happens until the run is polled or awaited. The session's id is random;
    /// [`RunOutput::session_id`](crate::RunOutput::session_id) has it.
    ///
    /// The session is not stored: for [`sessions`](Self::sessions) and the agent's
    /// [`store`](Self::store), it does not exist, not even while the run is in progress. To
    /// continue the conversation later, start it with [`session`](Self::session) instead. There are
    /// two exceptions: an agent with its own store
    /// ([`AgentBuilder::store`](crate::AgentBuilder::store)) stores every session, and a session
    /// with calls that wait for approval is stored for
    /// [`Session::resume`](crate::Session::resume).
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::AgentBuilder;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let agent = AgentBuilder::new(ScriptedModel::new().say("4")).build()?;
    /// let output = agent.run("2+2?").await?;
    /// assert_eq!((output.text.as_str(), output.turns), ("4", 1));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn run(&self, input: impl Into<Messages>) -> Run {
        self.new_session().temporary().run(input)
    }

    /// Returns a handle of the session with this id, to start the session or to continue it. An
    /// empty id is replaced by a random one.
    ///
    /// ```
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::AgentBuilder;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let agent = AgentBuilder::new(ScriptedModel::new().say("4").say("8")).build()?;
    /// let first = agent.new_session().run("2+2?").await?;
    /// let next = agent.session(first.session_id).run("And twice that?").await?;
    /// assert_eq!(next.messages.len(), 4);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn session(&self, id: impl Into<Arc<str>>) -> Session {
        let id = id.into();
        if id.is_empty() {
            return self.new_session();
        }
        Session::new(self.clone(), id)
    }

    /// Returns a handle of a new session with a random id. Unlike the session of
    /// [`run`](Self::run), it is stored, so that it can be continued.
    ///
    /// ```
    /// use agentcore::Agent;
    /// use agentcore::testing::ScriptedModel;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let agent = Agent::builder(ScriptedModel::new().say("4").say("8")).build()?;
    /// let session = agent.new_session();
    /// session.clone().run("2+2?").await?;
    /// assert_eq!(session.run("And twice that?").await?.messages.len(), 4);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn new_session(&self) -> Session {
        Session::new(self.clone(), random_id())
    }

    /// Returns the sessions of the agent's store, the most recently written first. Sessions of
    /// subagents are omitted; [`SessionStore::list`] returns them as well.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        let mut list = self.store().list().await?;
        list.retain(|info| info.parent.is_none());
        Ok(list)
    }

    /// Returns the most recently written session that began in the agent's working directory.
    /// Returns `None` if there is none, or if no [`cwd`](crate::AgentBuilder::cwd) was set.
    ///
    /// # Errors
    ///
    /// Returns the store's error.
    pub async fn latest_session(&self) -> Result<Option<Session>> {
        let Some(cwd) = &self.config().settings.cwd else {
            return Ok(None);
        };
        let latest_info = self.store().latest(cwd).await?;
        Ok(latest_info.map(|info| self.session(info.id)))
    }

    /// Returns the handle of the run in progress in a session, or `None` if there is none. Runs of
    /// other agents and of other processes are not included.
    pub fn handle(&self, session_id: &str) -> Option<RunHandle> {
        self.config().live.handle(session_id)
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &str {
        &self.config().settings.agent
    }

    /// Returns the model.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.config().settings.model
    }

    /// Returns the store of the agent's sessions.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.config().store
    }

    /// Returns the tools that were added to the builder. Hooks and tool sources may add more to a
    /// run.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.config().tools
    }

    /// Returns the names of the tools that calls may name: those that were added to the builder,
    /// and those that hooks announce.
    #[cfg(feature = "gateway")]
    pub(crate) fn announced_tools(&self) -> impl Iterator<Item = String> {
        let own_names = self.tools().iter().map(|tool| tool.name().to_owned());
        let hook_names = self.hooks().iter().flat_map(|hook| hook.tools());
        let disabled = &self.config().disabled_tools;
        let names = own_names.chain(hook_names);
        names.filter(|name| !disabled.contains(name.as_str()))
    }

    /// Returns the agent's hooks, outermost first.
    pub fn hooks(&self) -> &[Arc<dyn Hook>] {
        &self.config().hooks.all
    }

    /// Returns a description of the agent: its name, model, tools and hooks.
    pub fn info(&self) -> AgentInfo {
        let mut tools: Vec<_> = self
            .tools()
            .iter()
            .map(|tool| tool.name().to_owned())
            .collect();
        tools.sort_unstable();
        let hooks = self.hooks().iter().map(|hook| HookInfo::of(&**hook));
        AgentInfo {
            name: self.name().to_owned(),
            model: self.model().id().to_owned(),
            tools,
            hooks: hooks.collect(),
            max_turns: self.config().limits.max_turns,
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.name())
            .field("model", &self.model().id())
            .finish_non_exhaustive()
    }
}
