//! Paths as text, without asking any file system.

use std::borrow::Cow;
use std::fmt::Write;

use super::secret::redacted;
use super::text::{head_tail, is_hidden};

/// The number of characters that are shown of each end of a long path.
const END_CHARS: usize = 200;

/// The maximum length of a path where no system limits it, in bytes: that of Linux.
pub(crate) const MAX_PATH: usize = 4096;

/// Returns `path` for an error: the root as `.`, a long path with its middle omitted. A long path
/// is redacted before it is cut; a short path is redacted with its error.
pub(crate) fn short_path(path: &str) -> Cow<'_, str> {
    let shorten = |path: &str| {
        let marker = |omitted| format!("... ({omitted} characters left out) ...");
        head_tail(path, END_CHARS, END_CHARS, marker).into_owned()
    };
    match path {
        "" => Cow::Borrowed("."),
        // A text has at most as many characters as bytes.
        path if path.len() <= 2 * END_CHARS => Cow::Borrowed(path),
        path => Cow::Owned(shorten(&redacted(path))),
    }
}

/// Returns a path for display: unchanged, or as a JSON string in quotes if it has a character that
/// would break or hide a line. A path that begins with a quote is quoted as well, so that each form
/// names only one path.
pub(crate) fn quote_path(path: &str) -> Cow<'_, str> {
    if !path.starts_with('"') && !path.contains(is_odd) {
        return Cow::Borrowed(path);
    }

    let mut quoted = String::from('"');
    for c in path.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_odd(c) => push_escape(&mut quoted, c),
            c => quoted.push(c),
        }
    }

    quoted.push('"');
    Cow::Owned(quoted)
}

/// Returns `true` for a character that would break or hide a line.
pub(crate) fn is_odd(c: char) -> bool {
    c.is_control() || is_hidden(c)
}

/// Adds a character as escapes of JSON.
pub(crate) fn push_escape(text: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}

/// Returns `true` if `path` is `folder` or a path below it. Both must be lexically normal.
#[cfg(feature = "config")]
pub(crate) fn is_in_folder(folder: &str, path: &str) -> bool {
    let below = path.strip_prefix(folder);
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// `path` without `.`, `..` and repeated slashes. `..` at the beginning of a relative path stays.
pub(crate) fn lexical(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => match names.last() {
                Some(&"..") | None => {
                    if !is_absolute {
                        names.push("..");
                    }
                }
                Some(_) => {
                    names.pop();
                }
            },
            name => names.push(name),
        }
    }

    let output = names.join("/");
    match (is_absolute, output.is_empty()) {
        (true, _) => format!("/{output}"),
        (false, true) => ".".to_owned(),
        (false, false) => output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::Secret;

    #[test]
    fn long_path_is_cut_in_the_middle() {
        assert_eq!(short_path(""), ".");
        assert_eq!(short_path("a/b"), "a/b");
        let path = "é/".repeat(200);
        assert_eq!(short_path(&path), path);
        let path = format!("{path}end");
        let short = short_path(&path);
        assert!(short.starts_with("é/é/"), "{short}");
        assert!(
            short.contains("é/... (3 characters left out) .../é"),
            "{short}"
        );
        assert!(short.ends_with("é/é/end"), "{short}");
    }

    #[test]
    fn secret_at_the_cut_of_a_path_is_redacted() {
        let secret = Secret::new("a-secret-of-this-very-test");
        for len in 170..=200 {
            let start = "r".repeat(len);
            let path = format!("{start}{}{}", secret.expose(), "/s".repeat(300));
            let short = short_path(&path);
            assert!(!short.contains("a-sec"), "{len}: {short}");
        }
    }
}
