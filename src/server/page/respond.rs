//! The response with the page.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::super::random::random_hex;
use super::document::{DOCUMENT, NONCE};

/// Returns the response with the page, under a nonce of its own.
///
/// Images may come from `data:` alone, which is the icon of the page. All else comes from this
/// server, and no text becomes markup or code.
pub(in super::super) fn respond() -> Response {
    let nonce = random_hex::<16>();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    // Without its policy the page is not sent. The nonce has hexadecimal digits alone.
    let Ok(policy) = HeaderValue::try_from(policy) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };

    let mut response = DOCUMENT.replace(NONCE, &nonce).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(response: &Response) -> &str {
        let value = &response.headers()[header::CONTENT_SECURITY_POLICY];
        value.to_str().expect("the policy is a text")
    }

    #[test]
    fn responses_have_different_nonces() {
        assert_ne!(policy(&respond()), policy(&respond()));
    }

    #[test]
    fn policy_allows_scripts_with_the_nonce_alone() {
        let response = respond();
        let directives: Vec<&str> = policy(&response).split("; ").collect();
        assert_eq!(directives[0], "default-src 'none'");
        assert!(directives[1].starts_with("script-src 'nonce-"));
        assert!(!policy(&response).contains("unsafe"));
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    }
}
