//! The builder of a gateway.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::agent::{AgentBuilder, OnUnanswered};
use crate::backend::Backend;
use crate::error::Result;
use crate::prompt::ContextBuilder;
use crate::sdk::SdkMessage;
use crate::subagent::HandoffsBuilder;
#[cfg(feature = "web")]
use crate::tool::Tool;
use crate::tools::ask::ask_user_question;
#[cfg(feature = "web")]
use crate::tools::web::{SearchProvider, web_search};
use crate::tools::{memory, preset};

use super::bus::MessageBus;
use super::channels::KnownChannels;
use super::chat_interactor::ChatInteractor;
use super::core::{Core, PARALLEL_LOADS};
use super::gateway::Gateway;
use super::heartbeat::Heartbeat;
use super::in_process_bus::InProcessBus;
use super::lanes::Lanes;
use super::options::{DeliveryPolicy, WhenBusy};
use super::registered_tools::RegisteredTools;
use super::served::Served;
use super::shared::{GatewayShared, Observer};
use super::state_manager::StateManager;
use super::summaries::Summaries;
use super::tools;

// The defaults of the setters.
const MAX_ITERATIONS: u32 = 20;
const MAX_TOKENS: u32 = 8_192;
const TEMPERATURE: f64 = 0.7;
const ASK_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const PARALLEL_SESSIONS: usize = 256;
const MAX_TASKS: usize = 64;

/// A builder of a [`Gateway`], from [`Gateway::builder`] or [`Gateway::handoffs`].
///
/// [`max_iterations`](Self::max_iterations), [`max_tokens`](Self::max_tokens),
/// [`temperature`](Self::temperature) and [`ask_timeout`](Self::ask_timeout) replace the agents'
/// own settings, also with their defaults. Only `temperature(None)` keeps the agents' own.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::backend::MemoryBackend;
/// use agentcore::gateway::{Gateway, Heartbeat};
/// use agentcore::testing::ScriptedModel;
///
/// let workspace = MemoryBackend::new();
/// let gateway = Gateway::builder(AgentBuilder::new(ScriptedModel::new()))
///     .heartbeat(Heartbeat::new(workspace.clone()))
///     .workspace(workspace)
///     .max_iterations(50)
///     .temperature(None)
///     .build()?;
/// assert_eq!(gateway.active_sessions(), 0);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[must_use = "a builder does nothing until `build()`"]
pub struct GatewayBuilder {
    agents: Agents,
    bus: Option<Arc<dyn MessageBus>>,
    workspace: Option<Arc<dyn Backend>>,
    #[cfg(feature = "web")]
    search: Option<Arc<dyn Tool>>,
    context: Option<ContextBuilder>,
    summaries: Option<Summaries>,
    state: Option<StateManager>,
    heartbeat: Option<Heartbeat>,
    max_iterations: u32,
    max_tokens: u32,
    temperature: Option<f64>,
    delivery: DeliveryPolicy,
    when_busy: WhenBusy,
    ask_timeout: Duration,
    parallel_sessions: usize,
    max_tasks: usize,
    channels: BTreeSet<Arc<str>>,
    replies_after_message_elsewhere: bool,
    observer: Option<Observer>,
}

/// The agents of the gateway.
enum Agents {
    One(Box<AgentBuilder>),
    Group(HandoffsBuilder),
}

impl GatewayBuilder {
    pub(super) fn new(agent: AgentBuilder) -> Self {
        Self::with_agents(Agents::One(Box::new(agent)))
    }

    pub(super) fn of_group(group: HandoffsBuilder) -> Self {
        Self::with_agents(Agents::Group(group))
    }

    fn with_agents(agents: Agents) -> Self {
        Self {
            agents,
            bus: None,
            workspace: None,
            #[cfg(feature = "web")]
            search: None,
            context: None,
            summaries: Some(Summaries::new()),
            state: None,
            heartbeat: None,
            max_iterations: MAX_ITERATIONS,
            max_tokens: MAX_TOKENS,
            temperature: Some(TEMPERATURE),
            delivery: DeliveryPolicy::default(),
            when_busy: WhenBusy::default(),
            ask_timeout: ASK_TIMEOUT,
            parallel_sessions: PARALLEL_SESSIONS,
            max_tasks: MAX_TASKS,
            channels: BTreeSet::new(),
            replies_after_message_elsewhere: false,
            observer: None,
        }
    }

