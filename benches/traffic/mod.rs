//! A server on the loopback interface that replays answers of models, and the requests to it.
//!
//! It runs in a process of its own, so that its work is not measured as that of a client.

mod answers;
mod anthropic;
mod gemini;
mod openai;
mod responses;
mod server;

pub use server::{Server, serve};

use std::fmt;
use std::str::FromStr;

/// The reply to a request. The address names it: `/turn/v1/chat/completions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// A short answer.
    Turn,
    /// Four tool calls, this many times, then a short answer; then again from the start.
    Tools(usize),
    /// A text of this many deltas.
    Deltas(usize),
    /// Short answers once this many requests are waiting.
    Gate(usize),
    /// No answer.
    Silence,
    /// The beginning of an answer without an end.
    Park,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("turn"),
            Self::Tools(turns) => write!(f, "tools-{turns}"),
            Self::Deltas(count) => write!(f, "deltas-{count}"),
            Self::Gate(count) => write!(f, "gate-{count}"),
            Self::Silence => f.write_str("silence"),
            Self::Park => f.write_str("park"),
        }
    }
}

impl FromStr for Reply {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = text.split_once('-').unwrap_or((text, "0"));
        let unknown = || format!("no such reply: {text:?}");
        let number = number.parse().map_err(|_| unknown())?;
        Ok(match name {
            "turn" => Self::Turn,
            "tools" => Self::Tools(number),
            "deltas" => Self::Deltas(number),
            "gate" => Self::Gate(number),
            "silence" => Self::Silence,
            "park" => Self::Park,
            _ => return Err(unknown()),
        })
    }
}

/// The wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Chat Completions.
    OpenAi,
    /// The Messages API.
    Anthropic,
    /// The Responses API.
    Responses,
    /// The Gemini API.
    Gemini,
}
