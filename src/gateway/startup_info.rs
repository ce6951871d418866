//! The tools and skills of a gateway.

use std::fmt;

/// The names of a gateway's tools and skills, for a start page or a log. Its `Display` is their
/// numbers, such as `12 tools, 3 skills`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartupInfo {
    /// The names of the tools, sorted, without disabled tools and without tools of the agent's own
    /// [sources](crate::AgentBuilder::tool_source).
    pub tools: Vec<String>,
    /// The names of the skills.
    pub skills: Vec<String>,
}

impl fmt::Display for StartupInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tools, skills) = (self.tools.len(), self.skills.len());
        write!(f, "{tools} tools, {skills} skills")
    }
}
