//! The names of users as parts of paths.

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::util::text::quoted;

/// The maximum length of a user's id, in bytes.
const MAX_USER: usize = 256;

/// The maximum length, in bytes, of an id that becomes the name of its folder. Escaping triples it
/// at most, and file systems limit names to 255 bytes.
const MAX_PLAIN: usize = 64;

/// Returns the name of a user's folder and container. Lower-case letters and digits stay, and so do
/// `-` and `.` after the first character; any other byte becomes `_` and two digits. So two users
/// have different names, also where a file system does not distinguish upper and lower case. The
/// name for an id of more than 64 bytes is `_long-` and its SHA-256.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidRequest`] if the id is empty or longer than 256 bytes.
pub(super) fn folder_of(user: &str) -> Result<String> {
    if !(1..=MAX_USER).contains(&user.len()) {
        let text = format!(
            "{} is not the id of a user; use 1 to {MAX_USER} bytes",
            quoted(user)
        );
        return Err(Error::new(ErrorKind::InvalidRequest, text));
    }
    if user.len() > MAX_PLAIN {
        let digest = Sha256::digest(user);
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        return Ok(format!("_long-{digits}"));
    }
    let mut name = String::with_capacity(user.len());
    for (index, byte) in user.bytes().enumerate() {
        let is_plain = byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || (index > 0 && matches!(byte, b'-' | b'.'));
        if is_plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("_{byte:02x}"));
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn folder_of_a_plain_name_is_the_name() {
        for name in ["local", "ann-2", "b.c", "42"] {
            assert_eq!(folder_of(name).ok().as_deref(), Some(name));
        }
    }

    #[test]
    fn folder_of_any_other_id_is_one_plain_part_of_a_path() {
        for name in [
            ".", "..", "-x", "../b", "a/b", "Ann", "a_b", "a@b.org", "\u{e9}", "\0",
        ] {
            let folder = folder_of(name).expect(name);
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
            assert!(folder.chars().all(is_plain), "{name:?} became {folder:?}");
            assert!(
                !folder.starts_with(['.', '-']),
                "{name:?} became {folder:?}"
            );
        }
        assert!(folder_of("").is_err());
        assert!(folder_of(&"x".repeat(257)).is_err());
    }

    #[test]
    fn folders_of_long_ids_have_one_length_and_differ() {
        let ids = [65, 66, 255, 256].map(|len| "\u{7f}".repeat(len));
        let folders = ids.map(|id| folder_of(&id).expect("it is short enough"));
        let different: HashSet<_> = folders.iter().collect();
        assert_eq!(different.len(), folders.len());
        assert!(folders.iter().all(|folder| folder.len() == 70));
        assert_eq!(
            folder_of(&"\u{7f}".repeat(64)).map(|name| name.len()).ok(),
            Some(192)
        );
    }

    #[test]
    fn folders_of_all_ids_of_two_bytes_differ() {
        let ids = (0..128u8).flat_map(|a| (0..128u8).map(move |b| vec![a, b]));
        let mut folders = HashSet::new();
        for id in ids.chain((0..128u8).map(|a| vec![a])) {
            let id = String::from_utf8(id).expect("ASCII is UTF-8");
            assert!(
                folders.insert(folder_of(&id).expect("it is short")),
                "{id:?}"
            );
        }
    }
}
