//! Chat Completions: what is sent, and what is made of the many dialects that come back.

mod answers;
mod requests;
