//! The tools of agents in a gateway.

mod message;
mod spawn;
mod subagent;

pub use message::message;
pub(super) use message::{NAME as MESSAGE, sent_text};
pub(super) use spawn::resume_task;
pub use spawn::spawn;
pub use subagent::subagent;
