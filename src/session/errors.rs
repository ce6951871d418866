//! The errors that all stores of sessions have in common.

use crate::error::{Error, ErrorKind};

impl Error {
    /// Creates an [`ErrorKind::SessionBusy`]: the session `id` is in use by another run.
    pub fn session_busy(id: &str) -> Self {
        let text = format!(
            "session {id:?} is in use by another run; wait for it to end or fork the session"
        );
        Self::new(ErrorKind::SessionBusy, text)
    }

    /// Creates an [`ErrorKind::Conflict`]: the writer of the session `id` was replaced, and its
    /// write was not stored.
    pub fn session_taken_over(id: &str) -> Self {
        let text = format!("session {id:?} was taken over by another run; nothing was written");
        Self::new(ErrorKind::Conflict, text)
    }
}

pub(crate) fn not_found(id: &str) -> Error {
    Error::new(
        ErrorKind::SessionNotFound,
        format!("there is no session {id:?}; it may have expired or been deleted"),
    )
}

pub(crate) fn already_exists(id: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("session {id:?} exists already; choose a new id"),
    )
}
