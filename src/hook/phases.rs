//! The phases a hook takes part in.

use std::fmt;
use std::ops::BitOr;

/// A set of phases. A phase that no hook of an agent takes part in costs nothing.
///
/// ```
/// use agentcore::hook::Phases;
///
/// let phases = Phases::BEFORE_AGENT | Phases::WRAP_TOOL_CALL;
/// assert!(phases.contains(Phases::BEFORE_AGENT));
/// assert_eq!(phases.to_string(), "before_agent, wrap_tool_call");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phases(u32);

impl Phases {
    /// No phase.
    pub const NONE: Self = Self(0);
    /// The phase before the loop, once.
    pub const BEFORE_AGENT: Self = Self(1);
    /// The phase before each model call, on a copy of the history.
    pub const MODIFY_REQUEST: Self = Self(1 << 1);
    /// The phase around each model call.
    pub const WRAP_MODEL_CALL: Self = Self(1 << 2);
    /// The phase before each tool call.
    pub const PRE_TOOL_USE: Self = Self(1 << 3);
    /// The phase around each tool call.
    pub const WRAP_TOOL_CALL: Self = Self(1 << 4);
    /// The phase after each tool call.
    pub const POST_TOOL_USE: Self = Self(1 << 5);
    /// The phase after a response without calls.
    pub const BEFORE_STOP: Self = Self(1 << 6);
    /// The phase after the loop, once.
    pub const AFTER_AGENT: Self = Self(1 << 7);
    /// All phases.
    pub const ALL: Self = Self((1 << Self::NAMES.len()) - 1);

    const NAMES: [(Self, &'static str); 8] = [
        (Self::BEFORE_AGENT, "before_agent"),
        (Self::MODIFY_REQUEST, "modify_request"),
        (Self::WRAP_MODEL_CALL, "wrap_model_call"),
        (Self::PRE_TOOL_USE, "pre_tool_use"),
        (Self::WRAP_TOOL_CALL, "wrap_tool_call"),
        (Self::POST_TOOL_USE, "post_tool_use"),
        (Self::BEFORE_STOP, "before_stop"),
        (Self::AFTER_AGENT, "after_agent"),
    ];

    /// Returns `true` if the set has all phases of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the name of the first phase.
    pub(crate) fn name(self) -> &'static str {
        self.names().next().unwrap_or_default()
    }

    /// Returns the names of the phases in the set, in the order they run.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(phase, _)| self.contains(*phase))
            .map(|(_, name)| name)
    }
}

impl BitOr for Phases {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.names().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}
