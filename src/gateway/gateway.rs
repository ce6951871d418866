//! [`Gateway`], the handle of a gateway. Its [`run`](Gateway::run) is in `dispatch.rs`.

use std::fmt;
use std::sync::Arc;

use crate::agent::AgentBuilder;
use crate::error::{Error, ErrorKind, Result};
use crate::prompt::Conversation;
use crate::subagent::HandoffsBuilder;
use crate::tool::Tool;
use crate::util::text::truncate_redacted;

use super::builder::GatewayBuilder;
use super::bus::MessageBus;
use super::channels::{CLI, SYSTEM, is_internal_channel};
use super::chat_turn::HEARTBEAT;
use super::core::Core;
use super::heartbeat::HeartbeatReply;
use super::message::{InboundMessage, OutboundMessage};
use super::process_options::ProcessOptions;
use super::startup_info::StartupInfo;
use super::state_manager::StateManager;

/// The chat of [`Gateway::process_direct`].
const DIRECT: &str = "direct";

/// Connects chat channels with the sessions of an agent. Clones are the same gateway.
///
/// The messages of a session are answered one after the other, messages of different sessions
/// concurrently. Nothing is spawned: [`run`](Self::run) is one future that drives all of them.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::gateway::{Gateway, InProcessBus, InboundMessage, MessageBus};
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> agentcore::Result<()> {
/// let bus = InProcessBus::default();
/// let agent = AgentBuilder::new(ScriptedModel::new().say("Hello Ann."));
/// let gateway = Gateway::builder(agent).bus(bus.clone()).build()?;
/// let chat = async {
///     let message = InboundMessage::new("telegram", "123", "u1", "I am Ann").with_id("tg:77");
///     bus.publish_inbound(message).await?;
///     let reply = bus.consume_outbound("telegram").await?.expect("the bus is open");
///     assert_eq!((&*reply.message.id, &*reply.message.content), ("tg:77:reply", "Hello Ann."));
///     reply.ack().await?;
///     gateway.stop();
///     agentcore::Result::Ok(())
/// };
/// let (run, chat) = tokio::join!(gateway.run(), chat);
/// run.and(chat)
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Gateway {
    pub(super) core: Arc<Core>,
}

impl Gateway {
    /// Creates a builder for a gateway with one agent.
    pub fn builder(agent: AgentBuilder) -> GatewayBuilder {
        GatewayBuilder::new(agent)
    }

    /// Creates a builder for a gateway with a group of agents that hand conversations over to each
    /// other.
    pub fn handoffs(group: HandoffsBuilder) -> GatewayBuilder {
        GatewayBuilder::of_group(group)
    }

    pub(super) fn with_core(core: Core) -> Self {
        Self {
            core: Arc::new(core),
        }
    }

    /// Returns the bus.
    pub fn bus(&self) -> &Arc<dyn MessageBus> {
        &self.core.shared.bus
    }

    /// Runs one turn after the earlier turns of its session, and returns the reply. The reply is
    /// empty if a question waits for its answer, if the input answers a task of
    /// [`spawn`](super::spawn), or if it was taken as an answer before. While another process has
    /// the session, this waits for up to ten seconds. While the gateway does not
    /// [run](Self::run), a summary of the session that is due is made before this returns.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequest`](ErrorKind::InvalidRequest) if the name of the channel has a colon
    /// or more than 1,024 bytes, the errors of [`Run::finish`](crate::Run::finish), of the store
    /// and of the bus, and [`Cancelled`](crate::ErrorKind::Cancelled) if the gateway was stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the turn, and the next turn of the session may begin. Stored
    /// messages stay, even in the session of a turn without history.
    pub async fn run_agent_loop(&self, options: ProcessOptions) -> Result<String> {
        Ok(self.core.process_in_lane(&options).await?.text)
    }

    /// Processes a message that is not on the bus, and returns the reply instead of sending it. A
    /// message of the channel `system` is logged and has an empty reply.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`run_agent_loop`](Self::run_agent_loop).
    pub async fn process_message(&self, message: InboundMessage) -> Result<String> {
        let message = message.completed();
        if &*message.channel == SYSTEM {
            self.process_system_message(&message);
            return Ok(String::new());
        }
        self.run_agent_loop(ProcessOptions::of_message(&message))
            .await
    }

    /// Logs a message of the channel `system`. The model is not called.
    pub fn process_system_message(&self, message: &InboundMessage) {
        tracing::info!(
            sender_id = &*message.sender_id,
            chat_id = &*message.chat_id,
            "a message about background work: {}",
            truncate_redacted(&message.content, 200),
        );
    }

    /// Processes a text in a session, for the chat `direct` of the channel `cli`, and returns the
    /// reply.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`run_agent_loop`](Self::run_agent_loop).
    pub async fn process_direct(
        &self,
        content: impl Into<Arc<str>>,
        session_key: impl Into<Arc<str>>,
    ) -> Result<String> {
        self.process_direct_with_channel(content, session_key, CLI, DIRECT)
            .await
    }

    /// Processes a text in a session, for a chat, and returns the reply.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`run_agent_loop`](Self::run_agent_loop).
    pub async fn process_direct_with_channel(
        &self,
        content: impl Into<Arc<str>>,
        session_key: impl Into<Arc<str>>,
        channel: impl Into<Arc<str>>,
        chat_id: impl Into<Arc<str>>,
    ) -> Result<String> {
        let message = InboundMessage::new(channel, chat_id, "", content);
        self.process_message(message.with_session_key(session_key))
            .await
    }

    /// Processes a text without a history, for a chat, and returns the reply. The turn runs in its
    /// own session, which is deleted afterwards.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`run_agent_loop`](Self::run_agent_loop).
    pub async fn process_heartbeat(
        &self,
        content: impl Into<Arc<str>>,
        channel: impl Into<Arc<str>>,
        chat_id: impl Into<Arc<str>>,
    ) -> Result<String> {
        let options = ProcessOptions::new(HEARTBEAT, channel, chat_id, content);
        self.run_agent_loop(options.without_history()).await
    }

    /// Runs the heartbeat, and sends its report to the chat in which a person wrote last.
    pub(super) async fn beat(&self) {
        let Some(heartbeat) = &self.core.heartbeat else {
            return;
        };
        let state = self.core.state.as_ref();
        let target = state.and_then(StateManager::last_conversation);
        let default_target = || Conversation::new(CLI, DIRECT);
        let target = target.unwrap_or_else(default_target);
        let text = heartbeat.beat(|prompt| async {
            let channel = target.channel.clone();
            let options = ProcessOptions::new(HEARTBEAT, channel, target.chat_id.clone(), prompt)
                .without_history();
            let processed = self.core.process_in_lane(&options).await?;
            Ok(if processed.has_sent {
                HeartbeatReply::Silent
            } else if processed.is_async {
                HeartbeatReply::Async
            } else {
                HeartbeatReply::Text(processed.text)
            })
        });
        let Some(text) = text.await else {
            return;
        };
        if is_internal_channel(&target.channel) {
            return;
        }
        let message = OutboundMessage::new(target.channel, target.chat_id, text);
        if let Err(error) = self.core.shared.publish_outbound(message).await {
            tracing::warn!("the report of the heartbeat could not be sent: {error}");
        }
    }

    /// Records the last channel, as `CHANNEL:CHAT_ID`. Does nothing without a
    /// [`state`](GatewayBuilder::state).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`StateManager::set_last_channel`].
    pub async fn record_last_channel(&self, last_channel: &str) -> Result<()> {
        match &self.core.state {
            Some(state) => state.set_last_channel(last_channel).await,
            None => Ok(()),
        }
    }

    /// Records the last chat. Does nothing without a [`state`](GatewayBuilder::state).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`StateManager::set_last_chat_id`].
    pub async fn record_last_chat_id(&self, chat_id: &str) -> Result<()> {
        match &self.core.state {
            Some(state) => state.set_last_chat_id(chat_id).await,
            None => Ok(()),
        }
    }

    /// Returns the channel and the chat in which a person wrote last: `CHANNEL:CHAT_ID`. Returns
    /// `None` without a [`state`](GatewayBuilder::state), and while it has none.
    pub fn last_channel(&self) -> Option<Arc<str>> {
        self.core.state.as_ref()?.last_channel()
    }

    /// Adds a tool. Turns in progress have it from their next model call on.
    ///
    /// # Errors
    ///
    /// Returns [`Tool`](crate::ErrorKind::Tool) if the tool's name or its parameters are not valid,
    /// or if an agent of the gateway has a tool of that name, or one was added before.
    pub fn register_tool(&self, tool: impl Tool) -> Result<()> {
        let name = tool.name();
        if self.core.served.has_tool(name) {
            let text = format!("an agent has a tool {name:?} already; use another name");
            return Err(Error::new(ErrorKind::Tool, text));
        }
        self.core.registered_tools.register(tool)
    }

    /// Returns the names of the tools and skills. A group has the tools of its first agent.
    pub async fn startup_info(&self) -> StartupInfo {
        let mut tools: Vec<_> = self.core.served.first_agent().announced_tools().collect();
        tools.extend(self.core.registered_tools.names());
        tools.sort_unstable();
        tools.dedup();
        let skills = match &self.core.context {
            Some(context) => context.skills_info().await.names,
            None => Vec::new(),
        };
        StartupInfo { tools, skills }
    }

    /// Returns the number of sessions with a turn that waits or is in progress.
    pub fn active_sessions(&self) -> usize {
        self.core.lanes.len()
    }

    /// Stops the gateway, which cannot be started again. [`run`](Self::run) takes no further
    /// message and gives back the messages whose turns have not begun. Turns in progress,
    /// including those of direct callers, the tasks of [`spawn`](super::spawn) and the summaries
    /// have ten seconds to end. After that turns and tasks are interrupted, the messages of these
    /// turns are given back, summaries are dropped, and a message that the bus does not take within
    /// two seconds is not sent. Turns and tasks that do not end within another 15 seconds, such as
    /// those that wait for a store, are dropped.
    pub fn stop(&self) {
        self.core.shared.stop.cancel();
        self.core.turns.close();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("active_sessions", &self.active_sessions())
            .finish_non_exhaustive()
    }
}
