//! The permission mode of a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::util::text::quoted;

/// The mode that decides which calls are allowed without a question. Serialized under its name in
/// the message stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PermissionMode {
    /// Calls that no rule allows need a question, unless their tool only reads.
    #[default]
    Default,
    /// Only tools that are [read-only](super::SideEffect::is_read_only) are allowed.
    Plan,
    /// Like `Default`, but edits inside the workspace need no question. Writing a protected file
    /// does.
    AcceptEdits,
    /// Calls that no rule is about run without a question. Rules to deny and to ask, and the
    /// protection of files, still apply, and a call that a rule to deny may be about is denied. See
    /// [`permission`](crate::permission).
    BypassPermissions,
    /// Like `Default`, but calls that would need a question are denied.
    DontAsk,
}

impl PermissionMode {
    /// Returns the mode's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plan => "plan",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
            Self::DontAsk => "dontAsk",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "default" | "manual" => Self::Default,
            "plan" => Self::Plan,
            "acceptEdits" => Self::AcceptEdits,
            "bypassPermissions" => Self::BypassPermissions,
            "dontAsk" => Self::DontAsk,
            other => {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!(
                        "unknown permission mode {}; use default, plan, acceptEdits, \
                         bypassPermissions or dontAsk",
                        quoted(other)
                    ),
                ));
            }
        })
    }
}

/// Returns the reason for denying a call in plan mode to a tool that does more than read.
pub(crate) fn plan_mode_refusal(mode: PermissionMode, is_read_only: bool) -> Option<&'static str> {
    (mode == PermissionMode::Plan && !is_read_only)
        .then_some("only read-only tools are allowed in plan mode")
}
