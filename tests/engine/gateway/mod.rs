//! The gateway: buses, turns, questions, tools.

mod bus;