    /// Sets the bus. Defaults to an [`InProcessBus`].
    pub fn bus(mut self, bus: impl MessageBus) -> Self {
        self.bus = Some(Arc::new(bus));
        self
    }

    /// Sets the workspace. It adds the tools of [`preset::picoclaw`] on its files, a
    /// [`ContextBuilder`] unless one is set, and the tools of [`memory`](crate::tools::memory) on
    /// the memory of that builder. The backend limits which files the tools reach. Defaults to
    /// none, without these tools.
    pub fn workspace(mut self, backend: impl Backend) -> Self {
        self.workspace = Some(Arc::new(backend));
        self
    }

    /// Adds the tool [`web_search`](crate::tools::web::web_search) over a provider. Defaults to
    /// none.
    #[cfg(feature = "web")]
    pub fn search(mut self, provider: impl SearchProvider) -> Self {
        self.search = Some(Arc::new(web_search(provider)));
        self
    }

    /// Sets the builder of the system prompt. Defaults to the builder of the workspace.
    pub fn context(mut self, context: ContextBuilder) -> Self {
        self.context = Some(context);
        self
    }

    /// Sets the summaries of long sessions, which are made in the background after turns. Defaults
    /// to [`Summaries::new`]; with `None`, no session is summarized after a turn. An agent with its
    /// own compactor still uses that compactor.
    pub fn summaries(mut self, summaries: impl Into<Option<Summaries>>) -> Self {
        self.summaries = summaries.into();
        self
    }

    /// Sets the file that records the chat in which a person wrote last. Defaults to none.
    pub fn state(mut self, state: StateManager) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets the regular check of tasks, whose reports go to the last chat of the
    /// [`state`](Self::state). Without a state, and while it has no chat, reports are written to
    /// `heartbeat.log` only. Defaults to none.
    pub fn heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// Sets the maximum number of model calls of a turn, instead of the agent's own limit. Defaults
    /// to 20.
    pub fn max_iterations(mut self, count: u32) -> Self {
        self.max_iterations = count;
        self
    }

    /// Sets the maximum number of tokens of one response, instead of the agent's own limit.
    /// Defaults to 8,192.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets the sampling temperature, instead of the agent's own. Defaults to 0.7; with `None`, the
    /// agent's own setting applies.
    pub fn temperature(mut self, temperature: impl Into<Option<f64>>) -> Self {
        self.temperature = temperature.into();
        self
    }

    /// Sets how the result of a task of the tool `spawn` is delivered. Defaults to
    /// [`DeliveryPolicy::Notify`].
    pub fn delivery(mut self, policy: DeliveryPolicy) -> Self {
        self.delivery = policy;
        self
    }

