//! A bus on a NATS server, which gateways on several machines share.

mod bus;
mod connection;
mod failure;
mod login;
mod names;
mod options;
mod order;
mod receipt;
mod source;

pub use bus::NatsBus;
pub use options::NatsOptions;
