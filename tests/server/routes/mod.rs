//! The routes, each called over a real connection.

mod agents;
mod available;
mod clients;
mod control;
mod events;
mod files;
mod flow;
mod questions;
mod runs;
mod shared_threads;
mod site;
mod threads;
mod threads_during_runs;
mod tools;
mod traces;
