//! Authentication of requests: a token, or the application's own login.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};

use crate::error::ErrorKind;
use crate::util::Secret;

use super::error::ApiError;
use super::random::random_hex;
use super::users::{FindUser, User};

/// The maximum length of a user's id, in bytes.
const MAX_USER_ID: usize = 256;

/// The authentication of requests.
#[derive(Clone)]
pub(super) enum Auth {
    /// The user `local`, for everyone with the token.
    Token(Secret),
    /// The application's own login.
    Users(Arc<FindUser>),
}

impl Auth {
    /// Creates a token of 256 random bits.
    pub(super) fn random() -> Self {
        Self::Token(Secret::new(random_hex::<32>()))
    }

    /// Returns the user of a request.
    pub(super) fn user(&self, parts: &Parts) -> Result<User, ApiError> {
        let find = match self {
            Self::Token(token) => return check_token(token, parts).map(|()| User::local()),
            Self::Users(find) => find,
        };
        let user = find(parts).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => ApiError::forbidden(error.to_string()),
            // Without a challenge, since the login may use a cookie. The page asks for a token
            // only after a challenge.
            _ => ApiError::new(StatusCode::UNAUTHORIZED, error.to_string()),
        })?;
        if user.id.is_empty() || user.id.len() > MAX_USER_ID || user.id.contains(char::is_control) {
            tracing::error!("the function of `Server::users` returned an id that cannot be used");
            return Err(ApiError::internal());
        }
        Ok(user)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Users(_) => "Users",
        })
    }
}

fn check_token(token: &Secret, parts: &Parts) -> Result<(), ApiError> {
    let Some(value) = parts.headers.get(header::AUTHORIZATION) else {
        return Err(unauthorized(
            "a token is required; send it in the header `Authorization: Bearer TOKEN`",
        ));
    };
    let credentials = value.as_bytes();
    let sent_token = match credentials.split_at_checked(BEARER.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(BEARER) => token.trim_ascii(),
        _ => &[],
    };
    if is_equal(sent_token, token.expose().as_bytes()) {
        return Ok(());
    }
    Err(unauthorized(
        "the token does not match; use the one that the server printed when it started, or the \
         one given to `Server::token`",
    ))
}

const BEARER: &[u8] = b"bearer ";

/// Compares two texts in a time that depends only on the length of the first.
fn is_equal(text: &[u8], secret: &[u8]) -> bool {
    if secret.is_empty() {
        return false;
    }
    let mut difference = usize::from(text.len() != secret.len());
    for (index, byte) in text.iter().enumerate() {
        difference |= usize::from(byte ^ secret[index % secret.len()]);
    }
    black_box(difference) == 0
}

fn unauthorized(text: impl Into<String>) -> ApiError {
    let challenge = HeaderValue::from_static("Bearer");
    ApiError::new(StatusCode::UNAUTHORIZED, text).with_header(header::WWW_AUTHENTICATE, challenge)
}

#[cfg(test)]
mod tests {
    use super::is_equal;

    #[test]
    fn token_equals_itself_alone() {
        assert!(is_equal(b"abc", b"abc"));
        for text in ["", "ab", "abcabc", "abd", "abcd", "Abc"] {
            assert!(!is_equal(text.as_bytes(), b"abc"), "{text}");
        }
        assert!(!is_equal(b"", b""));
    }
}
