//! Turning a caught panic into text.

use std::any::Any;

/// The message of a panic payload, or a fixed text for payloads that are not strings.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not a string")
}