    /// Sets how a message to a session whose run is in progress is handled. Defaults to
    /// [`WhenBusy::Queue`].
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }

    /// Sets the time in which a question in a chat can be answered while its run waits. After that
    /// the run ends, the call is pending, and the next message of the sender answers the question.
    /// Replaces the agent's own [`ask_timeout`](AgentBuilder::ask_timeout). Defaults to five
    /// minutes.
    ///
    /// A question that cannot be sent, because the queue of its channel stays full for five
    /// minutes, denies its call.
    pub fn ask_timeout(mut self, limit: Duration) -> Self {
        self.ask_timeout = limit;
        self
    }

    /// Sets the maximum number of sessions with a turn in progress, at least 1. Defaults to 256.
    pub fn parallel_sessions(mut self, count: usize) -> Self {
        self.parallel_sessions = count;
        self
    }

    /// Sets the maximum number of tasks of the tool `spawn` in progress, of all sessions. Beyond
    /// that, `spawn` fails. Defaults to 64.
    pub fn max_tasks(mut self, count: usize) -> Self {
        self.max_tasks = count;
        self
    }

    /// Adds channels that the tool `message` may write to; for any other channel, the tool fails.
    /// The gateway adds each channel in which a person writes. Defaults to none.
    pub fn channels<T: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.channels.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sends a reply although the tool `message` wrote to other chats in the turn. Defaults to
    /// `false`: a message to any chat replaces the reply.
    pub fn reply_after_message_elsewhere(mut self, enabled: bool) -> Self {
        self.replies_after_message_elsewhere = enabled;
        self
    }

    /// Sets a function that is called with the messages of all runs, in the order of each run. The
    /// first panic of the function is logged, and runs continue after a panic. Defaults to none.
    pub fn observe(mut self, observer: impl Fn(&SdkMessage) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Builds the gateway. Each agent gets the tools `message`, `spawn`, `subagent` and
    /// `AskUserQuestion`. Calls whose questions are not answered in time become pending
    /// ([`OnUnanswered::Park`]), except in subagents other than the tasks of `spawn`, where they
    /// are denied.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`AgentBuilder::build`], and for a group those of
    /// [`HandoffsBuilder::build`].
    pub fn build(self) -> Result<Gateway> {
        let registered_tools = RegisteredTools::default();
        let default_context = || Some(ContextBuilder::new(self.workspace.clone()?));
        let context = self.context.clone().or_else(default_context);
        let complete = |agent| self.configure_agent(agent, context.as_ref(), &registered_tools);
        let served = match &self.agents {
            Agents::One(agent) => Served::Agent(complete((**agent).clone()).build()?),
            Agents::Group(group) => Served::Group(group.clone().map_agents(complete).build()?),
        };

        let bus = self
            .bus
            .unwrap_or_else(|| Arc::new(InProcessBus::default()));
        let channels = KnownChannels::new(self.channels);
        let max_tasks = self.max_tasks.min(Semaphore::MAX_PERMITS);
        let shared = GatewayShared::new(bus, channels, max_tasks, self.observer, self.ask_timeout);
        let permits = self.parallel_sessions.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Gateway::with_core(Core {
            served,
            shared,
            registered_tools,
            context,
            summaries: self.summaries,
            state: self.state,
            heartbeat: self.heartbeat,
            delivery: self.delivery,
            when_busy: self.when_busy,
            replies_after_message_elsewhere: self.replies_after_message_elsewhere,
            lanes: Lanes::default(),
            turns: Semaphore::new(permits),
            loads: Semaphore::new(PARALLEL_LOADS),
            is_running: AtomicBool::new(false),
        }))
    }

    /// Adds the tools and settings of the gateway to an agent.
    fn configure_agent(
        &self,
        agent: AgentBuilder,
        context: Option<&ContextBuilder>,
        registered_tools: &RegisteredTools,
    ) -> AgentBuilder {
        let mut agent = agent
            .max_turns(self.max_iterations)
            .max_output_tokens(self.max_tokens)
            .ask_timeout(self.ask_timeout)
            .unanswered(OnUnanswered::Park)
            .tools([tools::message(), tools::spawn(), tools::subagent()])
            .tool(ask_user_question(ChatInteractor))
            .tool_source(registered_tools.clone());
        if let Some(temperature) = self.temperature {
            agent = agent.temperature(temperature);
        }
        if let Some(workspace) = &self.workspace {
            agent = agent
                .backend(workspace.clone())
                .registry(&preset::picoclaw(workspace.clone()));
        }
        // The tools share the memory of the prompt, with its files, its day and its lock.
        if let (Some(_), Some(context)) = (&self.workspace, context) {
            agent = agent.tools(memory(context.memory_store()));
        }
        #[cfg(feature = "web")]
        {
            agent = agent.tools(self.search.clone());
        }
        if let Some(summaries) = &self.summaries {
            agent = agent.with_default_compactor(summaries.clone());
        }
        match context {
            Some(context) => agent.hook(context.clone()),
            None => agent,
        }
    }
}

impl fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayBuilder")
            .field("delivery", &self.delivery)
            .field("when_busy", &self.when_busy)
            .field("parallel_sessions", &self.parallel_sessions)
            .finish_non_exhaustive()
    }
}
