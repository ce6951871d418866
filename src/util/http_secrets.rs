//! The secrets in addresses and headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;

use super::Secret;
#[cfg(feature = "server")]
use super::secret::Redactor;
use super::secret::{self, percent_decoded};

/// Headers whose values are not secret.
const PUBLIC_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "cache-control",
    "content-type",
    "http-referer",
    "openai-beta",
    "referer",
    "user-agent",
    "x-title",
];

/// Parts of the names of headers and query parameters that hold secrets.
const SECRET_NAMES: &[&str] = &["auth", "cookie", "key", "pass", "secret", "sig", "token"];

/// The maximum number of secrets in an address of a user. A secret with escapes counts twice: as it
/// is written and decoded.
#[cfg(feature = "server")]
const MAX_URL_SECRETS: usize = 16;

/// The minimum length of a part of a header's value that is a secret, in bytes: shorter parts may
/// be words of any text.
const MIN_PART: usize = 8;

/// Returns `true` if the value of a header may be shown.
pub(crate) fn is_public(header: &str) -> bool {
    let mut names = PUBLIC_HEADERS.iter();
    names.any(|name| name.eq_ignore_ascii_case(header))
}

/// Returns the secrets in a header that a user has set. A [public](is_public) header has none, and
/// a short value is a secret only if the name is the name of a secret.
pub(crate) fn of_named_header(name: &str, value: &str) -> Vec<Secret> {
    if is_public(name) {
        return Vec::new();
    }
    let mut secrets = of_header(value);
    if !has_secret_name(name) {
        secrets.retain(|secret| secret.expose().len() >= MIN_PART);
    }
    secrets
}

fn has_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// Returns the secrets in the value of a header: the value, the token after a scheme (`Bearer`),
/// user and password in `Basic`, the values of cookies.
pub(crate) fn of_header(value: &str) -> Vec<Secret> {
    let value = value.trim();
    let mut secrets = vec![Secret::from(value)];
    if let Some((scheme, token)) = value.split_once(' ') {
        let token = token.trim();
        secrets.push(Secret::from(token));
        if scheme.eq_ignore_ascii_case("basic")
            && let Ok(bytes) = STANDARD.decode(token)
            && let Ok(pair) = String::from_utf8(bytes)
        {
            let password = pair.split_once(':').map(|(_, password)| password);
            secrets.extend(password.map(Secret::from));
            secrets.push(Secret::from(pair));
        }
    }

    for part in value.split([';', ',', ' ']) {
        let part = match part.split_once('=') {
            Some((_, part)) if !part.trim_matches('=').is_empty() => part,
            _ => part,
        };

        let part = part.trim().trim_matches('"');
        if part.len() >= MIN_PART && part != value {
            secrets.push(Secret::from(part));
        }
    }

    secrets
}

/// Returns the secrets in an address: the password, or the user where there is none, and the query
/// parameters with names of secrets; each as it is written and decoded. The user with the password
/// is also a secret, as text and in base64.
pub(crate) fn of_url(url: &Url) -> Vec<Secret> {
    let texts = texts_of_url(url).into_iter().chain(credentials_of(url));
    texts.map(Secret::from).collect()
}

/// Returns a redactor of the secrets in an address that searches for them only in the texts that it
/// is given.
///
/// # Errors
///
/// Returns an error if the address has more than [`MAX_URL_SECRETS`].
#[cfg(feature = "server")]
pub(crate) fn local_redactor(url: &Url) -> Result<Redactor, String> {
    let mut texts = texts_of_url(url);
    if texts.len() <= MAX_URL_SECRETS {
        texts.extend(credentials_of(url));
        return Ok(Redactor::local(&texts));
    }
    Err(format!(
        "the callback address has more than {MAX_URL_SECRETS} passwords and query parameters with \
         names of secrets, where an escaped one counts twice; use fewer"
    ))
}

/// Returns the user with the password of an address, as the client sends them.
fn credentials_of(url: &Url) -> Vec<String> {
    secret::credentials(url.username(), url.password())
}

/// Returns the secrets of [`of_url`] except the user with the password, as texts: they are not
/// registered as secrets of this process.
fn texts_of_url(url: &Url) -> Vec<String> {
    let mut secrets = Vec::new();
    let mut add_secret = |written: &str| {
        if written.is_empty() {
            return;
        }

        let decoded_text = percent_decoded(written);
        if decoded_text != written {
            secrets.push(written.to_owned());
        }

        secrets.push(decoded_text);
    };

    match url.password() {
        Some(password) => add_secret(password),
        None => add_secret(url.username()),
    }

    for pair in url.query().unwrap_or_default().split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && has_secret_name(name)
        {
            add_secret(value);
        }
    }

    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(secrets: &[Secret]) -> Vec<&str> {
        secrets.iter().map(Secret::expose).collect()
    }

    #[test]
    fn header_secrets_are_values_and_their_parts() {
        assert_eq!(shown(&of_header("one")), ["one"]);
        assert_eq!(shown(&of_header("Bearer abc")), ["Bearer abc", "abc"]);
        let cookies = shown(&of_header("sid=0123456789; theme=dark")).join("|");
        assert!(
            cookies.contains("|0123456789") && !cookies.contains("|dark"),
            "{cookies}"
        );
        let basic_secrets = shown(&of_header("Basic dXNlcjpwYXNz")).join("|");
        assert!(basic_secrets.contains("|pass|user:pass"), "{basic_secrets}");
    }

    #[test]
    fn address_secrets_are_passwords_and_keys() {
        let url = |text| Url::parse(text).expect("it is one");
        assert_eq!(
            shown(&of_url(&url("https://u:p%40ss@h/"))),
            ["p%40ss", "p@ss", "u:p@ss", "dTpwQHNz"]
        );
        assert_eq!(
            shown(&of_url(&url("https://token@h/?api_key=k&q=x"))),
            ["token", "k", "token:", "dG9rZW46"]
        );
        assert!(of_url(&url("https://h/path?q=x")).is_empty());
    }
}
