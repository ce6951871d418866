//! The secrets in the environment of this process.

use std::ffi::OsString;
use std::sync::OnceLock;

use super::secret::Secret;

/// The last words of the names of variables that contain keys. Names of passwords are not included,
/// because the password of a test database is in files that an agent has to read and edit.
const NAME_ENDS: [&str; 6] = [
    "ACCESS_KEY",
    "APIKEY",
    "API_KEY",
    "SECRET",
    "SECRET_KEY",
    "TOKEN",
];

/// The minimum length of a value, in bytes. Shorter values may be words of any text.
const MIN_LEN: usize = 16;

/// The least number of different bytes of a value: rows of dashes or zeros are in many texts.
const MIN_DIFFERENT_BYTES: usize = 6;

/// The maximum length of a value, in bytes. A longer value is no key, and each takes several times
/// its size in the tables of the search.
const MAX_LEN: usize = 16 * 1024;

/// The maximum number of variables.
const MAX_VARIABLES: usize = 256;

/// Held until the process ends.
static SECRETS: OnceLock<Vec<Secret>> = OnceLock::new();

/// Registers the secrets in the environment, once in a process: commands can read only the
/// environment that the process began with.
pub(super) fn register() {
    SECRETS.get_or_init(|| secrets(std::env::vars_os()));
    #[cfg(feature = "http")]
    super::credentials::of_proxies();
}

fn secrets(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<Secret> {
    let values = variables.filter_map(|(name, value)| {
        let value = value.to_str()?.trim();
        let is_key = (MIN_LEN..=MAX_LEN).contains(&value.len())
            && has_secret_name(name.to_str()?)
            && !is_placeholder(value);
        is_key.then(|| Secret::from(value))
    });
    values.take(MAX_VARIABLES).collect()
}

/// Returns `true` for a value that other texts may have: a path, an address, a row of one
/// character.
fn is_placeholder(value: &str) -> bool {
    let mut bytes = value.as_bytes().to_vec();
    bytes.sort_unstable();
    bytes.dedup();
    bytes.len() < MIN_DIFFERENT_BYTES || value.starts_with('/') || value.contains("://")
}

fn has_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAME_ENDS.iter().any(|end| {
        let start = name.strip_suffix(end);
        start.is_some_and(|start| start.is_empty() || start.ends_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let secrets = secrets(variables);
        secrets
            .iter()
            .map(|secret| secret.expose().to_owned())
            .collect()
    }

    #[test]
    fn secrets_are_long_values_of_variables_with_names_of_secrets() {
        let value = |number: u8| format!("value-number-{number:03}");
        let names = [
            "OPENAI_API_KEY",
            "my_token",
            "SECRET",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "TOKEN_PATH",
            "MAXTOKEN",
            "GPG_KEY",
        ];
        let values: Vec<String> = (0..8).map(value).collect();
        let variables: Vec<_> = names
            .into_iter()
            .zip(values.iter().map(String::as_str))
            .collect();
        assert_eq!(found(&variables), values[..4]);

        assert!(found(&[("API_KEY", "fifteen-letters"), ("API_KEY", "")]).is_empty());
        assert_eq!(
            found(&[("API_KEY", " sixteen-letters! ")]),
            ["sixteen-letters!"]
        );
        assert!(found(&[("API_KEY", &"abcdefgh".repeat(MAX_LEN / 8 + 1))]).is_empty());
        for value in [
            "----------------",
            "0101010101010101",
            "/run/secrets/the-token",
            "http://127.0.0.1:8080/v1",
        ] {
            assert!(found(&[("API_TOKEN", value)]).is_empty(), "{value}");
        }
        assert_eq!(
            found(&[("API_KEY", value(1).as_str()); MAX_VARIABLES + 1]).len(),
            MAX_VARIABLES
        );
    }
}
