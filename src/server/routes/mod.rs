//! The routes, one file for each group.

mod agents;
mod all;
mod available;
mod backend;
mod clients;
mod control;
mod decisions;
mod events;
mod files;
mod flow;
mod hitl;
mod input;
mod invoke;
mod launch;
mod messages;
mod opened_thread;
mod path;
mod query;
mod resume;
pub(super) mod schemas;
mod site;
mod stream;
mod threads;
mod tools;
mod traces;

pub(super) use all::all;
