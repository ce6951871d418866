//! A gateway that connects chat channels with the sessions of an agent.
//!
//! A channel is a place where people write: a terminal, a webhook, a chat service. Its adapter
//! publishes what they write as [`InboundMessage`]s to a [`MessageBus`], and sends the
//! [`OutboundMessage`]s that it consumes from the bus. A [`Gateway`] answers the messages: the
//! messages of one session one after the other, different sessions concurrently. In this module, a
//! *turn* is one input and its reply, which may take several turns of the agent.
//!
//! | | |
//! |---|---|
//! | [`Gateway`], [`GatewayBuilder`] | an agent, or a group of agents, that answers messages |
//! | [`ProcessOptions`] | one turn without a bus |
//! | [`MessageBus`], [`Delivery`] | a bus; each message is delivered until it is acknowledged |
//! | [`InProcessBus`] | the bus inside one process |
//! | `NatsBus` (feature `nats`) | a bus that gateways on several machines share |
//! | [`message()`], [`spawn`], [`subagent`] | the tools that agents of a gateway have |
//! | [`StateManager`], [`Heartbeat`] | the last chat, and tasks that are checked at regular intervals |
//! | [`Summaries`] | summaries of long conversations, in the background |
//! | [`SessionManager`] | sessions by their keys, and their import from files |
//!
//! # An adapter
//!
//! An adapter for a chat service has two loops. This one is for a service with the two methods of
//! `Service`, as the bot API of Telegram has them. Its loops end only if the bus is closed or the
//! service refuses the adapter as a whole, as with a wrong key:
//!
//! ```
//! use std::time::Duration;
//!
//! use agentcore::gateway::{InboundMessage, MessageBus, OutboundMessage};
//! use agentcore::{Result, async_trait};
//!
//! /// The pause after a fault that passes.
//! const PAUSE: Duration = Duration::from_secs(5);
//!
//! /// A message as the service delivers it.
//! struct Update {
//!     update_id: i64,
//!     chat_id: i64,
//!     user_id: i64,
//!     text: String,
//! }
//!
//! /// Its errors have a kind that is retryable if the fault passes: the service is busy, or there
//! /// is no connection.
//! #[async_trait]
//! trait Service: Send + Sync {
//!     async fn get_updates(&self, offset: i64) -> Result<Vec<Update>>;
//!     async fn send_message(&self, chat_id: &str, text: &str) -> Result<()>;
//! }
//!
//! /// Passes messages on until the bus is closed. Run it next to `Gateway::run`.
//! async fn telegram(service: &impl Service, bus: &impl MessageBus) -> Result<()> {
//!     tokio::try_join!(receive(service, bus), send(service, bus))?;
//!     Ok(())
//! }
//!
//! async fn receive(service: &impl Service, bus: &impl MessageBus) -> Result<()> {
//!     let mut offset = 0;
//!     loop {
//!         let updates = match service.get_updates(offset).await {
//!             Ok(updates) => updates,
//!             Err(error) if error.is_retryable() => {
//!                 tracing::warn!(%error, "messages cannot be received");
//!                 tokio::time::sleep(PAUSE).await;
//!                 continue;
//!             }
//!             Err(error) => return Err(error),
//!         };
//!         for update in updates {
//!             let (chat, user) = (update.chat_id.to_string(), update.user_id.to_string());
//!             let message = InboundMessage::new("telegram", chat, user, update.text)
//!                 // A message that is delivered twice is answered once.
//!                 .with_id(format!("tg:{}", update.update_id));
//!             bus.publish_inbound(message).await?;
//!             // The service forgets the update when it sees the next offset.
//!             offset = update.update_id + 1;
//!         }
//!     }
//! }
//!
//! async fn send(service: &impl Service, bus: &impl MessageBus) -> Result<()> {
//!     while let Some(delivery) = bus.consume_outbound("telegram").await? {
//!         let OutboundMessage { chat_id, content, .. } = &delivery.message;
//!         match service.send_message(chat_id, content).await {
//!             Ok(()) => delivery.ack().await?,
//!             Err(error) if error.is_retryable() => {
//!                 tracing::warn!(%error, chat_id = &**chat_id, "a message is sent again later");
//!                 delivery.give_back(PAUSE).await?;
//!             }
//!             Err(error) => {
//!                 tracing::error!(%error, chat_id = &**chat_id, "a message is lost");
//!                 delivery.ack().await?;
//!             }
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A message that is given back holds up all later messages of its channel until it is delivered
//! again. So acknowledge and log a message that can never be sent, such as to a chat that has
//! blocked the bot: if you give it back, no other chat gets a reply any more. A delivery that is
//! dropped, as by `?`, is given back as well.
//!
//! An adapter over reqwest needs a provider of TLS, which is described at the feature `tls` of
//! [this crate](crate#features).
//!
//! # Redelivery
//!
//! A message is acknowledged when its turn is stored and its reply is on the bus. A message that is
//! delivered again, because a process ended in between, is processed once: its id is the
//! [`input_id`](crate::Session::input_id) of the run. An interrupted turn continues, a finished
//! turn returns the same response, and the reply has the same id, `INPUT:reply`.
//!
//! # Questions
//!
//! Permission questions, `AskUserQuestion` and the tools of
//! [`request_user_input`](crate::tools::request_user_input) ask in the chat of their turn. The next
//! message of the same sender there is the answer to the oldest open question; other messages wait
//! for the end of the turn. Only a plain `yes`, `y` or `always` allows a call, in any case of
//! letters and with punctuation at its end. A message that was taken as an answer is not part of
//! the conversation, even if it is delivered again.
//!
//! A question waits for the [`ask_timeout`](GatewayBuilder::ask_timeout). After that time, the
//! outcome depends on the run that asked:
//!
//! * The turn itself ends without a reply, and the sender answers the question with a later
//!   message. A message of another sender continues the conversation without the call.
//! * A task of [`spawn`] waits for a later answer as well, until its process ends.
//! * Any other subagent, such as that of [`subagent`], ends with the turn, so its question is
//!   denied.
//!
//! A heartbeat asks nothing: its questions are denied. A question that has
//! [expired](crate::AgentBuilder::approval_expiry) is not answered by any message.
//!
//! Only a message that was written after the question answers it.
//! [`published_at_us`](InboundMessage::published_at_us) is compared with the time of the question,
//! and for a late answer with the time since which the call waits
//! ([`waits_since_us`](crate::session::PendingCall::waits_since_us)). The clocks of machines that
//! share a bus should therefore agree to within a second. A message that was written before, or
//! whose time is not known, is an input of the conversation. An input closes the questions that are
//! still open, and their calls do not run.
//!
//! # Names
//!
//! The gateway has the functions of the agent loop of `picoclaw`, under these names:
//!
//! | `picoclaw` | this crate |
//! |---|---|
//! | `AgentLoop`, `NewAgentLoop` | [`Gateway`], [`Gateway::builder`] |
//! | `Run`, `Stop`, `RegisterTool` | [`Gateway::run`], [`stop`](Gateway::stop), [`register_tool`](Gateway::register_tool) |
//! | `processMessage`, `processSystemMessage` | [`process_message`](Gateway::process_message), [`process_system_message`](Gateway::process_system_message) |
//! | `processOptions`, `runAgentLoop` | [`ProcessOptions`], [`run_agent_loop`](Gateway::run_agent_loop) |
//! | `ProcessDirect`, `ProcessDirectWithChannel`, `ProcessHeartbeat` | [`process_direct`](Gateway::process_direct), [`process_direct_with_channel`](Gateway::process_direct_with_channel), [`process_heartbeat`](Gateway::process_heartbeat) |
//! | `RecordLastChannel`, `RecordLastChatID` | [`record_last_channel`](Gateway::record_last_channel), [`record_last_chat_id`](Gateway::record_last_chat_id), [`StateManager`] |
//! | `GetStartupInfo` | [`startup_info`](Gateway::startup_info) |
//! | `IsInternalChannel` | [`is_internal_channel`] |
//! | `updateToolContexts`, `ContextualTool` | [`Conversation`](crate::prompt::Conversation), a value of each run |
//! | `runLLMIteration`, `provider.Chat`, `ExecuteWithContext` | [`Agent::run`](crate::Agent::run), [`Model`](crate::Model), [`Tool::execute`](crate::Tool::execute) |
//! | `ConsumeInbound`, `PublishOutbound` | [`MessageBus`] |
//! | `ContextBuilder`, `NewContextBuilder`, `MemoryStore`, `NewMemoryStore` | [`prompt`](crate::prompt) |
//! | `SessionManager`, `GetHistory`, `AddFullMessage`, `TruncateHistory` | [`SessionManager`], [`get_history`](SessionManager::get_history), [`add_full_message`](SessionManager::add_full_message), [`truncate_history`](SessionManager::truncate_history) |
//! | `maybeSummarize`, `summarizeSession`, `summarizeBatch`, `estimateTokens` | [`Summaries::maybe_summarize`], [`Summaries`] as a [`Compactor`](crate::model::Compactor), [`estimate_tokens`] |
//! | `state.Manager`, `SetLastChannel`, `SetLastChatID` | [`StateManager`], [`set_last_channel`](StateManager::set_last_channel), [`set_last_chat_id`](StateManager::set_last_chat_id) |
//! | `SkillsLoader`, `ListSkills`, `BuildSkillsSummary` | [`ContextBuilder::list_skills`](crate::prompt::ContextBuilder::list_skills), [`skills_summary`](crate::prompt::ContextBuilder::skills_summary) |
//! | `ToolRegistry`, `ToProviderDefs`, `GetSummaries` | [`ToolRegistry`](crate::ToolRegistry), [`TurnTools::definitions`](crate::tool::TurnTools::definitions), [`ContextBuilder::tools_section`](crate::prompt::ContextBuilder::tools_section) |
//! | `ToolResult.ForLLM`, `ForUser` | [`ToolOutput`](crate::ToolOutput)'s `content`, `display` |
//! | workspace, model, max tokens, max tool iterations | [`GatewayBuilder::workspace`], [`AgentBuilder::new`](crate::AgentBuilder::new), [`max_tokens`](GatewayBuilder::max_tokens), [`max_iterations`](GatewayBuilder::max_iterations) |
//! | restrict to workspace | the backend, such as `LocalBackend`, which never leaves its folder |
//! | search keys | the provider of `GatewayBuilder::search` (feature `web`) |

