//! Settings from environment variables.

use std::env;

use crate::error::{Error, ErrorKind, Result};
use crate::util::Secret;

/// Returns the variable's value; an empty one counts as unset.
pub(crate) fn var(name: &str) -> Option<String> {
    env::var(name)
        .ok()
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// Returns the key in the variable `name`.
///
/// # Errors
///
/// Returns [`ErrorKind::Auth`] if the variable is not set; the text names it.
pub(crate) fn key(provider: &str, name: &str) -> Result<Secret> {
    var(name).map(Secret::from).ok_or_else(|| {
        Error::new(
            ErrorKind::Auth,
            format!("{provider}: there is no key; set the environment variable {name}"),
        )
    })
}
