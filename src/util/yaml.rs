//! Errors of the YAML parser, for people.

use serde_saphyr::Error;

use super::text::quoted;

/// Returns the text about a key that occurs twice. `None` for any other error. The text of the
/// parser names an option of its own, which the author of a file cannot set.
pub(crate) fn duplicate_key(mut error: &Error) -> Option<String> {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } =
        error
    {
        error = inner;
    }
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            Some(format!("the key {} occurs twice", quoted(key)))
        }
        Error::DuplicateMappingKey { key: None, .. } => Some("a key occurs twice".to_owned()),
        _ => None,
    }
}
