//! The ids of the sessions of subagents.

use std::iter::successors;

use crate::engine::RunningCall;
use crate::session::{MAX_FILE_NAME, file_name_len};
use crate::tool::ToolContext;
use crate::util::hash::fnv1a;

/// The number of digits that are taken from the end of a response's id.
const DIGITS: usize = 8;

/// The text between the id of a session and the rest of the id of a subagent's.
const MARK: &str = ":sub:";

/// Returns the id of the session of a subagent with this id: `PARENT:sub:NAME:ID`, or one with a
/// hash if that is too long.
pub(crate) fn sub_session_id(cx: &ToolContext, name: &str, id: &str) -> String {
    child_id(cx.session_id(), name, id)
}

/// Returns the id of the session of the subagent that a call starts:
/// `PARENT:sub:NAME:CALL-RESPONSE`, where `RESPONSE` is the end of the id of the response with the
/// call.
///
/// A server may use the id of a call again once the history with the first one was cut, and two
/// calls must not continue one session. The response is the same when the call is run again, such
/// as after a question about it.
pub(crate) fn child_session_id(cx: &ToolContext, name: &str) -> String {
    let call_id = cx.call_id();
    let Some(call) = RunningCall::of(cx) else {
        return sub_session_id(cx, name, call_id);
    };

    // A response that a hook has moved has no id. Nothing but this run then starts the subagent.
    let response_id = call
        .response_id()
        .unwrap_or_else(|| call.run().run_id().to_owned());
    let digits: Vec<_> = response_id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    let end: String = digits[digits.len().saturating_sub(DIGITS)..]
        .iter()
        .collect();
    sub_session_id(cx, name, &format!("{call_id}-{end}"))
}

/// Returns the id of the session of a subagent of `parent`.
///
/// An id that is too long for the name of a file, in which a store may keep the session, is
/// `PARENT:sub:HASH` instead. If that is too long as well, the nearest ancestor for which it is
/// not takes the place of the parent: a session's subagents have ids that begin with its own.
fn child_id(parent: &str, name: &str, id: &str) -> String {
    let child_id = format!("{parent}{MARK}{name}:{id}");
    let is_file_name = |id: &String| file_name_len(id) <= MAX_FILE_NAME;
    if is_file_name(&child_id) {
        return child_id;
    }

    let hash = fnv1a([child_id.as_bytes()]);
    successors(Some(parent), |id| Some(&id[..id.rfind(MARK)?]))
        .map(|ancestor| format!("{ancestor}{MARK}{hash:016x}"))
        .find(is_file_name)
        .unwrap_or(child_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_that_is_the_name_of_a_file_has_no_hash() {
        for (parent, id) in [("p", "call_1"), ("p:sub:a:1", "2"), ("p", &"x".repeat(226))] {
            assert_eq!(child_id(parent, "a", id), format!("{parent}:sub:a:{id}"));
        }
    }

    #[test]
    fn id_that_is_too_long_for_a_file_name_has_a_hash_after_its_parent() {
        let short_id = |parent: &str, id: &str| {
            let child_id = child_id(parent, "a", id);
            assert!(file_name_len(&child_id) <= MAX_FILE_NAME, "{child_id}");
            let hash = child_id.strip_prefix(parent).unwrap();
            let hash = hash.strip_prefix(MARK).unwrap();
            assert_eq!(hash.len(), 16, "{child_id}");
            child_id
        };
        for parent in ["p".to_owned(), "P".repeat(71), "p:sub:a:1".to_owned()] {
            let long_id = "x".repeat(240);
            let child_id = short_id(&parent, &long_id);
            assert_eq!(child_id, short_id(&parent, &long_id));
            assert_ne!(child_id, short_id(&parent, &format!("{long_id}y")));
        }
    }

    #[test]
    fn hash_comes_after_the_nearest_ancestor_that_leaves_room_for_it() {
        let middle = "p:sub:a:1";
        let parent = child_id(middle, "a", &"x".repeat(200));
        let grandchild = child_id(&parent, "a", "call_1");
        let hash = grandchild.strip_prefix("p:sub:a:1:sub:").unwrap();
        assert_eq!(hash.len(), 16, "{grandchild}");

        // No store of files has such a session.
        let root = "x".repeat(240);
        assert_eq!(child_id(&root, "a", "1"), format!("{root}:sub:a:1"));
    }
}
