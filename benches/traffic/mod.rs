//! A server on the loopback that replays model answers, and what is asked of it.
//!
//! It runs in a process of its own: its work must not be counted as a client's.

mod answers;
mod anthropic;
mod gemini;
mod openai;
mod responses;
mod server;

pub use server::{Server, serve};

use std::fmt;
use std::str::FromStr;

/// The reply of the server to a request. It is in the address: `/turn/v1/chat/completions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// A short answer.
    Turn,
    /// Four tool calls this many times, then a short answer, and again from the start.
    Tools(usize),
    /// A text of this many deltas.
    Deltas(usize),
    /// Short answers once this many requests wait for theirs.
    Gate(usize),
    /// Nothing, ever.
    Silence,
    /// The beginning of an answer, then nothing.
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