mod answers;
mod builder;
mod bus;
mod channels;
mod chat_interactor;
mod chat_turn;
mod core;
mod dispatch;
mod drive;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod gateway;
mod heartbeat;
mod in_process_bus;
mod lanes;
mod late_answers;
mod message;
#[cfg(feature = "nats")]
mod nats;
mod newest_ids;
mod options;
mod process;
mod process_options;
mod question_text;
mod questions;
mod queue;
mod registered_tools;
mod served;
mod session_manager;
mod settlement;
mod shared;
mod startup_info;
mod state_manager;
mod summaries;
mod system_channel;
mod task_slot;
mod tools;
mod waiting_tasks;

pub use builder::GatewayBuilder;
pub use bus::{Delivery, MessageBus, Receipt};
pub use channels::is_internal_channel;
pub use gateway::Gateway;
pub use heartbeat::{Heartbeat, HeartbeatReply};
pub use in_process_bus::InProcessBus;
pub use message::{InboundMessage, OutboundMessage};
#[cfg(feature = "nats")]
pub use nats::{NatsBus, NatsOptions};
pub use options::{DeliveryPolicy, WhenBusy};
pub use process_options::{DEFAULT_RESPONSE, ProcessOptions};
pub use session_manager::{ImportedSessions, SessionManager};
pub use startup_info::StartupInfo;
pub use state_manager::StateManager;
pub use summaries::{Summaries, estimate_tokens};
pub use tools::{message, spawn, subagent};
