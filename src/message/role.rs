//! The roles of a conversation.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The role of a message's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions from the program.
    System,
    /// The user, or the program on the user's behalf.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Returns the role's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Returns `true` if messages of this role may come from outside: `user` and `system`.
    pub fn is_user_input(self) -> bool {
        matches!(self, Self::User | Self::System)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "system" => Self::System,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidMessages,
                    format!("unknown role {other:?}"),
                ));
            }
        })
    }
}
