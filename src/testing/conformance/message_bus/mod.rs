//! The contract of [`MessageBus`](crate::gateway::MessageBus).

mod deliveries;
mod orders;
mod side;
mod suite;

pub use suite::message_bus;
