//! The YAML between two lines `---` at the beginning of a file.

use serde::de::DeserializeOwned;

use super::text;
use super::yaml::duplicate_key;

const BOM: &[u8] = b"\xEF\xBB\xBF";
/// The maximum number of steps of the parser; beyond it, it stops with an error.
const MAX_EVENTS: usize = 5_000;
/// The maximum length of the parser's error that is shown, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// Returns the front matter of a file, of which `content` may be the beginning; empty when it has
/// none.
///
/// # Errors
///
/// Returns a description of the mistake, for people, if the front matter is not valid.
pub(crate) fn read<T: DeserializeOwned + Default>(content: &[u8]) -> Result<T, String> {
    let content = content.strip_prefix(BOM).unwrap_or(content);
    let Some(parts) = split(content)? else {
        return Ok(T::default());
    };

    let yaml =
        std::str::from_utf8(parts.yaml).map_err(|_| "its front matter is not UTF-8".to_owned())?;
    if yaml.trim().is_empty() {
        return Ok(T::default());
    }

    // Metadata is small; without limits, aliases could expand without bound.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_events: MAX_EVENTS, max_nodes: MAX_EVENTS },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_EVENTS },
    };

    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let text = match (duplicate_key(&error), error.location()) {
            (Some(text), Some(place)) => {
                format!("{text} at line {}, column {}", place.line(), place.column())
            }
            (Some(text), None) => text,
            (None, _) => error.without_snippet().to_string(),
        };
        let text = text::truncate_redacted(&text, MAX_ERROR_CHARS);
        format!("its front matter is not understood: {text}")
    })
}

/// Returns `true` if a file begins with front matter: its first line is `---`.
pub(crate) fn is_present(content: &[u8]) -> bool {
    let content = content.strip_prefix(BOM).unwrap_or(content);
    content
        .split_inclusive(|byte| *byte == b'\n')
        .next()
        .is_some_and(is_fence)
}

/// Returns the content after the front matter, or all of it when it has none.
pub(crate) fn body(content: &[u8]) -> &[u8] {
    let content = content.strip_prefix(BOM).unwrap_or(content);
    match split(content) {
        Ok(Some(parts)) => parts.body,
        _ => content,
    }
}

/// The two parts of a file with front matter.
struct SplitFile<'a> {
    /// The lines between the two lines `---`, with the line break of the first of these, so that
    /// the parser counts lines as the file has them.
    yaml: &'a [u8],
    body: &'a [u8],
}

fn split(content: &[u8]) -> Result<Option<SplitFile<'_>>, String> {
    let mut lines = content.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().filter(|line| is_fence(line));
    let Some(first) = first else { return Ok(None) };
    let start = first.trim_ascii_end().len();
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            let yaml = &content[start..end];
            let body = &content[end + line.len()..];
            return Ok(Some(SplitFile { yaml, body }));
        }

        end += line.len();
    }

    Err("its front matter has no end; close it with a line ---".to_owned())
}

fn is_fence(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"---"
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::{Deserializer, Error};

    use super::*;
    use crate::util::Secret;

    /// A value whose error quotes the text of the file.
    #[derive(Debug, Default)]
    struct Refused;

    impl<'de> Deserialize<'de> for Refused {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let texts = Vec::<String>::deserialize(deserializer)?;
            Err(D::Error::custom(texts.concat()))
        }
    }

    #[test]
    fn cut_error_shows_no_part_of_a_secret() {
        const KEY: &str = "zgwvkqjxhqzwvjyxqzkwxzqjgkvqzwhxjqvkzbwtpd";
        let _known = Secret::new(KEY);
        for before in 200..MAX_ERROR_CHARS {
            let text = format!("{}{KEY}{}", "x".repeat(before), "y".repeat(MAX_ERROR_CHARS));
            let content = format!("---\n- {text}\n---\n");
            let error = read::<Refused>(content.as_bytes()).unwrap_err();
            assert!(error.contains("xxxx"), "{error}");
            let mut parts = (0..=KEY.len() - 4).map(|start| &KEY[start..start + 4]);
            assert!(!parts.any(|part| error.contains(part)), "{error}");
        }
    }
}
