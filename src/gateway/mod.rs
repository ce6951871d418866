//! A gateway that connects chat channels with the sessions of an agent.
//!
//! A channel is a place where people write: a terminal, a webhook, a chat service. Its adapter
//! publishes what they write as [`InboundMessage`]s to a [`MessageBus`], and sends the
//! [`OutboundMessage`]s that it consumes from the bus. [`InProcessBus`] is the bus inside one
//! process.
//!
//! ```
//! use agentcore::gateway::{InProcessBus, InboundMessage, MessageBus};
//!
//! # async fn example() -> agentcore::Result<()> {
//! let bus = InProcessBus::new(1_024);
//! bus.publish_inbound(InboundMessage::new("telegram", "123", "u1", "hi")).await?;
//! let delivery = bus.consume_inbound().await?.expect("the bus is open");
//! assert_eq!(&*delivery.message.session_key, "telegram:123");
//! delivery.ack().await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod bus;
mod in_process;
mod message;
mod queue;

pub use bus::{Delivery, MessageBus, Receipt};
pub use in_process::InProcessBus;
pub use message::{InboundMessage, OutboundMessage};
