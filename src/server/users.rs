//! The users of the server.

use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::Result;

use super::error::ApiError;

/// The id of the user of a server without logins.
pub(super) const LOCAL_USER: &str = "local";

/// A user of the server. Threads, runs, files, tools and traces belong to one user.
///
/// ```
/// use agentcore::server::User;
///
/// let user = User::new("u_7");
/// assert!(!user.is_admin);
/// assert!(User::admin("root").is_admin);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct User {
    /// The id: not empty, at most 256 bytes, without control characters. A request of a user with
    /// any other id is a 500.
    pub id: Arc<str>,
    /// True if the user has the rights of an admin:
    ///
    /// * to add and remove agents, and to move their backends;
    /// * to enable hooks that an agent has disabled, and to disable any hook of an agent that was
    ///   added as a builder, except `permissions`;
    /// * to list the threads of other users;
    /// * to read the system prompts of agents and the paths of the server's folders;
    /// * to turn permissions off.
    pub is_admin: bool,
}

impl User {
    /// Creates a user without the rights of an admin.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            is_admin: false,
        }
    }

    /// Creates a user with the rights of an admin.
    pub fn admin(id: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            is_admin: true,
        }
    }

    /// Creates the user of a server without logins: `local`, an admin.
    pub(super) fn local() -> Self {
        Self::admin(LOCAL_USER)
    }
}

/// A function that returns the user of a request.
pub(super) type FindUser = dyn Fn(&Parts) -> Result<User> + Send + Sync;

/// The user of the current request.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) User);

impl Caller {
    pub(super) fn id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// Checks that the user is an admin.
    pub(super) fn require_admin(&self) -> Result<(), ApiError> {
        if self.0.is_admin {
            return Ok(());
        }
        Err(ApiError::forbidden("only an admin may do this"))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // Inserted by the guard of all routes.
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(ApiError::internal)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.id)
    }
}
