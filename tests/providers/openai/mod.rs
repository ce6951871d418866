//! Chat Completions: requests, and answers in many dialects.

mod answers;
mod requests;
