//! The Responses API.

mod answers;
mod choice;
mod requests;
mod rounds;
