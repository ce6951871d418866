//! The channels that are not places where people write.

/// The channel of [`process_direct`](super::Gateway::process_direct).
pub(super) const CLI: &str = "cli";
/// The channel of messages about background work.
pub(super) const SYSTEM: &str = "system";
/// The channel of subagents.
const SUBAGENT: &str = "subagent";

/// Returns `true` for the channels `cli`, `system` and `subagent`, which are never recorded as the
/// last channel of a person.
///
/// ```
/// use agentcore::gateway::is_internal_channel;
///
/// assert!(is_internal_channel("system") && !is_internal_channel("telegram"));
/// ```
pub fn is_internal_channel(name: &str) -> bool {
    matches!(name, CLI | SYSTEM | SUBAGENT)
}
