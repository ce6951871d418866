//! The Gemini API.

mod answers;
mod requests;
mod rounds;
mod thinking;
